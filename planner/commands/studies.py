"""``planner studies``: what the store holds, shown, compared, taken out and cleaned up."""

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from planner.options import AsJson, StoreUrl
from planner.output import note, print_json, writable
from specs.errors import SpecError

if TYPE_CHECKING:
    from results.store import Store

app = typer.Typer(
    help="What the store holds: list, show, compare, export and delete studies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Id = Annotated[str, typer.Argument(help="Id of a study, or its first digits.", metavar="ID")]


@app.command("list")
def list_studies(
    state: Annotated[str | None, typer.Option(help="running, done, failed or interrupted.")] = None,
    model: Annotated[str | None, typer.Option(help="Part of the name of the model.")] = None,
    hardware: Annotated[str | None, typer.Option(help="Part of the name of the machine.")] = None,
    name: Annotated[str | None, typer.Option(help="Part of the name of the study.")] = None,
    kind: Annotated[str | None, typer.Option(help="What was asked: rank.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most studies to list.")] = 20,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """List studies, the newest first."""
    from results.store.listing import Filters, listed

    filters = Filters(state, model, hardware, name, kind)
    with _opened(store) as opened:
        found = listed(opened.database, filters, limit)
        where = str(opened.database.place)
    if as_json:
        print_json({"schema": "planner/studies/1", "store": where, "studies": found})
    else:
        from planner.study_tables import show_list

        show_list(found, where)


@app.command()
def show(id: Id, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Show the answer of a study as it was given, and what it rests on."""
    from results.store.listing import find

    with _opened(store) as opened:
        study = find(opened.database, id)
    if as_json:
        spec = json.loads(study["spec"])
        print_json({"schema": "planner/study/1", **study, "spec": spec})
    else:
        from planner.study_tables import show_study

        show_study(study)


@app.command()
def compare(
    first: Annotated[str, typer.Argument(help="Id of a study, or its first digits.", metavar="A")],
    second: Annotated[str, typer.Argument(help="That of another.", metavar="B")],
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Say what differs between two studies, and which input caused it.

    Inputs that differ are swapped one at a time, and every swap is ranked; it is kept as a study.
    """
    from planner.causes import Comparison
    from planner.progress import progress_bar
    from results.store.listing import find

    with _opened(store) as opened, progress_bar("problems") as progress:
        studies = find(opened.database, first), find(opened.database, second)
        document = Comparison(opened, *studies, progress).document()
    if as_json:
        print_json(document)
    else:
        from planner.study_tables import show_comparison

        show_comparison(document)


@app.command()
def export(
    id: Id,
    out: Annotated[Path | None, typer.Option(help="Folder to write; out/ID if not given.")] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Write a study into a folder: spec.yaml, result.json, plans.parquet and report.html."""
    from planner.exporting import export as written
    from results.store.listing import SHORT, find

    with _opened(store) as opened:
        study = find(opened.database, id)
        folder = out or Path("out") / study["id"][:SHORT]
        writable(folder)
        files = []
        for file in written(opened, study, folder):
            note(f"wrote {file}")
            files.append(str(file))
    if as_json:
        print_json({"schema": "planner/export/1", "study": study["id"], "files": files})


@app.command()
def delete(
    ids: Annotated[list[str], typer.Argument(help="Ids, or their first digits.", metavar="ID...")],
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing.")] = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Delete studies with their plans and tables."""
    from planner.study_tables import one_line
    from results.store.listing import find
    from results.store.removal import delete as removed

    with _opened(store) as opened:
        studies = {study["id"]: study for study in (find(opened.database, id) for id in ids)}
        if not yes:
            if not sys.stdin.isatty():
                raise SpecError.single("--yes", None, "is needed where nobody can be asked")
            for study in studies.values():
                note(one_line(study))
            typer.confirm("Delete for good?", abort=True, err=True)
        for id, study in studies.items():
            removed(opened, id)
            note(f"deleted {one_line(study)}")
    if as_json:
        print_json({"schema": "planner/deleted/1", "deleted": list(studies)})


@app.command()
def gc(
    older_than: Annotated[
        float,
        typer.Option(
            min=0, metavar="DAYS", help="Age from which studies without an answer are removed."
        ),
    ] = 30,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Remove what nothing needs: old studies without an answer, and tables of no study."""
    from results.store.removal import collect

    with _opened(store) as opened:
        found = collect(opened, older_than, dry_run)
    document = {
        "schema": "planner/gc/1",
        "dry_run": dry_run,
        "studies": found.studies,
        "chunks": found.chunks,
        "problems": found.problems,
        "tables": [str(file) for file in found.tables],
        "table_bytes": found.table_bytes,
    }
    if as_json:
        print_json(document)
    else:
        from planner.study_tables import show_removed

        show_removed(document)


@app.command()
def migrate(
    revision: Annotated[str, typer.Argument(help="Revision of the schema, e.g. 0001.")],
    store: StoreUrl = None,
) -> None:
    """Take the schema of the store back to an older revision, for an older planner.

    A planner brings a store to its own revision whenever it opens it.
    """
    from results.store.migrate import to_revision

    with _opened(store) as opened:
        to_revision(opened.database, revision)
        note(f"{opened.database.place} has revision {revision} now")


@contextmanager
def _opened(url: str | None) -> Iterator["Store"]:
    """Yield a store that must be there already."""
    from results.store import Store, default_url
    from results.store.place import OPTION, place

    chosen = url or default_url()
    if chosen == "none":
        raise SpecError.single(OPTION, chosen, "holds no studies", "Name a file or a database")
    file = place(chosen).file
    if file and not file.exists():
        raise SpecError.single(OPTION, chosen, "no such store", "planner rank makes it")
    with closing(Store.open(chosen)) as store:
        yield store
