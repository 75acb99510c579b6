"""From step times to sessions: who is on time, and what an on-time session costs."""

from collections.abc import Callable
from dataclasses import dataclass

from costmodels.base import CostModel
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions import burst, steady
from costmodels.sessions.mix import Mix
from costmodels.sessions.outcome import BOUNDS, Outcomes
from specs.problem import Problem


@dataclass(frozen=True)
class WorkloadKind:
    """What a kind of workload answers about plans.

    ``outcomes``  what becomes of its sessions
    ``at_batch``  the same when instances decode batches of a given size, where it is chosen
    ``resident``  sessions of each class that the busiest attention rank must hold for the plan
                  to work at all, shape ``(plans, classes)``
    ``holding``   the same when instances decode batches of a given size
    ``context``   tokens that a session holds, on average, when a representative step is taken
    ``fastest``   margin to the limits of a session that has an instance to itself
    """

    outcomes: Callable[[CostModel, Problem, PlanTable], Outcomes]
    at_batch: Callable[[CostModel, Problem, PlanTable, IntArray], Outcomes]
    resident: Callable[[Problem, PlanTable], FloatArray]
    holding: Callable[[Problem, PlanTable, IntArray], FloatArray]
    context: Callable[[Problem], float]
    fastest: Callable[[CostModel, Problem, PlanTable], FloatArray]


WORKLOADS: dict[str, WorkloadKind] = {
    "burst": WorkloadKind(
        outcomes=burst.outcomes,
        at_batch=lambda model, problem, plans, batch: burst.outcomes(model, problem, plans),
        resident=burst.held_sessions,
        holding=lambda problem, plans, batch: burst.held_sessions(problem, plans),
        context=burst.first_context,
        fastest=burst.fastest_slack,
    ),
    "steady": WorkloadKind(
        outcomes=steady.outcomes,
        at_batch=steady.at_batch,
        resident=steady.least_held,
        holding=steady.held,
        context=lambda problem: Mix(problem).context,
        fastest=steady.fastest_slack,
    ),
}
"""Every kind of workload by the word that a spec uses."""

__all__ = ["BOUNDS", "WORKLOADS", "Outcomes", "WorkloadKind"]
