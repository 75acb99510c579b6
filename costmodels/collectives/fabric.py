"""How long the collectives and hand-overs of a plan take on its machine."""

from dataclasses import dataclass

import numpy as np

from costmodels.collectives.crossing import ALGORITHMS, PLAN_AXIS, is_usual
from costmodels.collectives.domains import domain_sizes
from costmodels.collectives.measured import measured_or
from costmodels.collectives.routes import Leg, Route, reached_on
from costmodels.plans import WORDS, BoolArray, FloatArray, IntArray, PlanTable
from costmodels.remembered import remembered
from specs.assumptions import STATED, ByPath, PhaseEfficiency
from specs.hardware import HardwareSpec
from specs.problem import Problem


@dataclass(frozen=True)
class Exchange:
    """One collective of a layer, as the busiest card sees it.

    ``component`` names it in the breakdown of a step; ``size`` is in bytes, with the meaning that
    ``costmodels.collectives.algorithms`` gives for the operation.
    """

    component: str
    operation: str
    ranks: IntArray
    stride: IntArray
    size: FloatArray


def exchange_seconds(
    problem: Problem, plans: PlanTable, exchange: Exchange, efficiency: PhaseEfficiency
) -> FloatArray:
    """Seconds of one collective: a measurement where there is one, else the plan's algorithm.

    ``auto`` takes the fastest algorithm that libraries choose from, for each group and size.
    ``efficiency`` holds the share of the link bandwidth that is reached.
    """
    assumptions = problem.assumptions
    route = Route(
        problem.hardware,
        plans,
        exchange.ranks,
        exchange.stride,
        efficiency.linked(exchange.operation),
        assumptions.alltoall_levels,
        assumptions.start_up.of(exchange.operation),
    )
    seconds = _by_algorithm(problem, plans, exchange, route)
    if problem.hardware.collectives:
        group = exchange.ranks, exchange.stride
        seconds = measured_or(seconds, problem, plans, exchange.operation, group, exchange.size)
    return np.where(exchange.ranks > 1, seconds, 0.0)


@dataclass(frozen=True)
class _Choice:
    """An algorithm that some plans of a table name; ``rows`` is ``None`` where all do."""

    name: str
    rows: BoolArray | None


@remembered
def _choices(problem: Problem, plans: PlanTable) -> dict[str, tuple[_Choice, ...]]:
    """Algorithms that plans name, by operation; ``auto`` where there is nothing to choose."""
    found: dict[str, tuple[_Choice, ...]] = dict.fromkeys(ALGORITHMS, (_Choice("auto", None),))
    for operation, axis in PLAN_AXIS.items():
        column = plans.column(axis)
        words = np.unique(column)
        found[operation] = tuple(
            _Choice(WORDS[axis][word], None if words.size == 1 else column == word)
            for word in words
        )
    return found


def _by_algorithm(
    problem: Problem, plans: PlanTable, exchange: Exchange, route: Route
) -> FloatArray:
    """Seconds by the algorithm that each plan names, or by the fastest of the usual ones."""
    algorithms = ALGORITHMS[exchange.operation]
    found: FloatArray = np.zeros(len(plans))
    for choice in _choices(problem, plans)[exchange.operation]:
        names = [choice.name]
        if choice.name == "auto":
            names = [name for name in algorithms if is_usual(name, route)]
        seconds = np.minimum.reduce([algorithms[name](route, exchange.size) for name in names])
        found = seconds if choice.rows is None else np.where(choice.rows, seconds, found)
    return found


def bytes_sent(exchange: Exchange) -> FloatArray:
    """Bytes that one card sends under a ring (reductions, gathers) or directly (All-to-All)."""
    if exchange.operation == "all_to_all":
        return np.where(exchange.ranks > 1, exchange.size, 0.0)
    rounds = 2.0 if exchange.operation == "allreduce" else 1.0
    return rounds * (exchange.ranks - 1) / exchange.ranks * exchange.size


def deployment_links(hardware: HardwareSpec, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Start-up time and bandwidth of the innermost level that joins all instances."""
    cards, one = plans.total_cards, np.ones_like(plans.tp)
    server = hardware.server.cards
    alpha, beta = np.full(len(plans), np.nan), np.full(len(plans), np.nan)
    outside = np.full(len(plans), True)
    for level, domain in zip(hardware.levels, domain_sizes(hardware, plans), strict=True):
        start_up, rate = Leg(level, domain, cards, one, one, cards, server, 1.0).pairs()
        # What is wider than all levels counts as joined by the outermost one.
        alpha, beta = np.where(outside, start_up, alpha), np.where(outside, rate, beta)
        outside = outside & (cards > domain)
    return alpha, beta


def boundary_seconds(
    hardware: HardwareSpec,
    plans: PlanTable,
    size: FloatArray,
    efficiency: ByPath = STATED,
    start_up: ByPath = STATED,
) -> tuple[FloatArray, FloatArray]:
    """Time to hand ``size`` bytes over all stage boundaries in turn, and over the slowest one.

    Each card sends to its counterpart in the next stage. A boundary crosses a level when the two
    stages lie in different domains of it.
    """
    stage, cards, one = plans.stage_cards, plans.cards, np.ones_like(plans.tp)
    server = hardware.server.cards
    total = np.zeros(len(plans))
    slowest = np.zeros(len(plans))
    crossing = plans.pp - 1
    for level, domain in zip(hardware.levels, domain_sizes(hardware, plans), strict=True):
        if level is hardware.levels[-1]:
            beyond = np.zeros_like(crossing)
        else:
            beyond = np.where(domain % stage == 0, (cards - 1) // domain, plans.pp - 1)
            beyond = np.where(cards <= domain, 0, beyond)
        here = crossing - beyond
        reached = reached_on(hardware, level, efficiency, start_up)
        alpha, beta = Leg(level, domain, 2 * one, one, stage, cards, server, *reached).pairs()
        once = alpha + size / beta
        # A level that no boundary crosses may state no figures.
        total = total + np.where(here > 0, here * once, 0.0)
        slowest = np.where(here > 0, np.maximum(slowest, once), slowest)
        crossing = beyond
    return total, slowest
