"""What a deployment may take: cards, servers, power, racks and money."""

from abc import abstractmethod

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels import facility
from costmodels.collectives.domains import instances_held, servers_used
from costmodels.failures import blast_radius
from costmodels.plans import FloatArray, IntArray
from specs.problem import Problem
from specs.units import ROUNDING

_ALL_CARDS = (
    "tp",
    "cp",
    "attention_dp",
    "attention_replicas",
    "pp",
    "replicas",
    "prefill_replicas",
    "domain",
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
        room = instances_held(case.problem.hardware, plans, limit) - plans.instances
        return np.minimum(spare, room * plans.cards).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans, limit = case.plans, case.problem.card_limit
        need, replicas = first(plans.total_cards), first(plans.instances)
        each = f"{replicas} × {first(plans.cards)} cards"
        if need > limit:
            return f"needs {need} cards ({each}), {limit} allowed"
        room = first(instances_held(case.problem.hardware, plans, limit))
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

    def most(self, problem: Problem) -> float:
        """Return the limit with what rounding may add; inf if none is stated."""
        limit = self.limit(problem)
        return np.inf if limit is None else limit * (1 + ROUNDING)

    def margin(self, case: Case) -> FloatArray:
        return np.asarray(self.most(case.problem) - self.need(case))

    def reason(self, case: Case) -> str:
        limit = self.limit(case.problem) or 0.0
        return f"{self.words(case)}, {self.shown(limit)} allowed"

    @abstractmethod
    def need(self, case: Case) -> FloatArray:
        """What each plan takes, in ``unit``."""

    @abstractmethod
    def words(self, case: Case) -> str:
        """Say what the first plan of ``case`` takes."""

    @abstractmethod
    def shown(self, amount: float) -> str:
        """Show an amount with its unit."""


class ServerLimit(Limit):
    """A limit on what the servers of the deployment take, which grows with their number."""

    @abstractmethod
    def taken(self, problem: Problem, servers: IntArray) -> FloatArray:
        """What so many servers that hold a card take, in ``unit``."""

    def need(self, case: Case) -> FloatArray:
        return self.taken(case.problem, servers_used(case.problem.hardware, case.plans))


class Servers(ServerLimit):
    """The cards of the deployment fill no more servers than allowed."""

    name = "servers"
    title = "The deployment stays within limits.servers"
    unit = "servers"

    def taken(self, problem: Problem, servers: IntArray) -> FloatArray:
        return servers.astype(np.float64)

    def words(self, case: Case) -> str:
        return f"fills {self.shown(self.need(case)[0])} servers"

    def shown(self, amount: float) -> str:
        return f"{amount:.0f}"


class Power(ServerLimit):
    """The deployment draws no more power than allowed (6-11)."""

    name = "power"
    title = "The deployment stays within limits.power"
    unit = "watts"

    def taken(self, problem: Problem, servers: IntArray) -> FloatArray:
        return facility.power(problem.hardware, servers)

    def words(self, case: Case) -> str:
        return f"draws {self.shown(self.need(case)[0])}"

    def shown(self, amount: float) -> str:
        return f"{amount / 1e3:.1f} kW"


class Racks(ServerLimit):
    """The servers of the deployment stand in no more racks than allowed."""

    name = "racks"
    title = "The deployment stays within limits.racks"
    unit = "racks"

    def taken(self, problem: Problem, servers: IntArray) -> FloatArray:
        return facility.racks(problem.hardware, servers).astype(np.float64)

    def words(self, case: Case) -> str:
        return f"stands in {self.shown(self.need(case)[0])} racks"

    def shown(self, amount: float) -> str:
        return f"{amount:.0f}"


class MoneyPerHour(Limit):
    """The cards of the deployment cost no more per hour than allowed."""

    name = "money_per_hour"
    title = "The deployment stays within limits.money_per_hour"
    unit = "money/h"

    def need(self, case: Case) -> FloatArray:
        price_per_hour = (case.problem.hardware.card.price or 0.0) * 3600
        return np.asarray(case.plans.total_cards * price_per_hour, dtype=np.float64)

    def words(self, case: Case) -> str:
        return f"costs {self.shown(self.need(case)[0])} an hour"

    def shown(self, amount: float) -> str:
        return f"{amount:.2f}"


class BlastRadius(Limit):
    """No single failure takes down more of the sessions in flight than allowed."""

    name = "blast_radius"
    title = "No failure takes down more than limits.blast_radius"
    unit = "share of sessions"

    def need(self, case: Case) -> FloatArray:
        lost: FloatArray = blast_radius(case.problem, case.plans).max(axis=0)
        return lost

    def words(self, case: Case) -> str:
        lost = blast_radius(case.problem, case.plans)[:, 0]
        worst = case.problem.hardware.failures[int(np.argmax(lost))]
        return f"one failed {worst.name} takes down {self.shown(lost.max())} of the sessions"

    def shown(self, amount: float) -> str:
        return f"{amount:.1%}"


_PER_SERVER: tuple[ServerLimit, ...] = (Servers(), Power(), Racks())

LIMITS: tuple[Constraint, ...] = (Cards(), *_PER_SERVER, MoneyPerHour(), BlastRadius())


def most_servers(problem: Problem) -> int:
    """Return the most servers of the machine that keep all limits on servers."""
    hardware = problem.hardware
    counts = np.arange(hardware.cards // hardware.server.cards + 1)
    kept = np.full(counts.size, True)
    for rule in _PER_SERVER:
        if rule.applies(problem):
            kept &= rule.taken(problem, counts) <= rule.most(problem)
    return int(counts[kept].max(initial=0))
