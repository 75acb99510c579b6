"""Batches in a store: their problems in order, who drives one, and what became of each problem.

A batch is found again by its key, the hash of all that it asks. What is acknowledged is durable;
problems that were under way when a driver ended are waiting again when the next one begins.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from results.store import lease
from results.store.database import Database
from results.store.schema import batch, batch_item, study
from specs.errors import SpecError, nearest

Row = dict[str, Any]
"""A problem of a batch: position, label, state, study_id, seconds, error and answer."""

_SHOWN = ("position", "label", "problem_hash", "state", "study_id", "seconds", "error", "answer")
_ASKED_TOGETHER = 500
"""Rows that are named in one query; databases limit how many it may be."""


@dataclass(frozen=True)
class Definition:
    """What a batch is: ``key`` is the hash of all of it.

    ``items`` are rows of ``batch_item`` without state: position, label, problem_hash, spec and
    priority.
    """

    name: str
    key: str
    definition: Mapping[str, Any]
    options: Mapping[str, Any]
    items: Sequence[Row]


class Batch:
    """A batch that this process drives."""

    def __init__(self, database: Database, id: str) -> None:
        self._database = database
        self.id = id

    def rows(self) -> list[Row]:
        """Return all problems by position."""
        return _rows(self._database, self.id)

    def acknowledge(self, rows: Sequence[Row]) -> None:
        """Make durable what became of some problems, or that they are under way.

        Raises ``SpecError`` if another process has taken the batch over meanwhile.
        """
        columns = ("state", "study_id", "seconds", "error", "answer")
        change = (
            sa.update(batch_item)
            .where(
                batch_item.c.batch_id == self.id,
                batch_item.c.position == sa.bindparam("at"),
            )
            .values({name: sa.bindparam(f"new_{name}") for name in columns})
        )
        values = [
            {"at": row["position"], **{f"new_{name}": row[name] for name in columns}}
            for row in rows
        ]
        with self._database.writing() as connection:
            lease.renew(self._database, connection, batch, self.id)
            connection.execute(change, values)

    def answered(self, studies: Sequence[str]) -> Iterator[dict[str, Mapping[str, Any]]]:
        """Yield the documents of those studies that are done by id, some at a time."""
        for start in range(0, len(studies), _ASKED_TOGETHER):
            asked = studies[start : start + _ASKED_TOGETHER]
            query = sa.select(study.c.id, study.c.result).where(
                study.c.id.in_(asked), study.c.state == "done"
            )
            with self._database.reading() as connection:
                found = {row.id: row.result for row in connection.execute(query)}
            if found:
                yield found


@contextmanager
def driven(database: Database, definition: Definition, again: Sequence[str]) -> Iterator[Batch]:
    """Hold the batch of a definition, made if it is new, as long as the ``with`` lasts.

    Problems in one of the states ``again`` are waiting once more, as are those that an earlier
    driver has left under way. Raises ``SpecError`` while another process drives the batch.
    """
    id = definition.key
    with database.writing() as connection:
        _made(database, connection, definition)
        if owner := lease.take(database, connection, batch, id):
            host, pid, _ = owner.rsplit(":", 2)
            raise SpecError.single(
                "",
                definition.name,
                f"process {pid} on {host.partition('/')[0]} is running this batch",
                f"See how far it is with: planner batch --status {id[:12]}",
            )
        connection.execute(_of(id, sa.update(batch)).values(state="running", finished=None))
        connection.execute(
            sa.update(batch_item)
            .where(batch_item.c.batch_id == id, batch_item.c.state.in_(["running", *again]))
            .values(state="waiting", seconds=None, error=None, answer=None)
        )
    try:
        with lease.Heartbeat(database, batch, id):
            yield Batch(database, id)
    finally:
        _let_go(database, id)


def _made(database: Database, connection: sa.Connection, definition: Definition) -> None:
    """Make the batch, whole, unless it is there."""
    connection.execute(
        database.insert_new(
            batch,
            id=definition.key,
            key=definition.key,
            name=definition.name,
            definition=definition.definition,
            options=definition.options,
            state="running",
            created=database.clock(connection),
        )
    )
    has_items = sa.select(batch_item.c.position).where(batch_item.c.batch_id == definition.key)
    if connection.execute(has_items.limit(1)).first() is None:
        fixed = {"batch_id": definition.key, "state": "waiting"}
        connection.execute(sa.insert(batch_item), [{**fixed, **item} for item in definition.items])


def _let_go(database: Database, id: str) -> None:
    """Give the lease back; the batch is done if nothing is left to do."""
    left = sa.select(sa.func.count()).where(
        batch_item.c.batch_id == id, batch_item.c.state.in_(["waiting", "running"])
    )
    with database.writing() as connection:
        done = connection.execute(left).scalar_one() == 0
        now = database.clock(connection)
        connection.execute(
            _of(id, sa.update(batch))
            .where(batch.c.owner == lease.holder())
            .values(
                state="done" if done else "interrupted",
                finished=now if done else None,
                owner=None,
                expires=None,
            )
        )


def _of(id: str, change: sa.Update) -> sa.Update:
    return change.where(batch.c.id == id)


def _rows(database: Database, id: str) -> list[Row]:
    query = (
        sa.select(*(batch_item.c[name] for name in _SHOWN))
        .where(batch_item.c.batch_id == id)
        .order_by(batch_item.c.position)
    )
    with database.reading() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


@dataclass(frozen=True)
class Status:
    """A batch as somebody who does not drive it sees it."""

    id: str
    name: str
    state: str
    rows: list[Row]


def status(database: Database, named: str) -> Status:
    """Return the newest batch of a name, or the one whose id begins so.

    Raises ``SpecError`` if there is none, or if the beginning of an id fits several.
    """
    columns = (batch.c.id, batch.c.name, batch.c.state, batch.c.owner, batch.c.expires)
    with database.reading() as connection:
        now = database.clock(connection)
        known = connection.execute(sa.select(*columns).order_by(batch.c.created.desc())).all()
    found = [row for row in known if row.name == named][:1]
    found = found or [row for row in known if len(named) >= 4 and row.id.startswith(named)]
    if len(found) != 1:
        message = "several batches begin so" if found else "no batch of that name in the store"
        hint = nearest(named[:80], {row.name for row in known})
        raise SpecError.single("--status", named, message, hint)
    (row,) = found
    alive = row.state != "running" or lease.held(row.id, row.owner, row.expires, now)
    return Status(row.id, row.name, row.state if alive else "interrupted", _rows(database, row.id))
