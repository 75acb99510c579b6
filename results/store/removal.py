"""What leaves a store: studies by name, and what nothing needs any more."""

import time
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from results.store import lease
from results.store.listing import SHORT
from results.store.schema import batch_item, chunk, problem, study
from results.store.store import Store
from specs.errors import SpecError

_DAY_S = 86_400.0

_YOUNG_S = 3_600.0
"""Tables without a study that are younger may belong to one that is about to be committed."""


@dataclass(frozen=True)
class Removed:
    """What was removed: files, ids of studies, numbers of chunks and of problems."""

    tables: list[Path]
    table_bytes: int
    studies: list[str]
    chunks: int
    problems: int


def delete(store: Store, id: str) -> None:
    """Remove a study with its plans, chunks and table. Raises ``SpecError`` while it runs."""
    mine = study.c.id == id
    with store.database.writing() as connection:
        columns = (study.c.id, study.c.owner, study.c.expires, study.c.table_file)
        query = sa.select(*columns).where(mine)
        row = connection.execute(query.with_for_update()).one()
        if lease.held(row.id, row.owner, row.expires, store.database.clock(connection)):
            raise SpecError.single(
                "ID", id[:SHORT], f"{row.owner} works on it", "Interrupt that process first"
            )
        connection.execute(sa.delete(study).where(mine))
    # After the row, so that no row is ever without its table.
    if row.table_file:
        store.tables.remove(row.table_file)


def collect(store: Store, days: float, dry: bool) -> Removed:
    """Remove what nothing needs; with ``dry`` only say what that is.

    That is: studies that ended without an answer more than ``days`` ago, chunks of finished
    studies, problems that nothing refers to, and tables of no study.
    """
    with store.database.writing() as connection:
        now = store.database.clock(connection)
        studies = _abandoned(connection, now - days * _DAY_S, now)
        chunks = sa.select(sa.func.count()).select_from(chunk)
        before = connection.execute(chunks).scalar_one()
        connection.execute(sa.delete(study).where(study.c.id.in_(studies)))
        done = sa.select(study.c.id).where(study.c.state == "done")
        connection.execute(sa.delete(chunk).where(chunk.c.study_id.in_(done)))
        after = connection.execute(chunks).scalar_one()
        asked = (sa.select(study.c.problem_hash), sa.select(batch_item.c.problem_hash))
        unasked = sa.delete(problem).where(*(problem.c.hash.not_in(hashes) for hashes in asked))
        problems = connection.execute(unasked).rowcount
        files = sa.select(study.c.table_file).where(study.c.table_file.is_not(None))
        needed = set(connection.execute(files).scalars())
        transaction = connection.get_transaction()
        if dry and transaction:
            transaction.rollback()
    orphans = [
        (file, size)
        for file in store.tables.files()
        if file.name not in needed and (size := _size_if_old(file)) is not None
    ]
    if not dry:
        for file, _ in orphans:
            store.tables.remove(file.name)
    return Removed(
        tables=[file for file, _ in orphans],
        table_bytes=sum(size for _, size in orphans),
        studies=studies,
        chunks=before - after,
        problems=problems,
    )


def _abandoned(connection: sa.Connection, before: float, now: float) -> list[str]:
    """Ids of studies that ended without an answer, and that nobody works on."""
    ended = sa.func.coalesce(study.c.finished, study.c.expires, study.c.created)
    query = sa.select(study.c.id, study.c.owner, study.c.expires).where(
        study.c.state != "done", ended < before
    )
    rows = connection.execute(query.order_by(study.c.created)).all()
    return [row.id for row in rows if not lease.held(row.id, row.owner, row.expires, now)]


def _size_if_old(file: Path) -> int | None:
    """Return the bytes of a file that is old enough to be no longer awaited."""
    try:
        stat = file.stat()
    except FileNotFoundError:
        return None
    return stat.st_size if time.time() - stat.st_mtime > _YOUNG_S else None
