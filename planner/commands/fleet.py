"""``planner fleet``: how many instances of which shape serve several demands, and where."""

from pathlib import Path
from typing import Annotated

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec
from planner.output import NOTHING_FEASIBLE, note, print_json, writable


def fleet(
    spec: Spec,
    seconds: Annotated[
        float, typer.Option(min=0.1, help="Time for the choice; then the best one found is taken.")
    ] = 60.0,
    gap: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of the cost that need not be proved.")
    ] = 0.0,
    out: Annotated[Path | None, typer.Option(help="Folder for fleet.html and fleet.json.")] = None,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
) -> None:
    """Choose a deployment for the fleet of a spec: what runs where, at least cost."""
    if out:
        writable(out)
    from planner.fleets import deploy
    from planner.progress import progress_bar
    from results.fleet import fleet_document

    with progress_bar("shapes") as progress:
        found = deploy(
            spec,
            sets,
            cost_model=cost_model,
            executor_name=executor,
            seconds=seconds,
            gap=gap,
            progress=progress,
        )
    document = fleet_document(found)
    if out:
        from results.fleet_page import write_fleet

        for path in write_fleet(document, out):
            note(f"wrote {path}")
    if as_json:
        print_json(document)
    else:
        from planner.fleet_tables import show_fleet

        show_fleet(document)
    if not document["deployment"]:
        raise typer.Exit(NOTHING_FEASIBLE)
