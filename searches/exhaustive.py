"""Estimate every plan that the structural constraints allow, and order the feasible ones.

The plans are never held together: spans of row numbers go to an executor, and what each is worth
keeping of comes back as a digest, which a sink may make durable before it counts as done.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from constraints.space import Space
from costmodels.plans import IntArray
from searches.digest import Digest
from searches.evaluate import Evaluated, space_of
from searches.executors import Executor
from searches.objective import order
from specs.errors import SpecError
from specs.problem import Problem

CHUNK_ROWS = 2**17
"""Plans of one unit of work. The same for every executor, so that each can go on with the work of
another, and on any of them the same plans are estimated together."""

MOST_SEARCHED = 100_000_000
"""Plans that one search estimates."""

_MERGED_TOGETHER = 8
"""Digests that wait before they are merged: sorting a few at once costs hardly more than one."""

Progress = Callable[[int, int], None]
"""Told before the first chunk and after each: plans estimated so far, plans in all."""

Span = tuple[int, int]
"""First row number, and the one after the last."""


class ChunkSink(Protocol):
    """Where finished chunks are kept before they count as done, and found again."""

    def known(self) -> Collection[int]:
        """Return the indices of the chunks that are kept."""
        ...

    def load(self, index: int) -> Digest:
        """Return a kept chunk."""
        ...

    def store(self, index: int, digest: Digest) -> None:
        """Keep a finished chunk; it is safe once this returns."""
        ...


class NoSink:
    """Keeps nothing: a search that ends early starts again."""

    def known(self) -> Collection[int]:
        return ()

    def load(self, index: int) -> Digest:
        raise KeyError(index)

    def store(self, index: int, digest: Digest) -> None:
        """Forget the chunk."""


@dataclass(frozen=True)
class Found:
    """What a search has found: the digest of all plans, and its best ones in order."""

    space: Space
    digest: Digest

    @property
    def evaluated(self) -> Evaluated:
        """The plans that were kept, in the order of the space."""
        return self.digest.kept

    @cached_property
    def ranked(self) -> IntArray:
        """Rows of the best feasible plans among those kept, best first: all, or ``search.keep``."""
        return order(self.digest.kept)[: self.space.problem.search.keep]


def tell_nobody(done: int, total: int) -> None:
    """Ignore progress."""


def search(
    problem: Problem,
    executor: Executor,
    progress: Progress = tell_nobody,
    sink: ChunkSink | None = None,
) -> Found:
    """Estimate the whole space of a problem; see :func:`explore`."""
    return explore(space_of(problem), executor, progress, sink)


def explore(
    space: Space,
    executor: Executor,
    progress: Progress = tell_nobody,
    sink: ChunkSink | None = None,
) -> Found:
    """Estimate a whole space; the best plan is the optimum under the cost model.

    Raises ``SpecError`` if the space holds more plans than a search estimates.
    """
    total = len(space.grid)
    if total > MOST_SEARCHED:
        limit = f"the space holds {total:,} plans, more than the {MOST_SEARCHED:,} of one search"
        raise SpecError.single("space", None, limit, "Name fewer values for some axes")
    spans = [
        (start, min(start + CHUNK_ROWS, total)) for start in range(0, max(total, 1), CHUNK_ROWS)
    ]
    done, parts = 0, []
    progress(done, total)
    for part in _finished(space, executor, spans, sink or NoSink()):
        parts.append(part)
        done += part.counts.estimated
        if len(parts) >= _MERGED_TOGETHER:
            parts = [Digest.merge(space, parts)]
        progress(done, total)
    return Found(space, Digest.merge(space, parts))


def _finished(
    space: Space, executor: Executor, spans: list[Span], sink: ChunkSink
) -> Iterator[Digest]:
    """Yield the digest of every chunk: those that the sink has, then the others as they end."""
    known = set(sink.known())
    for index in known:
        yield sink.load(index)
    missing = [index for index in range(len(spans)) if index not in known]
    work = executor.run(digest_span, space, [spans[index] for index in missing])
    for position, digest in work:
        # The only chunk is the whole, and whoever asked keeps that.
        if len(spans) > 1:
            sink.store(missing[position], digest)
        yield digest


def digest_span(space: Space, span: Span) -> Digest:
    """Estimate the plans of a span of row numbers."""
    return Digest.of(space, np.arange(*span))
