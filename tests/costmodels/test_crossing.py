"""Collectives over levels: every algorithm rank by rank, and what makes a machine no slower."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from constraints.axes import domains
from constraints.fabric import FABRIC
from constraints.space import Space
from costmodels.base import cost_model
from costmodels.collectives.crossing import ALGORITHMS
from costmodels.collectives.fabric import (
    Exchange,
    boundary_seconds,
    deployment_links,
    exchange_seconds,
)
from costmodels.plans import PlanTable, encode
from specs.assumptions import PhaseEfficiency
from specs.problem import Problem
from tests.strategies import problem_of

Raw = dict[str, Any]
NVLINK: Raw = {"name": "nvlink", "size": 8, "bandwidth": 450e9, "latency": 0.833e-6}
ADAPTERS: Raw = {"name": "adapters", "size": 256, "bandwidth": 50e9, "latency": 5e-6}
"""The fabric of 6.7.4: servers of eight cards, and an adapter for each card between them."""


def machine(*levels: Raw, **assumptions: Any) -> Problem:
    """A machine of these levels, as wide as the outermost one."""
    cards, server = levels[-1]["size"], levels[0].get("sizes", [levels[0]["size"]])[0]
    raw = problem_of(cards=8).model_dump()
    raw["hardware"] |= {"cards": cards, "server": {"cards": server}, "levels": levels}
    raw["assumptions"] |= assumptions
    return Problem.model_validate(raw)


def seconds(
    problem: Problem,
    operation: str,
    n: int,
    size: float,
    *,
    stride: int = 1,
    **axes: int | str,
) -> float:
    """Seconds of one group in an instance that is no larger, unless ``axes`` say so."""
    columns = {"tp": n * stride} | {a: encode(a, v) for a, v in axes.items()}
    plans = PlanTable.from_columns({a: [v] for a, v in columns.items()})
    exchange = Exchange("x", operation, np.array([n]), np.array([stride]), np.array([float(size)]))
    return float(exchange_seconds(problem, plans, exchange, PhaseEfficiency())[0])


def ring(n: int, size: float, alpha: float, beta: float) -> float:
    return 2 * (n - 1) * (alpha + size / n / beta)


# Published


def test_cross_server_64() -> None:
    """6.7.4: 64 cards in servers of 8, 80 exchanges of 335 tokens, network only: 29.21536 ms."""
    problem = machine(NVLINK, ADAPTERS, alltoall_levels="outermost")
    sent = 335 * 6 * 5120 * 2 * 63 / 64
    found = 80 * seconds(problem, "all_to_all", 64, sent)
    assert found == pytest.approx(0.02921536, rel=1e-12)


def test_supernode_64() -> None:
    """6.7.4: the same in one domain, 80 × (0.833 us + 335·6·5120·2·(63/64) / 450e9)."""
    problem = machine({**NVLINK, "size": 64}, ADAPTERS)
    sent = 335 * 6 * 5120 * 2 * 63 / 64
    found = 80 * seconds(problem, "all_to_all", 64, sent)
    assert found == pytest.approx(80 * (0.833e-6 + sent / 450e9), rel=1e-12)


def test_flat_ring_over_two_servers() -> None:
    """6.5.1: 30 rounds at 3.76 us, about 113 us; one ring inside another takes a fifth."""
    level = {**ADAPTERS, "latency": 3.76e-6}
    problem = machine({**NVLINK, "latency": 0.822e-6}, level)
    flat = seconds(problem, "allreduce", 16, 10240, allreduce="ring")
    nested = seconds(problem, "allreduce", 16, 10240, allreduce="hierarchical")
    assert flat * 1e6 == pytest.approx(30 * (3.76 + 10240 / 16 / 50e3))
    assert nested == ring(8, 10240, 0.822e-6, 450e9) + ring(2, 1280, 3.76e-6, 50e9)
    assert nested < flat / 5


# All-to-All


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("added", 0.833e-6 + 1e9 * 7 / 63 / 450e9 + 5e-6 + 1e9 * 56 / 63 / 50e9),
        ("overlapped", 5e-6 + 1e9 * 56 / 63 / 50e9),
        ("outermost", 5e-6 + 1e9 * 56 / 63 / 50e9),
    ],
)
def test_legs_of_an_all_to_all(rule: str, expected: float) -> None:
    problem = machine(NVLINK, ADAPTERS, alltoall_levels=rule)
    assert seconds(problem, "all_to_all", 64, 1e9) == pytest.approx(expected, rel=1e-12)


def test_overlapped_is_bound_by_the_slower_leg() -> None:
    slow = {**NVLINK, "size": 4, "bandwidth": 30e9}
    inner, outer = 0.833e-6 + 1e9 * 3 / 7 / 30e9, 5e-6 + 1e9 * 4 / 7 / 50e9
    found = [
        seconds(machine(slow, ADAPTERS, alltoall_levels=rule), "all_to_all", 8, 1e9)
        for rule in ("overlapped", "outermost")
    ]
    assert found == pytest.approx([inner, outer], rel=1e-12)


def test_few_bytes_take_one_network_only() -> None:
    problem = machine(NVLINK, ADAPTERS)
    assert seconds(problem, "all_to_all", 64, 1e3) == pytest.approx(5e-6 + 1e3 / 50e9)
    pairwise = seconds(problem, "all_to_all", 64, 1e3, alltoall="pairwise")
    assert pairwise == pytest.approx(
        7 * 0.833e-6 + 1e3 * 7 / 63 / 450e9 + 56 * 5e-6 + 1e3 * 56 / 63 / 50e9
    )


# AllReduce, and its halves


def test_three_rings_inside_each_other() -> None:
    middle = {**ADAPTERS, "name": "rack", "size": 32, "bandwidth": 100e9, "latency": 2e-6}
    problem = machine(NVLINK, middle, ADAPTERS)
    expected = (
        ring(8, 1e6, 0.833e-6, 450e9)
        + ring(4, 1e6 / 8, 2e-6, 100e9)
        + ring(2, 1e6 / 32, 5e-6, 50e9)
    )
    found = seconds(problem, "allreduce", 64, 1e6, allreduce="hierarchical")
    assert found == pytest.approx(expected, rel=1e-12)
    halves = [seconds(problem, half, 64, 1e6) for half in ("reduce_scatter", "all_gather")]
    assert halves == pytest.approx([expected / 2] * 2, rel=1e-12)


@settings(max_examples=60)
@given(n=st.integers(1, 16), size=st.floats(1, 1e9))
def test_a_ring_inside_one_domain_is_a_ring(n: int, size: float) -> None:
    problem = machine({**NVLINK, "size": 16}, ADAPTERS)
    one, other = (
        seconds(problem, "allreduce", n, size, allreduce=name) for name in ("ring", "hierarchical")
    )
    assert one == pytest.approx(other, rel=1e-12)


def test_switches_that_add_up() -> None:
    able = {**NVLINK, "size": 16, "topology": {"kind": "switch", "reduces": True}}
    problem = machine(able, ADAPTERS)
    found = seconds(problem, "allreduce", 16, 1e6, allreduce="in_network")
    assert found == pytest.approx(2 * 0.833e-6 + 1e6 / 450e9)
    assert seconds(problem, "allreduce", 16, 1e6) == found
    # Beyond that domain no switch adds up; auto takes something else.
    assert seconds(problem, "allreduce", 32, 1e6, allreduce="in_network") == math.inf
    assert seconds(problem, "allreduce", 32, 1e6) < 1


@pytest.mark.parametrize("name", ["recursive", "swing"])
def test_pairs_behind_a_switch(name: str) -> None:
    problem = machine({**NVLINK, "size": 16}, ADAPTERS)
    eight = 2 * (3 * 0.833e-6 + 7 / 8 * 1e6 / 450e9)
    assert seconds(problem, "allreduce", 8, 1e6, allreduce=name) == pytest.approx(eight)
    # The ninth to fifteenth rank first add their vector to that of another one.
    added = eight + 2 * (0.833e-6 + 1e6 / 450e9)
    for n in range(9, 16):
        assert seconds(problem, "allreduce", n, 1e6, allreduce=name) == pytest.approx(added)


def busiest_links(name: str, n: int) -> list[float]:
    """Messages over the busiest directed link of a ring in each round, or half either way."""
    found = []
    for turn in range(n.bit_length() - 1):
        load: dict[tuple[int, int], float] = {}
        for card in range(n):
            far = sum((-2) ** i for i in range(turn + 1))
            peer = card ^ (1 << turn) if name == "recursive" else card + far * (-1) ** card
            onward = (peer - card) % n
            for step, hops in ((1, onward), (-1, n - onward)):
                if hops <= n - hops:
                    part = 0.5 if 2 * hops == n else 1.0
                    for hop in range(hops):
                        link = ((card + step * hop) % n, step)
                        load[link] = load.get(link, 0.0) + part
        found.append(max(load.values()))
    return found


@pytest.mark.parametrize("name", ["recursive", "swing"])
def test_pairs_on_a_ring(name: str) -> None:
    """16 cards and 8 MiB (6.5.1): the first rounds load a link with 4, 4, 4 or 4, 2, 2 MiB."""
    level = {**NVLINK, "size": 16, "bandwidth": 50e9, "links": 2, "topology": {"kind": "ring"}}
    problem, mib = machine(level), 2**20
    loads = [load * 8 * mib / 2 ** (i + 1) for i, load in enumerate(busiest_links(name, 16))]
    assert [load / mib for load in loads[:3]] == ([4, 4, 4] if name == "recursive" else [4, 2, 2])
    found = seconds(problem, "allreduce", 16, 8 * mib, allreduce=name)
    assert found == pytest.approx(2 * (4 * 0.833e-6 + sum(loads) / 50e9), rel=1e-12)


def test_pairs_on_a_torus_follow_its_dimensions() -> None:
    torus = {"kind": "torus", "dims": [4, 4]}
    problem = machine({**NVLINK, "size": 16, "bandwidth": 50e9, "links": 4, "topology": torus})
    # A quarter of the vector is left after the first dimension.
    along = sum(load / 2 ** (i + 1) for i, load in enumerate(busiest_links("recursive", 4)))
    expected = 2 * (4 * 0.833e-6 + 1e6 * (1 + 1 / 4) * along / 50e9)
    found = seconds(problem, "allreduce", 16, 1e6, allreduce="recursive")
    assert found == pytest.approx(expected, rel=1e-12)


# Networks


def test_a_torus_shares_its_links() -> None:
    """6.5.1: rings along three dimensions use all six links, an All-to-All a third (64/21 hops)."""
    torus = {"kind": "torus", "dims": [4, 4, 4]}
    problem = machine({**NVLINK, "size": 64, "bandwidth": 50e9, "links": 6, "topology": torus})
    size = 2.0**25
    sent = seconds(problem, "all_to_all", 64, size) - 0.833e-6
    assert sent == pytest.approx(size * 64 / 63 / 2 / 50e9)
    reduced = seconds(problem, "allreduce", 64, size, allreduce="ring")
    assert reduced == pytest.approx(ring(64, size, 0.833e-6, 300e9))


def test_further_chips_add_their_time() -> None:
    """6.5.1: 4 further chips of 200 ns on a 4×4×4 torus; neighbours of a ring pass none."""
    torus = {"kind": "torus", "dims": [4, 4, 4]}
    level = {**NVLINK, "size": 64, "hop": 200e-9, "topology": torus}
    plain = machine({**level, "hop": 0.0})
    problem = machine(level)
    hops = seconds(problem, "all_to_all", 64, 1e6) - seconds(plain, "all_to_all", 64, 1e6)
    assert hops == pytest.approx(5 * 200e-9)
    ring_of = [seconds(p, "allreduce", 64, 1e6, allreduce="ring") for p in (plain, problem)]
    assert ring_of[0] == ring_of[1]
    two_tiers = {**level, "topology": {"kind": "switch", "radix": 32}}
    behind = seconds(machine(two_tiers), "allreduce", 64, 1e6, allreduce="ring")
    assert behind - ring_of_switch(two_tiers) == pytest.approx(126 * 2 * 200e-9)


def ring_of_switch(level: Raw) -> float:
    return ring(64, 1e6, level["latency"], level["bandwidth"])


def test_oversubscription_counts_between_chips_only() -> None:
    """48 ports down and 16 up leave a card a third of its bandwidth beyond its chip (6.5.1)."""
    switch = {"kind": "switch", "radix": 64, "oversubscription": 3}
    problem = machine({**NVLINK, "size": 384, "topology": switch})
    near = seconds(problem, "all_to_all", 48, 1e6, attention_dp=8, alltoall="direct")
    far = seconds(problem, "all_to_all", 384, 1e6, alltoall="direct")
    assert near == pytest.approx(0.833e-6 + 1e6 / 450e9)
    assert far == pytest.approx(0.833e-6 + 1e6 / 150e9)


@pytest.mark.parametrize(("stride", "rate"), [(1, 450e9), (16, 450e9), (32, 225e9), (48, 150e9)])
def test_rings_of_neighbours_share_the_ports_up(stride: int, rate: float) -> None:
    """One ring leaves a chip of 48 cards once, over one of 16 ports up; 32 rings have half each."""
    switch = {"kind": "switch", "radix": 64, "oversubscription": 3}
    problem = machine({**NVLINK, "size": 384, "topology": switch})
    n = 384 // stride
    found = seconds(problem, "allreduce", n, 1e6, stride=stride, allreduce="ring")
    assert found == pytest.approx(ring(n, 1e6, 0.833e-6, rate))


def test_messages_wait_for_state_that_is_not_on_the_chip() -> None:
    state = {"kind": "pairwise", "endpoints": 8, "cache": 65536, "miss": 1e-6}
    waiting = machine(NVLINK, {**ADAPTERS, "connections": state})
    plain = machine(NVLINK, ADAPTERS)
    held = 512 * 64 * 7 + 32 * 8
    wait = 1e-6 * (1 - 65536 / held)
    found = [seconds(p, "allreduce", 64, 1e6, allreduce="tree") for p in (plain, waiting)]
    assert found[1] - found[0] == pytest.approx(12 * wait)
    inside = [seconds(p, "allreduce", 8, 1e6) for p in (plain, waiting)]
    assert inside[0] == inside[1]


def test_host_memory_between_processors_bounds_a_ring() -> None:
    staged = {**NVLINK, "staging": {"bandwidth": 100e9}}
    crossing = {**NVLINK, "staging": {"bandwidth": 100e9, "buffers": "one_node"}}
    found = [seconds(machine(x), "allreduce", 8, 1e6, allreduce="ring") for x in (staged, crossing)]
    assert found == pytest.approx([ring(8, 1e6, 0.833e-6, 100e9), ring(8, 1e6, 0.833e-6, 25e9)])


# The domain of a plan

BUILT: Raw = {**NVLINK, "size": 64, "sizes": [8, 16, 64]}


@pytest.mark.parametrize("domain", [8, 16, 64])
def test_a_plan_chooses_how_large_domains_are_built(domain: int) -> None:
    built = [size for size in BUILT["sizes"] if size <= domain]
    chosen = machine(BUILT, ADAPTERS)
    fixed = machine({**NVLINK, "size": domain, "sizes": built}, ADAPTERS)
    for operation in ALGORITHMS:
        for n, stride in ((64, 1), (8, 8), (12, 1)):
            mine, theirs = (
                seconds(p, operation, n, 1e6, stride=stride, **axes)
                for p, axes in ((chosen, {"domain": domain}), (fixed, {}))
            )
            assert mine == theirs
    largest = seconds(chosen, "all_to_all", 64, 1e6)
    assert largest == seconds(chosen, "all_to_all", 64, 1e6, domain=64)


def test_a_large_domain_is_used_as_small_ones_where_that_is_faster() -> None:
    """A ring over 16 cards has 30 rounds; rings of 8 and then of 2 have 16."""
    plain = machine({**NVLINK, "size": 16}, ADAPTERS)
    built = machine({**NVLINK, "sizes": [8, 16], "size": 16}, ADAPTERS)
    long, nested = (
        seconds(p, "allreduce", 16, 1e6, allreduce="hierarchical") for p in (plain, built)
    )
    assert long == pytest.approx(ring(16, 1e6, 0.833e-6, 450e9))
    assert nested == pytest.approx(
        ring(8, 1e6, 0.833e-6, 450e9) + ring(2, 1e6 / 8, 0.833e-6, 450e9)
    )


def test_hand_overs_follow_the_domain_of_the_plan() -> None:
    hardware = machine(BUILT, ADAPTERS).hardware
    plans = PlanTable.from_columns({"tp": 8, "pp": 4, "replicas": 2, "domain": [8, 16, 64]})
    total, slowest = boundary_seconds(hardware, plans, np.full(3, 1e6))
    inner, outer = 0.833e-6 + 1e6 / 450e9, 5e-6 + 1e6 / 50e9
    assert total == pytest.approx([3 * outer, 2 * inner + outer, 3 * inner])
    assert slowest == pytest.approx([outer, outer, inner])
    alpha, beta = deployment_links(hardware, plans)
    assert alpha.tolist() == [5e-6, 5e-6, 0.833e-6]
    assert beta.tolist() == [50e9, 50e9, 450e9]


def test_a_domain_as_large_as_the_level_around_it_leaves_that_nothing_to_do() -> None:
    """The outer level may then be as slow as it likes, or state nothing."""
    whole = {**BUILT, "size": 256, "sizes": [8, 256]}
    for outer in (ADAPTERS, {**ADAPTERS, "bandwidth": 1.0}):
        problem = machine(whole, outer)
        assert seconds(problem, "all_to_all", 256, 1e6) == pytest.approx(0.833e-6 + 1e6 / 450e9)


def test_a_domain_that_is_not_built_is_named() -> None:
    problem = machine(BUILT, ADAPTERS)
    raw = problem.model_dump()
    raw["space"] = {"domain": [8, 12]}
    problem = Problem.model_validate(raw)
    rule = next(c for c in FABRIC if c.name == "domain")
    assert rule.applies(problem)
    space = Space(problem, cost_model("roofline"))
    case = space.case(PlanTable.from_columns({"domain": [12, 8, 0]}))
    assert case.problem is problem
    assert rule.margin(case).tolist() == [-4, 0, 0]
    assert rule.reason(case) == (
        "a domain of 12 cards, but nvlink of machine is built with 8, 16 or 64"
    )
    assert set(space.plans().domain.tolist()) == {8}


def test_an_instance_is_no_wider_than_the_domain_that_was_chosen() -> None:
    problem = machine({**BUILT, "size": 64})
    rule = next(c for c in FABRIC if c.name == "fabric")
    plans = PlanTable.from_columns({"tp": 16, "domain": [8, 16, 0]})
    case = Space(problem, cost_model("roofline")).case(plans)
    assert rule.margin(case).tolist() == [-8, 0, 48]
    assert rule.reason(case) == "an instance of 16 cards, but nvlink joins only 8"


def test_in_network_needs_switches_that_add_up() -> None:
    able = {**NVLINK, "topology": {"kind": "switch", "reduces": True}}
    problem = machine(able, ADAPTERS)
    raw = problem.model_dump()
    raw["space"] = {"allreduce": ["in_network", "ring"]}
    problem = Problem.model_validate(raw)
    rule = next(c for c in FABRIC if c.name == "in_network")
    assert rule.applies(problem)
    assert not rule.applies(machine(NVLINK, ADAPTERS)), "auto passes it by"
    words = [encode("allreduce", name) for name in ("in_network", "ring")]
    plans = PlanTable.from_columns({"tp": [8, 16, 16, 1], "allreduce": [*words[:1] * 2, *words]})
    plans = plans.with_columns(allreduce=np.array([words[0], words[0], words[1], words[0]]))
    case = Space(problem, cost_model("roofline")).case(plans)
    assert rule.allowed(case).tolist() == [True, False, True, True]
    assert rule.reason(case.take(1)) == (
        "in-network AllReduce over ranks whose switches do not add up: of the fabric levels of "
        "machine, only those of nvlink do"
    )


def test_open_tries_in_network_only_where_switches_add_up() -> None:
    word = encode("allreduce", "in_network")
    for level, tried in (
        (NVLINK, False),
        ({**NVLINK, "topology": {"kind": "switch", "reduces": True}}, True),
    ):
        raw = machine(level, ADAPTERS).model_dump()
        raw["space"] = {"allreduce": "open"}
        assert (word in domains(Problem.model_validate(raw))["allreduce"]) is tried
