"""How an instance may spread: domains that can be built, ranks in reach, switches that add up."""

from collections.abc import Iterator

import numpy as np

from constraints.axes import stated
from constraints.base import Case, Constraint, first
from costmodels.collectives.crossing import reduces
from costmodels.collectives.domains import domain_sizes, inside
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable, encode
from specs.fabric import Level
from specs.problem import Problem

Groups = list[tuple[IntArray, IntArray]]


class Domain(Constraint):
    """The machine can be built with innermost domains of the size that a plan chooses."""

    name = "domain"
    title = "The domain is one that the machine can be built with"
    reads = ("domain",)
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return not set(stated(problem, "domain") or ()) <= set(_built(problem))

    def margin(self, case: Case) -> FloatArray:
        apart = [np.abs(case.plans.domain - size) for size in _built(case.problem)]
        nearest = np.where(case.plans.domain == 0, 0, np.min(apart, axis=0))
        return -nearest.astype(np.float64)

    def reason(self, case: Case) -> str:
        hardware = case.problem.hardware
        *most, last = map(str, _built(case.problem))
        sizes = f"{', '.join(most)} or {last}" if most else last
        return (
            f"a domain of {first(case.plans.domain)} cards, but {hardware.levels[0].name} of "
            f"{hardware.name} is built with {sizes}"
        )


def _built(problem: Problem) -> tuple[int, ...]:
    """Sizes that a domain of the innermost level may have."""
    innermost = problem.hardware.levels[0]
    return innermost.sizes or (innermost.size,)


class Fabric(Constraint):
    """All cards of an instance lie within one domain of the outermost level."""

    name = "fabric"
    title = "An instance is no wider than the fabric that joins its cards"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "pp", "domain")
    unit = "cards"

    def margin(self, case: Case) -> FloatArray:
        widest = domain_sizes(case.problem.hardware, case.plans)[-1]
        return (widest - case.plans.cards).astype(np.float64)

    def reason(self, case: Case) -> str:
        widest = domain_sizes(case.problem.hardware, case.plans)[-1]
        level = case.problem.hardware.levels[-1]
        return (
            f"an instance of {first(case.plans.cards)} cards, but {level.name} joins "
            f"only {first(np.atleast_1d(widest))}"
        )


class LinkFigures(Constraint):
    """Levels over which cards of a plan exchange state how fast they do."""

    name = "link_figures"
    title = "The levels that a plan spans state bandwidth and latency"
    reads = (
        *("tp", "cp", "attention_dp", "attention_replicas", "pp", "replicas", "prefill_replicas"),
        "domain",
    )
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return any(_lacks(level) for level in problem.hardware.levels)

    def margin(self, case: Case) -> FloatArray:
        spare = [within - _spanned(case.plans) for within, _ in self._unknown(case)]
        return np.min([np.zeros(len(case.plans)), *spare], axis=0)

    def reason(self, case: Case) -> str:
        spanned = first(_spanned(case.plans))
        level = next(level for within, level in self._unknown(case) if first(within) < spanned)
        return (
            f"{spanned} cards exchange over {level.name}, and {case.problem.hardware.name} states "
            f"no {_lacks(level)} of it"
        )

    def _unknown(self, case: Case) -> Iterator[tuple[IntArray, Level]]:
        """Levels that lack a figure, each with the cards that are joined without it."""
        hardware, within = case.problem.hardware, np.ones_like(case.plans.tp)
        for level, size in zip(hardware.levels, domain_sizes(hardware, case.plans), strict=True):
            if _lacks(level):
                yield within, level
            within = np.zeros_like(within) + size


def _lacks(level: Level) -> str:
    """Name of the figure that a level does not state; empty if it states both."""
    return next((name for name in ("bandwidth", "latency") if getattr(level, name) is None), "")


def _spanned(plans: PlanTable) -> IntArray:
    """Cards that exchange: those of an instance, or of all where prompts are handed over."""
    return np.where(plans.prefill_replicas > 0, plans.total_cards, plans.cards)


class InNetwork(Constraint):
    """Switches add up only where all ranks of a sum stand behind switches that can."""

    name = "in_network"
    title = "In-network AllReduce needs switches that add up, around all its ranks"
    reads = (
        "tp",
        "cp",
        "attention_dp",
        "attention_replicas",
        "pp",
        "ep",
        "expert_tp",
        "domain",
        "allreduce",
    )
    unit = "groups"

    def applies(self, problem: Problem) -> bool:
        named = encode("allreduce", "in_network") in (stated(problem, "allreduce") or ())
        return named and not all(reduces(level) for level in problem.hardware.levels)

    def margin(self, case: Case) -> FloatArray:
        chosen = case.plans.has("allreduce", "in_network")
        return -np.where(chosen, self._without(case), 0).astype(np.float64)

    def reason(self, case: Case) -> str:
        machine = case.problem.hardware
        able = [level.name for level in machine.levels if reduces(level)]
        where = f"only those of {', '.join(able)} do" if able else "none do"
        return (
            f"in-network AllReduce over ranks whose switches do not add up: of the fabric levels "
            f"of {machine.name}, {where}"
        )

    def _without(self, case: Case) -> IntArray:
        """Groups of each plan that no reducing level joins."""
        plans, hardware = case.plans, case.problem.hardware
        found = np.zeros_like(plans.tp)
        for ranks, stride in _summing(plans, moe=case.problem.model.is_moe):
            able: BoolArray = ranks == 1
            outside = np.full(len(plans), True)
            for level, size in zip(hardware.levels, domain_sizes(hardware, plans), strict=True):
                here = outside & (
                    inside(plans, ranks * stride, size) | (level is hardware.levels[-1])
                )
                able = able | (here & reduces(level))
                outside = outside & ~here
            found += ~able
        return found


def _summing(plans: PlanTable, *, moe: bool) -> Groups:
    """Ranks and stride of the groups that add up what their members contribute."""
    one = np.ones_like(plans.tp)
    found = [(plans.tp, one), (plans.cp, plans.tp)]
    if moe:
        dispatched = plans.attention_dp > 1
        inner = np.where(dispatched, np.minimum(plans.expert_tp, plans.lanes), plans.expert_tp)
        found += [(inner, one), (np.where(dispatched, 1, plans.ep), plans.expert_tp)]
    return found


FABRIC: tuple[Constraint, ...] = (Domain(), Fabric(), LinkFigures(), InNetwork())
