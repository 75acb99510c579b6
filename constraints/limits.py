"""What a deployment may take: cards, servers, power and money."""

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels.collectives.fabric import instances_held, servers_used
from costmodels.plans import FloatArray, IntArray
from specs.problem import Problem

_ALL_CARDS = ("tp", "cp", "attention_dp", "attention_replicas", "pp", "replicas")


def _servers(case: Case) -> IntArray:
    return servers_used(case.problem.hardware, case.plans)


class Cards(Constraint):
    """The instances find room on the cards allowed, none astride two domains that could hold it."""

    name = "cards"
    title = "All instances find room on the cards allowed"
    reads = _ALL_CARDS
    unit = "cards"

    def margin(self, case: Case) -> FloatArray:
        plans, limit = case.plans, case.problem.card_limit
        spare = limit - plans.total_cards
        room = instances_held(case.problem.hardware, plans.cards, limit) - plans.replicas
        return np.minimum(spare, room * plans.cards).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans, limit = case.plans, case.problem.card_limit
        need, replicas = first(plans.total_cards), first(plans.replicas)
        each = f"{replicas} × {first(plans.cards)} cards"
        if need > limit:
            return f"needs {need} cards ({each}), {limit} allowed"
        room = first(instances_held(case.problem.hardware, plans.cards, limit))
        return f"{each} do not pack: the domains hold {room} such instances"


class Servers(Constraint):
    """The cards of the deployment fill no more servers than allowed."""

    name = "servers"
    title = "The deployment stays within limits.servers"
    reads = _ALL_CARDS
    unit = "servers"

    def applies(self, problem: Problem) -> bool:
        return problem.limits.servers is not None

    def margin(self, case: Case) -> FloatArray:
        return np.float64(case.problem.limits.servers or 0) - _servers(case)

    def reason(self, case: Case) -> str:
        return f"fills {first(_servers(case))} servers, {case.problem.limits.servers} allowed"


class Power(Constraint):
    """The servers of the deployment draw no more power than allowed (6-11)."""

    name = "power"
    title = "The deployment stays within limits.power"
    reads = _ALL_CARDS
    unit = "watts"

    def applies(self, problem: Problem) -> bool:
        return problem.limits.power is not None

    def _need(self, case: Case) -> FloatArray:
        power = case.problem.hardware.server.power or 0.0
        return np.asarray(_servers(case) * power, dtype=np.float64)

    def margin(self, case: Case) -> FloatArray:
        return np.asarray((case.problem.limits.power or 0.0) - self._need(case))

    def reason(self, case: Case) -> str:
        limit = case.problem.limits.power or 0.0
        return f"draws {self._need(case)[0] / 1e3:.1f} kW, {limit / 1e3:.1f} kW allowed"


class MoneyPerHour(Constraint):
    """The cards of the deployment cost no more per hour than allowed."""

    name = "money_per_hour"
    title = "The deployment stays within limits.money_per_hour"
    reads = _ALL_CARDS
    unit = "money/h"

    def applies(self, problem: Problem) -> bool:
        return problem.limits.money_per_hour is not None

    def _need(self, case: Case) -> FloatArray:
        price_per_hour = (case.problem.hardware.card.price or 0.0) * 3600
        return np.asarray(case.plans.total_cards * price_per_hour, dtype=np.float64)

    def margin(self, case: Case) -> FloatArray:
        return np.asarray((case.problem.limits.money_per_hour or 0.0) - self._need(case))

    def reason(self, case: Case) -> str:
        limit = case.problem.limits.money_per_hour
        return f"costs {self._need(case)[0]:.2f} an hour, {limit:.2f} allowed"


LIMITS: tuple[Constraint, ...] = (Cards(), Servers(), Power(), MoneyPerHour())
