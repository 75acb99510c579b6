"""Estimate every plan that the structural constraints allow, and order the feasible ones."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from constraints.space import Space
from costmodels.plans import IntArray, PlanTable
from searches.evaluate import Evaluated, evaluate, space_of
from searches.executors import Executor
from searches.objective import order
from specs.problem import Problem

Progress = Callable[[int, int], None]
"""Told after each chunk: plans estimated so far, plans in all."""


class ChunkSink(Protocol):
    """Where finished chunks are kept before they count as done, and found again."""

    def load(self, index: int) -> Evaluated | None:
        """Return the finished chunk ``index``, or ``None`` if it must be computed."""
        ...

    def store(self, index: int, found: Evaluated) -> None:
        """Keep a finished chunk; it is safe once this returns."""
        ...


class NoSink:
    """Keeps nothing: a search that ends early starts again."""

    def load(self, index: int) -> Evaluated | None:
        """Return nothing."""
        return None

    def store(self, index: int, found: Evaluated) -> None:
        """Forget the chunk."""


@dataclass(frozen=True)
class Found:
    """All plans estimated, and the rows of the feasible ones, best first."""

    space: Space
    evaluated: Evaluated
    ranked: IntArray


def tell_nobody(done: int, total: int) -> None:
    """Ignore progress."""


def search(
    problem: Problem,
    executor: Executor,
    progress: Progress = tell_nobody,
    sink: ChunkSink | None = None,
) -> Found:
    """Estimate the whole space; the best plan is the optimum under the cost model."""
    space = space_of(problem)
    plans = space.plans()
    chunks = [
        plans.take(slice(start, start + executor.chunk_rows))
        for start in range(0, len(plans), executor.chunk_rows)
    ]
    parts: list[Evaluated] = []
    done = 0
    for part in _through(problem, executor, chunks, sink or NoSink()):
        parts.append(part)
        done += len(part.plans)
        progress(done, len(plans))
    evaluated = Evaluated.concatenate(parts) if parts else evaluate(problem, plans)
    return Found(space, evaluated, order(evaluated))


def _through(
    problem: Problem, executor: Executor, chunks: list[PlanTable], sink: ChunkSink
) -> Iterator[Evaluated]:
    """Yield chunks in order, from the sink where it has them, else computed and kept."""
    known = {index: found for index in range(len(chunks)) if (found := sink.load(index))}
    missing = [index for index in range(len(chunks)) if index not in known]
    fresh = executor.run(problem, [chunks[index] for index in missing])
    for index in range(len(chunks)):
        if index in known:
            yield known[index]
        else:
            found = next(fresh)
            sink.store(index, found)
            yield found
