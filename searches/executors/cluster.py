"""Work on a Ray cluster: one to attach to, or one started on this machine for the run."""

import os
import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from platform import node as host_name
from typing import Any

from searches.executors.base import IN_FLIGHT, R, S, T, Tasks
from searches.executors.connection import (
    Identity,
    connected,
    identity,
    require_address,
    require_same,
    require_same_code,
)

_CANCEL_S = 10.0
"""How long cancelled tasks may take to end."""

_AGAIN_S = 0.5
"""How long a task may take to end before it is cancelled again."""

_COUNT_S = 5.0
"""How often processors are counted: nodes come and go."""


class RayExecutor:
    """A Ray cluster: an address to attach to, ``None`` for ``$RAY_ADDRESS`` or one started here."""

    def __init__(self, address: str | None) -> None:
        """Raise ``SpecError`` for an address that cannot be one; nothing is reached yet."""
        self.address = address
        self.name = f"ray:{address}" if address else "ray"
        self.workers = os.cpu_count() or 1
        if address:
            require_address(address, self.name)

    def run(
        self, function: Callable[[S, T], R], shared: S, items: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Spread the items; ``function`` and ``shared`` go into the object store once."""
        with connected(self.address, self.name) as ray:
            require_same_code(ray, self.name)
            yield from self._spread(ray, pickle.dumps((function, shared)), items)

    def _spread(self, ray: Any, work: bytes, items: Sequence[Any]) -> Iterator[tuple[int, Any]]:
        # This process owns what it puts there, so that it lives as long as the run.
        stored = ray.put(work)
        # Ray would run a lost task again by itself, but tells neither which nor how often.
        task = ray.remote(num_cpus=1, max_retries=0)(_answer)
        tasks = Tasks(len(items))
        pending: dict[Any, int] = {}
        counted = -_COUNT_S
        try:
            while tasks or pending:
                if time.monotonic() - counted >= _COUNT_S:
                    self.workers = max(int(ray.cluster_resources().get("CPU", 1)), 1)
                    counted = time.monotonic()
                while tasks and len(pending) < self.workers * IN_FLIGHT:
                    position = tasks.take()
                    pending[task.remote(identity(), [stored], items[position])] = position
                (ready,), _ = ray.wait(list(pending), num_returns=1)
                position = pending.pop(ready)
                try:
                    answer = ray.get(ready)
                except _losses(ray) as error:
                    tasks.lost(position, _reason(error))
                    continue
                except ray.exceptions.RayTaskError as error:
                    raise error.cause from error
                del ready
                yield position, pickle.loads(answer)
        finally:
            _cancel(ray, list(pending))


def _cancel(ray: Any, pending: list[Any]) -> None:
    """Stop tasks, waiting ones and running ones."""
    end = time.monotonic() + _CANCEL_S
    while pending and time.monotonic() < end:
        for left in pending:
            ray.cancel(left, force=True)
        # A task that begins just now misses the first word.
        _, pending = ray.wait(pending, num_returns=len(pending), timeout=_AGAIN_S)


_told: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {}
"""The work of the run that this worker has last done something for."""


def _answer(asker: Identity, stored: list[Any], item: Any) -> bytes:
    """Do one task in a worker; what it returns holds no memory of the object store."""
    # The node may have joined after the others were asked.
    require_same(identity(), asker, host_name())
    (reference,) = stored
    run = reference.hex()
    if run not in _told:
        import ray

        _told.clear()
        _told[run] = pickle.loads(ray.get(reference))
    function, shared = _told[run]
    return pickle.dumps(function(shared, item))


def _losses(ray: Any) -> tuple[type[Exception], ...]:
    """What Ray raises when a worker, its node, or what it had answered is gone."""
    e = ray.exceptions
    return e.WorkerCrashedError, e.NodeDiedError, e.OutOfMemoryError, e.ObjectLostError


def _reason(error: Exception) -> str:
    first = str(error).strip().splitlines()[0]
    return f"{type(error).__name__}: {first}"
