"""``planner batch``: many problems as one durable batch, or how far one is."""

import re
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from planner.options import NONE_GIVEN, AsJson, CostModelName, ExecutorName, Sets, StoreUrl
from planner.output import note, print_json, writable
from specs.errors import SpecError

if TYPE_CHECKING:
    from results.store import Store
    from searches.executors import Executor
    from specs.problems import Collection

SOME_FAILED = 1


def batch(
    specs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Spec files, folders of spec files, or one file that holds a grid.",
            metavar="SPEC...|DIR|GRID",
            show_default=False,
        ),
    ] = None,
    status: Annotated[
        str | None,
        typer.Option(metavar="NAME|ID", help="Show how far a batch is, and compute nothing."),
    ] = None,
    executor: ExecutorName = None,
    store: StoreUrl = None,
    sets: Sets = NONE_GIVEN,
    cost_model: CostModelName = None,
    limit_seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Most seconds for one problem.")
    ] = None,
    limit_plans: Annotated[
        int | None, typer.Option(min=1, help="Most plans to estimate for one problem.")
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Solve once more what has failed.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for the table and the page of winners; out/NAME if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Answer many problems as one batch that outlives interruptions; say which plan wins where.

    The same command goes on with a batch that was interrupted.
    """
    if status is not None:
        if specs:
            raise SpecError.single("--status", status, "stands alone, without specs")
        _show_status(_opened(store), status, as_json)
        return
    if not specs:
        raise SpecError.single("", None, "no spec is named", "Write: planner batch SPEC...")
    from planner.batch import collected
    from searches.executors import executor as executor_named

    limits = {"seconds": limit_seconds, "plans": limit_plans}
    collection = collected(specs, sets, cost_model, limits)
    chosen = executor_named(executor or "local")
    folder = out or Path("out") / re.sub(r"[^\w.-]+", "-", collection.name)
    writable(folder)
    again = ("failed",) if retry_failed else ()
    document = _run(collection, chosen, _opened(store), again, folder, as_json)
    if as_json:
        print_json(document)
    if document["counts"]["failed"]:
        raise typer.Exit(SOME_FAILED)


def _opened(url: str | None) -> "Store":
    from planner.keeping import NONE
    from results.store import Store, default_url

    if url == NONE:
        raise SpecError.single(
            "--store", url, "a batch is kept in a store", "Name one, or leave it out"
        )
    return Store.open(url or default_url())


def _run(
    collection: "Collection",
    executor: "Executor",
    store: "Store",
    again: Sequence[str],
    folder: Path,
    as_json: bool,
) -> dict[str, Any]:
    """Run a batch to its end, write its files, and show its winners; return its document."""
    from planner import batch as command
    from planner.board import Board, shown
    from planner.winner_tables import show_winners
    from results.store.batches import driven
    from results.winners import document
    from results.winners_page import write_batch

    with driven(store.database, command.define(collection), again) as held:
        board = Board(collection.name, held.rows())
        note(f"batch {held.id[:12]} in {store.database.place}")
        if board.ended:
            note(f"resuming: {board.ended:,} of {len(board.rows):,} done")
        try:
            with (
                shown(board) as tell,
                closing(command.run(held, collection, store, executor)) as news,
            ):
                for changed in news:
                    tell(changed)
        except KeyboardInterrupt:
            # The store may know of more than the board was told.
            board = Board(collection.name, held.rows())
            kept = f"{board.ended:,} of {len(board.rows):,} problems are kept"
            note(f"{kept}; the same command goes on from there")
            raise
        rows = board.in_order
    for path in write_batch(collection.name, rows, folder):
        note(f"wrote {path}")
    if not as_json:
        show_winners(rows)
    return document(held.id, collection.name, "done", rows)


def _show_status(store: "Store", named: str, as_json: bool) -> None:
    from planner.board import show_board
    from results.store.batches import status
    from results.winners import document

    found = status(store.database, named)
    if as_json:
        print_json(document(found.id, found.name, found.state, found.rows))
    else:
        show_board(found)
