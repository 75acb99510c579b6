"""``planner tradeoffs``: the Pareto front with its knee, and the price of each limit."""

from pathlib import Path
from typing import Annotated

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec, StoreUrl
from planner.output import NOTHING_FEASIBLE, note, print_json, writable


def tradeoffs(
    spec: Spec,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tradeoffs.html and tradeoffs.json.")
    ] = None,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Set cost against times and cards, and say what a little more of each limit would save."""
    if out:
        writable(out)
    from planner.keeping import kept_in
    from planner.progress import progress_bar
    from planner.sweeps import Asking
    from planner.tradeoffs import tradeoffs as asked

    with kept_in(store) as kept, progress_bar("limits") as progress:
        document = asked(Asking(spec, sets, cost_model, executor, progress, kept))
    if out:
        from results.tradeoffs_page import write_tradeoffs

        for path in write_tradeoffs(document, out):
            note(f"wrote {path}")
    if as_json:
        print_json(document)
    else:
        from planner.tradeoffs_tables import show_tradeoffs

        show_tradeoffs(document)
    if not document["front"]:
        raise typer.Exit(NOTHING_FEASIBLE)
