"""Collectives: closed forms, measured tables, and where the ranks of a group really lie."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.collectives import algorithms
from costmodels.collectives.domains import inside, instances_held, servers_spanned
from costmodels.collectives.fabric import (
    Exchange,
    boundary_seconds,
    bytes_sent,
    exchange_seconds,
)
from costmodels.collectives.routes import Route
from costmodels.plans import PlanTable, encode
from specs import load_problem
from specs.assumptions import ByPath, PhaseEfficiency
from specs.hardware import HardwareSpec
from specs.problem import Problem
from tests.strategies import machines, placement

KIB, MIB = 1024, 1024**2
NVLINK = (0.822e-6, 450e9)
"""Start-up time and bandwidth of the examples of 6.4.2."""

FORMS: dict[str, dict[str, Any]] = {
    "allreduce": {"ring": algorithms.ring_allreduce, "tree": algorithms.tree_allreduce},
    "reduce_scatter": {"ring": algorithms.ring_half},
    "all_gather": {"ring": algorithms.ring_half},
    "all_to_all": {
        "direct": algorithms.direct_alltoall,
        "pairwise": algorithms.pairwise_alltoall,
    },
}
"""Closed forms of what libraries run on one level."""

operations = pytest.mark.parametrize("operation", list(FORMS))


def closed(operation: str, algorithm: str, n: int, size: float, links: Any = NVLINK) -> float:
    alpha, beta = (np.array([x]) for x in links)
    form = FORMS[operation][algorithm]
    return float(form(np.array([n]), np.array([float(size)]), alpha, beta)[0])


@pytest.mark.parametrize(
    ("n", "microseconds"),
    [(1, 0.0), (2, 1.667), (4, 4.966), (8, 11.548)],
)
def test_ring_of_10_kib(n: int, microseconds: float) -> None:
    assert closed("allreduce", "ring", n, 10 * KIB) * 1e6 == pytest.approx(microseconds, abs=5e-4)


def test_numbers_of_the_text() -> None:
    """6.4.2: 5.07 μs by tree; 80 MiB take 0.34 ms by ring, 1.12 ms by tree; even near 680 KiB."""
    assert closed("allreduce", "tree", 8, 10 * KIB) * 1e6 == pytest.approx(5.07, abs=0.005)
    assert closed("allreduce", "ring", 8, 80 * MIB) * 1e3 == pytest.approx(0.34, abs=0.005)
    assert closed("allreduce", "tree", 8, 80 * MIB) * 1e3 == pytest.approx(1.12, abs=0.005)
    assert closed("allreduce", "ring", 8, 670 * KIB) > closed("allreduce", "tree", 8, 670 * KIB)
    assert closed("allreduce", "ring", 8, 690 * KIB) < closed("allreduce", "tree", 8, 690 * KIB)


@pytest.mark.parametrize(
    ("operation", "algorithm", "n", "seconds"),
    [
        # alpha 1 s, 2 bytes a second, 12 bytes
        ("allreduce", "ring", 4, 6 * (1 + 12 / 4 / 2)),
        ("allreduce", "ring", 3, 4 * (1 + 12 / 3 / 2)),
        ("allreduce", "tree", 4, 4 * (1 + 12 / 2)),
        ("allreduce", "tree", 5, 6 * (1 + 12 / 2)),
        ("allreduce", "tree", 2, 2 * (1 + 12 / 2)),
        ("reduce_scatter", "ring", 4, 3 * (1 + 12 / 4 / 2)),
        ("all_gather", "ring", 6, 5 * (1 + 12 / 6 / 2)),
        ("all_to_all", "direct", 4, 1 + 12 / 2),
        ("all_to_all", "pairwise", 4, 3 + 12 / 2),
    ],
)
def test_closed_forms(operation: str, algorithm: str, n: int, seconds: float) -> None:
    assert closed(operation, algorithm, n, 12, (1.0, 2.0)) == pytest.approx(seconds)


@pytest.mark.parametrize("n", range(1, 20))
def test_an_allreduce_is_a_reduce_scatter_and_an_all_gather(n: int) -> None:
    halves = [closed(half, "ring", n, 12345) for half in ("reduce_scatter", "all_gather")]
    assert closed("allreduce", "ring", n, 12345) == pytest.approx(sum(halves))


@pytest.mark.parametrize("n", range(2, 10))
def test_ring_follows_the_chunks_round_by_round(n: int) -> None:
    """Pass chunks round the ring by the rule of figure 6-23, and count rounds and bytes."""
    sums = [[{rank} for _ in range(n)] for rank in range(n)]
    rounds = 0
    for step in range(2 * (n - 1)):
        moved = [(rank, (rank - step) % n) for rank in range(n)]
        sent = {(rank, chunk): set(sums[rank][chunk]) for rank, chunk in moved}
        for rank, chunk in moved:
            sums[(rank + 1) % n][chunk] |= sent[rank, chunk]
        rounds += 1
    assert all(chunk == set(range(n)) for rank in sums for chunk in rank)
    size, (alpha, beta) = 64 * KIB, NVLINK
    expected = rounds * (alpha + size / n / beta)
    assert closed("allreduce", "ring", n, size) == pytest.approx(expected)
    exchange = Exchange("x", "allreduce", np.array([n]), np.array([1]), np.array([float(size)]))
    assert bytes_sent(exchange)[0] == pytest.approx(rounds * size / n)


# Where a group lies


def plan_of(**axes: int) -> PlanTable:
    return PlanTable.from_columns({axis: [value] for axis, value in axes.items()})


def machine(*sizes: int, cards: int = 0, server: int = 0, table: Any = ()) -> HardwareSpec:
    """Levels of rising latency and falling bandwidth."""
    return HardwareSpec.model_validate(
        {
            "name": "machine",
            "cards": cards or sizes[-1],
            "card": {"peak": {"bf16": 1e15}},
            "memory": {"hbm": {"capacity": 1e9, "bandwidth": 1e12}},
            "server": {"cards": server or sizes[0]},
            "levels": [
                {"name": f"level {i}", "size": s, "bandwidth": 1e11 / 4**i, "latency": 1e-6 * 3**i}
                for i, s in enumerate(sizes)
            ],
            "collectives": table,
        }
    )


def members(cards: int, ranks: int, stride: int) -> Iterator[list[int]]:
    """Positions in an instance of the ranks of every group, by the documented rank order."""
    block = ranks * stride
    for start in range(0, cards, block):
        for offset in range(stride):
            yield [start + offset + rank * stride for rank in range(ranks)]


@st.composite
def shapes(draw: Any) -> tuple[HardwareSpec, PlanTable]:
    """Machines of any nesting and instances of any shape that the machine can hold."""
    sizes = [draw(st.integers(1, 6))]
    for _ in range(draw(st.integers(0, 2))):
        sizes.append(sizes[-1] * draw(st.integers(2, 4)))
    server = draw(st.sampled_from(sizes))
    cards = sizes[-1] * draw(st.integers(1, 3))
    hardware = machine(*sizes, cards=cards, server=server)
    degree = st.integers(1, 4)
    axes = {a: draw(degree) for a in ("tp", "cp", "attention_dp", "attention_replicas", "pp")}
    while math.prod(axes.values()) > sizes[-1]:
        widest = max(axes, key=lambda axis: axes[axis])
        axes[widest] -= 1
    return hardware, plan_of(**axes, replicas=draw(st.integers(1, 6)))


def groups_of(plans: PlanTable) -> dict[str, tuple[int, int]]:
    """Ranks and stride of every group of a shape, from the inside out."""
    tp, cp, dp, copies = (
        int(plans.column(a)[0]) for a in ("tp", "cp", "attention_dp", "attention_replicas")
    )
    return {
        "tp": (tp, 1),
        "cp": (cp, tp),
        "attention_dp": (dp, tp * cp),
        "attention_replicas": (copies, tp * cp * dp),
        "stage": (tp * cp * dp * copies, 1),
    }


def test_rank_order_is_tp_then_cp_then_dp_then_replicas_then_pp() -> None:
    plans = plan_of(tp=2, cp=2, attention_dp=3, attention_replicas=1, pp=2)
    groups = groups_of(plans)
    assert list(members(24, *groups["tp"]))[:2] == [[0, 1], [2, 3]]
    assert list(members(24, *groups["cp"]))[:2] == [[0, 2], [1, 3]]
    assert list(members(24, *groups["attention_dp"]))[:2] == [[0, 4, 8], [1, 5, 9]]
    assert next(members(24, *groups["stage"])) == list(range(12))


@settings(max_examples=300)
@given(shapes())
def test_inside_agrees_with_the_domain_of_every_rank(shape: tuple[HardwareSpec, PlanTable]) -> None:
    hardware, plans = shape
    cards = int(plans.cards[0])
    starts = placement(hardware, cards, hardware.cards)
    assert starts
    for level in hardware.levels:
        for ranks, stride in groups_of(plans).values():
            joined = all(
                len({(start + rank) // level.size for rank in group}) == 1
                for start in starts
                for group in members(cards, ranks, stride)
            )
            here = bool(inside(plans, np.array([ranks * stride]), level.size)[0])
            # A lone rank exchanges nothing, wherever it is.
            assert here == joined or ranks == 1


@settings(max_examples=300)
@given(shapes())
def test_a_group_uses_the_innermost_level_that_joins_it(
    shape: tuple[HardwareSpec, PlanTable],
) -> None:
    hardware, plans = shape
    cards = int(plans.cards[0])
    starts = placement(hardware, cards, hardware.cards)
    for ranks, stride in groups_of(plans).values():
        if ranks == 1:
            continue
        alpha, beta = Route(hardware, plans, np.array([ranks]), np.array([stride])).legs[-1].pairs()
        level = next(
            level
            for level in hardware.levels
            if all(
                len({(start + rank) // level.size for rank in group}) == 1
                for start in starts
                for group in members(cards, ranks, stride)
            )
        )
        assert (alpha, beta) == (level.latency, level.bandwidth)


@settings(max_examples=60)
@given(shapes())
def test_each_path_has_shares_and_start_up_times_of_its_own(
    shape: tuple[HardwareSpec, PlanTable],
) -> None:
    hardware, plans = shape
    share, slower = ByPath(0.5, 0.25), ByPath(2.0, 3.0)
    for ranks, stride in groups_of(plans).values():
        group = np.array([ranks]), np.array([stride])
        route = Route(hardware, plans, *group, efficiency=share, start_up=slower)
        for leg, stated in zip(route.legs, Route(hardware, plans, *group).legs, strict=True):
            (alpha, beta), (least, peak) = leg.pairs(), stated.pairs()
            path = "inside" if leg.level is hardware.levels[0] else "across"
            assert alpha == pytest.approx(getattr(slower, path) * least)
            assert beta == pytest.approx(getattr(share, path) * peak)


@settings(max_examples=300)
@given(shapes())
def test_servers_spanned_is_that_of_the_widest_group(
    shape: tuple[HardwareSpec, PlanTable],
) -> None:
    hardware, plans = shape
    cards, size = int(plans.cards[0]), hardware.server.cards
    starts = placement(hardware, cards, hardware.cards)
    for ranks, stride in groups_of(plans).values():
        most = max(
            len({(start + rank) // size for rank in group})
            for start in starts
            for group in members(cards, ranks, stride)
        )
        spanned = int(servers_spanned(hardware, plans, np.array([ranks]), np.array([stride]))[0])
        regular = size % (ranks * stride) == 0 or (ranks * stride) % size == 0
        if regular and (size % stride == 0 or stride % size == 0):
            assert spanned == most
        else:
            assert abs(spanned - most) <= 1, "blocks that fit servers badly"


@settings(max_examples=300)
@given(shapes())
def test_boundaries_cross_the_level_between_their_stages(
    shape: tuple[HardwareSpec, PlanTable],
) -> None:
    hardware, plans = shape
    stage, stages = int(plans.stage_cards[0]), int(plans.pp[0])
    start = placement(hardware, stage * stages, hardware.cards)[0]
    size = 1e5
    times = []
    for boundary in range(stages - 1):
        pairs = [
            (start + boundary * stage + i, start + (boundary + 1) * stage + i) for i in range(stage)
        ]
        level = next(
            level
            for level in hardware.levels
            if all(a // level.size == b // level.size for a, b in pairs)
        )
        times.append(level.latency + size / level.bandwidth)
    total, slowest = boundary_seconds(hardware, plans, np.array([size]))
    cut = any(stage < x.size and x.size % stage for x in hardware.levels)
    if not cut:
        assert total[0] == pytest.approx(sum(times))
        assert slowest[0] == pytest.approx(max(times, default=0.0))
    else:
        # Stages that a domain cuts are taken to cross it at every boundary.
        assert total[0] >= sum(times) * (1 - 1e-12)
        assert slowest[0] >= max(times, default=0.0)


@settings(max_examples=300)
@given(machines(), st.integers(1, 16), st.integers(0, 16))
def test_instances_held_are_those_that_can_be_placed(
    raw: dict[str, Any], cards: int, less: int
) -> None:
    hardware = HardwareSpec.model_validate(raw)
    limit = max(1, hardware.cards - less)
    held = instances_held(hardware, plan_of(tp=cards), limit)
    assert held.tolist() == [len(placement(hardware, cards, limit))]


# Choice of algorithm and measured tables


def problem_of(hardware: HardwareSpec, **assumptions: Any) -> Problem:
    example = load_problem({"model": "qwen3-8b", "hardware": "hgx-h100", "workload": "chat-8k"})
    raw = example.model_dump()
    raw |= {"hardware": hardware.model_dump(), "assumptions": assumptions}
    return Problem.model_validate(raw)


def seconds(
    problem: Problem, operation: str, n: int, size: float, stride: int = 1, **axes: int
) -> float:
    plans = plan_of(**{"tp": n * stride, **axes})
    exchange = Exchange("x", operation, np.array([n]), np.array([stride]), np.array([float(size)]))
    return float(exchange_seconds(problem, plans, exchange, PhaseEfficiency())[0])


@operations
@settings(max_examples=60)
@given(n=st.integers(1, 16), size=st.floats(1, 1e9))
def test_auto_is_the_fastest_algorithm(operation: str, n: int, size: float) -> None:
    problem = problem_of(machine(16))
    every = [closed(operation, name, n, size, (1e-6, 1e11)) for name in FORMS[operation]]
    assert seconds(problem, operation, n, size) == pytest.approx(min(every) if n > 1 else 0.0)


@pytest.mark.parametrize(
    ("operation", "axis", "algorithm"),
    [
        ("allreduce", "allreduce", "ring"),
        ("allreduce", "allreduce", "tree"),
        ("all_to_all", "alltoall", "direct"),
        ("all_to_all", "alltoall", "pairwise"),
    ],
)
def test_a_named_algorithm_is_taken_even_where_it_is_slower(
    operation: str, axis: str, algorithm: str
) -> None:
    problem = problem_of(machine(16))
    for size in (10.0, 1e9):
        found = seconds(problem, operation, 8, size, **{axis: encode(axis, algorithm)})
        assert found == pytest.approx(closed(operation, algorithm, 8, size, (1e-6, 1e11)))


@operations
def test_a_group_of_one_takes_no_time(operation: str) -> None:
    assert seconds(problem_of(machine(16)), operation, 1, 1e9) == 0.0


@operations
def test_a_group_beyond_its_domain_pays_for_the_outer_level(operation: str) -> None:
    problem = problem_of(machine(4, 16))
    inner, outer = (
        min(closed(operation, a, 4, 1e4, links) for a in FORMS[operation])
        for links in ((1e-6, 1e11), (3e-6, 2.5e10))
    )
    assert seconds(problem, operation, 4, 1e4) == pytest.approx(inner)
    assert seconds(problem, operation, 4, 1e4, stride=4) == pytest.approx(outer)


TABLE = [
    {"operation": "allreduce", "ranks": 4, "span": 1, "bytes": 1000, "seconds": 0.1},
    {"operation": "allreduce", "ranks": 4, "span": 1, "bytes": 3000, "seconds": 0.5},
    {"operation": "allreduce", "ranks": 4, "span": 2, "bytes": 1000, "seconds": 0.7},
    {"operation": "all_to_all", "ranks": 4, "span": 1, "bytes": 1000, "seconds": 0.9},
]


@pytest.mark.parametrize(
    ("rule", "size", "expected"),
    [
        ("next_size_up", 1, 0.1),
        ("next_size_up", 1000, 0.1),
        ("next_size_up", 1001, 0.5),
        ("next_size_up", 3000, 0.5),
        ("next_size_up", 3001, 0.5),
        ("next_size_up", 1e12, None),
        ("interpolate", 999, None),
        ("interpolate", 1000, 0.1),
        ("interpolate", 1500, 0.2),
        ("interpolate", 3000, 0.5),
        ("interpolate", 3001, 0.5),
        ("interpolate", 1e12, None),
    ],
)
@pytest.mark.parametrize("rows", [TABLE, TABLE[::-1]], ids=["rising", "falling"])
def test_a_table_is_read_by_its_rule_and_bounds_the_formula_outside(
    rows: Any, rule: str, size: float, expected: float | None
) -> None:
    problem = problem_of(machine(8, 16, server=8, table=rows), collective_table=rule)
    if expected is None:
        formulas = FORMS["allreduce"]
        expected = min(closed("allreduce", a, 4, size, (1e-6, 1e11)) for a in formulas)
    assert seconds(problem, "allreduce", 4, size) == pytest.approx(expected)


def test_a_table_holds_for_its_operation_ranks_and_span_only() -> None:
    table = machine(8, 16, server=8, table=TABLE)
    plain = machine(8, 16, server=8)
    measured, formula = (problem_of(m, collective_table="next_size_up") for m in (table, plain))
    assert seconds(measured, "allreduce", 4, 1000, stride=4) == pytest.approx(0.7)
    assert seconds(measured, "all_to_all", 4, 1000) == pytest.approx(0.9)
    for operation, n, stride in (("allreduce", 2, 1), ("all_gather", 4, 1), ("all_to_all", 4, 4)):
        same = (seconds(p, operation, n, 1000, stride) for p in (measured, formula))
        assert next(same) == next(same)


def test_a_measurement_outranks_the_algorithm_of_the_plan() -> None:
    problem = problem_of(machine(8, server=8, table=TABLE), collective_table="next_size_up")
    ring = encode("allreduce", "ring")
    assert seconds(problem, "allreduce", 4, 1000, allreduce=ring) == pytest.approx(0.1)


def test_a_level_that_no_stage_crosses_may_state_no_figures() -> None:
    """Two stages on one server need nothing of the network between servers."""
    problem = load_problem(
        "examples/qwen3-32b-128k-two-hgx-h100.yaml",
        ["hardware.levels[1].bandwidth=null", "hardware.levels[1].latency=null", "limits.cards=8",
         "hardware.collectives=[]"],
    )  # fmt: skip
    plans = PlanTable.from_columns({"tp": [4], "pp": [2]})
    size = np.array([1e6])
    inner = problem.hardware.levels[0]
    total, slowest = boundary_seconds(problem.hardware, plans, size)
    assert total[0] == slowest[0] == inner.alpha + 1e6 / inner.beta
