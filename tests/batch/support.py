"""Small grids for tests of batches, and batches run as a user runs them."""

import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from results.store import Store
from results.store.batches import Row, status
from specs.errors import SpecError
from tests.store.support import opened

ROOT = Path(__file__).resolve().parents[2]
SURVEY = ROOT / "examples/batch/survey.yaml"
START_S = 60

ASK = {"name": "ask", "sessions": 4, "context": 4096, "generate": 16, "deadline": "2 s"}
TINY: dict[str, Any] = {
    "name": "tiny",
    "base": {"cost_model": "roofline", "space": {"pp": [1], "tp": [1, 2]}},
    "models": ["qwen3-8b", "qwen3-4b"],
    "hardware": ["hgx-h100", "hgx-h200"],
    "workloads": [{"label": "burst", "kind": "burst", "classes": [ASK]}],
}
"""Four problems that take milliseconds each."""

IMPOSSIBLE = {"label": "at once", "kind": "burst", "classes": [ASK | {"deadline": "1 ms"}]}


def written(folder: Path, grid: object, name: str = "grid.yaml") -> str:
    """Write a grid as a file; return its path."""
    file = folder / name
    file.write_text(yaml.safe_dump(grid, sort_keys=False), encoding="utf-8")
    return str(file)


def sample() -> dict[str, Any]:
    """The survey of the examples, with two of its models on two of its machines: 20 problems."""
    survey: dict[str, Any] = yaml.safe_load(SURVEY.read_text(encoding="utf-8"))
    return survey | {
        "name": "sample",
        "models": ["llama-3.1-8b", "qwen3-8b"],
        "hardware": ["hgx-h100", "dgx-a100-40gb"],
    }


def rows_of(url: str, name: str) -> list[Row]:
    """Return the rows of a batch as the store has them; none if it has no such batch yet."""
    with opened(url) as store:
        return _rows(store, name)


def _rows(store: Store, name: str) -> list[Row]:
    try:
        return status(store.database, name).rows
    except SpecError:
        return []


def ended(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row["state"] not in ("waiting", "running")]


def begun(words: Sequence[str]) -> "subprocess.Popen[str]":
    """Start ``planner batch`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", "from planner.cli import main; main()", "batch", *words],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


_STOPPED = """
import os, sys
from planner.cli import main
from results.store.batches import Batch

left, sent = int(sys.argv.pop(1)), int(sys.argv.pop(1))
kept = Batch.acknowledge

def acknowledge(batch, rows):
    global left
    kept(batch, rows)
    left -= sum(row["state"] not in ("waiting", "running") for row in rows)
    if left <= 0:
        os.kill(os.getpid(), sent)

Batch.acknowledge = acknowledge
main()
"""
"""``planner``, which gets a signal once so many rows more have ended."""


def stopped_after(
    words: Sequence[str], url: str, name: str, more: int, sent: signal.Signals
) -> Any:
    """Run a batch that gets a signal as soon as ``more`` of its problems have ended.

    Returns the exit code, what it printed to stderr, and the rows that were kept.
    """
    done = subprocess.run(
        [sys.executable, "-c", _STOPPED, str(more), str(int(sent)), "batch", *words],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=10 * START_S,
    )
    return done.returncode, done.stderr, rows_of(url, name)


def stopped(words: Sequence[str], url: str, name: str, after: int, sent: signal.Signals) -> Any:
    """Run a batch until ``after`` of its problems have ended, and send it a signal.

    Returns the exit code, what it printed to stderr, and the rows that were kept.
    """
    process = begun(words)
    limit = time.monotonic() + START_S + 5 * after
    with opened(url) as store:
        while len(ended(_rows(store, name))) < after:
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < limit, "the batch does not get on"
            time.sleep(after / 250)
    process.send_signal(sent)
    _, err = process.communicate(timeout=START_S)
    return process.returncode, err, rows_of(url, name)
