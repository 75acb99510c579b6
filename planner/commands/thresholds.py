"""``planner thresholds``: where the best plan changes."""

from typing import Annotated

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec, StoreUrl
from planner.output import NOTHING_FEASIBLE, note, print_json


def thresholds(
    spec: Spec,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="PATH", help="Figure to move; repeatable; all of the spec if not given."
        ),
    ] = NONE_GIVEN,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Find the nearest values of each figure of a spec at which the best plan changes."""
    from planner.keeping import kept_in
    from planner.progress import progress_bar
    from planner.thresholds import thresholds as asked

    with kept_in(store) as kept, progress_bar("figures") as progress:
        document = asked(
            spec,
            sets,
            over=over,
            cost_model=cost_model,
            executor_name=executor,
            progress=progress,
            store=kept,
        )
    if as_json:
        print_json(document)
    if document["best"]["plan"] is None:
        note("nothing is feasible as the problem stands; planner rank says why")
        raise typer.Exit(NOTHING_FEASIBLE)
    if not as_json:
        from planner.threshold_tables import show_thresholds

        show_thresholds(document)
