"""What can go wrong with a database or a disk: one clear message, and nothing is lost."""

import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from results.store import Store, schema
from searches.digest import Digest
from searches.evaluate import Evaluated
from specs.errors import SpecError
from tests.databases import Server
from tests.store.support import INPUTS, ROOT, answer, keep, opened, problem, ranked


@pytest.fixture(scope="module")
def digest() -> Digest:
    """A digest of half a megabyte that does not compress."""
    small = ranked(problem()).found.digest
    rows = np.zeros(10_000, dtype=np.int64)
    margins = np.random.default_rng(0).random((len(small.kept.margins), rows.size))
    kept = Evaluated(small.kept.plans.take(rows), margins, small.kept.outcomes.take(rows))
    return Digest(np.arange(rows.size), kept, small.counts)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A file system of 12 MB of its own, which every user can reach."""
    folder = Path(tempfile.mkdtemp(prefix="planner-disk-"))
    words = ["mount", "-t", "tmpfs", "-o", "size=12m,mode=777", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(words, check=False, capture_output=True).returncode:
        folder.rmdir()
        pytest.skip("only root may mount a small disk")
    folder.chmod(0o777)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


def fill(store: Store, digest: Digest, chunks: int = 2000) -> int:
    """Store chunks until the disk is full; return how many were kept."""
    stored = 0
    with (
        pytest.raises(SpecError, match=r"disk.* is full") as told,
        store.study(problem(), INPUTS) as study,
    ):
        for index in range(chunks):
            study.store(index, digest)
            stored += 1
    assert "what is finished is kept" in str(told.value)
    return stored


def known(store: Store) -> list[int]:
    with store.database.reading() as connection:
        rows = sa.select(schema.chunk.c.position).order_by("position")
        return list(connection.execute(rows).scalars())


def test_a_full_disk_keeps_what_is_finished(small_disk: Path, digest: Digest) -> None:
    with opened(str(small_disk / "store.db")) as store:
        stored = fill(store, digest)
        assert stored > 0
        assert known(store) == list(range(stored))
    # With room again, the same study goes on.
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    with opened(str(small_disk / "store.db")) as store:
        assert known(store) == list(range(stored))
        keep(store, problem())
        assert answer(store, problem())["plans"]


def test_a_full_disk_of_the_server_keeps_what_is_finished(
    small_disk: Path, postgres_server: Server, tmp_path: Path, digest: Digest
) -> None:
    shutil.chown(small_disk, postgres_server.user)
    postgres_server.sql(f"CREATE TABLESPACE small LOCATION '{small_disk}'")
    postgres_server.sql("CREATE DATABASE small TABLESPACE small")
    try:
        with opened(postgres_server.url("small", tmp_path / "tables")) as store:
            stored = fill(store, digest)
            assert stored > 0
            assert known(store) == list(range(stored))
    finally:
        postgres_server.sql("DROP DATABASE small WITH (FORCE)")
        postgres_server.sql("DROP TABLESPACE small")


def test_a_full_database_keeps_what_is_finished(tmp_path: Path, digest: Digest) -> None:
    with opened(str(tmp_path / "store.db")) as store:

        def limit(connection: sqlite3.Connection, _: object) -> None:
            connection.execute("PRAGMA max_page_count=500")

        sa.event.listen(store.database.engine, "connect", limit)
        store.close()  # the next connection is limited
        stored = fill(store, digest)
        assert stored > 0
    with opened(str(tmp_path / "store.db")) as store:
        assert known(store) == list(range(stored))
        keep(store, problem())


def test_a_table_that_cannot_be_written_leaves_the_study_to_be_finished(
    store_url: str, digest: Digest, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranking = ranked(problem())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(store_url) as store:
        with (
            pytest.raises(SpecError, match=r"cannot use .*File too large.*Make room"),
            store.study(problem(), INPUTS) as study,
        ):
            study.store(0, digest)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, hard))
            try:
                study.finish(ranking.found.digest, ranking.document())
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert list(store.tables.files()) == []
        assert known(store) == [0]
        keep(store, problem())
        assert answer(store, problem())["plans"]


AS_NOBODY = """
import os, sys, tempfile
from results.store import Store
from specs.errors import SpecError
# What is imported late must be there already: another user may not read it.
with tempfile.TemporaryDirectory() as folder:
    Store.open(folder + "/store.db").close()
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
try:
    store = Store.open(sys.argv[1])
    with store.database.writing() as connection:
        connection.exec_driver_sql("DELETE FROM study")
except SpecError as error:
    print(error)
"""


def as_nobody(file: Path) -> str:
    words = [sys.executable, "-c", AS_NOBODY, str(file)]
    done = subprocess.run(words, check=True, cwd=ROOT, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def reachable(tmp_path: Path) -> Path:
    """A folder that users other than its owner can reach."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o005 != 0o005:
            folder.chmod(folder.stat().st_mode | 0o005)
    return tmp_path


def test_a_folder_that_cannot_be_written(reachable: Path) -> None:
    folder = reachable / "fixed"
    folder.mkdir(mode=0o555)
    folder.chmod(0o555)
    for file in (folder / "store.db", folder / "inner" / "store.db"):
        said = as_nobody(file)
        assert said.startswith("--store: cannot")
        assert str(file) in said
        assert "`--store none` keeps nothing" in said


def test_a_file_that_cannot_be_written(reachable: Path) -> None:
    file = reachable / "store.db"
    with opened(str(file)) as store:
        id = keep(store, problem())
    file.chmod(0o444)
    reachable.chmod(0o555)
    assert "cannot be written" in as_nobody(file) or "cannot be opened" in as_nobody(file)
    reachable.chmod(0o755)
    file.chmod(0o644)
    with opened(str(file)) as store:
        assert keep(store, problem()) == id


@pytest.mark.parametrize("content", [b"not a database at all " * 100, b"SQLite format 3\0" * 400])
def test_not_a_database(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "notes.db"
    file.write_bytes(content)
    with pytest.raises(SpecError, match=r"is not a SQLite database|is damaged"):
        Store.open(str(file))
    assert file.read_bytes() == content


def test_locked_for_too_long(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    Store.open(str(file)).close()
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with (
        opened(f"sqlite:///{file}?timeout=0.1") as store,
        pytest.raises(SpecError, match="another process has locked it for too long"),
    ):
        keep(store, problem())
    other.close()


def test_server_locked_for_too_long(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("results.store.database.PATIENCE_S", 0.1)
    with (
        opened(postgres_url) as store,
        opened(postgres_url) as other,
        other.database.writing() as connection,
    ):
        connection.execute(sa.text("LOCK TABLE study IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(SpecError, match="another process has locked it for too long"):
            keep(store, problem())


def test_a_server_that_drops_its_connections(postgres_url: str, digest: Digest) -> None:
    dropped = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
    with opened(postgres_url) as store, opened(postgres_url) as other:
        with store.study(problem(), INPUTS) as study:
            study.store(0, digest)
            with other.database.writing() as connection:
                connection.execute(sa.text(f"{dropped} AND datname = current_database()"))
            study.store(1, digest)  # on a new connection
            ranking = ranked(problem())
            study.finish(ranking.found.digest, ranking.document())
        assert answer(store, problem())["plans"]


def test_a_server_that_cannot_be_reached(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for host in (f"127.0.0.1:{port}", "no-such-host.invalid"):
        url = f"postgresql://user:secret@{host}/planner?tables={tmp_path}"
        with pytest.raises(SpecError, match="the server cannot be reached") as told:
            Store.open(url)
        assert "secret" not in str(told.value)


def test_a_server_that_refuses(postgres_server: Server, tmp_path: Path) -> None:
    postgres_server.sql("CREATE ROLE refused LOGIN")
    postgres_server.sql("CREATE ROLE reader LOGIN")
    refused = {
        postgres_server.url("postgres", tmp_path, "refused"): "refuses|reject",
        postgres_server.url("postgres", tmp_path, "nobody"): "nobody",
        postgres_server.url("missing", tmp_path): '"missing" does not exist',
        postgres_server.url("postgres", tmp_path, "reader"): "may not do this.*Grant",
    }
    for url, message in refused.items():
        with pytest.raises(SpecError, match=message):
            Store.open(url)


@pytest.mark.parametrize("harm", ["cut", "changed", "gone"])
def test_a_table_that_was_harmed(store_url: str, harm: str) -> None:
    with opened(store_url) as store:
        id = keep(store, problem())
        (file,) = store.tables.files()
        content = file.read_bytes()
        if harm == "gone":
            file.unlink()
        else:
            file.write_bytes(content[:1000] if harm == "cut" else content[:-9] + b"x" * 9)
        with pytest.raises(SpecError, match=f"the table of study {id[:12]} is lost"):
            answer(store, problem())
        file.write_bytes(content)
        assert answer(store, problem())["plans"]
