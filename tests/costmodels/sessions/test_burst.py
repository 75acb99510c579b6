"""A burst in columns ends when a simulation of single steps ends, failures included."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels.plans import PlanTable
from specs.problem import Problem
from tests.costmodels.sessions.simulator import Session, simulate
from tests.costmodels.support import (
    EXACT,
    FASTER,
    MODEL,
    NEARLY,
    Drawn,
    no_more,
    outcomes,
    scaled,
)
from tests.strategies import changed, planned, problem_of, space_of

factors = st.sampled_from([1.001, 1.5, 2.0, 10.0])


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


@settings(max_examples=40)
@given(planned(most=3, kind="burst", most_candidates=1000, smooth=True))
def test_a_burst_ends_when_a_step_by_step_simulation_ends(drawn: Drawn) -> None:
    agrees_with_the_simulator(*drawn)


@settings(max_examples=40)
@given(planned(most=2, kind="burst", most_candidates=1000))
def test_a_burst_of_any_kind_ends_nearly_when_a_simulation_ends(drawn: Drawn) -> None:
    """Steps that grow in jumps are summed from few of them."""
    problem, plans = drawn
    problem = changed(problem, workload={"failures": []})
    found = outcomes(problem, plans)
    for row in range(len(plans)):
        sessions = simulate(MODEL, problem, plans.take(np.array([row])))
        assert found.span_s[row] == pytest.approx(max(s.end for s in sessions), rel=NEARLY)
        assert found.ttft_s[row] == pytest.approx(max(s.first for s in sessions), rel=NEARLY)


@settings(max_examples=50)
@given(planned(most=3, kind="burst", moe=False, smooth=True), st.data())
def test_a_failure_restarts_what_it_finds_unfinished(drawn: Drawn, data: Any) -> None:
    """Failures at moments that matter: while the sessions of the first card run."""
    problem, plans = drawn
    calm = changed(problem, workload={"failures": []})
    span = float(outcomes(calm, plans).span_s.max())
    # A failure at the very moment when a session ends would be decided by rounding.
    moment = st.floats(0, 1).map(lambda part: part * span * 0.98765432)
    failures = [
        {"card": data.draw(st.integers(0, 3)), "at": data.draw(moment), "stall": data.draw(moment)}
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    assume(all(f["card"] < problem.hardware.cards for f in failures))
    agrees_with_the_simulator(changed(calm, workload={"failures": failures}), plans)


@settings(max_examples=40)
@given(planned(most=4, kind="burst", smooth=True))
def test_a_failure_never_helps(drawn: Drawn) -> None:
    problem, plans = drawn
    calm = changed(problem, workload={"failures": []})
    assume(problem.workload.serving == "one_at_a_time")
    assert no_more(outcomes(calm, plans).span_s, outcomes(problem, plans).span_s, EXACT)


@settings(max_examples=40)
@given(planned(kind="burst", smooth=True), st.sampled_from(sorted(FASTER)), factors)
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


@settings(max_examples=40)
@given(planned(most=4, kind="burst", smooth=True))
def test_no_session_is_faster_in_company_than_alone(drawn: Drawn) -> None:
    """What makes ``deadline`` a bound; sessions of one class, as others see the gap below."""
    problem, plans = drawn
    one_class = [problem.workload.classes[0].model_dump()]
    problem = changed(problem, workload={"failures": [], "classes": one_class})
    alone = space_of(problem).case(plans).fastest
    assert (outcomes(problem, plans).slack_s <= alone + 1e-12).all()


def test_company_on_another_rank_does_not_shorten_a_long_context() -> None:
    """Attention DP 2, one session a rank: the rank with the long context sets the time."""
    sessions = [
        {"name": "long", "sessions": 1, "context": 100_000, "generate": 10, "deadline": 9e-3},
        {"name": "short", "sessions": 1, "context": 0, "generate": 10},
    ]
    experts = {"kind": "moe", "experts": 4, "top_k": 1, "intermediate": 32}
    problem = problem_of(cards=2, ffn=experts, workload={"kind": "burst", "classes": sessions})
    plans = PlanTable.from_columns({"attention_dp": [2], "ep": [2]})
    case = space_of(problem).case(plans)
    assert case.fastest[0] < 0, "alone the long session is late"
    assert case.outcomes.slack_s[0] <= case.fastest[0]


def test_a_shard_with_fewer_sessions_grows_more_slowly() -> None:
    """Three sessions on two shards: the long one has a shard for itself."""
    contexts = {"first": 10, "long": 1000, "last": 10}
    sessions = [
        {"name": name, "sessions": 1, "context": context, "generate": 400}
        for name, context in contexts.items()
    ]
    experts = {"kind": "moe", "experts": 4, "top_k": 1, "intermediate": 32}
    problem = problem_of(cards=2, ffn=experts, workload={"kind": "burst", "classes": sessions})
    agrees_with_the_simulator(problem, PlanTable.from_columns({"attention_dp": [2], "ep": [2]}))
