"""What becomes of the sessions under each plan, and what that costs.

All arrays have shape ``(plans,)``; quantities are SI.
"""

from dataclasses import dataclass, fields

import numpy as np

from costmodels.collectives.domains import servers_used
from costmodels.facility import power
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from specs.problem import Problem

BOUNDS = (
    "none",
    "memory",
    "tpot",
    "ttft",
    "deadline",
    "concurrency",
    "sessions",
    "batch",
    "cost",
    "prefill",
)
"""What keeps the batch from growing; a column holds positions in this tuple."""


@dataclass(frozen=True)
class Outcomes:
    """Columns of results, one row per plan.

    ``cost``            cost per on-time session in the currency of the objective; inf if none
    ``on_time``         sessions on time (``burst``) or their share (``steady``)
    ``slack_s``         time by which the last session that must be on time makes its limit
    ``span_s``          time until the last session ends (``burst``), or of one session (``steady``)
    ``gpu_seconds``     billed card time of the burst, or per session (``steady``)
    ``batch``           sessions that an instance decodes together
    ``bound``           position in :data:`BOUNDS`
    ``tpot_s``, ``ttft_s``  longest of any session
    """

    cost: FloatArray
    on_time: FloatArray
    slack_s: FloatArray
    span_s: FloatArray
    gpu_seconds: FloatArray
    energy_j: FloatArray
    money: FloatArray
    sessions_per_s: FloatArray
    tokens_per_s: FloatArray
    batch: IntArray
    bound: IntArray
    tpot_s: FloatArray
    ttft_s: FloatArray

    def take(self, rows: IntArray | BoolArray) -> "Outcomes":
        """Return the chosen rows in their order."""
        return Outcomes(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def concatenate(cls, parts: list["Outcomes"]) -> "Outcomes":
        """Stack results below each other."""
        return cls(
            **{f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(cls)}
        )


def billed_cards(problem: Problem, plans: PlanTable) -> IntArray:
    """Cards that are paid for: those of the deployment, or all that ``limits`` allows."""
    if problem.assumptions.billing == "allocated":
        return np.full_like(plans.tp, problem.card_limit)
    return plans.total_cards


def powered_servers(problem: Problem, plans: PlanTable) -> IntArray:
    """Servers that hold a powered card: those of the deployment, or all allocated ones."""
    if problem.assumptions.billing == "allocated":
        return np.full_like(plans.tp, -(-problem.card_limit // problem.hardware.server.cards))
    return servers_used(problem.hardware, plans)


@dataclass(frozen=True)
class Bill:
    """What occupying the deployment for some seconds takes, in each currency."""

    gpu_seconds: FloatArray
    energy_j: FloatArray
    money: FloatArray

    def per_session(self, problem: Problem, on_time: FloatArray) -> FloatArray:
        """Cost per on-time session (6-13); infinite where no session is on time."""
        total = {
            "gpu_seconds": self.gpu_seconds,
            "joules": self.energy_j,
            "money": self.money,
        }[problem.objective.currency]
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(on_time > 0, total / on_time, np.inf)


def bill(problem: Problem, plans: PlanTable, seconds: FloatArray) -> Bill:
    """Bill the deployment for ``seconds``; NaN where the machine states no power or price."""
    cards = billed_cards(problem, plans)
    servers = powered_servers(problem, plans)
    price = problem.hardware.card.price
    return Bill(
        gpu_seconds=cards * seconds,
        energy_j=power(problem.hardware, servers) * seconds,
        money=cards * (np.nan if price is None else price) * seconds,
    )


def margin_of_share(margins: FloatArray, weights: FloatArray, needed: float) -> FloatArray:
    """Margin that the best sessions worth ``needed`` in weight all have.

    ``margins`` has shape ``(sessions, plans)`` and ``weights`` ``(sessions,)``.
    """
    order = np.argsort(-margins, axis=0, kind="stable")
    reached = np.cumsum(weights[order], axis=0) >= needed
    position = np.argmax(reached, axis=0)
    best_first = np.take_along_axis(margins, order, axis=0)
    chosen: FloatArray = np.take_along_axis(best_first, position[None], axis=0)[0]
    return chosen
