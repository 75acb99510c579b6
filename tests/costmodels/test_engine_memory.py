"""Laws of the memory that a serving engine takes, and its rules one by one."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels.engine_memory import OUTSIDE, kv_room, reported
from costmodels.memory import estimate, kept_bytes
from costmodels.plans import PlanTable
from specs import catalog
from specs.assumptions import Assumptions
from specs.engine import EngineMemory, batch_limits
from specs.engines import written_out
from specs.load import load_problem
from specs.problem import Problem
from tests.strategies import planned

GIB = 2.0**30
ENGINES = catalog.names("engines")
FIXED = {"max_batched_tokens": 512, "max_sequences": 8}
"""A batch of its own, so that none follows from the size of the card."""

RESERVES = (
    *("context", "group_buffer", "link_buffer"),
    *("graph_base", "graph_layer", "logit_bytes", "index_scores"),
)

Drawn = tuple[Problem, PlanTable]


def served(problem: Problem, name: str, **options: Any) -> Problem:
    """The problem on an engine, which states what assumptions otherwise do."""
    raw = problem.model_dump()
    for stated in ("capacity", "activations", "workspace"):
        raw["assumptions"][stated] = Assumptions.model_fields[stated].default
    raw["engine"] = written_out({"name": name, "options": options})
    return Problem.model_validate(raw)


def memory(problem: Problem, plans: PlanTable, sessions: int = 1) -> Any:
    return estimate(problem, plans, np.full((len(plans), len(problem.workload.classes)), sessions))


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=10)
@given(drawn=planned(), share=st.floats(0.3, 0.9), sessions=st.integers(1, 50))
def test_a_larger_share_never_leaves_less_for_kv(
    engine: str, drawn: Drawn, share: float, sessions: int
) -> None:
    problem, plans = drawn
    small = served(problem, engine, share=share, **FIXED)
    large = served(problem, engine, share=share + 0.1, **FIXED)
    before, after = memory(small, plans, sessions), memory(large, plans, sessions)
    # Where nothing else fits either, a share of what is missing is no room.
    there = kv_room(small, before) >= 0
    assert (kv_room(large, after) >= kv_room(small, before))[there].all()
    # What lies beside the share must fit as well: a larger one may break that, and nothing else.
    beside = after.others.get(OUTSIDE)
    fits = after.fits if beside is None else after.fits | ~beside.fits
    assert (fits | ~before.fits).all()


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=10)
@given(drawn=planned(), gib=st.floats(1, 200), factor=st.sampled_from([1.01, 1.5, 4.0]))
def test_more_reported_memory_never_makes_a_plan_infeasible(
    engine: str, drawn: Drawn, gib: float, factor: float
) -> None:
    problem, plans = drawn
    # A pool that is allocated twice outgrows the rest of a larger card.
    here = served(problem, engine, state_pools=1, **FIXED)

    def reporting(size: float) -> Any:
        raw = here.model_dump()
        raw["hardware"]["memory"][problem.hardware.memory.working]["reported"] = size * GIB
        return memory(Problem.model_validate(raw), plans)

    assert (reporting(gib * factor).fits | ~reporting(gib).fits).all()


@pytest.mark.parametrize("reserve", RESERVES)
@settings(max_examples=8)
@given(drawn=planned(), engine=st.sampled_from(ENGINES), factor=st.sampled_from([1.5, 10.0]))
def test_more_reserve_never_leaves_more_for_kv(
    reserve: str, drawn: Drawn, engine: str, factor: float
) -> None:
    problem, plans = drawn
    before = served(problem, engine, **FIXED)
    assert before.engine is not None
    more = getattr(before.engine.memory, reserve) * factor + 1e-3
    after = served(problem, engine, **FIXED, **{reserve: more})
    held, then = memory(before, plans), memory(after, plans)
    assert (kv_room(after, then) <= kv_room(before, held) + 1e-6).all()
    assert (then.margin <= held.margin + 1e-6).all()


@settings(max_examples=40)
@given(planned(), st.sampled_from(ENGINES), st.integers(1, 4000), st.integers(1, 4000))
def test_longer_sessions_never_hold_less_and_blocks_are_whole(
    drawn: Drawn, engine: str, tokens: int, more: int
) -> None:
    problem, plans = drawn
    here = served(problem, engine)
    assert here.engine is not None
    block = here.engine.memory.block
    short, longer = (kept_bytes(here, plans, n) for n in (tokens, tokens + more))
    assert (longer >= short).all()
    assert (kept_bytes(here, plans, -(-tokens // block) * block) >= short).all()
    exact = kept_bytes(problem, plans, tokens)
    assert (short >= exact * (1 - 1e-12)).all()


@settings(max_examples=20)
@given(planned(), st.sampled_from(ENGINES))
def test_components_are_named_and_add_up(drawn: Drawn, engine: str) -> None:
    problem, plans = drawn
    found = memory(served(problem, engine), plans)
    beside = found.others[OUTSIDE].components if OUTSIDE in found.others else {}
    names = {*found.components, *beside} - {"left_free", "pool_copies"}
    assert names == {"weights", "kv", "activations", "context", "buffers", "graphs"}
    if OUTSIDE in found.others:
        size = found.capacity + found.others[OUTSIDE].capacity
        assert size == pytest.approx(np.full(len(plans), reported(problem)))


# Rules one by one

EXAMPLE = Path(__file__).parents[2] / "examples" / "qwen3-235b-a22b-8k-hgx-h100.yaml"
EIGHT = PlanTable.from_columns({"tp": [8], "expert_tp": [8]})


def inputs(version: str | None = None, **options: Any) -> EngineMemory:
    raw = written_out({"name": "vllm", "version": version, "options": options})
    assert raw is not None
    return EngineMemory.model_validate(raw["memory"])


@pytest.mark.parametrize(
    ("version", "share", "covers", "logit"),
    [
        ("0.6.4.post1", 0.9, ("activations", "context", "buffers"), 40),
        ("v0.10.2", 0.9, ("activations", "buffers"), 40),
        ("0.11.0", 0.9, ("activations",), 40),
        ("0.20.1", 0.9, ("activations",), 16),
        ("0.21", 0.92, ("activations", "graphs"), 16),
        (None, 0.92, ("activations", "graphs"), 16),
    ],
)
def test_defaults_follow_the_version(
    version: str | None, share: float, covers: tuple[str, ...], logit: float
) -> None:
    found = inputs(version)
    assert (found.share, found.covers, found.logit_bytes) == (share, covers, logit)


def test_batches_follow_the_card() -> None:
    memory = inputs()
    assert batch_limits(memory, "L40S", 44.42 * GIB, 32768) == (2048, 256)
    assert batch_limits(memory, "H100 SXM 80GB", 79.22 * GIB, 32768) == (8192, 1024)
    assert batch_limits(memory, "A100 SXM 80GB", 79.25 * GIB, 32768) == (2048, 256)
    stated = inputs(max_num_batched_tokens=4096, max_num_seqs=64)
    assert batch_limits(stated, "L40S", 44.42 * GIB, 32768) == (4096, 64)


def test_old_engines_take_prompts_in_whole_up_to_a_length() -> None:
    memory = inputs("0.6.3")
    tokens = [batch_limits(memory, "L40S", 1.0, longest).tokens for longest in (1000, 29000, 35000)]
    assert tokens == [2048, 29000, 2048]


@pytest.mark.parametrize(("length", "fits"), [("8704", True), ("4M", False)])
def test_the_longest_session_must_fit_at_the_start(length: str, fits: bool) -> None:
    engine = f"engine={{name: vllm, options: {{max_model_len: {length}}}}}"
    problem = load_problem(EXAMPLE, [engine])
    found = memory(problem, EIGHT)
    assert found.components["kv"] == kept_bytes(problem, EIGHT, problem.longest)
    assert bool(found.fits[0]) is fits


def test_without_an_engine_reported_memory_says_nothing() -> None:
    problem = load_problem(EXAMPLE)
    assert problem.engine is None
    assert load_problem(EXAMPLE, ["engine=none"]) == problem
    bare = load_problem(EXAMPLE, ["hardware.memory.hbm.reported=1 GiB"])
    assert memory(bare, EIGHT).margin == memory(problem, EIGHT).margin
