"""How long the collectives and hand-overs of a plan take on its machine."""

from dataclasses import dataclass

import numpy as np

from costmodels.collectives.crossing import ALGORITHMS, PLAN_AXIS, is_usual
from costmodels.collectives.domains import domain_sizes
from costmodels.collectives.measured import measured_or
from costmodels.collectives.routes import Leg, Route
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
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
    problem: Problem, plans: PlanTable, exchange: Exchange, efficiency: float
) -> FloatArray:
    """Seconds of one collective: a measurement where there is one, else the plan's algorithm.

    ``auto`` takes the fastest algorithm that libraries choose from, for each group and size.
    ``efficiency`` is the share of the link bandwidth that is reached.
    """
    route = Route(
        problem.hardware,
        plans,
        exchange.ranks,
        exchange.stride,
        efficiency,
        problem.assumptions.alltoall_levels,
    )
    seconds = _by_algorithm(plans, exchange, route)
    if problem.hardware.collectives:
        group = exchange.ranks, exchange.stride
        seconds = measured_or(seconds, problem, plans, exchange.operation, group, exchange.size)
    return np.where(exchange.ranks > 1, seconds, 0.0)


def _by_algorithm(plans: PlanTable, exchange: Exchange, route: Route) -> FloatArray:
    """Seconds by the algorithm that each plan names, or by the fastest of the usual ones."""
    axis = PLAN_AXIS.get(exchange.operation)
    automatic = not axis or bool(plans.has(axis, "auto").any())
    fastest, named = np.full(len(plans), np.inf), list[tuple[BoolArray, FloatArray]]()
    for name, algorithm in ALGORITHMS[exchange.operation].items():
        chosen = plans.has(axis, name) if axis else np.zeros(len(plans), dtype=bool)
        wanted = bool(chosen.any())
        usual = automatic and is_usual(name, route)
        if not (wanted or usual):
            continue
        seconds = algorithm(route, exchange.size)
        if usual:
            fastest = np.minimum(fastest, seconds)
        if wanted:
            named.append((chosen, seconds))
    for chosen, seconds in named:
        fastest = np.where(chosen, seconds, fastest)
    return fastest


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
    hardware: HardwareSpec, plans: PlanTable, size: FloatArray, efficiency: float
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
        alpha, beta = Leg(level, domain, 2 * one, one, stage, cards, server, efficiency).pairs()
        once = alpha + size / beta
        # A level that no boundary crosses may state no figures.
        total = total + np.where(here > 0, here * once, 0.0)
        slowest = np.where(here > 0, np.maximum(slowest, once), slowest)
        crossing = beyond
    return total, slowest
