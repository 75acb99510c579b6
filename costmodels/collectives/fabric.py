"""Where a group of ranks lies in the fabric, and how long its collectives take there.

Ranks are numbered with TP innermost, then CP, attention DP, attention replicas and PP; the expert
view of the same cards has expert TP innermost, then EP. A group is given by its number of
``ranks`` and by its ``stride``, the distance between neighbours in that order. An instance that
fits into one domain is placed in one; a larger one starts at a domain boundary.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodels.collectives.algorithms import ALGORITHMS, PLAN_AXIS
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from specs.hardware import HardwareSpec, MeasuredCollective
from specs.problem import Assumptions, Problem


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


def inside(plans: PlanTable, block: IntArray, domain: int) -> BoolArray:
    """Whether each aligned block of neighbouring cards lies in one domain of ``domain`` cards."""
    return (plans.cards <= domain) | (domain % block == 0)


def _slots(hardware: HardwareSpec, cards: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Where instances of ``cards`` cards may start.

    Returns the size of the domain that holds an instance, the distance between neighbours in it,
    and how many fit. What is wider than all levels counts as held by the outermost one.
    """
    sizes = [level.size for level in hardware.levels]
    domain = np.full_like(cards, sizes[-1])
    slot = cards.copy()
    for size in reversed(sizes):
        domain = np.where(cards <= size, size, domain)
    for size in sizes:
        slot = np.where(cards > size, -(-cards // size) * size, slot)
    return domain, slot, _fit(domain, cards, slot)


def _fit(room: IntArray | int, cards: IntArray, slot: IntArray) -> IntArray:
    return np.maximum((room - cards) // slot + 1, 0)


def instances_held(hardware: HardwareSpec, cards: IntArray, limit: int) -> IntArray:
    """Instances of ``cards`` cards that the first ``limit`` cards of the machine hold."""
    domain, slot, per_domain = _slots(hardware, cards)
    return limit // domain * per_domain + _fit(limit % domain, cards, slot)


def servers_used(hardware: HardwareSpec, plans: PlanTable) -> IntArray:
    """Servers up to the one that holds the last card of the last instance."""
    cards, last = plans.cards, plans.instances - 1
    domain, slot, per_domain = _slots(hardware, cards)
    per_domain = np.maximum(per_domain, 1)
    end = last // per_domain * domain + last % per_domain * slot + cards
    return -(-end // hardware.server.cards)


def instance_of(hardware: HardwareSpec, plans: PlanTable, card: int) -> IntArray:
    """Number of the instance that uses ``card``; -1 if none does."""
    cards = plans.cards
    domain, slot, per_domain = _slots(hardware, cards)
    place = card % domain
    instance = card // domain * per_domain + place // slot
    used = (place % slot < cards) & (place // slot < per_domain) & (instance < plans.replicas)
    return np.where(used, instance, -1)


def group_links(
    hardware: HardwareSpec, plans: PlanTable, ranks: IntArray, stride: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Start-up time and bandwidth of the innermost level that joins all ranks of the group."""
    return _innermost(hardware, plans, lambda size: inside(plans, ranks * stride, size))


def deployment_links(hardware: HardwareSpec, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Start-up time and bandwidth of the innermost level that joins all instances."""
    return _innermost(hardware, plans, lambda size: plans.total_cards <= size)


def _innermost(
    hardware: HardwareSpec, plans: PlanTable, joins: Callable[[int], BoolArray]
) -> tuple[FloatArray, FloatArray]:
    """Figures of the innermost level whose domains join something; else of the outermost."""
    outermost = hardware.levels[-1]
    alpha = np.full(len(plans), outermost.alpha)
    beta = np.full(len(plans), outermost.beta)
    for level in reversed(hardware.levels[:-1]):
        here = joins(level.size)
        alpha = np.where(here, level.alpha, alpha)
        beta = np.where(here, level.beta, beta)
    return alpha, beta


def servers_spanned(
    hardware: HardwareSpec, plans: PlanTable, ranks: IntArray, stride: IntArray
) -> IntArray:
    """Servers over which the ranks of a group are spread."""
    size = hardware.server.cards
    spread = np.where(stride >= size, ranks, -(-ranks * stride // size))
    return np.where(inside(plans, ranks * stride, size), 1, spread)


def _measured(
    rows: list[MeasuredCollective],
    size: FloatArray,
    formula: FloatArray,
    assumptions: Assumptions,
) -> FloatArray:
    """Read the table at ``size``.

    Outside its sizes the formula answers, but a larger message is never faster than the largest
    one measured, nor a smaller one slower than the smallest.
    """
    rows = sorted(rows, key=lambda row: row.bytes)
    sizes = np.array([row.bytes for row in rows])
    seconds = np.array([row.seconds for row in rows])
    if assumptions.collective_table == "interpolate":
        read = np.interp(size, sizes, seconds)
        read = np.where(size < sizes[0], np.minimum(formula, seconds[0]), read)
    else:
        read = seconds[np.minimum(np.searchsorted(sizes, size), len(rows) - 1)]
    return np.where(size > sizes[-1], np.maximum(formula, seconds[-1]), read)


def _from_table(
    problem: Problem, plans: PlanTable, exchange: Exchange, seconds: FloatArray
) -> FloatArray:
    """Replace the formula by measurements of the same operation, ranks, span and size."""
    tables: dict[tuple[int, int], list[MeasuredCollective]] = {}
    for row in problem.hardware.collectives:
        if row.operation == exchange.operation:
            tables.setdefault((row.ranks, row.span), []).append(row)
    if not tables:
        return seconds
    span = servers_spanned(problem.hardware, plans, exchange.ranks, exchange.stride)
    for (ranks, servers), rows in tables.items():
        measured = _measured(rows, exchange.size, seconds, problem.assumptions)
        seconds = np.where((exchange.ranks == ranks) & (span == servers), measured, seconds)
    return seconds


def exchange_seconds(
    problem: Problem, plans: PlanTable, exchange: Exchange, efficiency: float
) -> FloatArray:
    """Seconds of one collective: a measurement where there is one, else the plan's algorithm.

    ``auto`` takes the fastest algorithm for each group and size. ``efficiency`` is the share of
    the link bandwidth that is reached.
    """
    alpha, beta = group_links(problem.hardware, plans, exchange.ranks, exchange.stride)
    beta = beta * efficiency
    algorithms = ALGORITHMS[exchange.operation]
    times = {
        name: algorithm(exchange.ranks, exchange.size, alpha, beta)
        for name, algorithm in algorithms.items()
    }
    seconds = np.minimum.reduce(list(times.values()))
    axis = PLAN_AXIS.get(exchange.operation)
    if axis:
        for name, time in times.items():
            seconds = np.where(plans.has(axis, name), time, seconds)
    if problem.hardware.collectives:
        seconds = _from_table(problem, plans, exchange, seconds)
    return np.where(exchange.ranks > 1, seconds, 0.0)


def bytes_sent(exchange: Exchange) -> FloatArray:
    """Bytes that one card sends under a ring (reductions, gathers) or directly (All-to-All)."""
    if exchange.operation == "all_to_all":
        return np.where(exchange.ranks > 1, exchange.size, 0.0)
    rounds = 2.0 if exchange.operation == "allreduce" else 1.0
    return rounds * (exchange.ranks - 1) / exchange.ranks * exchange.size


def boundary_seconds(
    hardware: HardwareSpec, plans: PlanTable, size: FloatArray, efficiency: float
) -> tuple[FloatArray, FloatArray]:
    """Time to hand ``size`` bytes over all stage boundaries in turn, and over the slowest one.

    Each card sends to its counterpart in the next stage. A boundary crosses a level when the two
    stages lie in different domains of it.
    """
    stage, cards = plans.stage_cards, plans.cards
    total = np.zeros(len(plans))
    slowest = np.zeros(len(plans))
    crossing = plans.pp - 1
    for position, level in enumerate(hardware.levels):
        if position == len(hardware.levels) - 1:
            beyond = np.zeros_like(crossing)
        else:
            beyond = np.where(level.size % stage == 0, (cards - 1) // level.size, plans.pp - 1)
            beyond = np.where(cards <= level.size, 0, beyond)
        here = crossing - beyond
        once = level.alpha + size / (level.beta * efficiency)
        # A level that no boundary crosses may state no figures.
        total = total + np.where(here > 0, here * once, 0.0)
        slowest = np.where(here > 0, np.maximum(slowest, once), slowest)
        crossing = beyond
    return total, slowest
