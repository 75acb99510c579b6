"""Topologies: closed forms against messages that are walked link by link."""

import itertools
import math
from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from costmodels.collectives import switches, topology
from specs.fabric import Level, Switch

Place = tuple[int, ...]


def grid(kind: str, dims: Place) -> Level:
    network = {"kind": kind, "dims": dims}
    return Level(name="grid", size=math.prod(dims), bandwidth=1.0, topology=network)


def full_mesh(size: int) -> Level:
    return Level(name="mesh", size=size, bandwidth=1.0, topology={"kind": "full_mesh"})


class Laid(NamedTuple):
    """Groups that fill whole rows of a grid: members along each dimension, and how far apart."""

    kind: str
    dims: Place
    members: Place
    step: Place

    @property
    def ranks(self) -> int:
        return math.prod(self.members)

    @property
    def stride(self) -> int:
        axis = next((i for i, m in enumerate(self.members) if m > 1), 0)
        return math.prod(self.dims[:axis]) * self.step[axis]

    @property
    def level(self) -> Level:
        return grid(self.kind, self.dims)

    @property
    def closed(self) -> tuple[bool, ...]:
        """Dimensions in which messages may go round: a part of a line keeps to itself."""
        whole = zip(self.members, self.step, self.dims, strict=True)
        return tuple(self.kind == "torus" and m * s == d for m, s, d in whole)

    def groups(self) -> list[list[Place]]:
        """All groups of the machine, side by side, as places of their members."""
        numbered = np.arange(math.prod(self.dims))
        offset, turn = numbered % self.stride, numbered // self.stride % self.ranks
        first = numbered - offset - turn * self.stride
        blocks: dict[int, list[Place]] = {}
        for card, block in zip(numbered.tolist(), (first + offset).tolist(), strict=True):
            blocks.setdefault(block, []).append(self.place(card))
        return list(blocks.values())

    def place(self, card: int) -> Place:
        found = []
        for d in self.dims:
            card, at = divmod(card, d)
            found.append(at)
        return tuple(found)


def divisors(n: int) -> list[int]:
    return [d for d in range(1, n + 1) if n % d == 0]


@st.composite
def laid(draw: st.DrawFn) -> Laid:
    """Groups that start within one dimension, and go on along others once they fill it."""
    dims = draw(st.lists(st.sampled_from([2, 3, 4, 6]), min_size=1, max_size=3).map(tuple))
    first = draw(st.integers(0, len(dims) - 1))
    members, step = [1] * len(dims), [1] * len(dims)
    step[first] = draw(st.sampled_from([s for s in divisors(dims[first]) if s < dims[first]]))
    for axis in range(first, len(dims)):
        room = dims[axis] // step[axis]
        members[axis] = draw(st.sampled_from(divisors(room)[axis == first :]))
        if members[axis] < room:
            break
    return Laid(draw(st.sampled_from(["torus", "mesh"])), dims, tuple(members), tuple(step))


def walk(a: Place, b: Place, dims: Place, closed: tuple[bool, ...]) -> Counter[Any]:
    """Links of a message, one dimension after the other, halved where both ways are as long."""
    found: Counter[Any] = Counter()
    at = list(a)
    for axis, d in enumerate(dims):
        onward, back = (b[axis] - at[axis]) % d, (at[axis] - b[axis]) % d
        ways = {1: onward, -1: back}
        if not closed[axis]:
            ways = {1: onward} if b[axis] > at[axis] else {-1: back}
        hops = min(ways.values())
        shortest = [direction for direction, length in ways.items() if length == hops]
        for direction, turn in itertools.product(shortest, range(hops)):
            here = (*at[:axis], (at[axis] + direction * turn) % d, *at[axis + 1 :])
            found[here, axis, direction] += 1 / len(shortest)
        at[axis] = b[axis]
    return found


@given(laid())
def test_alltoall_is_bound_by_the_busiest_link(case: Laid) -> None:
    loads: Counter[Any] = Counter()
    for group in case.groups():
        for a, b in itertools.permutations(group, 2):
            loads.update(walk(a, b, case.dims, case.closed))
    busiest = max(loads.values()) / (case.ranks - 1)
    share = topology.alltoall_share(case.level, case.ranks, case.stride)
    assert share == pytest.approx(1 / (2 * len(case.dims) * busiest))


@given(laid())
def test_a_ring_along_each_dimension_uses_every_link_once(case: Laid) -> None:
    """Bytes that leave each card over rings, folded on lines, against the busiest link."""
    expected = 0.0
    for axis, (m, s) in enumerate(zip(case.members, case.step, strict=True)):
        if m > 1:
            expected += (2 if case.closed[axis] else 1) / s
    share = topology.ring_share(case.level, case.ranks, case.stride)
    assert share == pytest.approx(expected / (2 * len(case.dims)))
    assert 0 < share <= 1


@given(laid())
def test_chips_between_the_farthest_members(case: Laid) -> None:
    group = case.groups()[0]
    farthest = max(
        walk(a, b, case.dims, case.closed).total() for a, b in itertools.permutations(group, 2)
    )
    size = case.level.size
    passed = topology.chips_passed(case.level, size, case.ranks, case.stride)
    assert passed == round(farthest) - 1


@given(laid())
def test_joined_ends_never_harm(case: Laid) -> None:
    torus, mesh = grid("torus", case.dims), grid("mesh", case.dims)
    for share in (topology.ring_share, topology.alltoall_share):
        assert share(torus, case.ranks, case.stride) >= share(mesh, case.ranks, case.stride)
    assert topology.cut_links(torus) >= topology.cut_links(mesh)
    assert topology.bisection(torus) >= topology.bisection(mesh)
    assert topology.diameter(torus) <= topology.diameter(mesh)


@given(laid())
def test_a_plan_among_others_is_as_alone(case: Laid) -> None:
    ranks, stride = np.array([case.ranks, 1, 2]), np.array([case.stride, 1, 1])
    for share in (topology.ring_share, topology.alltoall_share):
        assert share(case.level, ranks, stride)[0] == share(case.level, case.ranks, case.stride)
        assert share(case.level, ranks, stride)[1] == 1.0


def test_a_ring_is_a_torus_of_one_dimension() -> None:
    ring = Level(name="ring", size=12, bandwidth=1.0, topology={"kind": "ring"})
    torus = grid("torus", (12,))
    for ranks, stride in ((12, 1), (4, 1), (4, 3), (2, 6)):
        for share in (topology.ring_share, topology.alltoall_share):
            assert share(ring, ranks, stride) == share(torus, ranks, stride)
    assert topology.diameter(ring) == 6
    assert topology.links(ring) == 12


@pytest.mark.parametrize(
    ("dims", "links", "cut", "diameter"),
    [((4,), 3, 1, 3), ((4, 4), 24, 4, 6), ((2, 3, 4), 46, 6, 6)],
)
def test_mesh(dims: Place, links: int, cut: int, diameter: int) -> None:
    mesh = grid("mesh", dims)
    found = topology.links(mesh), topology.cut_links(mesh), topology.diameter(mesh)
    assert found == (links, cut, diameter)


def test_full_mesh() -> None:
    mesh = full_mesh(8)
    assert topology.links(mesh) == 28
    assert topology.diameter(mesh) == 1
    assert topology.chips_passed(mesh, 8, 8, 1) == 0
    # Four cards reach each other over three of seven links.
    for share in (topology.ring_share, topology.alltoall_share):
        assert share(mesh, np.array([1, 4, 8]), 1) == pytest.approx([1.0, 3 / 7, 1.0])
    # Each of four cards has four links to the other half.
    assert topology.bisection(mesh) == pytest.approx(4 / 7)


# Switches


def test_a_switch_joins_all_alike() -> None:
    level = Level(name="switch", size=8, bandwidth=1.0)
    for share in (topology.ring_share, topology.alltoall_share):
        assert share(level, np.array([2, 8]), np.array([4, 1])).tolist() == [1.0, 1.0]
    assert topology.chips_passed(level, 8, 8, 1) == 0
    assert topology.bisection(level) == 1.0


def test_three_tiers_of_four_ports() -> None:
    """The fat tree of k = 4: k³/4 cards, k²/4 tops and k²/2 of each tier below."""
    switch = Switch(radix=4)
    assert switches.tiers(switch, np.array([4, 5, 8, 9, 16])).tolist() == [1, 2, 2, 3, 3]
    assert switches.chips(switch, 16) == 20
    assert switches.links(switch, 16) == 48
    level = Level(name="tree", size=16, bandwidth=1.0, topology=switch)
    groups = ((2, 1), (4, 1), (2, 2), (16, 1))
    assert [int(topology.chips_passed(level, 16, *g)) for g in groups] == [0, 2, 2, 4]
    # The same groups of a domain that one chip joins pass no other.
    assert [int(topology.chips_passed(level, 4, *g)) for g in groups] == [0, 0, 0, 0]


@given(st.integers(2, 32).map(lambda half: 2 * half), st.integers(1, 4), st.integers(1, 5000))
def test_more_cards_never_need_fewer_chips(radix: int, planes: int, cards: int) -> None:
    switch = Switch(radix=radix, planes=planes)
    sizes = np.array([cards, cards + 1])
    for count in (switches.tiers, switches.chips, switches.links):
        fewer, more = count(switch, sizes)
        assert fewer <= more
    assert switches.links(switch, cards) >= planes * cards
    assert switches.chips(switch, cards) * radix >= planes * cards


@given(st.sampled_from([8, 64]), st.floats(1, 8), st.integers(65, 2000))
def test_oversubscription_saves_uplinks_and_costs_bandwidth(
    radix: int, ratio: float, cards: int
) -> None:
    even, narrow = Switch(radix=radix), Switch(radix=radix, oversubscription=ratio)
    down, up = switches.leaf_ports(radix, ratio)
    assert down + up == radix
    assert 1 <= up <= down <= ratio * up * (1 + 1e-6)
    assert switches.tiers(narrow, cards) <= switches.tiers(even, cards)
    levels = [Level(name="s", size=cards, bandwidth=1.0, topology=s) for s in (even, narrow)]
    assert topology.bisection(levels[1]) <= topology.bisection(levels[0])


@given(
    st.sampled_from([4, 8, 16]), st.sampled_from([1.5, 2, 3, 7]),
    st.integers(2, 24), st.integers(1, 12), st.integers(1, 6),
)  # fmt: skip
def test_rings_send_no_more_up_from_a_leaf_than_it_has_room_for(
    radix: int, ratio: float, ranks: int, stride: int, copies: int
) -> None:
    """Count the cards of each leaf whose next one in their ring lies below another leaf."""
    switch = Switch(radix=radix, oversubscription=ratio)
    down, _ = switches.leaf_ports(radix, ratio)
    block = ranks * stride
    share = float(switches.uplink_share(switch, copies * block, ranks, stride, stride))
    card = np.arange(copies * block)
    following = card // block * block + (card % block + stride) % block
    sending = np.bincount(card // down, card // down != following // down).max()
    room = down / ratio
    if switches.tiers(switch, copies * block) > 1:
        assert share * sending <= room * (1 + 1e-12)
    if share < 1 and block % down == 0:
        assert share * sending == pytest.approx(room)
    assert share >= float(switches.uplink_share(switch, copies * block, ranks, stride))


def test_one_chip_has_no_ports_up() -> None:
    with pytest.raises(ValidationError, match="oversubscription needs the radix of a chip"):
        Switch(oversubscription=4)
    assert switches.uplink_share(Switch(), 512, 512, 1) == 1
