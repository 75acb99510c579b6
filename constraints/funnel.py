"""What each structural constraint removes, alone and in order, and what it misses most narrowly."""

from dataclasses import dataclass, field
from math import prod

import numpy as np

from constraints.base import Constraint
from constraints.space import Space, product_chunks
from costmodels.plans import FloatArray, PlanTable

_MOST_ROWS = 4_000_000
"""Skeletons counted one by one; larger spaces are sampled."""


@dataclass
class Removed:
    """One row of the funnel.

    ``nearest`` is the excluded plan with the smallest breach, with its margin.
    """

    constraint: Constraint
    alone: float = 0.0
    in_order: float = 0.0
    left: float = 0.0
    nearest: PlanTable | None = None
    margin: float = field(default=-np.inf)

    def see(self, margins: FloatArray, plans: PlanTable, weight: float) -> None:
        """Count the plans that break the rule alone, and remember the nearest miss."""
        broken = margins < 0
        self.alone += weight * float(np.count_nonzero(broken))
        if broken.any():
            missed = np.where(broken, margins, -np.inf)
            row = int(np.argmax(missed))
            if missed[row] > self.margin:
                self.margin = float(missed[row])
                self.nearest = plans.take(np.array([row]))


@dataclass(frozen=True)
class Funnel:
    """The rows of the funnel in order; ``sampled`` when counts are scaled from a sample."""

    candidates: int
    rows: tuple[Removed, ...]
    sampled: bool


def structural_funnel(space: Space) -> Funnel:
    """Count what structural constraints remove from all candidates."""
    chosen = {axis: space.domains[axis] for axis in space.skeleton_axes}
    free = prod(len(space.domains[a]) for a in space.free_axes)
    rows = [Removed(c) for c in space.structural]
    sampled = prod(len(v) for v in chosen.values()) > _MOST_ROWS
    for plans, weight in product_chunks(space.problem, chosen, _MOST_ROWS):
        case = space.case(plans)
        left = np.ones(len(plans), dtype=bool)
        for row in rows:
            margins = row.constraint.margin(case)
            row.see(margins, plans, weight * free)
            row.in_order += weight * free * float(np.count_nonzero(left & (margins < 0)))
            left &= margins >= 0
            row.left += weight * free * float(np.count_nonzero(left))
    return Funnel(space.candidates, tuple(rows), sampled)
