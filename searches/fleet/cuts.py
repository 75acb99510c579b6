"""How much of a demand a set of instances serves.

Instances of role ``both`` serve on their own. A prompt taken in by one instance may go on in
another if the network joins them and the limits leave the time. What passes from the ones to the
others is a flow through a bipartite graph, and the largest flow equals the smallest cut. There are
few columns, so every cut that matters is written out: a demand is served if the instances of each
cut serve its rate, which is linear in their numbers.
"""

from collections.abc import Sequence

import numpy as np

from costmodels.collectives.fabric import deployment_links
from searches.fleet.columns import Column
from searches.fleet.yard import Yard
from specs.problem import Problem

Cut = tuple[int, ...]
"""Positions of the columns that bound a demand together."""


def handover_seconds(
    problem: Problem, yards: Sequence[Yard], prompt: Column, decoding: Column
) -> float:
    """Seconds to hand a session over from one instance to another; inf where nothing joins them.

    ``α + bytes / β`` over the level that joins the whole pool, or else the network of the fleet;
    the card that keeps more of the session decides. A context that is held already lies with the
    instance that decodes, and travels to the prompt first.
    """
    fleet = problem.fleet
    assert fleet is not None
    yard = yards[prompt.pool]
    if prompt.pool == decoding.pool and yard.cards <= yard.blocks[-1]:
        whole = prompt.plan.with_columns(replicas=np.array([yard.cards // prompt.cards]))
        alpha, beta = (float(figure[0]) for figure in deployment_links(yard.hardware, whole))
    elif fleet.network is not None:
        alpha, beta = fleet.network.latency, fleet.network.bandwidth
    else:
        return np.inf
    times = 2 if fleet.demands[prompt.demand].context else 1
    beta *= problem.assumptions.efficiency.prefill.network
    return times * alpha + max(prompt.kept, decoding.kept) / beta


def partners(
    problem: Problem, yards: Sequence[Yard], columns: Sequence[Column]
) -> list[frozenset[int]]:
    """Return for each column those that it can hand sessions to, or take them from, in time."""
    found: list[set[int]] = [set() for _ in columns]
    for p, prompt in enumerate(columns):
        for d, decoding in enumerate(columns):
            if (prompt.role, decoding.role) == ("prefill", "decode") and (
                prompt.demand == decoding.demand
            ):
                lead = prompt.seconds + handover_seconds(problem, yards, prompt, decoding)
                if lead <= decoding.seconds:
                    found[p].add(d)
                    found[d].add(p)
    return [frozenset(those) for those in found]


def reduced(
    problem: Problem, yards: Sequence[Yard], columns: Sequence[Column]
) -> tuple[Column, ...]:
    """Leave out columns with nobody to work with, and those that others do as well as.

    Others are as good where so many of them as stand in the place of one serve as much, hand over
    to all that it does, and take no more cards. A failure takes down no more of them.
    """
    linked = partners(problem, yards, columns)

    def replaces(j: int, i: int) -> bool:
        one, other = columns[j], columns[i]
        if (one.demand, one.pool, one.role) != (other.demand, other.pool, other.role):
            return False
        yard = yards[one.pool]
        copies = min(yard.held(yard.slot(other.cards), one.cards), other.cards // one.cards)
        better = (-one.cards, one.serves, len(linked[j]), i) > (
            -other.cards,
            other.serves,
            len(linked[i]),
            j,
        )
        return better and copies * one.serves >= other.serves and linked[j] >= linked[i]

    return tuple(
        column
        for i, column in enumerate(columns)
        if (column.role == "both" or linked[i])
        and not any(replaces(j, i) for j in range(len(columns)) if j != i)
    )


def cuts(
    problem: Problem, yards: Sequence[Yard], columns: Sequence[Column]
) -> tuple[tuple[Cut, ...], ...]:
    """Return the cuts of each demand, whose smallest is what is served of it."""
    assert problem.fleet is not None
    linked = partners(problem, yards, columns)
    return tuple(_of_demand(columns, linked, i) for i in range(len(problem.fleet.demands)))


def _of_demand(
    columns: Sequence[Column], linked: Sequence[frozenset[int]], demand: int
) -> tuple[Cut, ...]:
    own = [i for i, column in enumerate(columns) if column.demand == demand]
    both = [i for i in own if columns[i].role == "both"]
    decoding = [i for i in own if columns[i].role == "decode"]
    # A set of decoding columns is bounded by all that feed any of them, and the others by
    # themselves: so many cuts as there are different unions of feeding columns.
    unions = {frozenset[int]()}
    for d in decoding:
        unions |= {union | linked[d] for union in unions}
    found = {
        (*both, *sorted(union), *(d for d in decoding if not linked[d] <= union))
        for union in unions
    }
    return tuple(sorted(found))


def served(columns: Sequence[Column], counts: Sequence[int], of_demand: Sequence[Cut]) -> float:
    """What so many instances of each column serve of a demand."""
    return min(sum(columns[i].serves * counts[i] for i in cut) for cut in of_demand)
