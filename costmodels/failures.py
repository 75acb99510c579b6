"""What one failure takes down: the instances on a block of neighbouring cards, and their sessions.

A failure domain of F cards is an aligned block of them: cards kF to (k + 1)F - 1.
"""

from collections.abc import Iterator

import numpy as np

from costmodels.collectives.connections import all_hosts_seconds
from costmodels.collectives.domains import (
    Cards,
    domain_sizes,
    instances_held,
    last_card,
    servers_spanned,
    slots,
)
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.hardware import HardwareSpec
from specs.problem import Problem
from specs.workload import Failure


def instances_on(
    hardware: HardwareSpec, plans: PlanTable, start: Cards, cards: int
) -> tuple[IntArray, IntArray]:
    """Decoding instances that use any of ``cards`` cards from ``start``: the first, and the end.

    Instances are numbered in the order in which they are placed, prefill instances last. The end
    is not among them; it equals the first where the cards are not used.
    """
    before = instances_held(hardware, plans, start)
    # One that begins ahead of the end of the block has ended after another c - 1 cards.
    begun = instances_held(hardware, plans, start + cards - 1 + plans.cards)
    first = np.minimum(before, plans.replicas)
    return first, np.maximum(np.minimum(begun, plans.replicas), first)


def instances_failed(
    hardware: HardwareSpec, plans: PlanTable, failure: Failure
) -> tuple[IntArray, IntArray]:
    """Decoding instances that a failure stops, as :func:`instances_on` returns them."""
    (cards,) = (d.cards for d in hardware.failures if d.name == failure.domain)
    return instances_on(hardware, plans, failure.card // cards * cards, cards)


def reconnection_seconds(hardware: HardwareSpec, plans: PlanTable) -> FloatArray:
    """Seconds to set up the connections of an instance again, over the level that it spans."""
    found = np.zeros(len(plans))
    hosts = servers_spanned(hardware, plans, plans.cards, np.ones_like(plans.tp))
    within: Cards = 1
    for level, size in zip(hardware.levels, domain_sizes(hardware, plans), strict=True):
        if level.connections is not None:
            here = (plans.cards > within) & (plans.cards <= size) & (hosts > 1)
            found = np.where(here, all_hosts_seconds(level.connections, hosts), found)
        within = size
    return found


def sessions_lost(problem: Problem, plans: PlanTable, cards: int) -> FloatArray:
    """Largest share of the sessions in flight that run on one block of ``cards`` cards.

    Sessions of a burst are dealt to instances in rotation; ``steady`` fills all alike.
    """
    keys = np.stack([plans.cards, plans.domain, plans.replicas], axis=1)
    _, rows, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    few = plans.take(rows)
    lost = np.zeros(len(few))
    for block in _telling_blocks(problem.hardware, few, cards):
        first, end = instances_on(problem.hardware, few, block * cards, cards)
        lost = np.maximum(lost, _dealt(problem, few, end) - _dealt(problem, few, first))
    return lost[inverse.reshape(-1)]


def _telling_blocks(hardware: HardwareSpec, plans: PlanTable, cards: int) -> Iterator[IntArray]:
    """Yield for each plan a block at a time, the one that loses most among them.

    A block that holds no end of an instance lies within one, so small blocks are tried where
    instances end, and large ones one after the other. Where domains hold whole blocks, instances
    meet them alike from slot to slot, else from domain to domain, after the least common multiple
    of both; what follows loses no more, as a rotation reaches the first instances first.
    """
    domain, slot, per_domain = slots(hardware, plans)
    whole = domain % cards == 0
    step = np.where(whole, slot, domain)
    period = np.lcm(step, cards)
    ends = np.minimum(period // step * np.where(whole, 1, per_domain), plans.replicas)
    blocks = np.minimum(period, last_card(hardware, plans, plans.replicas - 1) + cards) // cards
    large = cards >= plans.cards
    for count in range(int(np.where(large, blocks, ends).max(initial=0))):
        one = np.full_like(plans.tp, count)
        yield np.where(large, one, last_card(hardware, plans, one) // cards)


def _dealt(problem: Problem, plans: PlanTable, instances: IntArray) -> FloatArray:
    """Share of the sessions that the first ``instances`` instances serve."""
    sessions = problem.workload.session_count
    if not sessions:
        return instances / plans.replicas
    each, more = sessions // plans.replicas, sessions % plans.replicas
    return (instances * each + np.minimum(instances, more)) / sessions


def blast_radius(problem: Problem, plans: PlanTable) -> FloatArray:
    """Share of the sessions in flight that each failure domain may take down.

    Shape ``(failure domains, plans)``, in the order of ``HardwareSpec.failures``.
    """
    return np.array([sessions_lost(problem, plans, d.cards) for d in problem.hardware.failures])
