"""Batches that run undisturbed: what they answer, what they do not compute again, and limits."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from planner.batch import collected, define, run
from planner.solving import Answer, solve
from results.store.batches import driven
from results.winners import ANSWER_COLUMNS, answer_of
from searches.executors import LocalExecutor, ProcessExecutor, WorkerLost
from specs.grid import BatchLimit
from specs.load import load_problem
from specs.problem import Problem
from tests.batch.support import IMPOSSIBLE, TINY, rows_of, written
from tests.store.support import opened


def one_problem(labelled: dict[str, Any] = TINY["workloads"][0]) -> dict[str, Any]:
    """The spec of the first problem of the tiny grid, under a load of it."""
    load = {key: value for key, value in labelled.items() if key != "label"}
    return TINY["base"] | {"model": "qwen3-8b", "hardware": "hgx-h100", "workload": load}


class Counting(LocalExecutor):
    """The local executor; notes the names of the problems that it was given."""

    def __init__(self) -> None:
        self.solved: list[str] = []

    def run(self, function: Any, shared: Any, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for position, answer in super().run(function, shared, items):
            self.solved.append(items[position].name)
            yield position, answer


def answered(url: str, file: str, executor: Any = None, again: Sequence[str] = ()) -> list[str]:
    """Run a batch to its end; return the names of the problems that were solved, in order."""
    executor = executor or Counting()
    collection = collected([file], [], None, {})
    with opened(url) as store, driven(store.database, define(collection), again) as batch:
        for _ in run(batch, collection, store, executor):
            pass
    return list(getattr(executor, "solved", []))


def test_every_row_is_what_rank_says(planner: Any, store_url: str, tmp_path: Path) -> None:
    loads = [*TINY["workloads"], IMPOSSIBLE]
    file = written(tmp_path, TINY | {"models": ["qwen3-8b"], "workloads": loads})
    out = tmp_path / "out"
    printed = planner("batch", file, "--store", store_url, "--out", str(out), "--json")
    assert printed.code == 0
    assert printed.document["counts"]["done"] == printed.document["counts"]["infeasible"] == 2
    table = pd.read_parquet(out / "winners.parquet")
    assert len(table) == len(pd.read_csv(out / "winners.csv")) == 4
    assert set(ANSWER_COLUMNS) <= set(table.columns)
    for row in table[table["hardware"] == "hgx-h100"].to_dict("records"):
        (labelled,) = (w for w in loads if w["label"] == row["workload"])
        spec = written(tmp_path, one_problem(labelled), "spec.yaml")
        ranked = planner("rank", spec, "--store", "none", "--json").document
        for name, value in answer_of(ranked).items():
            assert row[name] == value or (pd.isna(row[name]) and value is None), name
        assert row["state"] == ("done" if ranked["plans"] else "infeasible")
        assert bool(row["binding"]) is not bool(ranked["plans"]) or pd.isna(row["binding"])


def test_a_batch_answers_rank_and_rank_answers_a_batch(
    planner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = str(tmp_path / "store.db"), written(tmp_path, TINY)
    first = collected([file], [], None, {}).items[0].problem
    spec = written(tmp_path, first.model_dump(mode="json"), "spec.yaml")
    ranked = planner("rank", spec, "--store", url, "--json").document
    assert answered(url, file) == [
        i.problem.name for i in collected([file], [], None, {}).items[1:]
    ]
    row = rows_of(url, "tiny")[0]
    assert row["answer"] == answer_of(ranked)
    assert row["seconds"] is None
    last = collected([file], [], None, {}).items[3].problem
    spec = written(tmp_path, last.model_dump(mode="json"), "spec.yaml")
    monkeypatch.setattr("planner.studies.ranked", None)  # whoever computes now, fails
    again = planner("rank", spec, "--store", url, "--json").document
    assert answer_of(again) == rows_of(url, "tiny")[3]["answer"]


def test_the_same_batch_is_found_again_and_computes_nothing(tmp_path: Path) -> None:
    url, file = str(tmp_path / "store.db"), written(tmp_path, TINY)
    assert len(answered(url, file)) == 4
    before = rows_of(url, "tiny")
    assert answered(url, file) == []
    assert rows_of(url, "tiny") == before


def test_another_batch_takes_what_is_known_and_solves_equal_problems_once(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    answered(url, written(tmp_path, TINY))
    twice = [{"label": "one"}, {"label": "other"}]
    wider = TINY | {"name": "wider", "models": [*TINY["models"], "qwen3-14b"], "overrides": twice}
    solved = answered(url, written(tmp_path, wider))
    assert solved == ["qwen3-14b · hgx-h100 · burst · one", "qwen3-14b · hgx-h200 · burst · one"]
    rows = rows_of(url, "wider")
    assert len(rows) == 12
    assert {row["state"] for row in rows} == {"done"}
    assert len({row["study_id"] for row in rows}) == 6


def test_higher_priorities_come_first(tmp_path: Path) -> None:
    priority = {"model": {"qwen3-4b": 1}, "hardware": {"hgx-h200": 5}}
    solved = answered(str(tmp_path / "store.db"), written(tmp_path, TINY | {"priority": priority}))
    assert [name.rpartition(" · ")[0] for name in solved] == [
        "qwen3-4b · hgx-h200",
        "qwen3-8b · hgx-h200",
        "qwen3-4b · hgx-h100",
        "qwen3-8b · hgx-h100",
    ]


def test_processes_answer_as_this_process_does(tmp_path: Path) -> None:
    file = written(tmp_path, TINY)
    here, there = str(tmp_path / "here.db"), str(tmp_path / "there.db")
    answered(here, file)
    answered(there, file, ProcessExecutor(1))
    kept = ("position", "state", "study_id", "answer")
    for one, other in zip(rows_of(here, "tiny"), rows_of(there, "tiny"), strict=True):
        assert {k: one[k] for k in kept} == {k: other[k] for k in kept}


def fails_on_4b(limit: BatchLimit, problem: Problem) -> Answer:
    if problem.model.name == "qwen3-4b":
        return Answer("failed", 0.1, error="KeyError: 'bandwidth'")
    return solve(limit, problem)


def test_what_failed_stands_in_the_table_and_is_solved_again_on_request(
    planner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, file = str(tmp_path / "store.db"), written(tmp_path, TINY)
    words = ("batch", file, "--store", url, "--out", str(tmp_path / "out"))
    monkeypatch.setattr("planner.batch.solve", fails_on_4b)
    printed = planner(*words)
    assert printed.code == 1
    assert "qwen3-4b · hgx-h100 · burst: KeyError: 'bandwidth'" in printed.out
    table = pd.read_parquet(tmp_path / "out" / "winners.parquet")
    assert table["state"].tolist() == ["done", "done", "failed", "failed"]
    assert table["error"].notna().tolist() == [False, False, True, True]
    # Asked again, what has failed stays so until it is to be tried once more.
    assert planner(*words).code == 1
    monkeypatch.undo()
    assert planner(*words, "--retry-failed").code == 0
    assert {row["state"] for row in rows_of(url, "tiny")} == {"done"}


class Losing(LocalExecutor):
    """An executor whose workers do not survive the first model on the second machine."""

    def run(self, function: Any, shared: Any, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        for position, item in enumerate(items):
            if (item.model.name, item.hardware.name) == ("qwen3-8b", "hgx-h200"):
                raise WorkerLost(position, "the process was ended by SIGKILL")
            yield position, function(shared, item)


def test_a_problem_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    url = str(tmp_path / "store.db")
    answered(url, written(tmp_path, TINY), Losing())
    rows = rows_of(url, "tiny")
    assert [row["state"] for row in rows] == ["done", "failed", "done", "done"]
    assert rows[1]["error"].endswith("at last because the process was ended by SIGKILL")


def test_an_exception_of_one_problem_is_its_answer() -> None:
    broken = load_problem(one_problem()).model_copy(update={"cost_model": "nothing"})
    answer = solve(BatchLimit(), broken)
    assert answer.state == "failed"
    assert answer.error is not None
    assert "nothing" in answer.error


def test_a_limit_of_plans_is_known_before_the_work(tmp_path: Path, planner: Any) -> None:
    words = (written(tmp_path, TINY), "--out", str(tmp_path), "--limit-plans", "1", "--json")
    printed = planner("batch", *words, "--store", str(tmp_path / "store.db"))
    assert printed.code == 0
    assert printed.document["counts"]["over_limit"] == 4
    row = printed.document["problems"][0]
    assert row["error"] == "2 plans to estimate, and the limit is 1"
    assert row["answer"] is None


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("searches.exhaustive.CHUNK_ROWS", 1)


def test_a_limit_of_seconds_keeps_the_best_so_far_and_does_not_call_it_the_optimum(
    small_blocks: None,
) -> None:
    problem = load_problem(one_problem(), ["space.tp=[1, 2, 4, 8]"])
    answer = solve(BatchLimit(seconds=1e-9), problem)
    assert answer.state == "over_limit"
    assert answer.document is None
    assert answer.error is not None
    assert answer.error.startswith("1 of 4 plans estimated")
    assert answer.summary is not None
    assert answer.summary["certificate"] == "best_of"
    assert answer.summary["plan"].startswith("tp=1 ")


def test_limits_belong_to_what_a_batch_is(tmp_path: Path) -> None:
    file = written(tmp_path, TINY | {"limit": {"seconds": "2 min"}})
    said, changed = collected([file], [], None, {}), collected([file], [], None, {"seconds": 5.0})
    assert said.limit.seconds == 120
    assert changed.limit.seconds == 5
    assert define(said).key != define(changed).key
    assert define(said).key == define(collected([file], [], None, {})).key


def test_one_driver_at_a_time(planner: Any, store_url: str, tmp_path: Path) -> None:
    file = written(tmp_path, TINY)
    collection = collected([file], [], None, {})
    words = ("batch", file, "--store", store_url, "--out", str(tmp_path))
    with opened(store_url) as store, driven(store.database, define(collection), ()):
        second = planner(*words)
        assert second.code == 2
        assert f"process {os.getpid()} on " in second.err
        assert "is running this batch" in second.err
        status = planner("batch", "--status", "tiny", "--store", store_url)
        assert "tiny: 4 waiting (running)" in status.out
    assert "(interrupted)" in planner("batch", "--status", "tiny", "--store", store_url).out
    assert planner(*words).code == 0
    shown = planner("batch", "--status", "tiny", "--store", store_url)
    assert "tiny: 4 done (done)" in shown.out
    document = planner("batch", "--status", "tiny", "--store", store_url, "--json").document
    assert document["state"] == "done"
    assert len(document["problems"]) == 4
    assert planner("batch", "--status", document["batch"][:8], "--store", store_url).code == 0
