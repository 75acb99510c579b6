"""Who works on a row: a lease that its holder renews, and that others take when it is gone.

The holder is ``host/namespace:pid:start``. On the same host, in the same namespace of processes,
others see at once that it has ended; elsewhere the lease runs out. The start of a process tells
it from a later one of the same number.
"""

import os
import socket
import threading
from contextlib import suppress
from pathlib import Path

import sqlalchemy as sa

from results.store.database import Database
from specs.errors import SpecError

LEASE_S = 60.0
"""Seconds after which a holder that has not renewed its lease counts as gone."""

RENEW_S = 10.0

_PROCESSES = Path("/proc")
_ours: set[str] = set()
"""Ids of the rows that threads of this process work on."""

_START = 19  # field of a process's start in its `stat`, counted after its name


def holder() -> str:
    """Return what this process is called as the holder of a lease."""
    return f"{_host()}:{os.getpid()}:{_start_of(os.getpid())}"


def is_gone(name: str) -> bool:
    """Whether a holder is known to have ended: one of this host, whose process is not there."""
    host, pid, start = name.rsplit(":", 2)
    return _PROCESSES.is_dir() and host == _host() and _start_of(int(pid)) != start


def _host() -> str:
    try:
        namespace = (_PROCESSES / "self/ns/pid").stat().st_ino
    except OSError:
        namespace = 0
    return f"{socket.gethostname()}/{namespace}"


def _start_of(pid: int) -> str | None:
    """Return when a process started, in ticks since the machine did; ``None`` if it has ended."""
    try:
        stat = (_PROCESSES / str(pid) / "stat").read_text()
    except OSError:
        return None
    state, *rest = stat.rpartition(")")[2].split()
    return None if state == "Z" else rest[_START - 1]


def held(id: str, owner: str | None, expires: float | None, now: float) -> bool:
    """Whether the lease of a row keeps others away."""
    if not (owner and expires and expires > now):
        return False
    # A lease of this process that no thread of it works under could not be given back.
    return id in _ours if owner == holder() else not is_gone(owner)


def take(database: Database, connection: sa.Connection, table: sa.Table, id: str) -> str | None:
    """Take the lease of a row of ``study`` or ``batch``; return its holder if somebody has it.

    Whoever takes it works under a :class:`Heartbeat`.
    """
    row = connection.execute(
        sa.select(table.c.owner, table.c.expires).where(table.c.id == id).with_for_update()
    ).one()
    now = database.clock(connection)
    if held(id, row.owner, row.expires, now):
        return str(row.owner)
    connection.execute(
        sa.update(table).where(table.c.id == id).values(owner=holder(), expires=now + LEASE_S)
    )
    _ours.add(id)
    return None


def renew(database: Database, connection: sa.Connection, table: sa.Table, id: str) -> None:
    """Hold a row for longer. Raises ``SpecError`` if another process has taken it meanwhile."""
    renewed = connection.execute(
        sa.update(table)
        .where(table.c.id == id, table.c.owner == holder())
        .values(expires=database.clock(connection) + LEASE_S)
    )
    if not renewed.rowcount:
        raise database.place.refusal(
            f"another process has taken over {table.name} {id[:12]}, as this one stood still for "
            f"more than {LEASE_S:.0f} s",
            "Ask again: what is finished is kept",
        )


class Heartbeat:
    """Renews the lease of a row from a thread of its own, while its ``with`` lasts."""

    def __init__(self, database: Database, table: sa.Table, id: str) -> None:
        self._database, self._table, self._id = database, table, id
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease {id[:12]}", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join()
        _ours.discard(self._id)

    def _beat(self) -> None:
        while not self._ended.wait(RENEW_S):
            # A store that fails now may work at the next beat; the worker meets what lasts.
            with suppress(SpecError), self._database.writing() as connection:
                renew(self._database, connection, self._table, self._id)
