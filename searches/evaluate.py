"""Estimate one chunk of plans: the unit of work that executors spread."""

from dataclasses import dataclass

import numpy as np

from constraints.space import Space
from costmodels.base import model_of
from costmodels.plans import BoolArray, FloatArray, PlanTable
from costmodels.sessions import Outcomes
from specs.problem import Problem


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

    @classmethod
    def concatenate(cls, parts: list["Evaluated"]) -> "Evaluated":
        """Join chunks in order."""
        return cls(
            PlanTable.concatenate([p.plans for p in parts]),
            np.concatenate([p.margins for p in parts], axis=1),
            Outcomes.concatenate([p.outcomes for p in parts]),
        )


def space_of(problem: Problem) -> Space:
    """Return the space of a problem with the cost model that it names."""
    return Space(problem, model_of(problem))


def evaluate(problem: Problem, plans: PlanTable) -> Evaluated:
    """Estimate plans that keep the structural constraints."""
    space = space_of(problem)
    case = space.case(plans)
    margins = np.empty((len(space.estimated), len(plans)))
    for row, constraint in zip(margins, space.estimated, strict=True):
        row[:] = constraint.margin(case)
    return Evaluated(plans, margins, case.outcomes)
