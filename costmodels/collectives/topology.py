"""What share of a card's links a group of ranks can use, and how far apart its members are.

Notation, every argument an array of shape ``(plans,)`` or a number:

``ranks``   members of the group, at distance ``stride`` in the numbering of cards
``domain``  cards of the domain that holds the group
``d``       cards along one dimension of a grid, whose cards are numbered innermost dimension first
``m``       members along one dimension, ``step`` cards apart
``links``   links with which a card takes part in one dimension: 2 where the group closes the ring
            of a torus, 1 on a line, along which a ring is folded there and back

All bandwidths are shares of ``level.beta``, which a card reaches over all its links together: over
2 links for each dimension of a grid, over ``size - 1`` of a full mesh. Groups between the members
of another one use the same links at the same time, so ``step`` divides what each gets. A group
that fills no whole rows counts as if it did. See 6.5.1 and 6.5.4 of the theory text.
"""

from dataclasses import dataclass

import numpy as np

from costmodels.collectives import switches
from costmodels.plans import FloatArray, IntArray
from specs.fabric import FullMesh, Level, Mesh, Ring, Switch, Torus

Ranks = IntArray | int

LINKS_OF_LINE = 2
"""Links of a card along one dimension of a grid, to the neighbours before and after it."""


@dataclass(frozen=True)
class Extent:
    """How a group lies along one dimension of a grid."""

    members: FloatArray
    step: FloatArray
    links: FloatArray

    @property
    def hops(self) -> FloatArray:
        """Links between the farthest two members."""
        ring = self.members // 2
        return self.step * np.where(self.links > 1, ring, self.members - 1)

    @property
    def share(self) -> FloatArray:
        """Links that each member has for itself; none where it has no neighbour."""
        return np.where(self.members > 1, self.links / self.step, 0.0)

    @property
    def load(self) -> FloatArray:
        """Messages over the busiest link for every message that a member sends to each.

        Of ``m`` members on a ring ⌊m²/4⌋/m hops lie between two, itself included; on a line the
        middle link carries the messages of ⌊m/2⌋ members to the ⌈m/2⌉ others.
        """
        mean = np.floor(self.members**2 / 4) / self.members
        return self.step * mean / self.links


def grid(level: Level) -> tuple[tuple[int, ...], bool]:
    """Cards along each dimension, and whether the ends of lines are joined; no grid: nothing."""
    match level.topology:
        case Torus(dims=dims):
            return dims, True
        case Mesh(dims=dims):
            return dims, False
        case Ring():
            return (level.size,), True
    return (), False


def extents(level: Level, ranks: Ranks, stride: Ranks) -> list[Extent]:
    """How a group lies along each dimension of the grid, innermost first."""
    dims, closed = grid(level)
    found, below = list[Extent](), 1
    for d in dims:
        step = np.clip(np.asarray(stride) / below, 1.0, d)
        reach = np.clip(np.asarray(ranks) * stride / below, 1.0, d)
        members = np.ceil(reach / step)
        whole = closed & (reach >= d)
        found.append(Extent(members, step, np.where(whole, float(LINKS_OF_LINE), 1.0)))
        below *= d
    return found


def ring_share(level: Level, ranks: Ranks, stride: Ranks) -> FloatArray:
    """Share of ``level.beta`` that reductions and gathers around rings reach.

    In a grid the group forms rings along each of its dimensions, which work at once (6.5.1). In a
    full mesh n-1 disjoint rings use all links between its members.
    """
    if isinstance(level.topology, FullMesh):
        return _between_members(level, ranks)
    found = extents(level, ranks, stride)
    if not found:
        return np.ones(np.broadcast(ranks, stride).shape)
    total = np.sum([extent.share for extent in found], axis=0)
    # A group of one exchanges nothing.
    return np.where(total > 0, total / (LINKS_OF_LINE * len(found)), 1.0)


def alltoall_share(level: Level, ranks: Ranks, stride: Ranks) -> FloatArray:
    """Share of ``level.beta`` that an All-to-All between all members reaches.

    In a grid every message runs along one dimension after the other, by the shortest way, and the
    busiest link decides. A card sends nothing to itself, so that 64 cards of a 4×4×4 torus are
    64/21 hops apart, not 3 (6.5.1).
    """
    if isinstance(level.topology, FullMesh):
        return _between_members(level, ranks)
    found = extents(level, ranks, stride)
    if not found:
        return np.ones(np.broadcast(ranks, stride).shape)
    others = np.asarray(ranks) / np.maximum(np.asarray(ranks) - 1, 1)
    load = others * np.max([extent.load for extent in found], axis=0)
    moved = load > 0
    return np.where(moved, 1.0 / (LINKS_OF_LINE * len(found) * np.where(moved, load, 1.0)), 1.0)


def _between_members(level: Level, ranks: Ranks) -> FloatArray:
    """Links of a full mesh between members, of all that a card has."""
    share = (np.asarray(ranks) - 1) / max(level.size - 1, 1)
    return np.where(share > 0, np.minimum(share, 1.0), 1.0)


def chips_passed(level: Level, domain: Ranks, ranks: Ranks, stride: Ranks) -> IntArray:
    """Further chips on the way between the farthest two members of a group.

    Between neighbours of a grid there is none, between cards below one switch chip only that one.
    A second tier of switches adds two chips, a third two more (6.5.1).
    """
    if isinstance(level.topology, Switch):
        return 2 * (switches.tiers_crossed(level.topology, domain, ranks, stride) - 1)
    hops = np.zeros(np.broadcast(domain, ranks, stride).shape)
    for extent in extents(level, ranks, stride):
        hops = hops + extent.hops
    return np.maximum(hops - 1, 0).astype(np.int64)


def diameter(level: Level) -> int:
    """Links between the farthest two cards of a domain."""
    match level.topology:
        case Switch() as switch:
            return 2 * int(switches.tiers(switch, level.size))
        case FullMesh():
            return min(level.size - 1, 1)
    return int(sum(extent.hops for extent in extents(level, level.size, 1)))


def links(level: Level) -> int:
    """Links of one domain; each is counted once and carries data both ways."""
    match level.topology:
        case Switch() as switch:
            return int(switches.links(switch, level.size))
        case FullMesh():
            return level.size * (level.size - 1) // 2
    dims, closed = grid(level)
    return sum(level.size // d * (d if closed else d - 1) for d in dims)


def cut_links(level: Level) -> int:
    """Links between the halves of a domain whose cards are joined without switches.

    A grid is cut across its longest dimension: twice where the ends of lines are joined, 2k² links
    for a torus of k³ cards (6.5.4).
    """
    if isinstance(level.topology, FullMesh):
        return (level.size // 2) * -(-level.size // 2)
    dims, closed = grid(level)
    return level.size // max(dims) * (2 if closed else 1)


def bisection(level: Level) -> float:
    """Bytes per second that each card of one half of a domain can send to the other half.

    Never more than its own links carry; NaN where the level states no bandwidth.
    """
    half = max(level.size // 2, 1)
    match level.topology:
        case Switch() as switch:
            crosses = int(switches.tiers(switch, level.size)) > 1
            return level.beta / (switch.oversubscription if crosses else 1.0)
        case FullMesh():
            ports = max(level.size - 1, 1)
        case _:
            ports = LINKS_OF_LINE * len(grid(level)[0])
    return level.beta * min(cut_links(level) / (ports * half), 1.0)
