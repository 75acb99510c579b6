"""Real databases for tests: a SQLite file, and a PostgreSQL server of our own for the test run.

The server needs the programs of Debian's ``postgresql``. Without them its tests are skipped by
name; in CI they fail, since nothing would be tested there.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

START_S = 60


class Server:
    """A PostgreSQL server that listens on a socket in a folder of its own."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self.binaries, self.folder = binaries, folder
        # PostgreSQL refuses to run as root.
        self.user = "postgres" if os.geteuid() == 0 else None
        if self.user:
            shutil.chown(folder, self.user, self.user)
        self.data = folder / "data"
        self.run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "--no-sync")
        rules = self.data / "pg_hba.conf"
        rules.write_text("local all refused reject\n" + rules.read_text())
        settings = ("listen_addresses=", "fsync=off", f"unix_socket_directories={folder}")
        self.process = subprocess.Popen(
            [binaries / "postgres", "-D", self.data, *(w for s in settings for w in ("-c", s))],
            user=self.user,
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._until_ready()

    def _until_ready(self) -> None:
        end = time.monotonic() + START_S
        asked = [self.binaries / "pg_isready", "-q", "-h", self.folder]
        while subprocess.run(asked, check=False, cwd=self.folder).returncode:
            assert self.process.poll() is None, "the server has ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def run(self, program: str, *words: str) -> str:
        """Run a program of PostgreSQL, and return what it prints."""
        done = subprocess.run(
            [self.binaries / program, *words],
            user=self.user,
            cwd=self.folder,
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def sql(self, statement: str, database: str = "postgres") -> str:
        """Run a statement as the owner of the server."""
        connection = ("-h", str(self.folder), "-U", "postgres", "-d", database)
        return self.run("psql", "-qAt", *connection, "-c", statement)

    def url(self, database: str, tables: Path, user: str = "postgres") -> str:
        """Return the address of a store in one of its databases."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}&tables={tables}"

    def stop(self) -> None:
        self.process.send_signal(signal.SIGINT)  # at once, whoever is connected
        self.process.wait(START_S)


def binaries() -> Path | None:
    """Return where the programs of the newest PostgreSQL are."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3])
    )
    if found:
        return found[-1].parent
    named = shutil.which("initdb")
    return Path(named).resolve().parent if named else None


def _why_not() -> str | None:
    if binaries() is None:
        return "PostgreSQL is not installed (Debian package postgresql)"
    if os.geteuid() == 0 and "postgres" not in {entry.pw_name for entry in pwd.getpwall()}:
        return "PostgreSQL does not run as root, and there is no user postgres"
    return None


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    if why := _why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(why)
    place = binaries()
    assert place is not None
    # Its own user must reach it, and the path of a socket is short.
    folder = Path(tempfile.mkdtemp(prefix="planner-pg-"))
    try:
        server = Server(place, folder)
        yield server
        server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres_server: Server, tmp_path: Path) -> Iterator[str]:
    """The address of a store in an empty database, with its tables in the folder of the test."""
    name = f"test_{uuid.uuid4().hex}"
    postgres_server.sql(f"CREATE DATABASE {name}")
    yield postgres_server.url(name, tmp_path / "tables")
    postgres_server.sql(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty store, once in each database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    url: str = request.getfixturevalue("postgres_url")
    return url
