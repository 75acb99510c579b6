"""From step times to sessions: who is on time, and what an on-time session costs."""

from collections.abc import Callable
from dataclasses import dataclass

from costmodels.base import CostModel
from costmodels.plans import FloatArray, PlanTable
from costmodels.sessions import burst, steady
from costmodels.sessions.outcome import BOUNDS, Outcomes
from specs.problem import Problem


@dataclass(frozen=True)
class WorkloadKind:
    """What a kind of workload answers about plans.

    ``outcomes``  what becomes of its sessions
    ``resident``  sessions of each class that the busiest attention rank must hold for the plan
                  to work at all, shape ``(plans, classes)``
    ``fastest``   margin to the limits of a session that has an instance to itself
    """

    outcomes: Callable[[CostModel, Problem, PlanTable], Outcomes]
    resident: Callable[[Problem, PlanTable], FloatArray]
    fastest: Callable[[CostModel, Problem, PlanTable], FloatArray]


WORKLOADS: dict[str, WorkloadKind] = {
    "burst": WorkloadKind(burst.outcomes, burst.held_sessions, burst.fastest_slack),
    "steady": WorkloadKind(steady.outcomes, steady.least_held, steady.fastest_slack),
}
"""Every kind of workload by the word that a spec uses."""

__all__ = ["BOUNDS", "WORKLOADS", "Outcomes", "WorkloadKind"]
