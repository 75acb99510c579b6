"""The same answer wherever it is computed, whatever happens to workers; wrong names are refused."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import pandas as pd
import pytest

from planner.studies import check, rank
from searches import exhaustive
from searches.executors import WorkerLost, executor
from searches.executors.base import IN_FLIGHT
from specs.errors import SpecError
from tests.cluster import work

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"

OPEN = [f"space.{axis}=open" for axis in ("tp", "pp", "cp", "sp", "attention_dp", "expert_tp")]
ROWS = 16
"""Rows of a chunk, few enough for several chunks."""


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "CHUNK_ROWS", ROWS)


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """Ranking in one piece, in this process."""
    ranking = rank(EXAMPLE, OPEN)
    assert len(ranking.found.evaluated.plans) > 4 * ROWS
    return ranking.frame()


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("name", ["local", "processes:2"])
def test_the_same_ranking(expected: pd.DataFrame, name: str) -> None:
    frame = rank(EXAMPLE, OPEN, executor_name=name).frame()
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)


@pytest.mark.usefixtures("small_chunks")
def test_the_spec_may_name_the_executor(expected: pd.DataFrame) -> None:
    frame = rank(EXAMPLE, [*OPEN, "search.executor=processes:1"]).frame()
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)


@pytest.mark.usefixtures("small_chunks")
def test_progress_counts_every_plan() -> None:
    told: list[tuple[int, int]] = []
    rank(EXAMPLE, OPEN, progress=lambda done, total: told.append((done, total)))
    total = told[-1][1]
    assert told == [(min(i * ROWS, total), total) for i in range(len(told))]


@pytest.mark.parametrize("name", ["local", "processes:3"])
def test_every_position_comes_once(name: str) -> None:
    items = [7 * i for i in range(20)]
    found = dict(executor(name).run(work.add, 5, items))
    assert [found[i] for i in range(20)] == [5 + item for item in items]


@pytest.mark.parametrize("name", ["local", "processes:2"])
def test_nothing_to_do(name: str) -> None:
    assert list(executor(name).run(work.add, 5, [])) == []


def test_more_than_a_pipe_holds_goes_both_ways() -> None:
    shared = bytes(2**22)
    found = dict(executor("processes:2").run(work.large, shared, list(range(6))))
    assert all(found[i] == shared[i:] for i in range(6))


def test_each_process_has_one_thread_of_linear_algebra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    found = [answer for _, answer in executor("processes:2").run(work.process_of, None, [0] * 8)]
    assert len({process for process, _ in found}) <= 2
    assert os.getpid() not in {process for process, _ in found}
    assert {threads for _, threads in found} == {"1"}


@pytest.mark.parametrize("name", ["local", "processes:2"])
def test_an_exception_of_the_work_is_raised_as_it_is(name: str) -> None:
    with pytest.raises(ValueError, match="three is wrong"):
        list(executor(name).run(work.fail_at_three, None, list(range(9))))


def test_a_killed_worker_is_replaced_and_its_task_runs_again(tmp_path: Path) -> None:
    found = dict(executor("processes:2").run(work.die_once_at_three, tmp_path, list(range(12))))
    assert found == {i: i for i in range(12)}
    begun = work.begun(tmp_path)
    assert begun.count("3") == 2
    assert len(begun) == 13, "only the task whose worker died runs twice"


def test_a_task_that_kills_its_workers_ends_the_run(tmp_path: Path) -> None:
    found = []
    with pytest.raises(WorkerLost, match=r"task 3 .* lost 3 times.* SIGKILL.* is kept") as lost:
        for position, _ in executor("processes:2").run(work.die_at_three, tmp_path, list(range(9))):
            found.append(position)
    assert lost.value.position == 3
    assert {0, 1, 2} <= set(found)
    assert work.begun(tmp_path).count("3") == 3


def nappers(folder: Path) -> list[int]:
    return [int(words[2]) for words in work.trace(folder)]


def test_closing_stops_what_runs(tmp_path: Path) -> None:
    run = executor("processes:2").run(work.nap, tmp_path, [0.0, 300.0, 300.0, 300.0])
    assert next(run) == (0, 0.0)
    work.until(lambda: len(nappers(tmp_path)) == 3)
    begin = time.monotonic()
    run.close()
    assert time.monotonic() - begin < 5
    assert not any(work.alive(process) for process in nappers(tmp_path))


def test_workers_end_when_the_process_that_asks_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from searches.executors import executor;"
        "from tests.cluster import work;"
        f"list(executor('processes:2').run(work.nap, Path({str(tmp_path)!r}), [300.0] * 4))"
    )
    asking = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT)
    work.until(lambda: len(nappers(tmp_path)) == 2)
    asking.kill()
    asking.wait()
    work.until(lambda: not any(work.alive(process) for process in nappers(tmp_path)), 10)


def test_an_interrupt_stops_what_runs_and_says_so(tmp_path: Path) -> None:
    """As in a terminal, where all processes of the command get the signal."""
    code = (
        "from searches import exhaustive; from tests.cluster import work;"
        "exhaustive.digest_span = work.slow_digest;"
        f"from planner.cli import main; main(['rank', {str(EXAMPLE)!r}, '--executor=processes:1'])"
    )
    asking = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PLANNER_TEST_TRACE": str(tmp_path)},
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    work.until(lambda: len(nappers(tmp_path)) == 1)
    os.killpg(asking.pid, signal.SIGINT)
    _, told = asking.communicate(timeout=30)
    assert (asking.returncode, told) == (130, "interrupted\n")
    assert not work.alive(nappers(tmp_path)[0])


def test_no_more_is_handed_out_while_the_consumer_is_busy(tmp_path: Path) -> None:
    run = executor("processes:2").run(
        work.traced, work.Traced(work.add, 1, tmp_path, 0.0), list(range(40))
    )
    next(run)
    time.sleep(0.5)
    ended = len([words for words in work.trace(tmp_path) if words[0] == "end"])
    assert ended <= 2 * IN_FLIGHT
    run.close()


@contextmanager
def answering(words: bytes) -> Iterator[int]:
    """Listen on a port, say something to the first who comes, and hang up; or say nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(words)
                if not words:
                    time.sleep(10)

        Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rey", "Did you mean 'ray'"),
        ("process:2", "Did you mean 'processes'"),
        ("Local", "Did you mean 'local'"),
        ("local:2", r"expected local, processes\[:N\] or ray"),
        ("processes:0", "N at least 1"),
        ("processes:-1", "N at least 1"),
        ("processes:two", "N at least 1"),
        ("processes:1.5", "N at least 1"),
        ("processes:2:3", "N at least 1"),
        ("processes:100000", "at most"),
        ("ray:head", r"expected ray:HOST:PORT"),
        ("ray:head:port", r"expected ray:HOST:PORT"),
        ("ray:head:99999", r"expected ray:HOST:PORT"),
        ("ray:http://head:8265", r"ray job submit"),
        ("ray://head:10001", r"ray job submit"),
        ("ray:ray://head:10001", r"ray job submit"),
        ("slurm", r"expected local, processes\[:N\] or ray.*Known names"),
    ],
)
def test_wrong_names(name: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        rank(EXAMPLE, executor_name=name)
    with pytest.raises(SpecError, match=says):
        check(EXAMPLE, [f"search.executor={name}"])


def refused(name: str) -> str:
    """Return why there is no such cluster; it is found out within seconds."""
    begin = time.monotonic()
    with pytest.raises(SpecError) as wrong:
        list(executor(name).run(work.add, 1, [1]))
    assert time.monotonic() - begin < 8
    assert wrong.value.faults[0].path == "search.executor"
    return str(wrong.value)


def test_an_address_where_nothing_listens_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert f"no Ray cluster answers at 127.0.0.1:{port}: Connection refused" in refused(
        f"ray:127.0.0.1:{port}"
    )


def test_an_unknown_host_is_refused() -> None:
    assert "no Ray cluster answers at nowhere.invalid:6379" in refused("ray:nowhere.invalid:6379")


def test_a_server_that_is_not_ray_is_refused() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert f"what answers at 127.0.0.1:{port} is not Ray" in refused(f"ray:127.0.0.1:{port}")


def test_a_server_that_says_nothing_is_refused() -> None:
    with answering(b"") as port:
        assert "no Ray cluster answers at" in refused(f"ray:127.0.0.1:{port}")


def test_the_address_of_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "nowhere.invalid:6379")
    assert "no Ray cluster answers at nowhere.invalid:6379" in refused("ray")
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")
    assert "(got RAY_ADDRESS=http://head:8265). From outside a cluster: ray job" in refused("ray")


def test_the_command_says_what_was_lost(planner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No traceback: the user learns what happened, and that finished work is kept."""
    monkeypatch.setattr(exhaustive, "digest_span", work.die)
    printed = planner("rank", str(EXAMPLE), "--executor", "processes:1")
    assert printed.code == 1
    assert "error: task 0 was given up: its worker was lost 3 times" in printed.err
    assert "SIGKILL" in printed.err
