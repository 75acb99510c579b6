"""Two processes on one store: one computes, the other waits; a dead one is replaced."""

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from results.store import Store, lease, schema
from specs.errors import SpecError
from tests.store.support import INPUTS, ROOT, answer, keep, opened, problem, ranked

WORKER = """
import sys, time
import results.versions
from tests.store.support import INPUTS, opened, problem, ranked
results.versions.code_fingerprint = lambda: "same"
url, what = sys.argv[1:]
with opened(url) as store, store.study(problem(), INPUTS) as study:
    print("waited" if study.done else "holds", flush=True)
    if not study.done:
        if what == "forever":
            time.sleep(600)
        sys.stdin.readline()
        ranking = ranked(problem())
        study.finish(ranking.found.digest, ranking.document())
"""


@pytest.fixture(autouse=True)
def same_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that begin at different times ask the same, even while the code is edited."""
    monkeypatch.setattr("results.versions.code_fingerprint", lambda: "same")


def worker(url: str, what: str = "compute") -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, url, what],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_one_computes_and_the_other_gets_its_answer(store_url: str) -> None:
    first = worker(store_url)
    assert first.stdout is not None and first.stdout.readline() == "holds\n"
    second = worker(store_url)
    assert second.stderr is not None
    assert f":{first.pid}:" in second.stderr.readline()  # the note that says whom it waits for
    first.communicate("go\n", timeout=60)
    out, _ = second.communicate(timeout=60)
    assert (first.returncode, second.returncode, out) == (0, 0, "waited\n")
    with opened(store_url) as store:
        assert json.dumps(answer(store, problem())) == json.dumps(ranked(problem()).document())


def test_a_dead_process_is_replaced_at_once(store_url: str) -> None:
    first = worker(store_url, "forever")
    assert first.stdout is not None and first.stdout.readline() == "holds\n"
    first.kill()
    first.wait()
    begun = time.monotonic()
    with opened(store_url) as store:
        keep(store, problem())
    assert time.monotonic() - begun < lease.LEASE_S / 4


def test_a_process_elsewhere_is_waited_for_until_its_lease_ends(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(store_url) as store:
        with pytest.raises(KeyboardInterrupt), store.study(problem(), INPUTS) as study:
            raise KeyboardInterrupt
        ends = time.time() + 2.0
        with store.database.writing() as connection:
            connection.execute(
                sa.update(schema.study).values(
                    state="running", owner="another-host/1:1:1", expires=ends
                )
            )
        assert keep(store, problem()) == study.id
        assert time.time() >= ends


def test_one_that_stood_still_cannot_overwrite_its_successor(store_url: str) -> None:
    ranking = ranked(problem())
    with opened(store_url) as store:
        with pytest.raises(SpecError, match="taken over"), store.study(problem(), INPUTS) as study:
            with store.database.writing() as connection:
                connection.execute(sa.update(schema.study).values(owner="another-host/1:1:1"))
            study.finish(ranking.found.digest, ranking.document())
        with store.database.reading() as connection:
            row = connection.execute(sa.select(schema.study)).one()
        assert (row.state, row.owner, row.result) == ("running", "another-host/1:1:1", None)


def test_the_lease_is_renewed_while_work_lasts(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "RENEW_S", 0.05)

    def expires(store: Store) -> float:
        with store.database.reading() as connection:
            return connection.execute(sa.select(schema.study.c.expires)).scalar_one()

    with opened(store_url) as store:
        with pytest.raises(KeyboardInterrupt), store.study(problem(), INPUTS):
            before = expires(store)
            time.sleep(0.5)
            assert expires(store) > before
            raise KeyboardInterrupt
        assert not [t for t in threading.enumerate() if t.name.startswith("lease")]


def test_holders_that_are_gone() -> None:
    me = lease.holder()
    host, pid, start = me.rsplit(":", 2)
    assert not lease.is_gone(me)
    assert lease.is_gone(f"{host}:{pid}:{int(start) - 1}")  # an earlier process of this number
    assert lease.is_gone(f"{host}:{2**22 + 1}:{start}")
    assert not lease.is_gone(f"elsewhere/1:{2**22 + 1}:{start}")
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    while Path(f"/proc/{child.pid}/stat").read_text().split()[2] != "Z":
        time.sleep(0.01)
    assert lease.is_gone(f"{host}:{child.pid}:{start}")  # it has ended; nobody has asked how
    child.wait()
    assert int(pid) == os.getpid()


def test_many_make_one_new_store(store_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        for store in pool.map(Store.open, [store_url] * 8):
            store.close()
