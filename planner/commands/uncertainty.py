"""``planner uncertainty``: which plan to take when figures are not sure, and what to measure."""

from typing import Annotated

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec, StoreUrl
from planner.output import NOTHING_FEASIBLE, print_json


def uncertainty(
    spec: Spec,
    samples: Annotated[
        int, typer.Option(metavar="N", help="Draws of the uncertain figures, a power of 2.")
    ] = 256,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Weigh plans over the spreads of a spec: chances, regret, and what to measure first."""
    from planner.keeping import kept_in
    from planner.progress import progress_bar
    from planner.sweeps import Asking
    from planner.uncertainty import uncertainty as asked

    with kept_in(store) as kept, progress_bar("draws") as progress:
        document = asked(Asking(spec, sets, cost_model, executor, progress, kept), samples)
    if as_json:
        print_json(document)
    else:
        from planner.uncertainty_tables import show_uncertainty

        show_uncertainty(document)
    if not document["plans"]:
        raise typer.Exit(NOTHING_FEASIBLE)
