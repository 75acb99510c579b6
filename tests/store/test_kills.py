"""``kill -9`` at random points: the store opens, nothing is lost, the answer is the same."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.support import ROOT


@pytest.mark.parametrize("kills", [5, pytest.param(50, marks=pytest.mark.soak)])
def test_killed_studies_end_with_the_same_answer(
    store_url: str, tmp_path: Path, kills: int
) -> None:
    seed = str(random.randrange(2**32))
    words = ["-m", "tests.store.killed", store_url, str(tmp_path / "peace.db"), str(kills), seed]
    done = subprocess.run(
        [sys.executable, *words], check=False, cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, f"seed {seed}\n{done.stderr}"
    points = json.loads(done.stdout)
    assert sum(points.values()) >= kills
    print(f"{kills} kills, by what was kept: {points}")
