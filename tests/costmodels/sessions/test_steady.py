"""A steady load takes the cheapest batch of all, by brute force over every batch."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.memory import largest_true
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions import BOUNDS
from costmodels.sessions.steady import SteadyLoad
from searches.evaluate import evaluate, space_of
from specs.problem import Problem
from tests.costmodels.support import (
    EXACT,
    FASTER,
    MODEL,
    Drawn,
    no_more,
    outcomes,
    prefill,
    scaled,
)
from tests.strategies import changed, planned, problem_of

factors = st.sampled_from([1.001, 1.5, 2.0, 10.0])

MOST_BATCHES = 3000
"""Batches that are looked at one by one."""


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
    shards = plans.attention_dp
    passes = [
        prefill(problem, plans, c.prompt, c.context, np.minimum(number, shards))
        if c.prompt
        else None
        for c in load.classes
    ]
    prompts = [p.seconds if p else zero for p in passes]
    mean = share @ np.array(prompts)
    follows = share @ np.array([p.follows if p else zero for p in passes])
    # While a session generates, each session of the batch is replaced once.
    occupied = np.maximum(-(-number // shards) * follows, mean)
    tpot = step + occupied / (share @ generate)
    on_time = np.zeros(most)
    for part, shape, own in zip(share, load.classes, prompts, strict=True):
        ttft = step + own
        end = shape.generate * tpot + own - shape.generate / (share @ generate) * mean
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


@settings(max_examples=60)
@given(planned(kind="steady"), st.sampled_from(sorted(FASTER)), factors)
def test_a_faster_part_never_makes_a_steady_load_dearer(
    drawn: Drawn, path: str, factor: float
) -> None:
    problem, plans = drawn
    faster = scaled(problem, path, factor ** FASTER[path])
    after, before = evaluate(space_of(faster), plans), evaluate(space_of(problem), plans)
    assert (after.feasible | ~before.feasible).all()
    assert no_more(
        after.outcomes.cost[before.feasible], before.outcomes.cost[before.feasible], EXACT
    )


def one_class(**shape: object) -> Problem:
    return problem_of(
        cards=2,
        workload={"kind": "steady", "classes": [{"name": "only", "generate": 20, **shape}]},
    )


def test_what_stops_the_batch_is_named() -> None:
    plans = PlanTable.from_columns({"tp": [2]})

    def bound(problem: Problem) -> str:
        return BOUNDS[int(outcomes(problem, plans).bound[0])]

    assert bound(one_class(context=1000)) == "memory"
    assert bound(one_class(context=1000, tpot=1e-4)) == "tpot"
    assert bound(one_class(context=1000, deadline=2e-3)) == "deadline"
    assert bound(one_class(context=1000, prompt=500, ttft=1e-4)) == "ttft"
    closed_loop = changed(one_class(context=1000), workload={"concurrency": 4})
    assert bound(closed_loop) == "concurrency"
    given_batch = plans.with_columns(batch=np.array([3]))
    found = outcomes(one_class(context=1000), given_batch)
    assert BOUNDS[int(found.bound[0])] == "batch"
    assert found.batch.tolist() == [3]


def test_the_last_batch_of_a_cheap_band_is_tried() -> None:
    bands = [{"up_to": 13, "seconds": 1e-6}, {"seconds": 1e-2}]
    problem = changed(one_class(context=1000), assumptions={"overhead": bands})
    chosen_is_cheapest(problem, PlanTable.from_columns({"tp": [2]}))


def test_the_last_batch_that_keeps_every_class_on_time_is_tried() -> None:
    sessions = [
        {"name": "strict", "share": 0.5, "context": 1000, "generate": 20, "tpot": 2e-4},
        {"name": "patient", "share": 0.5, "context": 1000, "generate": 20},
    ]
    load = {"kind": "steady", "classes": sessions, "on_time_share": 0.5}
    problem = problem_of(cards=2, workload=load)
    chosen_is_cheapest(problem, PlanTable.from_columns({"tp": [2]}))


PROMPTS = [{"name": "read", "prompt": 3000, "context": 100, "generate": 60}]


@pytest.mark.parametrize("axes", [{"tp": 2}, {"pp": 4, "microbatches": 4}, {"tp": 2, "pp": 2}])
@pytest.mark.parametrize("concurrency", [1, 2, 7, 64])
def test_sessions_in_flight_are_rate_times_duration(axes: dict[str, int], concurrency: int) -> None:
    """Little's law holds between the three numbers that a steady load reports."""
    load = {"kind": "steady", "classes": PROMPTS, "concurrency": concurrency}
    found = outcomes(problem_of(cards=4, workload=load), PlanTable.from_columns(axes))
    assert found.sessions_per_s[0] * found.span_s[0] == pytest.approx(concurrency)


@pytest.mark.parametrize("axes", [{"tp": 2}, {"pp": 4}])
def test_a_lone_session_takes_as_long_as_in_a_burst(axes: dict[str, int]) -> None:
    """But for one step: the closed form counts a step for each token, the prefill's own too."""
    steady = problem_of(cards=4, workload={"kind": "steady", "classes": PROMPTS, "concurrency": 1})
    burst = problem_of(
        cards=4, workload={"kind": "burst", "classes": [{**PROMPTS[0], "sessions": 1}]}
    )
    plan = PlanTable.from_columns(axes)
    here, there = outcomes(steady, plan).span_s[0], outcomes(burst, plan).span_s[0]
    step = MODEL.decode(steady, plan, np.ones(1, dtype=np.int64), np.array([3160.0])).seconds[0]
    assert 0 < here - there <= 1.05 * step


def test_prompts_use_the_pipeline_and_only_shards_with_sessions() -> None:
    load = {"kind": "steady", "classes": PROMPTS, "concurrency": 64}
    problem = problem_of(cards=4, workload=load)
    staged = PlanTable.from_columns({"pp": 4, "microbatches": 4})
    pass_ = prefill(problem, staged, 3000, 100)
    step = MODEL.decode(problem, staged, np.full(1, 64), np.array([3130.0])).seconds
    assert pass_.follows[0] < pass_.seconds[0]
    expected = step[0] + 64 * pass_.follows[0] / 60
    assert outcomes(problem, staged).tpot_s[0] == pytest.approx(expected)


def test_the_bound_names_what_a_larger_batch_would_lose() -> None:
    """At a batch below the limits, a class that would be late is what binds it."""
    sessions = [
        {"name": "strict", "share": 0.5, "context": 1000, "generate": 20, "tpot": 2e-4},
        {"name": "patient", "share": 0.5, "context": 1000, "generate": 20},
    ]
    load = {"kind": "steady", "classes": sessions, "on_time_share": 0.5}
    found = outcomes(problem_of(cards=2, workload=load), PlanTable.from_columns({"tp": [2]}))
    assert found.on_time[0] == 1
    assert BOUNDS[found.bound[0]] == "tpot"
