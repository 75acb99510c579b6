"""Where work runs: in this process, in processes beside it, or on a Ray cluster."""

import os

from searches.executors.base import Executor, WorkerLost
from searches.executors.cluster import RayExecutor
from searches.executors.local import LocalExecutor
from searches.executors.processes import ProcessExecutor
from specs.errors import SpecError, nearest

__all__ = [
    "Executor",
    "LocalExecutor",
    "ProcessExecutor",
    "RayExecutor",
    "WorkerLost",
    "executor",
]


MOST_PROCESSES = 1024
"""More on one machine is a slip of the keyboard."""


def executor(name: str) -> Executor:
    """Return the executor called ``local``, ``processes[:N]`` or ``ray[:ADDRESS]``.

    Raises ``SpecError`` for any other word. Nothing is started or reached yet.
    """
    kind, _, detail = name.partition(":")
    if kind == "local" and not detail:
        return LocalExecutor()
    if kind == "processes":
        workers = detail or str(os.cpu_count() or 1)
        whole = workers.isascii() and workers.isdigit()
        if not whole or not 1 <= int(workers) <= MOST_PROCESSES:
            message = f"expected processes:N with N at least 1, at most {MOST_PROCESSES}"
            raise SpecError.single("search.executor", name, message)
        return ProcessExecutor(int(workers))
    if kind == "ray":
        return RayExecutor(detail or None)
    raise SpecError.single(
        "search.executor",
        name,
        "expected local, processes[:N] or ray[:ADDRESS]",
        nearest(kind, ("local", "processes", "ray")),
    )
