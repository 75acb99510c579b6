"""Where a store is: what a user may write for it, and the folder of its tables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from specs.errors import Fault, SpecError, nearest

OPTION = "--store"

_EXPECTED = "Write a file, sqlite:///FILE or postgresql+psycopg://USER@HOST/DATABASE?tables=FOLDER"
_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg"}


@dataclass(frozen=True)
class Place:
    """The database of a store, and the folder of its Parquet files."""

    url: URL
    tables: Path

    def __str__(self) -> str:
        """Return the address without its password."""
        if self.file:
            return str(self.file)
        return self.url.render_as_string(hide_password=True)

    def refusal(self, message: str, hint: str = "") -> SpecError:
        """Return an error of this store; it names the whole place, however long that is."""
        return SpecError([Fault(OPTION, str(self), message, hint)])

    @property
    def file(self) -> Path | None:
        """The file of a SQLite store."""
        if self.url.get_backend_name() != "sqlite":
            return None
        return Path(self.url.database or "")


def default_url() -> str:
    """Return ``$PLANNER_STORE``, else a file in the user's data folder."""
    if url := os.environ.get("PLANNER_STORE"):
        return url
    data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return str(Path(data).expanduser() / "planner" / "planner.db")


def place(text: str) -> Place:
    """Return what a user has written for a store. Raises ``SpecError`` if it is no place of one."""
    url = _url(text.strip())
    query = dict(url.query)
    folder = query.pop("tables", None)
    if isinstance(folder, tuple):
        raise SpecError.single(OPTION, str(url), "names several folders of tables")
    backend = url.get_backend_name()
    if backend == "sqlite":
        file = _file(url, text)
        url = url.set(database=str(file))
        folder = folder or f"{file}.tables"
    folder = folder or os.environ.get("PLANNER_TABLES")
    if not folder:
        raise SpecError.single(
            OPTION,
            str(url),
            "a store in PostgreSQL needs a folder for its tables",
            "Add ?tables=FOLDER, or set PLANNER_TABLES, to a folder that all its machines share",
        )
    tables = Path(folder).expanduser().absolute()
    return Place(url.set(drivername=_DRIVERS[backend], query=query), tables)


def _url(text: str) -> URL:
    if "://" not in text:
        if not text:
            raise SpecError.single(OPTION, None, "is empty", _EXPECTED)
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
        backend = url.get_backend_name()
    except (ArgumentError, ValueError):
        raise SpecError.single(OPTION, text, "is not the address of a store", _EXPECTED) from None
    _known(url, backend, _DRIVERS)
    return url


def _known(url: URL, backend: str, drivers: Mapping[str, str]) -> None:
    if backend not in drivers:
        hint = nearest(backend, drivers)
        raise SpecError.single(
            OPTION, str(url), f"a store is SQLite or PostgreSQL, not {backend}", hint or _EXPECTED
        )
    if url.drivername not in (backend, drivers[backend], "sqlite+pysqlite"):
        raise SpecError.single(
            OPTION, str(url), f"its driver must be {drivers[backend]}", "Leave the driver out"
        )


def _file(url: URL, text: str) -> Path:
    if url.host or not url.database or url.database.startswith((":memory:", "file:")):
        raise SpecError.single(
            OPTION, text, "a store needs a file", "Write sqlite:///FILE, with three slashes"
        )
    file = Path(url.database).expanduser().absolute()
    if file.is_dir():
        raise SpecError.single(OPTION, text, "is a folder", f"Name a file in it: {file}/planner.db")
    return file
