"""``planner sweep``: which plan wins where, and what the best cost hangs on."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec, StoreUrl
from planner.output import NOTHING_FEASIBLE, note, print_json, writable
from specs.errors import SpecError

if TYPE_CHECKING:
    from planner.sweeps import Asking


def sweep(
    spec: Spec,
    over: Annotated[
        list[str],
        typer.Option(
            metavar="PATH=LO..HI[:N][:log]",
            help="Leaf to run over, or PATH=VALUE,VALUE,…; repeatable: all combinations. With "
            "--tornado the PATH alone; with --sobol a range.",
        ),
    ] = NONE_GIVEN,
    tornado: Annotated[
        str | None,
        typer.Option(metavar="SHARE", help="Each figure so much less and more, e.g. 20%."),
    ] = None,
    sobol: Annotated[
        int | None,
        typer.Option(metavar="N", help="Sobol indices of the best cost, from samples of N points."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for sweep.html, sweep.csv and sweep.json.")
    ] = None,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print the points as CSV.")] = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Answer a spec over ranges of its leaves: which plan wins where."""
    _check(over, tornado, sobol, as_json, as_csv)
    if out:
        writable(out)
    from planner.keeping import kept_in
    from planner.progress import progress_bar
    from planner.sweeps import Asking

    with kept_in(store) as kept, progress_bar("problems") as progress:
        document = _asked(
            Asking(spec, sets, cost_model, executor, progress, kept), over, tornado, sobol
        )
    if out:
        from results.sweep_page import write_sweep

        for path in write_sweep(document, out):
            note(f"wrote {path}")
    if as_json:
        print_json(document)
    elif as_csv:
        from results.sweeps import frame

        sys.stdout.write(frame(document).to_csv(index=False))
    else:
        from planner.sweep_tables import show_sweep

        show_sweep(document)
    if not any(plan["wins"] for plan in document["plans"]):
        note("nothing is feasible at any point; planner rank says why")
        raise typer.Exit(NOTHING_FEASIBLE)


def _check(
    over: list[str], tornado: str | None, sobol: int | None, as_json: bool, as_csv: bool
) -> None:
    if as_json and as_csv:
        raise SpecError.single("", None, "--json and --csv exclude each other", "Choose one")
    if tornado is not None and sobol is not None:
        raise SpecError.single("", None, "--tornado and --sobol exclude each other", "Choose one")
    if as_csv and (tornado is not None or sobol is not None):
        raise SpecError.single("--csv", None, "is for a grid of points", "Take --json")
    if not over and tornado is None:
        hint = "Write e.g. --over limits.cards=1..8"
        raise SpecError.single("--over", None, "names nothing to run over", hint)


def _asked(
    asking: "Asking", over: list[str], tornado: str | None, sobol: int | None
) -> dict[str, Any]:
    from planner import sweeps

    if tornado is not None:
        return sweeps.tornado(asking, tornado, over)
    if sobol is not None:
        return sweeps.sobol(asking, sobol, over)
    return sweeps.sweep(asking, over)
