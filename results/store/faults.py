"""What to say when a database or a file fails: what is wrong, and what to do.

Nothing is lost in any of these cases: a transaction is whole or has not happened, and a file has
its name only when it is complete.
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from results.store.place import OPTION, Place
from specs.errors import SpecError

_SPACE = "Make room and ask again: what is finished is kept"
_ELSEWHERE = f"Name another place with {OPTION} or $PLANNER_STORE; `{OPTION} none` keeps nothing"
_WAIT = "Ask again when it has ended: what is finished is kept"

_SQLITE = {
    "SQLITE_FULL": ("the disk is full", _SPACE),
    "SQLITE_IOERR": ("the disk is full or fails", _SPACE),
    "SQLITE_READONLY": ("cannot be written", _ELSEWHERE),
    "SQLITE_CANTOPEN": ("cannot be opened or made", _ELSEWHERE),
    "SQLITE_PERM": ("cannot be written", _ELSEWHERE),
    "SQLITE_NOTADB": ("is not a SQLite database", _ELSEWHERE),
    "SQLITE_CORRUPT": ("is damaged", "Restore it, or rescue what it holds with sqlite3 .recover"),
    "SQLITE_BUSY": ("another process has locked it for too long", _WAIT),
}
"""What is said of errors of SQLite, by the beginning of their names."""

_POSTGRESQL = {
    "53100": ("the disk of the server is full", _SPACE),
    "42501": ("the user may not do this", "Grant the user CREATE on the schema, or name another"),
    "25006": ("the server takes no changes", _ELSEWHERE),
    "55P03": ("another process has locked it for too long", _WAIT),
    "53300": ("the server has no connection left", _WAIT),
    "57P": ("the server is going down", _WAIT),
    "08": ("the connection is lost", _WAIT),
    "28": ("the server refuses the user", "Check user and password; $PGPASSFILE may hold them"),
    "3D000": ("the server has no such database", "Make it with createdb"),
}
"""What is said of errors of PostgreSQL, by the beginning of their SQLSTATE."""

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def told(place: Place) -> Iterator[None]:
    """Turn errors of the database into one ``SpecError`` that names the store."""
    try:
        yield
    except DBAPIError as error:
        found = _of_sqlite(place, error) if place.file else _of_postgresql(place, error)
        if found is None:
            raise
        raise found from error


def of_file(place: Place, file: Path, error: OSError) -> SpecError:
    """Return what to say of a file or folder that cannot be read or written."""
    hint = _SPACE if error.errno in _FULL else _ELSEWHERE
    return place.refusal(f"cannot use {file}: {error.strerror}", hint)


def _of_sqlite(place: Place, error: DBAPIError) -> SpecError | None:
    name = getattr(error.orig, "sqlite_errorname", "")
    for beginning, (message, hint) in _SQLITE.items():
        if name.startswith(beginning):
            return place.refusal(message, hint)
    return None


def _of_postgresql(place: Place, error: DBAPIError) -> SpecError | None:
    state = getattr(error.orig, "sqlstate", None)
    said = str(error.orig).strip().splitlines()[-1:]
    if state is None and _is_connection(error):
        return place.refusal(f"the server cannot be reached: {''.join(said)}", _ELSEWHERE)
    for beginning, (message, hint) in _POSTGRESQL.items():
        if state and state.startswith(beginning):
            return place.refusal(f"{message}: {''.join(said)}", hint)
    return None


def _is_connection(error: DBAPIError) -> bool:
    return error.connection_invalidated or type(error.orig).__name__ in {
        "OperationalError",
        "ConnectionTimeout",
    }
