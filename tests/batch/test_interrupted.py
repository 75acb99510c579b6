"""Batches that are killed and interrupted, and go on as if nothing had happened."""

import random
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import sqlalchemy as sa

from planner.batch import collected
from planner.solving import solve
from results.store.schema import study
from tests.batch.support import (
    SURVEY,
    begun,
    ended,
    rows_of,
    sample,
    stopped,
    stopped_after,
    written,
)
from tests.store.support import opened

FINISH_S = 3600


def table(folder: Path) -> pd.DataFrame:
    """The table of a batch without what the clock decides."""
    return pd.read_parquet(folder / "winners.parquet").drop(columns="seconds")


def studies(url: str) -> list[str]:
    with opened(url) as store, store.database.reading() as connection:
        return list(connection.execute(sa.select(study.c.state)).scalars())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    folder = tmp_path_factory.mktemp("undisturbed")
    words = [written(folder, sample()), "--store", str(folder / "store.db"), "--out", str(folder)]
    process = begun(words)
    _, err = process.communicate(timeout=FINISH_S)
    assert process.returncode == 0, err
    return table(folder)


def test_killed_twice_and_interrupted_once(
    store_url: str, tmp_path: Path, undisturbed: pd.DataFrame
) -> None:
    out = tmp_path / "out"
    words = [written(tmp_path, sample()), "--store", store_url, "--out", str(out)]
    kept: list[Any] = []
    for sent in (signal.SIGKILL, signal.SIGKILL, signal.SIGINT):
        code, err, rows = stopped_after(words, store_url, "sample", 4, sent)
        # What was acknowledged stays as it was, and was not computed again.
        assert [rows[row["position"]] for row in kept] == kept
        assert len(kept) + 4 <= len(ended(rows)) < 20
        kept = ended(rows)
        assert code == (130 if sent is signal.SIGINT else -sent)
    assert f"{len(kept)} of 20 problems are kept" in err
    assert "the same command goes on from there" in err

    process = begun(words)
    printed, err = process.communicate(timeout=FINISH_S)
    assert process.returncode == 0, err
    assert f"resuming: {len(kept)} of 20 done" in err
    rows = rows_of(store_url, "sample")
    assert [rows[row["position"]] for row in kept] == kept
    assert len({row["study_id"] for row in rows}) == 20
    assert studies(store_url) == ["done"] * 20
    pd.testing.assert_frame_equal(table(out), undisturbed)
    assert "tp=" in printed


@pytest.mark.soak
def test_survey_of_1000_problems_interrupted_twice(tmp_path: Path) -> None:
    url, out = f"sqlite:///{tmp_path / 'store.db'}", tmp_path / "out"
    words = [str(SURVEY), "--store", url, "--out", str(out), "--executor", "processes:2"]
    kept: list[Any] = []
    for after, sent in ((150, signal.SIGKILL), (500, signal.SIGINT)):
        _, _, rows = stopped(words, url, "survey", after, sent)
        assert [rows[row["position"]] for row in kept] == kept
        kept = ended(rows)
    process = begun(words)
    _, err = process.communicate(timeout=FINISH_S)
    assert process.returncode == 0, err
    assert f"resuming: {len(kept)} of 1,000 done" in err
    rows = rows_of(url, "survey")
    assert [rows[row["position"]] for row in kept] == kept
    assert len(ended(rows)) == 1000
    assert studies(url) == ["done"] * 1000
    found = pd.read_parquet(out / "winners.parquet")
    assert len(found) == 1000
    collection = collected([str(SURVEY)], [], None, {})
    for position in random.Random(6).sample(range(1000), 20):
        again = solve(collection.limit, collection.items[position].problem)
        assert rows[position]["answer"] == again.summary
