"""Where instances and groups of ranks lie in the nested domains of a machine.

Ranks are numbered with TP innermost, then CP, attention DP, attention replicas and PP; the expert
view of the same cards has expert TP innermost, then EP. A group is given by its number of
``ranks`` and by its ``stride``, the distance between neighbours in that order. An instance that
fits into one domain is placed in one; a larger one starts at a domain boundary. Plans choose how
large the innermost domains are built (axis ``domain``), so sizes may differ from plan to plan.
All arrays have shape ``(plans,)``.
"""

import numpy as np

from costmodels.plans import BoolArray, IntArray, PlanTable
from specs.hardware import HardwareSpec

Cards = IntArray | int
"""Cards: one number for each plan, or one for all."""


def domain_sizes(hardware: HardwareSpec, plans: PlanTable) -> list[Cards]:
    """Cards of one domain of each level, from the inside out."""
    innermost, *outer = hardware.levels
    size: Cards = innermost.size
    if (plans.domain != 0).any():
        size = np.where(plans.domain == 0, innermost.size, plans.domain)
    return [size, *(level.size for level in outer)]


def joined(plans: PlanTable, ranks: IntArray, stride: IntArray, size: Cards) -> IntArray:
    """Ranks of each part of a group whose members share a domain of ``size`` cards.

    Parts are equal, and neighbours in the order of ranks. A group that fits domains unevenly is
    cut by the largest part that all domains hold whole: 12 ranks over domains of 8 in parts of 4.
    """
    found = ranks.copy()
    rows = np.flatnonzero((plans.cards > size) & (ranks > 1))
    if rows.size:
        room = size if isinstance(size, int) else size[rows]
        parts = np.gcd(ranks[rows], room // stride[rows])
        found[rows] = np.where(room % stride[rows] == 0, parts, 1)
    return found


def inside(plans: PlanTable, block: IntArray, domain: Cards) -> BoolArray:
    """Whether each aligned block of neighbouring cards lies in one domain of ``domain`` cards."""
    return (plans.cards <= domain) | (domain % block == 0)


def slots(hardware: HardwareSpec, plans: PlanTable) -> tuple[IntArray, IntArray, IntArray]:
    """Where instances may start.

    Returns the size of the domain that holds an instance, the distance between neighbours in it,
    and how many fit. What is wider than all levels counts as held by the outermost one.
    """
    cards, sizes = plans.cards, domain_sizes(hardware, plans)
    domain = np.zeros_like(cards) + sizes[-1]
    slot = cards.copy()
    for size in reversed(sizes):
        domain = np.where(cards <= size, size, domain)
    for size in sizes:
        slot = np.where(cards > size, -(-cards // size) * size, slot)
    return domain, slot, _fit(domain, cards, slot)


def _fit(room: Cards, cards: IntArray, slot: IntArray) -> IntArray:
    return np.maximum((room - cards) // slot + 1, 0)


def instances_held(hardware: HardwareSpec, plans: PlanTable, limit: Cards) -> IntArray:
    """Instances that the first ``limit`` cards of the machine hold."""
    domain, slot, per_domain = slots(hardware, plans)
    return limit // domain * per_domain + _fit(limit % domain, plans.cards, slot)


def last_card(hardware: HardwareSpec, plans: PlanTable, instance: IntArray) -> IntArray:
    """Position of the last card of an instance, counted from 0.

    Instances that are wider than all levels follow each other without a gap.
    """
    domain, slot, per_domain = slots(hardware, plans)
    domain, per_domain = np.maximum(domain, plans.cards), np.maximum(per_domain, 1)
    return instance // per_domain * domain + instance % per_domain * slot + plans.cards - 1


def servers_used(hardware: HardwareSpec, plans: PlanTable) -> IntArray:
    """Servers up to the one that holds the last card of the last instance."""
    return last_card(hardware, plans, plans.instances - 1) // hardware.server.cards + 1


def servers_spanned(
    hardware: HardwareSpec, plans: PlanTable, ranks: IntArray, stride: IntArray
) -> IntArray:
    """Servers over which the ranks of a group are spread."""
    size = hardware.server.cards
    spread = np.where(stride >= size, ranks, -(-ranks * stride // size))
    return np.where(inside(plans, ranks * stride, size), 1, spread)
