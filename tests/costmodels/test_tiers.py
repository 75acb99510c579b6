"""Laws of memories beside the working one: their ports, their rates and their room."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels.plans import TIER_AXES, PlanTable
from costmodels.tiers import reads_until_fetch_pays
from searches.evaluate import evaluate, space_of
from specs.load import load_problem
from specs.memory import TIERS, MemoryTier
from specs.problem import Problem
from tests.costmodels.support import MODEL, Drawn, decode, no_more, prefill, scaled
from tests.strategies import changed, planned, problem_of

HOST = {"capacity": 1e9, "bandwidth": 1e10}
SLOWER = {"bandwidth": 0.5, "path": 0.5, "random_reads": 0.5, "latency": 2.0}
"""Figures of a memory that make it slower, by the factor beside them."""


def with_host(drawn: Drawn) -> Drawn:
    """Plans that keep something in host memory, where the machine has one."""
    problem, plans = drawn
    assume(problem.hardware.memory.host is not None)
    host = TIERS.index("host")
    assume(any((plans.column(axis) == host).any() for axis in TIER_AXES))
    return problem, plans


def on_port(problem: Problem, port: str | None) -> Problem:
    memory = problem.hardware.memory.model_dump(exclude_unset=True)
    memory["host"]["port"] = port
    memory["hbm"]["port"] = "package"
    hardware = problem.hardware.model_dump(exclude_unset=True) | {"memory": memory}
    return changed(problem, hardware=hardware)


tiered = planned(space=st.just(dict.fromkeys(TIER_AXES, "open")), limits=False).map(with_host)


@pytest.mark.parametrize("figure", SLOWER)
@settings(max_examples=30)
@given(tiered, st.integers(1, 20), st.integers(1, 2000))
def test_a_slower_memory_never_makes_a_pass_faster(
    figure: str, drawn: Drawn, batch: int, length: int
) -> None:
    problem, plans = drawn
    assume(getattr(problem.hardware.memory.host, figure) is not None)
    slower = scaled(problem, f"hardware.memory.host.{figure}", SLOWER[figure])
    for asked in (decode, prefill):
        before = asked(problem, plans, batch, length).seconds
        assert no_more(before, asked(slower, plans, batch, length).seconds)


@settings(max_examples=30)
@given(tiered, st.integers(1, 20), st.integers(1, 2000))
def test_a_memory_on_a_port_of_its_own_never_slows_another(
    drawn: Drawn, batch: int, length: int
) -> None:
    problem, plans = drawn
    apart, together = on_port(problem, None), on_port(problem, "package")
    for asked in (decode, prefill):
        alone = asked(apart, plans, batch, length).seconds
        assert no_more(alone, asked(together, plans, batch, length).seconds)


@settings(max_examples=30)
@given(tiered, st.floats(1, 10))
def test_more_host_memory_never_makes_a_plan_infeasible(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    roomier = scaled(problem, "hardware.memory.host.capacity", factor)
    before, after = evaluate(space_of(problem), plans), evaluate(space_of(roomier), plans)
    assert (after.feasible | ~before.feasible).all()


@settings(max_examples=30)
@given(tiered)
def test_memories_hold_together_what_one_holds(drawn: Drawn) -> None:
    """Nothing is lost on the way to another memory, for instances of one stage."""
    problem, plans = drawn
    plans = plans.take(plans.pp == 1)
    assume(len(plans))
    # Memory beside the cards holds Engram tables once for all that share it.
    plans = plans.with_columns(engram_tier=np.zeros_like(plans.tp))
    problem = changed(problem, hardware=_of_single_cards(problem))
    held = np.ones((len(plans), len(problem.workload.classes)))
    here = plans.with_columns(**{axis: np.zeros_like(plans.tp) for axis in TIER_AXES})
    spread, whole = (MODEL.memory(problem, p, held) for p in (plans, here))
    total = spread.bytes + sum(other.bytes for other in spread.others.values())
    assert total == pytest.approx(whole.bytes)


def _of_single_cards(problem: Problem) -> dict[str, Any]:
    raw = problem.hardware.model_dump(exclude_unset=True)
    for tier in raw["memory"].values():
        tier["cards"] = 1
    return raw


@given(st.floats(1e8, 1e13), st.floats(1e8, 1e13), st.floats(1e6, 1e12), st.integers(1, 1000))
def test_fetching_first_pays_from_some_read_on(
    remote: float, local: float, size: float, reads: int
) -> None:
    found = reads_until_fetch_pays(remote, local)
    there, first = reads * size / remote, size / remote + reads * size / local
    if found is None or reads < found:
        assert there <= first * (1 + 1e-9)
    else:
        assert there >= first * (1 - 1e-9)


@settings(max_examples=30)
@given(tiered, st.integers(1, 20), st.integers(1, 2000))
def test_a_pass_waits_for_engram_rows_at_most_once(drawn: Drawn, batch: int, length: int) -> None:
    """Not longer than it takes without the tables' latency, and then for all rows."""
    problem, plans = drawn
    slow = scaled(problem, "hardware.memory.host.latency", 1e3)
    host = problem.hardware.memory.host
    assert host is not None and host.latency is not None
    more = 999 * host.latency * (1 + 1e-9)
    for asked in (decode, prefill):
        before, after = (asked(p, plans, batch, length).seconds for p in (problem, slow))
        # Reads in flight over a longer time make a pool slower as well; a host has no window here.
        assert (after <= before + more + 1e-15).all()


@pytest.mark.parametrize("overlap", ["per_operator", "per_kind", "whole_step", "added"])
@pytest.mark.parametrize("axes", [{"pp": 2, "microbatches": 2}, {"tp": 2}])
def test_waiting_for_engram_rows_never_makes_a_longer_context_shorter(
    axes: dict[str, int], overlap: str
) -> None:
    """Neither where another stage is the slowest, nor where reads hide computing at the edges."""
    attention = {"q_heads": 4, "kv_heads": 4, "head_dim": 32}
    table = {"rows": 100, "row_bytes": 24.0, "lookups": 1, "inputs": 16, "outputs": 16}
    wide, narrow = ({"kind": "dense", "intermediate": n} for n in (96_000, 96))
    layers = [
        {"count": 1, "attention": {"kind": "none"}, "ffn": wide, "engram": table},
        {"count": 1, "attention": attention, "ffn": narrow},
    ]
    slow = {**HOST, "latency": 4e-4}
    problem = problem_of(
        cards=2, memory={"hbm": {"capacity": 1e9, "bandwidth": 1e11}, "host": slow}
    )
    problem = changed(problem, model={"layers": layers}, assumptions={"overlap": overlap})
    plans = PlanTable.from_columns({"engram_tier": [TIERS.index("host")], **axes})
    seconds = [decode(problem, plans, 2, context).seconds for context in range(0, 60_000, 5000)]
    assert all(no_more(shorter, longer) for shorter, longer in pairwise(seconds))
    latest = scaled(problem, "hardware.memory.host.latency", 10)
    assert decode(latest, plans, 2, 0).components["engram_wait"][0] > 0


def test_draft_experts_lie_where_they_are_read() -> None:
    problem = load_problem(
        {
            "model": "deepseek-v3",
            "hardware": "dgx-h100-nvlink-256",
            "workload": {
                "kind": "steady",
                "classes": [{"name": "a", "context": 100, "generate": 9}],
            },
        }
    )
    axes = {"tp": [8, 8], "ep": [8, 8], "mtp": [0, 1], "experts_tier": [TIERS.index("host")] * 2}
    plans = PlanTable.from_columns(axes)
    held = MODEL.memory(problem, plans, np.ones((2, 1)))
    hbm, host = held.components["weights"], held.others["host"].bytes
    read = decode(problem, plans, 8, 100).work["experts_bytes"]
    assert host[1] > host[0]
    assert read[1] > read[0]
    assert host[1] - host[0] > hbm[1] - hbm[0]


def test_reads_on_one_port_add_and_those_on_two_overlap() -> None:
    """Weights from host memory and KV from HBM: the sum on one port, the longer on two."""
    problem = changed(
        problem_of(cards=1, memory={"hbm": {"capacity": 1e9, "bandwidth": 1e11}, "host": HOST}),
        assumptions={"overlap": "whole_step"},
    )
    host = TIERS.index("host")
    plans = PlanTable.from_columns({"tp": [1], "weights_tier": [host]})
    apart = decode(problem, plans, 1, 50_000)
    together = decode(on_port(problem, "package"), plans, 1, 50_000)
    work = apart.work
    kv, weights = work["kv_bytes"][0] / 1e11, work["dense_weights_bytes"][0] / 1e10
    assert apart.seconds[0] == pytest.approx(max(kv, weights))
    assert together.seconds[0] == pytest.approx(kv + weights)
    assert apart.bound_by(plans, 0) == ("host" if weights > kv else "hbm")


def test_the_rate_of_a_memory_is_its_tightest_bound() -> None:
    shared = MemoryTier(capacity=8e9, bandwidth=8e9, cards=4, path=3e9)
    assert shared.share == 2e9
    assert shared.rate == 2e9
    windowed = MemoryTier(
        capacity=1, bandwidth=1e12, path=50e9, latency=7.52e-6, in_flight=128, transaction=256
    )
    assert windowed.rate == pytest.approx(128 * 256 / 7.52e-6)
    assert windowed.reads_in_flight_needed == 1469
