"""A batch as a Ray Job, the way that the manual shows it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.studies import ROOT

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]

BIN = Path(sys.executable).parent


def submitted(cluster: Any, *words: str) -> str:
    """Submit a job, wait for it, and return what it and the client print."""
    done = subprocess.run(
        [BIN / "ray", "job", "submit", "--address", f"http://{cluster.webui_url}", "--", *words],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_batch_as_a_job(cluster: Any, tmp_path: Path) -> None:
    store, out = tmp_path / "store.db", tmp_path / "out"
    batch = [str(BIN / "planner"), "batch", str(ROOT / "examples/batch/small.yaml")]
    words = [*batch, "--executor", "ray", "--store", str(store), "--out", str(out)]
    assert "succeeded" in submitted(cluster, *words)
    assert list(out.glob("*.parquet"))

    # The whole batch is in the store: nothing is left to compute, and no executor is needed.
    again = subprocess.run(
        [*batch, "--store", store, "--out", out, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    counts = json.loads(again.stdout)["counts"]
    assert {state: n for state, n in counts.items() if n} == {"done": 12}
    assert "waiting" not in again.stderr
