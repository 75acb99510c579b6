"""What a deployment may take: cards, servers, power and money."""

from abc import abstractmethod

import numpy as np

from constraints.base import ROUNDING, Case, Constraint, first
from costmodels.collectives.fabric import instances_held, servers_used
from costmodels.plans import FloatArray
from specs.problem import Problem

_ALL_CARDS = (
    "tp",
    "cp",
    "attention_dp",
    "attention_replicas",
    "pp",
    "replicas",
    "prefill_replicas",
)


class Cards(Constraint):
    """The instances find room on the cards allowed, none astride two domains that could hold it."""

    name = "cards"
    title = "All instances find room on the cards allowed"
    reads = _ALL_CARDS
    unit = "cards"

    def margin(self, case: Case) -> FloatArray:
        plans, limit = case.plans, case.problem.card_limit
        spare = limit - plans.total_cards
        room = instances_held(case.problem.hardware, plans.cards, limit) - plans.instances
        return np.minimum(spare, room * plans.cards).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans, limit = case.plans, case.problem.card_limit
        need, replicas = first(plans.total_cards), first(plans.instances)
        each = f"{replicas} × {first(plans.cards)} cards"
        if need > limit:
            return f"needs {need} cards ({each}), {limit} allowed"
        room = first(instances_held(case.problem.hardware, plans.cards, limit))
        return f"{each} do not pack: the domains hold {room} such instances"


class Limit(Constraint):
    """What the deployment takes stays within the field of ``limits`` that the rule is named after.

    A subclass says what is needed, and both numbers in words.
    """

    reads = _ALL_CARDS

    def limit(self, problem: Problem) -> float | None:
        """Return the stated limit."""
        value: float | None = getattr(problem.limits, self.name)
        return value

    def applies(self, problem: Problem) -> bool:
        return self.limit(problem) is not None

    def margin(self, case: Case) -> FloatArray:
        limit = self.limit(case.problem)
        most = np.inf if limit is None else limit * (1 + ROUNDING)
        return np.asarray(most - self.need(case))

    def reason(self, case: Case) -> str:
        limit = self.limit(case.problem) or 0.0
        return f"{self.words(float(self.need(case)[0]))}, {self.shown(limit)} allowed"

    @abstractmethod
    def need(self, case: Case) -> FloatArray:
        """What each plan takes, in ``unit``."""

    @abstractmethod
    def words(self, need: float) -> str:
        """Say what one plan takes."""

    @abstractmethod
    def shown(self, amount: float) -> str:
        """Show an amount with its unit."""


class Servers(Limit):
    """The cards of the deployment fill no more servers than allowed."""

    name = "servers"
    title = "The deployment stays within limits.servers"
    unit = "servers"

    def need(self, case: Case) -> FloatArray:
        return servers_used(case.problem.hardware, case.plans).astype(np.float64)

    def words(self, need: float) -> str:
        return f"fills {need:.0f} servers"

    def shown(self, amount: float) -> str:
        return f"{amount:.0f}"


class Power(Limit):
    """The servers of the deployment draw no more power than allowed (6-11)."""

    name = "power"
    title = "The deployment stays within limits.power"
    unit = "watts"

    def need(self, case: Case) -> FloatArray:
        power = case.problem.hardware.server.power or 0.0
        servers = servers_used(case.problem.hardware, case.plans)
        return np.asarray(servers * power, dtype=np.float64)

    def words(self, need: float) -> str:
        return f"draws {self.shown(need)}"

    def shown(self, amount: float) -> str:
        return f"{amount / 1e3:.1f} kW"


class MoneyPerHour(Limit):
    """The cards of the deployment cost no more per hour than allowed."""

    name = "money_per_hour"
    title = "The deployment stays within limits.money_per_hour"
    unit = "money/h"

    def need(self, case: Case) -> FloatArray:
        price_per_hour = (case.problem.hardware.card.price or 0.0) * 3600
        return np.asarray(case.plans.total_cards * price_per_hour, dtype=np.float64)

    def words(self, need: float) -> str:
        return f"costs {self.shown(need)} an hour"

    def shown(self, amount: float) -> str:
        return f"{amount:.2f}"


LIMITS: tuple[Constraint, ...] = (Cards(), Servers(), Power(), MoneyPerHour())
