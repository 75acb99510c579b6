"""What is in a store: studies by filters, and one by the beginning of its id."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from results.store import lease
from results.store.database import Database
from results.store.schema import chunk, plan, problem, study
from specs.errors import SpecError, nearest

Document = dict[str, Any]

STATES = ("running", "done", "failed", "interrupted")

SHORT = 12
"""Digits of an id that are shown."""

_COLUMNS = ("id", "kind", "name", "state", "problem_hash", "cost_model", "seed", "seconds", "error")


@dataclass(frozen=True)
class Filters:
    """Which studies to list; ``None`` is any. All but ``kind`` and ``state`` match a part."""

    state: str | None = None
    model: str | None = None
    hardware: str | None = None
    name: str | None = None
    kind: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and self.state not in STATES:
            raise SpecError.single(
                "--state", self.state, "no such state", nearest(self.state, STATES)
            )


def listed(database: Database, filters: Filters, limit: int) -> list[Document]:
    """Return what is said of studies in a list, the newest first, at most ``limit``."""
    query = _summaries().order_by(study.c.created.desc(), study.c.id)
    for column in (problem.c.model, problem.c.hardware, study.c.name):
        if part := getattr(filters, column.name):
            query = query.where(column.icontains(part, autoescape=True))
    if filters.kind:
        query = query.where(study.c.kind == filters.kind)
    if filters.state in ("running", "interrupted"):
        # Which of the two it is, the holder of the lease tells.
        query = query.where(study.c.state.in_(["running", "interrupted"]))
    elif filters.state:
        query = query.where(study.c.state == filters.state)
    found: list[Document] = []
    with database.reading() as connection:
        now = database.clock(connection)
        for row in connection.execute(query):
            summary = _summary(row, now)
            if filters.state in (None, summary["state"]):
                found.append(summary)
            if len(found) == limit:
                break
    return found


def find(database: Database, prefix: str) -> Document:
    """Return everything about the study whose id begins with ``prefix``, but its table.

    Raises ``SpecError`` if there is none, with the nearest id, or if there are several.
    """
    with database.reading() as connection:
        known = sa.select(study.c.id)
        begins = study.c.id.startswith(prefix.lower(), autoescape=True)
        ids = connection.execute(known.where(begins)).scalars().all() if prefix else []
        if len(ids) != 1:
            raise _not_one(prefix, ids or connection.execute(known).scalars().all(), bool(ids))
        summary = _summaries().add_columns(
            study.c.versions, study.c.inputs, study.c.result, study.c.table_file, problem.c.spec
        )
        row = connection.execute(summary.where(study.c.id == ids[0])).one()
        parts = sa.select(sa.func.count()).where(chunk.c.study_id == ids[0])
        return _summary(row, database.clock(connection)) | {
            "versions": row.versions,
            "inputs": row.inputs,
            "chunks": connection.execute(parts).scalar_one(),
            "table": row.table_file,
            "spec": row.spec,
            "result": row.result,
        }


def _not_one(prefix: str, ids: Sequence[str], several: bool) -> SpecError:
    shown = [id[:SHORT] for id in ids]
    if several:
        which = f"{len(ids)} studies begin so: {', '.join(sorted(shown)[:5])}"
        return SpecError.single("ID", prefix, which, "Give more digits")
    hint = nearest(prefix[:SHORT], shown) or "List them with: planner studies list"
    return SpecError.single("ID", prefix, "no such study", hint)


def _summaries() -> "sa.Select[Any]":
    columns = [study.c[name] for name in (*_COLUMNS, "created", "finished", "owner", "expires")]
    return (
        sa.select(
            *columns,
            problem.c.model,
            problem.c.hardware,
            problem.c.workload,
            plan.c.axes,
            plan.c.outcome,
        )
        .join(problem, study.c.problem_hash == problem.c.hash)
        .outerjoin(plan, sa.and_(plan.c.study_id == study.c.id, plan.c.rank == 1))
    )


def _summary(row: Any, now: float) -> Document:
    """Return a row as JSON values; a study that nobody works on any more is interrupted."""
    summary = {name: getattr(row, name) for name in _COLUMNS}
    live = lease.held(row.id, row.owner, row.expires, now)
    if row.state == "running" and not live:
        summary["state"] = "interrupted"
    best = None
    if row.axes is not None:
        best = {
            "plan": row.axes,
            "cost_per_on_time_session": row.outcome["cost_per_on_time_session"],
            "currency": row.outcome["currency"],
        }
    return summary | {
        "model": row.model,
        "hardware": row.hardware,
        "workload": row.workload,
        "created": moment(row.created),
        "finished": moment(row.finished),
        "held_by": row.owner if live else None,
        "best": best,
    }


def moment(seconds: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the second."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
