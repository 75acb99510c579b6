"""How far long work is, on stderr: a bar in a terminal, a line now and then in a log."""

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from searches.exhaustive import Progress

_BAR_AFTER_S = 1.0
"""Shorter work shows no bar."""

_LINE_EVERY_S = 10.0
"""Between lines where stderr is no terminal; shorter work says nothing."""

_WINDOW_S = 60.0
"""Time over which the rate is taken."""


@contextmanager
def progress_bar(what: str = "plans") -> Iterator[Progress]:
    """Yield a function that takes how many of ``what`` are done, and how many there are."""
    if sys.stderr.isatty():
        with _bar(what) as tell:
            yield tell
    else:
        yield _lines(what)


class Pace:
    """How fast work goes: by the last minute, since what was kept from before comes at once."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def rate(self, now: float, done: int) -> float:
        """Return how many were done a second of late; 0 as long as that is unknown."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[0][0] > _WINDOW_S:
            self._seen.popleft()
        began, before = self._seen[0]
        return (done - before) / (now - began) if now > began else 0.0

    def line(self, now: float, done: int, total: int, what: str) -> str:
        """Return how far the work is, how fast it goes, and how long it will still take."""
        rate = self.rate(now, done)
        if not rate:
            return f"{done:,} of {total:,} {what}"
        left = duration((total - done) / rate)
        return f"{done:,} of {total:,} {what}, {_rounded(rate)} a second, {left} left"


def _rounded(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def duration(seconds: float) -> str:
    """Return a time as people say it: ``42 s``, ``3 min 5 s``, ``2 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _Telling:
    """Progress, with the best cost so far where a search says it."""

    def __init__(self, show: Callable[[int, int, str], None]) -> None:
        self._show, self._note = show, ""

    def __call__(self, done: int, total: int) -> None:
        self._show(done, total, self._note)

    def best(self, cost: float) -> None:
        """Take note of the best cost so far."""
        self._note = f"; best so far {cost:.6g}"


def _lines(what: str) -> Progress:
    """Return a function that prints a line when the last one is long ago."""
    pace = Pace()
    told = time.monotonic()

    def tell(done: int, total: int, note: str) -> None:
        nonlocal told
        now = time.monotonic()
        line = pace.line(now, done, total, what) + note
        if now - told >= _LINE_EVERY_S and done < total:
            told = now
            print(line, file=sys.stderr, flush=True)

    return _Telling(tell)


@contextmanager
def _bar(what: str) -> Iterator[Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    pace = Pace()
    started = time.monotonic()
    bar = Bar(
        BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True
    )
    task = bar.add_task(what, total=None)

    def tell(done: int, total: int, note: str) -> None:
        now = time.monotonic()
        line = pace.line(now, done, total, what) + note
        if not bar.live.is_started and now - started > _BAR_AFTER_S:
            bar.start()
        bar.update(task, completed=done, total=total, description=line)

    try:
        yield _Telling(tell)
    finally:
        bar.stop()
