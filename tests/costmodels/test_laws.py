"""Laws that the built-in cost model keeps for every plan."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.memory import largest_true
from costmodels.plans import PlanTable
from costmodels.sessions.steps import Held, decode_span
from searches.evaluate import evaluate, space_of
from specs.load import load_problem
from tests.costmodels.support import (
    EXACT,
    FASTER,
    LEAST,
    MODEL,
    NEARLY,
    Drawn,
    decode,
    no_more,
    outcomes,
    period,
    prefill,
    scaled,
)
from tests.strategies import changed, planned, problem_of

batches = st.integers(1, 40)
contexts = st.integers(0, 5000)
factors = st.sampled_from([1.001, 1.5, 2.0, 10.0])


# Machines


@settings(max_examples=60)
@given(planned(), factors)
def test_more_memory_never_makes_a_plan_infeasible(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    roomier = scaled(problem, "hardware.memory.hbm.capacity", factor)
    before, after = evaluate(space_of(problem), plans), evaluate(space_of(roomier), plans)
    assert (after.feasible | ~before.feasible).all()
    assert no_more(after.outcomes.cost[before.feasible], before.outcomes.cost[before.feasible])


@pytest.mark.parametrize("path", FASTER)
@settings(max_examples=40)
@given(drawn=planned(), factor=factors, batch=batches, length=contexts)
def test_a_faster_part_never_makes_a_pass_slower(
    path: str, drawn: Drawn, factor: float, batch: int, length: int
) -> None:
    problem, plans = drawn
    faster = scaled(problem, path, factor ** FASTER[path])
    for asked in (decode, prefill):
        after = asked(faster, plans, batch, length).seconds
        before = asked(problem, plans, batch, length).seconds
        assert no_more(after, before)


# Loads


@settings(max_examples=80)
@given(planned(), batches, contexts, st.integers(1, 500))
def test_a_step_grows_with_batch_and_context(
    drawn: Drawn, batch: int, context: int, more: int
) -> None:
    """Over whole periods of the model's compressed entries, one token for most models."""
    problem, plans = drawn
    here = decode(problem, plans, batch, context).seconds
    assert no_more(here, decode(problem, plans, batch + 1, context).seconds)
    assert no_more(here, decode(problem, plans, batch + more, context).seconds)
    longer = context + more * period(problem)
    assert no_more(here, decode(problem, plans, batch, longer).seconds)


@settings(max_examples=80)
@given(planned(), st.integers(1, 5000), contexts, st.integers(1, 500))
def test_a_prefill_grows_with_tokens_and_prefix(
    drawn: Drawn, tokens: int, prefix: int, more: int
) -> None:
    """With any more tokens, and with whole periods of compressed entries more of prefix."""
    problem, plans = drawn
    here = prefill(problem, plans, tokens, prefix).seconds
    assert no_more(here, prefill(problem, plans, tokens + more, prefix).seconds)
    longer = prefix + more * period(problem)
    assert no_more(here, prefill(problem, plans, tokens, longer).seconds)


@settings(max_examples=60)
@given(planned(), st.integers(0, 20))
def test_memory_grows_with_the_sessions_held(drawn: Drawn, held: int) -> None:
    problem, plans = drawn
    kinds = len(problem.workload.classes)
    less = MODEL.memory(problem, plans, np.full((len(plans), kinds), float(held)))
    for index in range(kinds):
        more = np.full((len(plans), kinds), float(held))
        more[:, index] += 1
        assert no_more(less.bytes, MODEL.memory(problem, plans, more).bytes)


def test_a_step_grows_with_the_batch_under_a_measured_table() -> None:
    slow = {"operation": "allreduce", "ranks": 2, "span": 1, "bytes": 512, "seconds": 1e-3}
    problem = problem_of(cards=2, collectives=[slow])
    problem = changed(problem, assumptions={"collective_table": "next_size_up"})
    plans = PlanTable.from_columns({"tp": [2]})
    seconds = [decode(problem, plans, batch, 100).seconds[0] for batch in range(1, 20)]
    assert seconds == sorted(seconds)


# Columns


@settings(max_examples=60)
@given(planned(most=12), batches, contexts)
def test_a_batch_of_rows_equals_each_row_alone(drawn: Drawn, batch: int, context: int) -> None:
    problem, plans = drawn
    held = np.ones((len(plans), len(problem.workload.classes)))
    whole = (
        decode(problem, plans, batch, context).seconds,
        prefill(problem, plans, batch, context).seconds,
        MODEL.memory(problem, plans, held).bytes,
    )
    found = outcomes(problem, plans)
    for row in range(len(plans)):
        one = plans.take(np.array([row]))
        alone = (
            decode(problem, one, batch, context).seconds,
            prefill(problem, one, batch, context).seconds,
            MODEL.memory(problem, one, held[:1]).bytes,
        )
        for column, value in zip(whole, alone, strict=True):
            assert column[row] == pytest.approx(value[0], rel=LEAST)
        mine = outcomes(problem, one)
        for name in vars(mine):
            column, value = getattr(found, name), getattr(mine, name)
            assert column[row] == pytest.approx(value[0], rel=EXACT, nan_ok=True), name


@settings(max_examples=80)
@given(planned(), batches, contexts)
def test_the_breakdown_sums_to_the_whole(drawn: Drawn, batch: int, context: int) -> None:
    problem, plans = drawn
    held = np.ones((len(plans), len(problem.workload.classes)))
    for estimate in (
        decode(problem, plans, batch, context),
        prefill(problem, plans, batch, context),
    ):
        for row in range(len(plans)):
            parts = [float(seconds[row]) for seconds in estimate.components.values()]
            assert all(part >= 0 for part in parts)
            assert sum(parts) == pytest.approx(estimate.seconds[row], rel=LEAST)
            assert estimate.bound_by(plans, row)
        for work in estimate.work.values():
            assert work.shape == (len(plans),)
            assert (work >= 0).all()
    memory = MODEL.memory(problem, plans, held)
    assert memory.bytes == pytest.approx(sum(memory.components.values()), rel=LEAST)


@settings(max_examples=60)
@given(planned(), batches, contexts)
def test_no_pass_is_faster_than_its_reads_or_its_work(
    drawn: Drawn, batch: int, context: int
) -> None:
    problem, plans = drawn
    peak = max(problem.hardware.card.peak.values())
    for estimate in (
        decode(problem, plans, batch, context),
        prefill(problem, plans, batch, context),
    ):
        # With stages a card does a part of the work only, and the stages follow each other.
        # Ports work beside each other, so all of them together set the pace at best.
        rate = sum(tier.rate for tier in problem.hardware.memory.tiers.values())
        assert no_more(estimate.work["bytes_read"] / rate, estimate.seconds, EXACT)
        assert no_more(estimate.work["flops"] / peak, estimate.seconds, EXACT)


# Steps of a session


@settings(max_examples=40)
@given(planned(most=4, smooth=True), batches)
def test_a_step_is_convex_and_piecewise_linear_in_context(drawn: Drawn, batch: int) -> None:
    problem, plans = drawn
    positions = np.arange(0, 4001, 20)
    seconds = np.array([decode(problem, plans, batch, p).seconds for p in positions])
    bends = np.diff(seconds, n=2, axis=0) / seconds[1:-1]
    assert (bends >= -LEAST).all(), "convex"
    # A bend lies between two positions, so it shows in at most two second differences.
    pieces = np.count_nonzero(bends > LEAST, axis=0)
    assert (pieces <= 2 * (2 * len(problem.model.kinds) + 2)).all()


@settings(max_examples=60)
@given(planned(most=4), batches, st.integers(0, 3000), st.integers(0, 400))
def test_a_span_equals_the_sum_of_its_steps(
    drawn: Drawn, batch: int, context: int, steps: int
) -> None:
    problem, plans = drawn
    size = np.full(len(plans), batch)
    span = decode_span(
        MODEL, problem, plans, size, Held.dealt((context,), np.ones_like(plans.tp)), steps
    )
    one_by_one = [decode(problem, plans, batch, context + i).seconds for i in range(steps)]
    near = NEARLY if problem.model.stepped else EXACT
    assert span == pytest.approx(np.sum(one_by_one, axis=0) + np.zeros(len(plans)), rel=near)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(-1, 60), st.integers(0, 50)), min_size=1, max_size=12),
)
def test_bisection_finds_what_a_linear_search_finds(rows: list[tuple[int, int]]) -> None:
    turns, upper = (np.array(column) for column in zip(*rows, strict=True))
    found = largest_true(lambda n: n <= turns, upper)
    expected = [max((n for n in range(1, u + 1) if n <= t), default=0) for t, u in rows]
    assert found.tolist() == expected


# Money


@settings(max_examples=40)
@given(planned(), st.floats(0.01, 0.99))
def test_cost_falls_with_the_price(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    in_money = changed(problem, objective={"currency": "money"})
    before = outcomes(in_money, plans)
    after = outcomes(scaled(in_money, "hardware.card.price", factor), plans)
    assert after.cost == pytest.approx(before.cost * factor, rel=EXACT)
    assert after.money == pytest.approx(before.gpu_seconds * factor * 0.001, rel=EXACT)


# Experts


@pytest.mark.parametrize("tp", [1, 2, 4])
@pytest.mark.parametrize("expert_tp", [1, 2, 4, 8])
def test_experts_spread_over_cards_always_cost_an_exchange(tp: int, expert_tp: int) -> None:
    """A token's experts lie on cards that do not hold the token, however they are cut."""
    problem = load_problem("examples/qwen3-235b-a22b-8k-hgx-h100.yaml")
    plans = PlanTable.from_columns(
        {"tp": tp, "attention_dp": 8 // tp, "expert_tp": expert_tp, "ep": [8 // expert_tp]}
    )
    estimate = decode(problem, plans, 8 // tp, 1000)
    layers, vector = problem.model.layer_count, problem.model.hidden * 2
    attention = 2 * (tp - 1) / tp * vector
    experts = float(estimate.work["bytes_sent"][0]) / layers - attention
    # One token a shard: each card needs what the others hold, and gives back sums.
    assert experts >= 2 * (8 // tp - 1) / (8 // tp) * vector * 0.99
