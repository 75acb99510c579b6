"""Laws of closed loops of a serving engine, which lets sessions wait that find no room."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions.outcome import Outcomes
from costmodels.sessions.queueing import admitted, in_loop, queues
from costmodels.sessions.steady import SteadyLoad
from specs.engines import written_out
from specs.problem import Problem
from tests.costmodels.support import EXACT, LEAST, MODEL, Drawn, no_more, outcomes, scaled
from tests.strategies import changed, planned, problem_of

NOTHING = dict.fromkeys(
    ("context", "link_buffer", "graph_base", "graph_layer", "graph_batch", "logit_bytes"), 0
)
"""Inputs of an engine that leaves nearly all of a small card to weights and KV."""


TOGETHER = "continuous_batching"


def served(problem: Problem, tokens: int, sequences: int, **workload: Any) -> Problem:
    """The problem on an engine whose passes have at most so many tokens and sequences."""
    passes = {"max_batched_tokens": tokens, "max_sequences": sequences, "whole_prompts": 0}
    options = {**NOTHING, **passes, "block": 1, "caches": "exact"}
    raw = problem.model_dump(exclude_unset=True)
    for stated_by_engine in ("activations", "workspace", "capacity"):
        raw["assumptions"].pop(stated_by_engine, None)
    raw["engine"] = written_out({"name": "vllm", "options": options})
    raw["workload"] |= workload
    return Problem.model_validate(raw)


@st.composite
def loops(draw: Any, passes: tuple[int, ...] = (16, 128, 2048)) -> Drawn:
    """Closed loops of some plans, with chunks of their own at times."""
    problem, plans = draw(planned(most=4, kind="steady"))
    most = draw(st.sampled_from(passes))
    concurrency, sequences = draw(st.integers(1, 200)), draw(st.sampled_from([1, 4, 64, 1024]))
    problem = served(problem, most, sequences, concurrency=concurrency, serving=TOGETHER)
    chunks = st.lists(st.sampled_from([0, 8, 512]), min_size=len(plans), max_size=len(plans))
    return problem, plans.with_columns(prefill_chunk=np.array(draw(chunks)))


def per_session(problem: Problem, name: str) -> float:
    """Mean tokens of an arriving session."""
    classes = problem.workload.classes
    return sum((c.share or 1.0) * getattr(c, name) for c in classes)


def brought_in(problem: Problem, plans: PlanTable, batch: IntArray) -> FloatArray:
    """Prompt tokens that each attention shard takes in during a step, if ``batch`` decode."""
    ended = batch / per_session(problem, "generate")
    return np.asarray(ended * per_session(problem, "prompt") / plans.attention_dp)


def largest_pass(problem: Problem, plans: PlanTable) -> IntArray:
    assert problem.engine is not None
    tokens = problem.engine.memory.max_batched_tokens
    assert tokens is not None
    own = np.where(plans.prefill_chunk > 0, plans.prefill_chunk, tokens)
    return np.minimum(own, tokens)


@settings(max_examples=60)
@given(loops(), st.sampled_from([1.1, 2.0, 50.0]))
def test_more_room_never_decodes_fewer(drawn: Drawn, factor: float) -> None:
    problem, plans = drawn
    before = outcomes(problem, plans).batch
    roomier = scaled(problem, "hardware.memory.hbm.capacity", factor)
    assert (before <= outcomes(roomier, plans).batch).all()
    larger = scaled(problem, "engine.memory.max_batched_tokens", 4)
    larger = scaled(larger, "engine.memory.max_sequences", 4)
    assert (admitted(problem, plans) <= admitted(larger, plans)).all()


@settings(max_examples=60)
@given(loops())
def test_the_engine_decodes_as_many_as_find_room(drawn: Drawn) -> None:
    """One more would not fit into memory, or be more than a pass brings in or has sequences."""
    problem, plans = drawn
    assert problem.engine is not None
    sequences = problem.engine.memory.max_sequences
    assert sequences is not None
    load = SteadyLoad(MODEL, problem, plans)

    def admits(batch: IntArray) -> Any:
        brought = brought_in(problem, plans, batch) <= largest_pass(problem, plans) * (1 + EXACT)
        whole = -(-batch // plans.attention_dp) <= sequences
        return load.fits(batch) & brought & whole & (batch <= in_loop(problem, plans))

    batch = outcomes(problem, plans).batch
    allowed = np.where(plans.batch > 0, plans.batch, batch + 1) > batch
    assert (admits(batch) | (batch == 1)).all()
    assert not (admits(batch + 1) & allowed).any()


def nobody_waits(problem: Problem, plans: PlanTable, batch: IntArray, row: int) -> Outcomes:
    """What one plan does with as many sessions as it decodes at once."""
    some = changed(problem, workload={"concurrency": int(batch[row] * plans.replicas[row])})
    return outcomes(some, plans.take(np.array([row])))


@settings(max_examples=60)
@given(loops())
def test_littles_law_of_the_whole_loop(drawn: Drawn) -> None:
    """Sessions in the loop are their rate times waiting and lasting, but for the last round."""
    problem, plans = drawn
    found = outcomes(problem, plans)
    concurrency = problem.workload.concurrency
    assert concurrency is not None
    for row in range(len(plans)):
        alone = nobody_waits(problem, plans, found.batch, row)
        assert alone.batch[0] == found.batch[row]
        assert alone.tpot_s[0] == pytest.approx(found.tpot_s[row], rel=LEAST)
        waiting = found.ttft_s[row] - alone.ttft_s[0]
        lasting = found.tpot_s[row] * per_session(problem, "generate")
        held = found.sessions_per_s[row] * (waiting + lasting)
        assert concurrency * (1 - EXACT) <= held
        assert held < (concurrency + plans.replicas[row]) * (1 + EXACT)
        assert waiting >= -EXACT * lasting


@settings(max_examples=60)
@given(loops(passes=(4096,)))
def test_without_waiting_an_engine_changes_nothing(drawn: Drawn) -> None:
    """Where passes take whole prompts, and all sessions of the loop decode together."""
    problem, plans = drawn
    assert queues(problem) and per_session(problem, "prompt") <= 4096
    found = outcomes(problem, plans)
    rows = np.flatnonzero(found.batch == in_loop(problem, plans))
    bare = changed(problem, engine=None)
    assert not queues(bare)
    expected = outcomes(bare, plans)
    for name in ("batch", "tpot_s", "ttft_s", "span_s", "sessions_per_s", "cost", "on_time"):
        mine, bares = getattr(found, name)[rows], getattr(expected, name)[rows]
        assert mine == pytest.approx(bares, rel=LEAST), name


@settings(max_examples=60)
@given(loops(), st.sampled_from([1, 8, 100]))
def test_a_chunk_of_the_plan_bounds_what_is_brought_in(drawn: Drawn, chunk: int) -> None:
    problem, plans = drawn
    chunked = plans.with_columns(prefill_chunk=np.full_like(plans.tp, chunk))
    batch = outcomes(problem, chunked).batch
    assert no_more(brought_in(problem, chunked, batch)[batch > 1], np.full(1, chunk), EXACT)
    longer = chunked.with_columns(prefill_chunk=chunked.prefill_chunk * 3)
    assert (admitted(problem, chunked) <= admitted(problem, longer)).all()


def test_sessions_without_prompts_are_bounded_by_sequences_alone() -> None:
    shape = {"name": "only", "context": 100, "generate": 10}
    load = {"kind": "steady", "classes": [shape], "concurrency": 500}
    problem = served(problem_of(cards=2, workload=load), 8, 3)
    plans = PlanTable.from_columns({"tp": [1, 2], "prefill_chunk": [0, 1], "replicas": [2, 1]})
    assert outcomes(problem, plans).batch.tolist() == [3, 3]
    prompted = changed(problem, workload={"classes": [{**shape, "prompt": 40}]})
    # A session of 10 tokens brings 40: a pass of 8 keeps 2 decoding, and one of 1 a lone one.
    assert outcomes(prompted, plans).batch.tolist() == [2, 1]


@settings(max_examples=40)
@given(planned(most=4, kind="steady"), st.sampled_from([1, 4, 64]))
def test_an_open_load_fills_no_more_than_a_pass(drawn: Drawn, most: int) -> None:
    problem, plans = drawn
    open_load = {"concurrency": None, "serving": TOGETHER}
    found = outcomes(served(problem, 2048, most, **open_load), plans)
    assert (found.batch <= most * plans.attention_dp).all()
    # More room in a pass never decodes fewer at the same cost or above.
    larger = outcomes(served(problem, 2048, 4 * most, **open_load), plans)
    assert no_more(larger.cost, found.cost)
