"""The contract of executors, and the tasks of one run with what becomes of lost ones.

An executor spreads calls ``function(shared, item)``. Results come in the order in which they
finish; the position of its item says which one each is. What is computed does not depend on where.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

S = TypeVar("S")
T = TypeVar("T")
R = TypeVar("R")

IN_FLIGHT = 2
"""Tasks handed out per worker: one that runs, and one that waits so that no worker idles."""

MOST_LOSSES = 3
"""A task whose worker is lost this often ends the run: it is likely to be the cause."""


class Executor(Protocol):
    """Where work runs."""

    name: str

    @property
    def workers(self) -> int:
        """Tasks that run at once; of a cluster, known once a run has begun."""
        ...

    def run(
        self, function: Callable[[S, T], R], shared: S, items: Sequence[T]
    ) -> Iterator[tuple[int, R]]:
        """Yield the position of each item and ``function(shared, item)``, in any order.

        Parameters
        ----------
        function: defined at the top of a module, so that other processes find it by name.
        shared: what all calls need; it travels once per worker or cluster.
        items: one a task. A few per worker are handed out ahead, and none while the consumer
            still holds the last result.

        Closing the iterator stops what is in flight and leaves nothing running. An exception of
        ``function`` is raised as it is. Raises ``WorkerLost`` where workers die again and again
        over one task, and ``SpecError`` where there is nowhere to run.
        """
        ...


class WorkerLost(RuntimeError):
    """Workers died over one task again and again; results yielded before are not affected.

    ``position`` is that of the item.
    """

    def __init__(self, position: int, why: str) -> None:
        self.position = position
        self.why = why
        super().__init__(
            f"task {position} was given up: its worker was lost {MOST_LOSSES} times, at last "
            f"because {why}. Finished work is kept."
        )

    def __reduce__(self) -> tuple[type["WorkerLost"], tuple[int, str]]:
        return WorkerLost, (self.position, self.why)


class Tasks:
    """Positions of the items that are still to be handed out, lost ones first."""

    def __init__(self, count: int) -> None:
        self._waiting = deque(range(count))
        self._losses: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self) -> int:
        """Return the position to hand out next."""
        return self._waiting.popleft()

    def give_back(self, positions: Sequence[int]) -> None:
        """Take back tasks that no worker has begun."""
        self._waiting.extendleft(reversed(positions))

    def lost(self, position: int, why: str) -> None:
        """Take back a task whose worker is gone. Raises ``WorkerLost`` at the last loss."""
        self._losses[position] = self._losses.get(position, 0) + 1
        if self._losses[position] == MOST_LOSSES:
            raise WorkerLost(position, why)
        self._waiting.appendleft(position)
