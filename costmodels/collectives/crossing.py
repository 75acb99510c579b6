"""Collectives over the levels that their groups cross.

A *flat* algorithm takes no notice of levels: each of its rounds waits for the links of the level
that joins the whole group. A *nested* one runs on every level in turn, among ranks of which each
holds the sum of a domain further inside, and a share of the vector. An All-to-All deals its bytes
to the levels by the peers that each of them reaches. Shapes are ``(plans,)``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from costmodels.collectives import link_loads, topology
from costmodels.collectives.algorithms import (
    direct_alltoall,
    halving_doubling,
    pairwise_alltoall,
    ring_allreduce,
    ring_half,
    switch_allreduce,
    tree_allreduce,
)
from costmodels.collectives.routes import Leg, Route
from costmodels.collectives.topology import Extent
from costmodels.plans import FloatArray, IntArray
from specs.fabric import Level, Switch

Form = Callable[[IntArray, FloatArray, FloatArray | float, FloatArray | float], FloatArray]
"""Closed form of :mod:`costmodels.collectives.algorithms`."""


Algorithm = Callable[[Route, FloatArray], FloatArray]
"""Seconds of a collective of some bytes over a route."""


def ring(route: Route, size: FloatArray) -> FloatArray:
    """One ring over all ranks."""
    return _joined(route, lambda leg: ring_allreduce(leg.ranks, size, *leg.ring()))


def tree(route: Route, size: FloatArray) -> FloatArray:
    """One binomial tree over all ranks."""
    return _joined(route, lambda leg: tree_allreduce(leg.ranks, size, *leg.pairs()))


def hierarchical(route: Route, size: FloatArray) -> FloatArray:
    """ReduceScatter in every domain, AllReduce of each card's share further out, and AllGather.

    The two halves in a domain take as long as one ring AllReduce there. Each card sends its share
    over its own adapter.
    """
    return _rings(route, size, ring_allreduce)


def in_network(route: Route, size: FloatArray) -> FloatArray:
    """Switches that join all ranks add up; without such switches it never ends."""

    def seconds(leg: Leg) -> FloatArray:
        if not reduces(leg.level):
            return np.full(size.shape, np.inf)
        return switch_allreduce(size, *leg.pairs())

    return _joined(route, seconds)


def reduces(level: Level) -> bool:
    """Whether the network of a level adds up what its cards send."""
    return isinstance(level.topology, Switch) and level.topology.reduces


def in_pairs(name: str, route: Route, size: FloatArray) -> FloatArray:
    """AllReduce by ``recursive`` or ``swing``: pairs exchange halves in log₂ n rounds.

    Behind switches all pairs are equally far. In a grid one dimension follows the other, and the
    busiest link of each round decides.
    """

    def seconds(leg: Leg, share: FloatArray) -> FloatArray:
        if not topology.grid(leg.level)[0]:
            return halving_doubling(leg.parts, share, *leg.pairs())
        found = np.zeros(share.shape)
        for extent in topology.extents(leg.level, leg.parts, leg.apart):
            found += _along(name, extent, share, leg)
            share = share / extent.members
        return found

    total: FloatArray = np.zeros(size.shape)
    for leg in route.legs:
        total = total + np.where(leg.crossed, seconds(leg, size / leg.inner), 0.0)
    return total


def _along(name: str, extent: Extent, size: FloatArray, leg: Leg) -> FloatArray:
    """Seconds of an AllReduce in pairs along one dimension of a grid."""
    found = np.zeros(size.shape)
    alpha, beta = (np.broadcast_to(figure, size.shape) for figure in leg.neighbours())
    for members, links in {*zip(extent.members.tolist(), extent.links.tolist(), strict=True)}:
        rows = np.flatnonzero((extent.members == members) & (extent.links == links))
        rounds = link_loads.rounds(name, int(members), links == 1)
        # Groups in between use the same links, and their cards lie on the way.
        step, hop = extent.step[rows], leg.level.hop
        found[rows] = link_loads.allreduce_seconds(
            rounds, size[rows], alpha[rows] + (step - 1) * hop, hop * step, beta[rows] / step
        )
    return found


def half_ring(route: Route, size: FloatArray) -> FloatArray:
    """ReduceScatter or AllGather by one ring over all ranks."""
    return _joined(route, lambda leg: ring_half(leg.ranks, size, *leg.ring()))


def half_hierarchical(route: Route, size: FloatArray) -> FloatArray:
    """ReduceScatter in every domain, then of the shares further out; AllGather the way back."""
    return _rings(route, size, ring_half)


def _joined(route: Route, seconds: Callable[[Leg], FloatArray]) -> FloatArray:
    """Seconds on the level that joins all ranks of each group of several ranks."""
    found: FloatArray = np.zeros(route.ranks.shape)
    for leg in route.legs:
        taken = seconds(leg)
        found = taken if leg is route.legs[0] else np.where(leg.crossed, taken, found)
    return found


def _rings(route: Route, size: FloatArray, form: Form) -> FloatArray:
    """Seconds of rings inside each other, one a level, each over the shares that those leave.

    A ring takes in those of levels further inside where that is faster.
    """
    inner, fastest = [np.ones_like(route.ranks)], [np.zeros(size.shape)]
    for leg in route.cuts:
        ways = []
        for parts, before in zip(inner, fastest, strict=True):
            rings = replace(leg, inner=parts)
            ways.append(before + form(rings.parts, size / parts, *rings.ring_of_parts()))
        fastest.append(np.where(leg.crossed, np.minimum.reduce(ways), fastest[-1]))
        inner.append(leg.ranks)
    return fastest[-1]


def all_to_all(form: Form, route: Route, size: FloatArray) -> FloatArray:
    """Bytes for the peers that each level reaches, over the links of that level.

    Peers further inside are reached over this level too where that is faster: few bytes are not
    worth a start-up of their own.
    """
    if len(route.legs) == 1:
        return form(route.ranks, size, *route.legs[0].everybody())
    together = _TOGETHER[route.alltoall_levels]
    others = np.maximum(route.ranks - 1, 1)
    found: FloatArray = np.zeros(size.shape)
    for leg in route.legs:
        send = partial(_send, form, leg, size, others)
        seconds = together(found, send(leg.ranks - leg.inner))
        if leg is not route.legs[0]:
            seconds = np.minimum(seconds, send(leg.ranks - 1))
        found = np.where(leg.crossed, seconds, found)
    return found


def _send(form: Form, leg: Leg, size: FloatArray, others: IntArray, peers: IntArray) -> FloatArray:
    """Seconds to send some of ``others`` peers their parts of ``size`` over one level."""
    return form(peers + 1, size * (peers / others), *leg.everybody())


_TOGETHER: dict[str, Callable[[FloatArray, FloatArray], FloatArray]] = {
    "added": np.add,
    "overlapped": np.maximum,
    "outermost": lambda inner, outer: outer,
}
"""Seconds of an All-to-All up to a level, from those further inside and those on it."""

ALGORITHMS: dict[str, dict[str, Algorithm]] = {
    "allreduce": {
        "ring": ring,
        "tree": tree,
        "hierarchical": hierarchical,
        "in_network": in_network,
        "recursive": partial(in_pairs, "recursive"),
        "swing": partial(in_pairs, "swing"),
    },
    "reduce_scatter": {"ring": half_ring, "hierarchical": half_hierarchical},
    "all_gather": {"ring": half_ring, "hierarchical": half_hierarchical},
    "all_to_all": {
        "direct": partial(all_to_all, direct_alltoall),
        "pairwise": partial(all_to_all, pairwise_alltoall),
    },
}
"""Algorithms of each operation, by the name that a plan uses."""

PLAN_AXIS = {"allreduce": "allreduce", "all_to_all": "alltoall"}
"""Plan axis that chooses the algorithm of an operation, where there is a choice."""


def is_usual(name: str, route: Route) -> bool:
    """Whether libraries choose an algorithm by themselves, and it is worth a look on this route.

    Exchanges in pairs only run where a plan names them; one partner a round is never faster than
    all messages at once.
    """
    match name:
        case "recursive" | "swing" | "pairwise":
            return False
        case "hierarchical":
            return len(route.cuts) > 1
        case "in_network":
            return any(reduces(leg.level) for leg in route.legs)
    return True
