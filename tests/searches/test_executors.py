"""The same answer wherever it is computed."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

from planner.studies import check, rank
from searches import executors
from specs.errors import SpecError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"

OPEN = [f"space.{axis}=open" for axis in ("tp", "pp", "cp", "sp", "attention_dp", "expert_tp")]
ROWS = 16
"""Rows of a chunk, few enough for several chunks."""


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in (executors.LocalExecutor, executors.ProcessExecutor, executors.RayExecutor):
        monkeypatch.setattr(kind, "chunk_rows", ROWS)


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """Ranking in one piece, in this process."""
    ranking = rank(EXAMPLE, OPEN)
    assert len(ranking.found.evaluated.plans) > 4 * ROWS
    return ranking.frame()


@pytest.fixture(scope="session")
def ray_started() -> Iterator[None]:
    """Ray on two CPUs of this machine; its workers find the packages where this process does."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    ray = pytest.importorskip("ray")
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=100 * 2**20,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}},
    )
    yield
    ray.shutdown()


def same(expected: pd.DataFrame, name: str) -> None:
    ranking = rank(EXAMPLE, OPEN, executor_name=name)
    pd.testing.assert_frame_equal(ranking.frame(), expected, check_exact=True)


def test_local_chunks(expected: pd.DataFrame) -> None:
    same(expected, "local")


def test_two_processes(expected: pd.DataFrame) -> None:
    same(expected, "processes:2")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_started")
def test_ray(expected: pd.DataFrame) -> None:
    same(expected, "ray")


@pytest.mark.ray
@pytest.mark.usefixtures("ray_started")
def test_ray_that_runs_already_is_left_running(expected: pd.DataFrame) -> None:
    import ray

    rank(EXAMPLE, OPEN, executor_name="ray:auto")
    assert ray.is_initialized()


def test_the_spec_may_name_the_executor(expected: pd.DataFrame) -> None:
    frame = rank(EXAMPLE, [*OPEN, "search.executor=processes:1"]).frame()
    pd.testing.assert_frame_equal(frame, expected, check_exact=True)


def test_progress_counts_every_plan(expected: pd.DataFrame) -> None:
    told: list[tuple[int, int]] = []
    rank(EXAMPLE, OPEN, progress=lambda done, total: told.append((done, total)))
    total = told[-1][1]
    assert told == [(min(i * ROWS, total), total) for i in range(1, len(told) + 1)]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("rey", "Did you mean 'ray'"),
        ("process:2", "Did you mean 'processes'"),
        ("local:2", r"expected local, processes\[:N\] or ray"),
        ("processes:0", "N at least 1"),
        ("processes:-1", "N at least 1"),
        ("processes:two", "N at least 1"),
        ("processes:1.5", "N at least 1"),
    ],
)
def test_wrong_names(name: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        rank(EXAMPLE, executor_name=name)
    with pytest.raises(SpecError, match=says):
        check(EXAMPLE, [f"search.executor={name}"])
