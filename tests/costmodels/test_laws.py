"""Laws that the built-in cost model and the session time lines keep for every plan."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels.base import StepEstimate
from costmodels.memory import largest_true
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.roofline import RooflineModel
from costmodels.sessions import WORKLOADS, Outcomes
from costmodels.sessions.steady import SteadyLoad
from costmodels.sessions.steps import decode_span
from searches.evaluate import evaluate
from specs import paths
from specs.problem import Problem
from tests.costmodels.simulator import Session, simulate
from tests.strategies import bursts, changed, classes, planned, steady_loads

Drawn = tuple[Problem, PlanTable]
MODEL = RooflineModel()
EXACT = 1e-9
LEAST = 1e-12
"""Relative noise of adding the same numbers in another order."""

batches = st.integers(1, 40)
contexts = st.integers(0, 5000)
factors = st.sampled_from([1.001, 1.5, 2.0, 10.0])


def decode(problem: Problem, plans: PlanTable, batch: int, context: float) -> StepEstimate:
    size = len(plans)
    return MODEL.decode(problem, plans, np.full(size, batch), np.full(size, float(context)))


def prefill(problem: Problem, plans: PlanTable, tokens: float, prefix: float) -> StepEstimate:
    size = len(plans)
    return MODEL.prefill(problem, plans, np.full(size, float(tokens)), np.full(size, float(prefix)))


def outcomes(problem: Problem, plans: PlanTable) -> Outcomes:
    return WORKLOADS[problem.workload.kind].outcomes(MODEL, problem, plans)


def scaled(problem: Problem, path: str, factor: float) -> Problem:
    raw = problem.model_dump()
    return Problem.model_validate(paths.put(raw, path, paths.get(raw, path) * factor))


def no_more(less: FloatArray, more: FloatArray, slack: float = LEAST) -> bool:
    return bool((less <= more * (1 + slack)).all())


# Machines


@settings(max_examples=60)
@given(planned(), factors)
def test_more_memory_never_makes_a_plan_infeasible(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    roomier = scaled(problem, "hardware.memory.hbm.capacity", factor)
    before, after = evaluate(problem, plans), evaluate(roomier, plans)
    assert (after.feasible | ~before.feasible).all()
    assert no_more(after.outcomes.cost[before.feasible], before.outcomes.cost[before.feasible])


FASTER = {
    "hardware.memory.hbm.bandwidth": 1,
    "hardware.levels[0].bandwidth": 1,
    "hardware.levels[0].latency": -1,
    "hardware.card.peak.bf16": 1,
    "hardware.card.peak.fp8": 1,
}


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


@settings(max_examples=60)
@given(planned(kind="burst"), st.sampled_from(sorted(FASTER)), factors)
def test_a_faster_part_never_makes_a_burst_end_later(
    drawn: Drawn, path: str, factor: float
) -> None:
    problem, plans = drawn
    problem = changed(problem, workload={"failures": []})
    faster = scaled(problem, path, factor ** FASTER[path])
    after, before = outcomes(faster, plans), outcomes(problem, plans)
    assert no_more(after.span_s, before.span_s, EXACT)
    assert no_more(after.ttft_s, before.ttft_s, EXACT)
    assert (after.on_time >= before.on_time).all()


@settings(max_examples=60)
@given(planned(kind="steady"), st.sampled_from(sorted(FASTER)), factors)
def test_a_faster_part_never_makes_a_steady_load_dearer(
    drawn: Drawn, path: str, factor: float
) -> None:
    problem, plans = drawn
    faster = scaled(problem, path, factor ** FASTER[path])
    after, before = evaluate(faster, plans), evaluate(problem, plans)
    assert (after.feasible | ~before.feasible).all()
    assert no_more(
        after.outcomes.cost[before.feasible], before.outcomes.cost[before.feasible], EXACT
    )


# Loads


@settings(max_examples=80)
@given(planned(), batches, contexts, st.integers(1, 500))
def test_a_step_grows_with_batch_and_context(
    drawn: Drawn, batch: int, context: int, more: int
) -> None:
    problem, plans = drawn
    here = decode(problem, plans, batch, context).seconds
    assert no_more(here, decode(problem, plans, batch + 1, context).seconds)
    assert no_more(here, decode(problem, plans, batch + more, context).seconds)
    assert no_more(here, decode(problem, plans, batch, context + more).seconds)


@settings(max_examples=80)
@given(planned(), st.integers(1, 5000), contexts, st.integers(1, 500))
def test_a_prefill_grows_with_tokens_and_prefix(
    drawn: Drawn, tokens: int, prefix: int, more: int
) -> None:
    problem, plans = drawn
    here = prefill(problem, plans, tokens, prefix).seconds
    assert no_more(here, prefill(problem, plans, tokens + more, prefix).seconds)
    assert no_more(here, prefill(problem, plans, tokens, prefix + more).seconds)


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
            assert estimate.bound_by(row)
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
        reads = estimate.work["bytes_read"] / problem.hardware.memory.hbm.bandwidth
        assert no_more(reads, estimate.seconds, EXACT)
        assert no_more(estimate.work["flops"] / peak, estimate.seconds, EXACT)


# Steps of a session


@settings(max_examples=60)
@given(planned(most=4), batches)
def test_a_step_is_convex_and_piecewise_linear_in_context(drawn: Drawn, batch: int) -> None:
    problem, plans = drawn
    positions = np.arange(0, 4001, 10)
    seconds = np.array([decode(problem, plans, batch, p).seconds for p in positions])
    bends = np.diff(seconds, n=2, axis=0) / seconds[1:-1]
    assert (bends >= -LEAST).all(), "convex"
    # A bend lies between two positions, so it shows in at most two second differences.
    pieces = np.count_nonzero(bends > LEAST, axis=0)
    assert (pieces <= 2 * (2 * len(problem.model.layers) + 2)).all()


@settings(max_examples=60)
@given(planned(most=4), batches, st.integers(0, 3000), st.integers(0, 120))
def test_a_span_equals_the_sum_of_its_steps(
    drawn: Drawn, batch: int, context: int, steps: int
) -> None:
    problem, plans = drawn
    size = np.full(len(plans), batch)
    span = decode_span(MODEL, problem, plans, size, float(context), steps)
    one_by_one = [decode(problem, plans, batch, context + i).seconds for i in range(steps)]
    assert span == pytest.approx(np.sum(one_by_one, axis=0) + np.zeros(len(plans)), rel=EXACT)


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(-1, 60), st.integers(0, 50)), min_size=1, max_size=12),
)
def test_bisection_finds_what_a_linear_search_finds(rows: list[tuple[int, int]]) -> None:
    turns, upper = (np.array(column) for column in zip(*rows, strict=True))
    found = largest_true(lambda n: n <= turns, upper)
    expected = [max((n for n in range(1, u + 1) if n <= t), default=0) for t, u in rows]
    assert found.tolist() == expected


# Bursts


def margin(session: Session) -> float:
    per_token = (session.end - session.first) / max(session.shape.generate - 1, 1)
    limits = (
        (session.shape.deadline, session.end),
        (session.shape.ttft, session.first),
        (session.shape.tpot, per_token),
    )
    return min([limit - time for limit, time in limits if limit is not None], default=np.inf)


def agrees_with_the_simulator(problem: Problem, plans: PlanTable) -> None:
    found = outcomes(problem, plans)
    needed = int(np.ceil(problem.workload.on_time_share * problem.workload.session_count - 1e-9))
    for row in range(len(plans)):
        one = plans.take(np.array([row]))
        sessions = simulate(MODEL, problem, one)
        span = max(s.end for s in sessions)
        margins = sorted((margin(s) for s in sessions), reverse=True)
        on_time = sum(m >= 0 for m in margins)
        assert found.span_s[row] == pytest.approx(span, rel=EXACT)
        assert found.ttft_s[row] == pytest.approx(max(s.first for s in sessions), rel=EXACT)
        per_token = max((s.end - s.first) / max(s.shape.generate - 1, 1) for s in sessions)
        assert found.tpot_s[row] == pytest.approx(per_token, rel=EXACT, abs=1e-15)
        assert found.slack_s[row] == pytest.approx(margins[needed - 1], rel=EXACT, abs=1e-12)
        assume(all(abs(m) > 1e-12 for m in margins))
        assert found.on_time[row] == on_time
        used = problem.assumptions.billing == "used"
        cards = int(one.total_cards[0]) if used else problem.card_limit
        assert found.gpu_seconds[row] == pytest.approx(cards * span, rel=EXACT)
        cost = cards * span / on_time if on_time else np.inf
        assert found.cost[row] == pytest.approx(cost, rel=EXACT)


@settings(max_examples=150)
@given(planned(most=4, kind="burst"))
def test_a_burst_ends_when_a_step_by_step_simulation_ends(drawn: Drawn) -> None:
    agrees_with_the_simulator(*drawn)


@settings(max_examples=80)
@given(planned(most=3, kind="burst", moe=False), st.data())
def test_a_failure_restarts_what_it_finds_unfinished(drawn: Drawn, data: Any) -> None:
    """Failures at moments that matter: while the sessions of the first card run."""
    problem, plans = drawn
    calm = changed(problem, workload={"failures": []})
    span = float(outcomes(calm, plans).span_s.max())
    moment = st.floats(0, span)
    failures = [
        {"card": data.draw(st.integers(0, 3)), "at": data.draw(moment), "stall": data.draw(moment)}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    assume(all(f["card"] < problem.hardware.cards for f in failures))
    agrees_with_the_simulator(changed(calm, workload={"failures": failures}), plans)


@settings(max_examples=40)
@given(planned(most=4, kind="burst"))
def test_a_failure_never_helps(drawn: Drawn) -> None:
    problem, plans = drawn
    calm = changed(problem, workload={"failures": []})
    assume(problem.workload.serving == "one_at_a_time")
    assert no_more(outcomes(calm, plans).span_s, outcomes(problem, plans).span_s, EXACT)


# Steady loads


def steady_rows(problem: Problem, plan: PlanTable, most: int) -> dict[str, FloatArray]:
    """Every batch from 1 to ``most`` under one plan, straight from the definitions."""
    load = problem.workload
    number = np.arange(1, most + 1)
    plans = plan.take(np.zeros(most, dtype=np.int64))
    share = np.array([c.share or 1.0 for c in load.classes])
    generate = np.array([float(c.generate) for c in load.classes])
    present = share * generate / (share @ generate)
    half = 0.5 if problem.assumptions.steady_context == "mean" else 0.0
    context = sum(
        p * (c.context + c.prompt + half * c.generate)
        for p, c in zip(present, load.classes, strict=True)
    )
    step = MODEL.decode(problem, plans, number, np.full(most, float(context))).seconds
    zero = np.zeros(most)
    prompts = [
        prefill(problem, plans, c.prompt, c.context).seconds if c.prompt else zero
        for c in load.classes
    ]
    shards = plans.attention_dp
    tpot = step + number * (share @ np.array(prompts)) / shards / (share @ generate)
    on_time = np.zeros(most)
    for part, shape, own in zip(share, load.classes, prompts, strict=True):
        ttft = step + own
        end = ttft + (shape.generate - 1) * tpot
        meets = np.ones(most, dtype=bool)
        for limit, time in ((shape.ttft, ttft), (shape.tpot, tpot), (shape.deadline, end)):
            if limit is not None:
                meets &= time <= limit
        on_time = on_time + part * meets
    held = np.outer(-(-number // shards), present)
    fits = MODEL.memory(problem, plans, held).fits
    rate = number * plans.replicas / (tpot * (share @ generate))
    used = problem.assumptions.billing == "used"
    cards = plans.total_cards if used else np.full(most, problem.card_limit)
    with np.errstate(divide="ignore"):
        cost = np.where(on_time > 0, cards / rate / on_time, np.inf)
    allowed = fits & (on_time >= load.on_time_share - 1e-9)
    return {"cost": np.where(allowed, cost, np.inf), "fits": fits, "allowed": allowed}


def largest_batches(problem: Problem, plans: PlanTable) -> IntArray:
    """Largest batch within memory by the bisection, to bound the brute force."""
    load = SteadyLoad(MODEL, problem, plans)
    return largest_true(load.fits, np.full(len(plans), 2**20))


def chosen_is_cheapest(problem: Problem, plans: PlanTable) -> None:
    found = outcomes(problem, plans)
    for row, largest in enumerate(largest_batches(problem, plans)):
        if not 1 <= largest <= MOST_BATCHES:
            continue
        rows = steady_rows(problem, plans.take(np.array([row])), int(largest) + 1)
        assert rows["fits"].tolist() == [True] * int(largest) + [False]
        best = rows["cost"].min()
        if np.isfinite(best):
            assert found.cost[row] == pytest.approx(best, rel=EXACT)
            assert rows["allowed"][found.batch[row] - 1]
        else:
            assert found.slack_s[row] < 0 or not np.isfinite(found.cost[row])


MOST_BATCHES = 3000


@settings(max_examples=150)
@given(planned(most=4, kind="steady", space=st.just({}) | st.just({"pp": "open"})))
def test_the_steady_batch_is_the_cheapest_of_all(drawn: Drawn) -> None:
    problem, plans = drawn
    chosen_is_cheapest(problem, plans)


@settings(max_examples=60)
@given(planned(most=4, kind="steady", space=st.just({"microbatches": [1, 2, 3, 5], "pp": [2, 3]})))
def test_the_steady_batch_is_the_cheapest_with_micro_batches(drawn: Drawn) -> None:
    chosen_is_cheapest(*drawn)


@settings(max_examples=60)
@given(planned(most=4, kind="steady"), st.integers(1, 30))
def test_a_closed_loop_never_serves_more_sessions_than_it_holds(
    drawn: Drawn, concurrency: int
) -> None:
    """Little's law: sessions per second × time in service is at most what is in flight."""
    problem, plans = drawn
    problem = changed(problem, workload={"concurrency": concurrency})
    found = outcomes(problem, plans)
    share = np.array([c.share or 1.0 for c in problem.workload.classes])
    generate = share @ np.array([float(c.generate) for c in problem.workload.classes])
    in_service = found.sessions_per_s * found.tpot_s * generate
    assert no_more(in_service, np.minimum(found.batch * plans.replicas, concurrency), EXACT)


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


_: tuple[Callable[..., Any], ...] = (bursts, classes, steady_loads)
