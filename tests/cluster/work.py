"""Work that leaves traces: what was begun and ended, where; and work that goes wrong."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from searches.executors import Executor


def note(folder: Path, line: str) -> None:
    """Append a line in one write, so that lines of several processes do not mix."""
    end = os.open(folder / "trace", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(end, f"{line}\n".encode())
    os.close(end)


def trace(folder: Path) -> list[list[str]]:
    """Return what was noted, as words."""
    file = folder / "trace"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def begun(folder: Path) -> list[str]:
    """Return the items that were begun, in order; one that was begun twice stands twice."""
    return [words[1] for words in trace(folder) if words[0] == "begin"]


def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


class Traced(NamedTuple):
    """What a traced call needs: the call itself, where to note, and seconds that it takes more."""

    function: Callable[[Any, Any], Any]
    shared: Any
    folder: Path
    pause: float


def traced(shared: Traced, item: Any) -> Any:
    """Call, and note when the call begins and ends."""
    note(shared.folder, f"begin {_name(item)} {os.getpid()}")
    time.sleep(shared.pause)
    answer = shared.function(shared.shared, item)
    note(shared.folder, f"end {_name(item)} {os.getpid()}")
    return answer


def _name(item: Any) -> str:
    return str(item).replace(" ", "")


class Tracing:
    """An executor whose calls are traced."""

    def __init__(self, inner: Executor, folder: Path, pause: float) -> None:
        self.inner, self.folder, self.pause = inner, folder, pause
        self.name, self.workers = inner.name, inner.workers

    def run(
        self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]
    ) -> Iterator[tuple[int, Any]]:
        shared = Traced(function, shared, self.folder, self.pause)
        for position, answer in self.inner.run(traced, shared, items):
            yield position, answer
            # Who asks for the next one has kept this one.
            note(self.folder, f"kept {_name(items[position])}")


def add(shared: int, item: int) -> int:
    return shared + item


def fail_at_three(shared: None, item: int) -> int:
    if item == 3:
        raise ValueError("three is wrong")
    return item


def die(shared: Any, item: Any) -> None:
    """Kill the own process, as the system does when memory runs out."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_three(folder: Path, item: int) -> int:
    note(folder, f"begin {item} {os.getpid()}")
    if item == 3:
        die(folder, item)
    return item


def die_once_at_three(folder: Path, item: int) -> int:
    note(folder, f"begin {item} {os.getpid()}")
    if item == 3 and begun(folder).count("3") == 1:
        die(folder, item)
    return item


def nap(folder: Path, seconds: float) -> float:
    """Sleep, and note who does."""
    note(folder, f"begin {seconds} {os.getpid()}")
    time.sleep(seconds)
    return seconds


def slow_digest(space: Any, span: tuple[int, int]) -> None:
    """Take the place of ``digest_span``, and never end."""
    nap(Path(os.environ["PLANNER_TEST_TRACE"]), 300.0)


def large(shared: bytes, item: int) -> bytes:
    """Return as much as was given: more than a pipe holds."""
    return shared[item:]


def alive(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def process_of(shared: None, item: int) -> tuple[int, str | None]:
    return os.getpid(), os.environ.get("OMP_NUM_THREADS")
