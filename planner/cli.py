"""The command line: ``planner rank | explain | measure | calibrate | check | schema | …``.

Results go to stdout, progress and notes to stderr. Heavy packages load inside the commands, so
that ``planner --help`` answers at once.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from planner.commands.batch import batch
from planner.commands.fleet import fleet
from planner.commands.studies import app as studies_app
from planner.commands.sweep import sweep
from planner.commands.thresholds import thresholds
from planner.commands.tradeoffs import tradeoffs
from planner.commands.uncertainty import uncertainty
from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, Spec, StoreUrl
from planner.output import NOTHING_FEASIBLE, note, print_json, writable
from specs.errors import SpecError

app = typer.Typer(
    help="Choose how to deploy a large language model: ranked plans, with the reasons.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

FAULT = 1
BAD_INPUT = 2
INTERRUPTED = 130


@app.command()
def rank(
    spec: Spec,
    top: Annotated[int, typer.Option(min=1, help="Plans to show.")] = 10,
    as_json: AsJson = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print all feasible plans as CSV.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for report.html, plans.parquet and result.json."),
    ] = None,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Rank the deployment plans of a spec."""
    from planner.keeping import kept_in
    from planner.studies import rank as rank_study

    if as_json and as_csv:
        raise SpecError.single("", None, "--json and --csv exclude each other", "Choose one")
    if out:
        writable(out)
    with kept_in(store) as kept, _progress() as progress:
        ranking = rank_study(
            spec,
            sets,
            cost_model=cost_model,
            executor_name=executor,
            progress=progress,
            store=kept,
        )
        document = ranking.document(top)
        if ranking.problem.uncertainty and ranking.feasible:
            from planner.sweeps import Asking
            from planner.uncertainty import weigh

            weigh(document, Asking(ranking.problem, executor_name=executor, store=kept))
    if out:
        from results.report import write_report

        for path in write_report(ranking, document, out):
            note(f"wrote {path}")
    if as_json:
        print_json(document)
    elif as_csv:
        sys.stdout.write(ranking.frame().to_csv(index=False))
    else:
        from planner.tables import show_ranking

        show_ranking(document)
    if not ranking.feasible:
        raise typer.Exit(NOTHING_FEASIBLE)


@app.command()
def explain(
    spec: Spec,
    plan: Annotated[
        str | None,
        typer.Option(metavar="AXIS=VALUE,...", help="Plan to explain, e.g. tp=8,replicas=1."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(metavar="AXIS=VALUE,...", help="Plan to set it against, term by term."),
    ] = None,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
) -> None:
    """Say why a plan has its rank or is excluded; without --plan, what each constraint removes."""
    from planner.keeping import kept_in
    from planner.studies import rank as rank_study
    from planner.tables import show_funnel, show_plan
    from results.explain import explain_against, explain_plan, explain_space, parse_plan

    stated = parse_plan(plan) if plan is not None else None
    other = parse_plan(against) if against is not None else None
    if other is not None and stated is None:
        raise SpecError.single("--against", against, "needs --plan, the plan to set against it")
    with kept_in(store) as kept, _progress() as progress:
        ranking = rank_study(
            spec,
            sets,
            cost_model=cost_model,
            executor_name=executor,
            progress=progress,
            store=kept,
        )
    if stated is not None and other is not None:
        document = explain_against(ranking, stated, other)
        show = show_plan
    elif stated is not None:
        document = explain_plan(ranking, stated)
        show = show_plan
    else:
        document = explain_space(ranking)
        show = show_funnel
    if as_json:
        print_json(document)
    else:
        show(document)
    if not ranking.feasible:
        raise typer.Exit(NOTHING_FEASIBLE)


@app.command()
def measure(
    spec: Spec,
    top: Annotated[int, typer.Option(min=1, help="Plans to measure.")] = 3,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="File to write; else stdout.")
    ] = None,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
) -> None:
    """Write the table of passes to measure of the best plans, for --cost-model measured:FILE."""
    from planner.studies import rank as rank_study
    from results.measuring import empty_table

    if out and out.exists():
        raise SpecError.single("--out", str(out), "exists, and may hold measurements")
    with _progress() as progress:
        ranking = rank_study(spec, sets, cost_model=cost_model, progress=progress)
    if not ranking.feasible:
        note("no plan is feasible, so there is nothing to measure; see planner rank")
        raise typer.Exit(NOTHING_FEASIBLE)
    table = empty_table(ranking, top)
    if out:
        _written(out, table)
    else:
        sys.stdout.write(table)


@app.command()
def accuracy(
    points: Annotated[Path, typer.Argument(help="CSV of measured points.", metavar="POINTS.csv")],
    cost_model: CostModelName = None,
    where: Annotated[
        str,
        typer.Option(metavar="KEY=VALUE,...", help="Points to compare, e.g. hardware=H200-SXM."),
    ] = "",
    cross_validate: Annotated[
        bool,
        typer.Option(
            "--cross-validate",
            help="Fit the calibrated model to the table, and estimate each point by a fit that "
            "has not seen its model, machine and lengths together. Takes minutes.",
        ),
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the table of points, figures and a picture.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Put the estimates of a cost model beside measured points, and say how close they are."""
    from planner import accuracy as command
    from results.accuracy_report import write

    chosen = command.conditions(where)
    if out:
        writable(out)
    held, name = None, cost_model or "calibrated"
    if cross_validate:
        if cost_model:
            raise SpecError.single(
                "--cost-model", cost_model, "cannot be named with --cross-validate, which fits one"
            )
        from planner.calibrate import calibrate as fitted

        held, name = fitted(points).held_out, "calibrated, cross-validated"
    with _progress() as progress:
        found = command.compare(points, name, chosen, model_of=held, progress=progress)
    if out:
        for path in write(found, out):
            note(f"wrote {path}")
    if as_json:
        print_json(found.document())
    else:
        command.show(found)


@app.command()
def calibrate(
    points: Annotated[Path, typer.Argument(help="CSV of measured points.", metavar="POINTS.csv")],
    kernels: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Fits of single kernels (JSON), as priors.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="Calibration to write.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the calibration.")] = None,
    validation: Annotated[
        bool, typer.Option(help="Estimate each point by a fit that has not seen its group.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Fit the inputs of the calibrated cost model to measured points."""
    from planner import calibrate as command

    command.check_options(out, name)
    found = command.calibrate(points, kernels, name, validation)
    if out:
        words = [str(points), *(["--kernels", str(kernels)] if kernels else []), "-o", str(out)]
        words += [*(["--name", name] if name else []), *([] if validation else ["--no-validation"])]
        command.write(found, out, words)
        note(f"wrote {out}")
    if as_json:
        print_json(found.document())
    else:
        command.show(found)


@app.command()
def check(spec: Spec, as_json: AsJson = False, sets: Sets = NONE_GIVEN) -> None:
    """Validate a spec without computing anything."""
    from planner.studies import check as check_spec

    problem = check_spec(spec, sets)
    if as_json:
        print_json({"schema": "planner/check/1", "valid": True, "name": problem.name})
    else:
        typer.echo(f"{spec}: valid ({problem.model.name} on {problem.hardware.name})")


@app.command()
def schema() -> None:
    """Print the JSON Schema of a spec."""
    from specs.problem import Problem

    print_json(Problem.model_json_schema())


@app.command()
def catalog(
    kind: Annotated[
        str | None,
        typer.Argument(
            help="models, hardware, workloads, routing, engines, calibrations, cost-models or "
            "constraints."
        ),
    ] = None,
    name: Annotated[str | None, typer.Argument(help="Entry to show whole.")] = None,
    as_json: AsJson = False,
) -> None:
    """List what there is to choose from, or show one entry with its sources."""
    from planner.catalog import document as catalog_document
    from planner.tables import show_catalog

    document = catalog_document(kind, name)
    if as_json:
        print_json(document)
    else:
        show_catalog(document)


@app.command()
def machine(
    hardware: Annotated[
        str,
        typer.Argument(
            help="Name in the catalogue, or a file that holds a machine or a spec.",
            metavar="HARDWARE",
        ),
    ],
    cards: Annotated[
        int | None, typer.Option(min=1, help="Cards that are installed; all if not given.")
    ] = None,
    ranks: Annotated[
        int | None,
        typer.Option(
            min=1, help="Cards that take part in a collective; an innermost domain if not given."
        ),
    ] = None,
    size: Annotated[
        str, typer.Option("--bytes", metavar="SIZE", help="Bytes of a collective, e.g. 10 KiB.")
    ] = "32 MiB",
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
) -> None:
    """Say what a machine is: memories, fabric, collectives, connections, servers and power.

    Needs no model and no load. All figures are those that the machine states, at full efficiency,
    or follow from them; what is not stated is left open, and listed.
    """
    from planner.machine import document as machine_document

    document = machine_document(hardware, cards, ranks, size, sets)
    if as_json:
        print_json(document)
    else:
        from planner.machine_tables import show_machine

        show_machine(document)


@app.command()
def experts(
    spec: Spec,
    ep: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Degree of EP; all of the space else.")
    ] = None,
    copies: Annotated[
        int | None,
        typer.Option(min=0, max=4096, help="Redundant experts; the fewest that are dealt evenly."),
    ] = None,
    as_json: AsJson = False,
    sets: Sets = NONE_GIVEN,
) -> None:
    """Place the experts of a layer on cards by how often each was chosen, against their order."""
    from planner import experts as command

    document = command.document(spec, sets, ep, copies)
    if as_json:
        print_json(document)
    else:
        command.show(document)


@app.command("import-model")
def import_model(
    path: Annotated[
        Path, typer.Argument(help="config.json of a model, or the folder that holds it.")
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="FILE", help="File to write; else stdout.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name of the model.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a model for specs from its Hugging Face config.json."""
    from planner.importing import document, imported

    found = imported(path, name, out, force)
    for warning in found.warnings:
        note(f"warning: {warning}")
    for remark in found.notes:
        note(f"note: {remark}")
    if out:
        note(f"wrote {out}")
    if as_json:
        print_json(document(found))
    elif not out:
        sys.stdout.write(found.yaml())


app.command()(batch)
app.command()(fleet)
app.command()(sweep)
app.command()(thresholds)
app.command()(uncertainty)
app.command()(tradeoffs)
app.add_typer(studies_app, name="studies")


def _written(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise SpecError.single("--out", str(file), f"cannot write: {error.strerror}") from error
    note(f"wrote {file}")


def _progress() -> Any:
    from planner.progress import progress_bar

    return progress_bar()


def _print_error(error: SpecError, as_json: bool) -> None:
    if not as_json:
        typer.echo(f"error: {error}", err=True)
        return
    faults = [
        {"path": f.path, "value": f.value, "message": f.message, "hint": f.hint}
        for f in error.faults
    ]
    print_json({"schema": "planner/error/1", "source": error.source, "errors": faults})


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; bad input ends with one message and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = app(words, standalone_mode=False)
    except SpecError as error:
        _print_error(error, "--json" in words)
        raise SystemExit(BAD_INPUT) from None
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader (head, less) has seen enough.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None
    except Exception as error:
        from searches.executors import WorkerLost

        if isinstance(error, WorkerLost):
            note(f"error: {error}")
            raise SystemExit(FAULT) from None
        usage = getattr(error, "format_message", None)
        if usage is None:
            raise
        _print_error(SpecError.single("", None, usage()), "--json" in words)
        raise SystemExit(getattr(error, "exit_code", BAD_INPUT)) from None
    if code == INTERRUPTED:
        # Typer has caught the interrupt.
        note("interrupted")
    raise SystemExit(code or 0)
