"""A study on a cluster that loses a node, then the process that asks: the same answer, once."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from planner.studies import rank
from searches import exhaustive
from searches.executors.base import IN_FLIGHT
from specs.load import load_problem
from tests.cluster import work
from tests.cluster.studies import EXAMPLE, LARGE, OPEN, ROOT, answer

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]

DOOMED = 2
"""Processors of the node that is lost."""


def kept(folder: Path) -> int:
    return sum(words[0] == "kept" for words in work.trace(folder))


def ordeal(
    cluster: Any, folder: Path, spec: Path, sets: list[str], rows: int, pause: float
) -> None:
    """Kill a node after a quarter of the chunks and the process that asks after half of them."""
    chunks = -(-len(exhaustive.space_of(load_problem(spec, sets)).grid) // rows)
    assert chunks >= 10
    words = [f"ray:{cluster.address}", str(folder / "store.db"), folder, str(rows), str(pause)]
    command = [sys.executable, "-m", "tests.cluster.drive", *words, spec, *sets]
    doomed = cluster.add_node(num_cpus=DOOMED)

    first = subprocess.Popen(command, cwd=ROOT)
    work.until(lambda: kept(folder) >= chunks / 4 or first.poll() is not None, 300)
    cluster.remove_node(doomed, allow_graceful=False)
    work.until(lambda: kept(folder) >= chunks / 2 or first.poll() is not None, 300)
    assert first.poll() is None, "it was to be killed on the way"
    first.kill()
    first.wait()
    subprocess.run(command, cwd=ROOT, check=True, timeout=300)

    document, digest = answer(rank(spec, sets))
    assert (folder / "document").read_text() == document
    assert (folder / "digest").read_bytes() == digest
    begun_once_more(folder, chunks)


def begun_once_more(folder: Path, chunks: int) -> None:
    """No chunk begins again after it was kept, and only those in flight begin twice."""
    safe: set[str] = set()
    for event, chunk, *_ in work.trace(folder):
        assert event != "begin" or chunk not in safe
        if event == "kept":
            safe.add(chunk)
    assert len(safe) == chunks
    again = len(work.begun(folder)) - chunks
    in_flight = IN_FLIGHT * DOOMED + IN_FLIGHT * 3
    assert 0 < again <= in_flight


def test_small_chunks(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exhaustive, "CHUNK_ROWS", 9)
    ordeal(cluster, tmp_path, EXAMPLE, OPEN, 9, 0.5)


@pytest.mark.soak
def test_two_million_plans(cluster: Any, tmp_path: Path) -> None:
    """Whole chunks, as a study of that size has them."""
    batches = list(range(1, 257))
    ordeal(cluster, tmp_path, LARGE, [f"space.batch={batches}"], exhaustive.CHUNK_ROWS, 0.0)
