"""A progress bar on stderr for work that takes long enough to be worth one."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from searches.exhaustive import Progress

_AFTER_S = 1.0
"""Shorter work shows no bar."""


@contextmanager
def progress_bar(what: str = "plans") -> Iterator[Progress]:
    """Yield a function that takes how many of ``what`` are done, and how many there are."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import (
        Progress as Bar,
    )

    started = time.monotonic()
    bar = Bar(
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(what, total=None)

    def tell(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - started > _AFTER_S:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        bar.stop()
