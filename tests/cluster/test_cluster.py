"""Work on three nodes: every task once, whatever dies."""

import time
from pathlib import Path

import pytest

from searches.executors import WorkerLost, executor
from tests.cluster import work

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]


@pytest.mark.usefixtures("joined")
def test_every_position_comes_once(address: str) -> None:
    items = [7 * i for i in range(50)]
    found = dict(executor(address).run(work.add, 5, items))
    assert [found[i] for i in range(50)] == [5 + item for item in items]


@pytest.mark.usefixtures("joined")
def test_nothing_to_do(address: str) -> None:
    assert list(executor(address).run(work.add, 5, [])) == []


@pytest.mark.usefixtures("joined")
def test_an_exception_of_the_work_is_raised_as_it_is(address: str) -> None:
    with pytest.raises(ValueError, match="three is wrong") as wrong:
        list(executor(address).run(work.fail_at_three, None, list(range(9))))
    assert type(wrong.value) is ValueError


@pytest.mark.usefixtures("joined")
def test_the_task_of_a_killed_worker_runs_again(address: str, tmp_path: Path) -> None:
    found = dict(executor(address).run(work.die_once_at_three, tmp_path, list(range(12))))
    assert found == {i: i for i in range(12)}
    assert sorted(work.begun(tmp_path), key=int) == sorted([*map(str, range(12)), "3"], key=int)


@pytest.mark.usefixtures("joined")
def test_a_task_that_kills_its_workers_ends_the_run(address: str, tmp_path: Path) -> None:
    with pytest.raises(WorkerLost, match=r"task 3 .* lost 3 times.* is kept"):
        list(executor(address).run(work.die_at_three, tmp_path, list(range(9))))
    assert work.begun(tmp_path).count("3") == 3


@pytest.mark.usefixtures("joined")
def test_closing_stops_what_runs(address: str, tmp_path: Path) -> None:
    run = executor(address).run(work.nap, tmp_path, [0.0] + [300.0] * 9)
    assert next(run) == (0, 0.0)
    work.until(lambda: len(work.begun(tmp_path)) >= 3)
    begin = time.monotonic()
    run.close()
    assert time.monotonic() - begin < 10
    napping = {int(words[2]) for words in work.trace(tmp_path) if words[1] != "0.0"}
    work.until(lambda: not any(work.alive(process) for process in napping), 10)
