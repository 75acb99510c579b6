"""What may be written for a store, and what is said of everything else."""

from pathlib import Path

import pytest

from results.store.place import place
from specs.errors import SpecError


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "is empty"),
        ("mysql://host/planner", "a store is SQLite or PostgreSQL, not mysql"),
        ("postgres://host/planner?tables=x", "not postgres .*Did you mean 'postgresql'"),
        ("postgresql+asyncpg://host/planner?tables=x", "must be postgresql.psycopg"),
        ("postgresql://host/planner", "needs a folder for its tables .*Add .tables=FOLDER"),
        ("postgresql://host/planner?tables=a&tables=b", "several folders"),
        ("postgresql://host:port/planner?tables=x", "is not the address of a store"),
        ("://nothing", "is not the address of a store"),
        ("sqlite://", "needs a file .*three slashes"),
        ("sqlite://planner.db", "needs a file .*three slashes"),
        ("sqlite:///:memory:", "needs a file"),
        (".", "is a folder"),
    ],
)
def test_wrong_places(url: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLANNER_TABLES", raising=False)
    with pytest.raises(SpecError, match=message):
        place(url)


def test_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    bare = place("a.db")
    assert bare == place("sqlite:///a.db") == place(f"sqlite:///{tmp_path}/a.db")
    assert (bare.file, bare.tables) == (tmp_path / "a.db", tmp_path / "a.db.tables")
    assert place("sqlite:///a.db?tables=b").tables == tmp_path / "b"
    monkeypatch.setenv("PLANNER_TABLES", "/shared")
    assert place("sqlite:///a.db").tables == bare.tables
    server = place("postgresql://me:secret@host/planner")
    assert (server.file, server.tables) == (None, Path("/shared"))
    assert str(server) == "postgresql+psycopg://me:***@host/planner"
