"""What is kept of plans that were estimated: enough for every answer, however many plans there are.

A digest selects rows and counts plans; it adds no measured quantity up. So digests of parts make
the digest of the whole, in whatever order the parts come and wherever they were computed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from constraints.space import Space
from costmodels.plans import IntArray
from searches.evaluate import Evaluated, basis_of, evaluate
from searches.objective import front, order

NEAR_MISSES = 50
"""Plans kept of those that break the same constraints, nearest to feasible first."""

KINDS = ("domain", "engram_tier", "kv_tier")
"""Axes of which the best plan of each combination of values is kept: how large a supernode pays."""


@dataclass(frozen=True)
class Counts:
    """How many plans met what.

    ``estimated``     plans that keep the structural constraints
    ``ranked``        plans that keep all constraints and have a cost
    ``excluded``      plans that break an estimated constraint
    ``guessed_late``  plans that only time limits rule out, by estimates outside the range of data
    ``alone``         plans that break each estimated constraint, shape ``(constraints,)``
    ``in_order``      the same without those that an earlier one removed
    """

    estimated: int
    ranked: int
    excluded: int
    guessed_late: int
    alone: IntArray
    in_order: IntArray

    @classmethod
    def of(cls, space: Space, found: Evaluated) -> "Counts":
        """Count some estimated plans."""
        broken = found.margins < 0
        before = np.logical_or.accumulate(broken, axis=0)
        fresh = broken.copy()
        fresh[1:] &= ~before[:-1]
        return cls(
            estimated=len(found.plans),
            ranked=int(np.count_nonzero(found.feasible & np.isfinite(found.outcomes.cost))),
            excluded=int(np.count_nonzero(broken.any(axis=0))),
            guessed_late=_guessed_late(space, found),
            alone=np.count_nonzero(broken, axis=1),
            in_order=np.count_nonzero(fresh, axis=1),
        )

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            **{f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self)}
        )


def _guessed_late(space: Space, found: Evaluated) -> int:
    """Count the plans that only an estimate outside the range of the data rules out."""
    timed = np.array([c.unit == "seconds" for c in space.estimated], dtype=bool)
    kept = found.margins >= 0
    late = np.flatnonzero(kept[~timed].all(axis=0) & ~kept.all(axis=0))
    return int(np.count_nonzero(~basis_of(space, found, late).inside)) if late.size else 0


@dataclass(frozen=True)
class Digest:
    """What is kept of some plans.

    ``rows``  row numbers of the kept plans in the grid of the space, ascending, shape ``(kept,)``
    ``kept``  those plans, estimated
    """

    rows: IntArray
    kept: Evaluated
    counts: Counts

    @classmethod
    def of(cls, space: Space, rows: IntArray) -> "Digest":
        """Estimate the plans of some row numbers, and keep what is worth keeping."""
        found = evaluate(space, space.take(rows))
        return cls(rows, found, Counts.of(space, found))._reduced(space)

    @classmethod
    def merge(cls, space: Space, parts: Sequence["Digest"]) -> "Digest":
        """Return the digest of all plans of some digests, none of which share a plan."""
        rows = np.concatenate([part.rows for part in parts])
        kept = Evaluated.concatenate([part.kept for part in parts])
        counts = parts[0].counts
        for part in parts[1:]:
            counts = counts + part.counts
        by_row = np.argsort(rows)
        return cls(rows[by_row], kept.take(by_row), counts)._reduced(space)

    def _reduced(self, space: Space) -> "Digest":
        most = space.problem.search.keep
        if len(space.grid) <= most:
            return self
        chosen = np.unique(np.concatenate([*_worth_keeping(self.kept, most)]))
        return Digest(self.rows[chosen], self.kept.take(chosen), self.counts)


def _worth_keeping(found: Evaluated, most: int) -> Iterable[IntArray]:
    """Yield the best plans, the Pareto front, the best of each kind, and the near misses."""
    best = order(found)
    yield best[:most]
    yield front(found, best)
    kinds = np.stack([found.plans.column(axis)[best] for axis in KINDS])
    yield best[np.unique(kinds, axis=1, return_index=True)[1]]
    broken = found.margins < 0
    for misses, margins in zip(broken, found.margins, strict=True):
        missed = np.flatnonzero(misses)
        # The first of equals, so that it does not matter in how many parts they come.
        yield missed[np.argmax(margins[missed], keepdims=True)] if missed.size else missed
    yield nearest(found)


def nearest(found: Evaluated) -> IntArray:
    """Rows of excluded plans, the nearest to feasible of each set of broken constraints.

    Ordered by how many constraints they break, then the nearest of each set, the second nearest
    of each, and so on: margins in different units are never compared.
    """
    broken = found.margins < 0
    rows = np.flatnonzero(broken.any(axis=0))
    sets, which = np.unique(broken[:, rows], axis=1, return_inverse=True)
    chosen, place, size = [], [], []
    for number, members in enumerate(sets.T):
        of_set = rows[which == number]
        breach = -found.margins[np.argmax(members), of_set]
        first = of_set[np.argsort(breach, kind="stable")][:NEAR_MISSES]
        chosen.append(first)
        place.append(np.arange(first.size))
        size.append(np.full(first.size, np.count_nonzero(members)))
    if not chosen:
        return rows
    return np.concatenate(chosen)[np.lexsort([np.concatenate(place), np.concatenate(size)])]
