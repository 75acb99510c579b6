"""Where chunks of work run: in this process, in processes beside it, or on a Ray cluster.

An executor answers in the order of the chunks, whatever order they finish in, so results do not
depend on where they were computed.
"""

import logging
import os
from collections.abc import Iterator, Sequence
from typing import Protocol

from costmodels.plans import PlanTable
from searches.evaluate import Evaluated, evaluate
from specs.errors import SpecError, nearest
from specs.problem import Problem

_IN_FLIGHT = 2
"""Chunks handed out per worker before the first is waited for."""


class Executor(Protocol):
    """Runs ``searches.evaluate.evaluate`` over chunks of plans."""

    name: str
    chunk_rows: int
    """Rows that pay for handing a chunk over."""

    def run(self, problem: Problem, chunks: Sequence[PlanTable]) -> Iterator[Evaluated]:
        """Yield the result of each chunk, in the order of ``chunks``."""
        ...


class LocalExecutor:
    """The process that asks."""

    name = "local"
    chunk_rows = 2**14

    def run(self, problem: Problem, chunks: Sequence[PlanTable]) -> Iterator[Evaluated]:
        """Estimate one chunk after the other."""
        for chunk in chunks:
            yield evaluate(problem, chunk)


class ProcessExecutor:
    """Worker processes on this machine."""

    chunk_rows = 2**16

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.name = f"processes:{workers}"

    def run(self, problem: Problem, chunks: Sequence[PlanTable]) -> Iterator[Evaluated]:
        """Spread chunks over the processes."""
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context

        # A forked child would inherit the solver's threads in an undefined state.
        with ProcessPoolExecutor(self.workers, mp_context=get_context("spawn")) as pool:
            yield from pool.map(evaluate, [problem] * len(chunks), chunks)


class RayExecutor:
    """A Ray cluster: an address to attach to, or one started here for the run."""

    chunk_rows = 2**17

    def __init__(self, address: str | None) -> None:
        self.address = address
        self.name = f"ray:{address}" if address else "ray"

    def run(self, problem: Problem, chunks: Sequence[PlanTable]) -> Iterator[Evaluated]:
        """Spread chunks over the cluster; the problem travels once."""
        # Set before import: Ray reads these when it loads.
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        import ray

        started = not ray.is_initialized()
        if started:
            address = self.address or os.environ.get("RAY_ADDRESS")
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            yield from self._spread(problem, chunks)
        finally:
            if started:
                ray.shutdown()

    @staticmethod
    def _spread(problem: Problem, chunks: Sequence[PlanTable]) -> Iterator[Evaluated]:
        import ray

        shared = ray.put(problem)
        task = ray.remote(evaluate)
        # Ray types nothing here.
        resources: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        workers = max(int(resources.get("CPU", 1)), 1)
        waiting: list[ray.ObjectRef[Evaluated]] = []
        for chunk in chunks:
            waiting.append(task.remote(shared, chunk))
            if len(waiting) >= workers * _IN_FLIGHT:
                yield ray.get(waiting.pop(0))
        for left in waiting:
            yield ray.get(left)


def executor(name: str) -> Executor:
    """Return the executor called ``local``, ``processes[:N]`` or ``ray[:ADDRESS]``.

    Raises ``SpecError`` for any other word.
    """
    kind, _, detail = name.partition(":")
    if kind == "local" and not detail:
        return LocalExecutor()
    if kind == "processes":
        workers = detail or str(os.cpu_count() or 1)
        if not (workers.isascii() and workers.isdigit()) or int(workers) < 1:
            raise SpecError.single(
                "search.executor", name, "expected processes:N with N at least 1"
            )
        return ProcessExecutor(int(workers))
    if kind == "ray":
        return RayExecutor(detail or None)
    raise SpecError.single(
        "search.executor",
        name,
        "expected local, processes[:N] or ray[:ADDRESS]",
        nearest(kind, ("local", "processes", "ray")),
    )
