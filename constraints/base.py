"""What a constraint is: a name, the axes it reads, a signed margin, and a sentence for people."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodels.base import CostModel, MemoryEstimate
from costmodels.plans import BoolArray, FloatArray, PlanTable
from costmodels.sessions import WORKLOADS, Outcomes
from specs.problem import Problem


@dataclass(frozen=True)
class Case:
    """Plans under a problem and a cost model, with estimates made once when first asked for."""

    problem: Problem
    model: CostModel
    plans: PlanTable

    @cached_property
    def outcomes(self) -> Outcomes:
        """What becomes of the sessions under each plan."""
        kind = WORKLOADS[self.problem.workload.kind]
        return kind.outcomes(self.model, self.problem, self.plans)

    @cached_property
    def memory(self) -> MemoryEstimate:
        """Bytes on the fullest card with the sessions that a plan must hold."""
        held = WORKLOADS[self.problem.workload.kind].resident(self.problem, self.plans)
        return self.model.memory(self.problem, self.plans, held)

    @cached_property
    def fastest(self) -> FloatArray:
        """Margin of a session that has an instance to itself, in seconds."""
        kind = WORKLOADS[self.problem.workload.kind]
        return kind.fastest(self.model, self.problem, self.plans)

    def take(self, row: int) -> "Case":
        """Return the case of one plan, with the estimates that have been made."""
        rows = np.array([row])
        found = Case(self.problem, self.model, self.plans.take(rows))
        for name in ("outcomes", "memory"):
            if name in vars(self):
                vars(found)[name] = vars(self)[name].take(rows)
        if "fastest" in vars(self):
            vars(found)["fastest"] = self.fastest[rows]
        return found


class Constraint(ABC):
    """One rule that a plan must keep.

    A subclass states ``name``, ``title``, the axes it ``reads`` and the ``unit`` of its margin,
    and defines ``margin`` and ``reason``; the predicate is ``margin >= 0`` everywhere it is used:
    in the CP-SAT tables, the funnel, the why-not of a plan, and the cores of a conflict.
    """

    name: str
    title: str
    reads: tuple[str, ...]
    unit: str
    structural: bool = True
    """Whether it needs no cost model, so that CP-SAT can take it as a table over its axes."""
    definition: bool = False
    """Whether it says what a plan is, and so can never be given up to solve a conflict."""
    implied_by: str | None = None
    """A stronger constraint that a conflict names instead of this one."""

    def applies(self, problem: Problem) -> bool:
        """Whether the constraint can exclude any plan of this problem."""
        return True

    @abstractmethod
    def margin(self, case: Case) -> FloatArray:
        """Signed slack of each plan in ``unit``, shape ``(plans,)``; negative breaks the rule."""

    @abstractmethod
    def reason(self, case: Case) -> str:
        """Say why the first plan of ``case`` breaks the rule, with both numbers."""

    def allowed(self, case: Case) -> BoolArray:
        """Whether each plan keeps the rule."""
        return self.margin(case) >= 0


def first(column: "np.typing.NDArray[np.generic]") -> int:
    """Value of a column for the first plan, for use in a reason."""
    return int(column[0])
