"""Estimate plans: their margins to the estimated constraints, and what becomes of the sessions."""

from dataclasses import dataclass

import numpy as np

from constraints.space import Space
from costmodels.base import Basis, model_of
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from costmodels.sessions import WORKLOADS, Outcomes
from specs.problem import Problem

BLOCK_ROWS = 2**14
"""Plans that are estimated together: columns of this length stay in the cache."""


@dataclass(frozen=True)
class Evaluated:
    """Plans with the margins of the estimated constraints and what becomes of the sessions.

    ``margins`` has shape ``(constraints, plans)``, in the order of ``Space.estimated``.
    """

    plans: PlanTable
    margins: FloatArray
    outcomes: Outcomes

    @property
    def feasible(self) -> BoolArray:
        """Whether each plan keeps every estimated constraint."""
        return np.all(self.margins >= 0, axis=0)

    def take(self, rows: IntArray | BoolArray) -> "Evaluated":
        """Return the chosen rows, in their order."""
        return Evaluated(self.plans.take(rows), self.margins[:, rows], self.outcomes.take(rows))

    @classmethod
    def concatenate(cls, parts: list["Evaluated"]) -> "Evaluated":
        """Join parts in order."""
        return cls(
            PlanTable.concatenate([p.plans for p in parts]),
            np.concatenate([p.margins for p in parts], axis=1),
            Outcomes.concatenate([p.outcomes for p in parts]),
        )


def space_of(problem: Problem) -> Space:
    """Return the space of a problem with the cost model that it names."""
    return Space(problem, model_of(problem))


def evaluate(space: Space, plans: PlanTable) -> Evaluated:
    """Estimate plans that keep the structural constraints."""
    starts = range(0, max(len(plans), 1), BLOCK_ROWS)
    return Evaluated.concatenate(
        [_block(space, plans.take(slice(start, start + BLOCK_ROWS))) for start in starts]
    )


def _block(space: Space, plans: PlanTable) -> Evaluated:
    case = space.case(plans)
    margins = np.empty((len(space.estimated), len(plans)))
    for row, constraint in zip(margins, space.estimated, strict=True):
        row[:] = constraint.margin(case)
    return Evaluated(plans, margins, case.outcomes)


def basis_of(space: Space, found: Evaluated, rows: IntArray) -> Basis:
    """Return what the steps of some estimated plans rest on."""
    outcomes = found.outcomes.take(rows)
    context = WORKLOADS[space.problem.workload.kind].context(space.problem)
    return space.model.basis(
        space.problem,
        found.plans.take(rows),
        np.maximum(outcomes.batch, 1),
        np.full(rows.size, context),
    )
