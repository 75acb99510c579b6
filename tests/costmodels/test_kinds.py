"""Laws of the kinds of layer: what tokens see, what is read of it, and what chunks add up to."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels import sharding
from costmodels.operators import attention
from costmodels.operators.work import Pass
from costmodels.plans import FloatArray, PlanTable
from specs.assumptions import Assumptions
from specs.model import Draft, Layer, LayerGroup, ModelSpec
from specs.problem import Problem
from specs.tensors import Stream
from tests.costmodels.support import EXACT, LEAST, MODEL, Drawn, decode, no_more, prefill
from tests.stacks import layer_groups, model_of, models
from tests.strategies import changed, planned, problem_of

degrees = st.fixed_dictionaries(
    {"tp": st.integers(1, 16), "kv_split": st.integers(1, 4), "cp": st.integers(1, 4)}
)
bounds = st.one_of(st.none(), st.integers(1, 60))
TRIANGLE = {"prefill_context": "triangle", "cp_layout": "zigzag"}


@st.composite
def streams(draw: Any) -> Stream:
    return Stream(
        draw(st.sampled_from(["kv", "window", "index"])),
        width=16,
        query_heads=4,
        flops=64,
        ratio=draw(st.integers(1, 9)),
        kept=draw(bounds),
        seen=draw(bounds),
    )


def taking_in(new: float, held: float) -> Pass:
    one = np.array([1])
    return Pass("prefill", one, one, np.array([float(new)]), np.array([float(held)]))


def seen(stream: Stream, token: int) -> int:
    """Entries that one token sees."""
    whole = token // stream.ratio
    limits = [limit for limit in (stream.kept, stream.seen) if limit is not None]
    return min([whole, *limits])


# What tokens see


@settings(max_examples=300)
@given(streams(), st.integers(0, 400))
def test_what_tokens_see_adds_up(stream: Stream, tokens: int) -> None:
    total = float(attention.seen_up_to(stream, np.array([float(tokens)]))[0])
    assert total == sum(seen(stream, i) for i in range(1, tokens + 1))
    last = float(attention.seen_entries(stream, np.array([float(tokens)]))[0])
    assert last == seen(stream, tokens)


@settings(max_examples=200)
@given(streams(), st.integers(0, 200), st.integers(1, 60), st.integers(1, 4))
def test_zigzag_shares_sum_to_the_whole(stream: Stream, held: int, pieces: int, cp: int) -> None:
    """Ranks with the first and the last piece, the second and the last but one, and so on."""
    new = 2 * cp * pieces
    counts = [seen(stream, held + i) for i in range(1, new + 1)]
    problem = problem_of(cards=4)
    ranks = PlanTable.from_columns({"cp": [cp]})
    even = float(attention.pairs(problem, stream, ranks, taking_in(new, held))[0])
    assert even * cp == pytest.approx(sum(counts))
    dealt = []
    for rank in range(cp):
        early, late = rank * pieces, (2 * cp - 1 - rank) * pieces
        dealt.append(sum(counts[early : early + pieces]) + sum(counts[late : late + pieces]))
    assert sum(dealt) == sum(counts)
    if stream.ratio == 1 and stream.most_seen is None:
        assert dealt == pytest.approx([even] * cp), "all ranks do the same work"
    contiguous = changed(problem, assumptions={"cp_layout": "contiguous"})
    busiest = float(attention.pairs(contiguous, stream, ranks, taking_in(new, held))[0])
    assert busiest == sum(counts[-2 * pieces :])
    assert busiest >= even * (1 - LEAST)


@settings(max_examples=200)
@given(streams(), st.lists(st.integers(1, 90), min_size=1, max_size=5), st.integers(0, 300))
def test_chunks_see_what_the_whole_sees(stream: Stream, chunks: list[int], held: int) -> None:
    problem = changed(problem_of(cards=1), assumptions=TRIANGLE)
    one = PlanTable.from_columns({"tp": [1]})
    whole = attention.pairs(problem, stream, one, taking_in(sum(chunks), held))
    parts, before = 0.0, held
    for chunk in chunks:
        parts += float(attention.pairs(problem, stream, one, taking_in(chunk, before))[0])
        before += chunk
    assert parts == pytest.approx(float(whole[0]))


# What a step reads, and what is kept


def context_reads(problem: Problem, plans: PlanTable, batch: int, context: float) -> FloatArray:
    work = decode(problem, plans, batch, context).work
    names = ("kv_bytes", "window_bytes", "index_bytes", "state_bytes")
    return np.sum([np.zeros(len(plans)), *(work[n] for n in names if n in work)], axis=0)


@settings(max_examples=100)
@given(planned(), st.integers(1, 20), st.integers(0, 4000), st.integers(1, 3000))
def test_what_a_step_reads_of_the_context_grows_with_it(
    drawn: Drawn, batch: int, context: int, more: int
) -> None:
    problem, plans = drawn
    here = context_reads(problem, plans, batch, context)
    assert no_more(here, context_reads(problem, plans, batch, context + more))
    assert no_more(here, context_reads(problem, plans, batch + 1, context))


@settings(max_examples=80)
@given(planned(), st.integers(1, 9), st.integers(1, 3000))
def test_memory_grows_with_the_context(drawn: Drawn, held: int, more: int) -> None:
    problem, plans = drawn
    shapes = problem.model_dump()["workload"]["classes"]
    longer = changed(
        problem,
        workload={"classes": [{**c, "context": c["context"] + more} for c in shapes]},
    )
    sessions = np.full((len(plans), len(shapes)), float(held))
    less, greater = (MODEL.memory(p, plans, sessions).bytes for p in (problem, longer))
    assert no_more(less, greater)


@settings(max_examples=200)
@given(models(), degrees, st.integers(1, 5000))
def test_a_step_reads_no_more_than_is_kept_or_read_of_others(
    raw: dict[str, Any], axes: dict[str, int], tokens: int
) -> None:
    """What a token sees is there: its own layer, or the one that it shares with, keeps it."""
    model = model_of(raw)
    plans = PlanTable.from_columns({axis: [degree] for axis, degree in axes.items()})
    for stream in (
        s for k in model.kinds for s in k.attention.parts(model.hidden, "decode").streams
    ):
        kept = float(sharding.entries(stream, tokens))
        assert float(attention.seen_entries(stream, np.array([float(tokens)]))[0]) <= kept
        assert float(sharding.entry_bytes(model, stream, plans)[0]) > 0


# Chunks of a prompt


@settings(max_examples=100)
@given(planned(), st.lists(st.integers(1, 400), min_size=1, max_size=4), st.integers(0, 2000))
def test_a_prompt_in_chunks_costs_at_least_the_whole(
    drawn: Drawn, chunks: list[int], prefix: int
) -> None:
    """The head once more a chunk, and latents of the prefix expanded again; else the same FLOPs."""
    problem, plans = drawn
    problem = changed(problem, assumptions=TRIANGLE)
    whole = prefill(problem, plans, sum(chunks), prefix).work["flops"]
    parts, held = np.zeros(len(plans)), prefix
    for chunk in chunks:
        parts = parts + prefill(problem, plans, chunk, held).work["flops"]
        held += chunk
    assert no_more(whole, parts, EXACT)


@settings(max_examples=200)
@given(planned(), st.lists(st.integers(1, 400), min_size=2, max_size=4), st.integers(0, 2000))
def test_attention_in_chunks_multiplies_the_same(
    drawn: Drawn, chunks: list[int], prefix: int
) -> None:
    """More only where latents are expanded, as those of earlier chunks are expanded again."""
    problem, plans = drawn
    problem = changed(problem, assumptions=TRIANGLE)

    def flops(kind: Layer, new: int, held: int) -> FloatArray:
        size = len(plans)
        one = np.ones(size, dtype=np.int64)
        pass_ = Pass("prefill", one, one, np.full(size, float(new)), np.full(size, float(held)))
        parts = kind.attention.parts(problem.model.hidden, "prefill")
        found = attention.operators(problem, parts, plans, pass_)
        return np.sum([np.zeros(size), *(o.flops for o in found)], axis=0)

    for kind in problem.model.kinds:
        parts, held = np.zeros(len(plans)), prefix
        for chunk in chunks:
            parts = parts + flops(kind, chunk, held)
            held += chunk
        whole = flops(kind, sum(chunks), prefix)
        matrices = kind.attention.parts(problem.model.hidden, "prefill").matrices
        if any(matrix.expands for matrix in matrices):
            assert (parts > whole).all()
        else:
            assert parts == pytest.approx(whole, rel=EXACT)


# Latents


@settings(max_examples=100)
@given(layer_groups(moe=False, kinds=("mla",)), st.integers(0, 3000))
def test_absorbing_the_expansion_costs_a_step_as_much_as_expanding_one_token(
    raw: dict[str, Any], context: int
) -> None:
    """A step multiplies by the expansion once, and attends over wider vectors than a prefill."""
    assume(raw["attention"]["kind"] == "mla" and raw["attention"]["cache"] == "latent")
    assume("indexer" not in raw["attention"] and "top_k" not in raw["attention"])
    group = LayerGroup.model_validate(raw)
    step, prompt = (group.attention.parts(64, phase) for phase in ("decode", "prefill"))
    assert [m.numbers for m in step.matrices] == [m.numbers for m in prompt.matrices]
    (latents,), (expanded,) = step.streams, prompt.streams
    assert latents.width == expanded.width, "the same is kept"
    a = raw["attention"]
    assert latents.flops == 2 * (2 * a["kv_lora"] + a["rope_dim"])
    assert expanded.flops == 2 * (a["nope_dim"] + a["rope_dim"] + a["v_dim"])


# Groups of layers are alike wherever they stand


@settings(max_examples=80)
@given(planned(), st.integers(1, 20), st.integers(1, 2000))
def test_a_pattern_is_the_row_written_out(drawn: Drawn, batch: int, context: int) -> None:
    problem, plans = drawn
    written = changed(
        problem,
        model={"layers": [group.model_dump(exclude_unset=True) for group in problem.model.groups]},
    )
    held = np.ones((len(plans), len(problem.workload.classes)))
    for one, other in (
        (decode(p, plans, batch, context).seconds for p in (problem, written)),
        (prefill(p, plans, context, batch).seconds for p in (problem, written)),
        (MODEL.memory(p, plans, held).bytes for p in (problem, written)),
    ):
        assert one == pytest.approx(other, rel=LEAST)


@settings(max_examples=100)
@given(models(), layer_groups(moe=False), degrees)
def test_layers_of_a_draft_weigh_as_layers_of_the_stack(
    raw: dict[str, Any], added: dict[str, Any], axes: dict[str, int]
) -> None:
    model: ModelSpec = model_of({k: v for k, v in raw.items() if k != "draft"})
    plans = PlanTable.from_columns({axis: [degree] for axis, degree in axes.items()})
    one, two = LayerGroup.model_validate(added), LayerGroup.model_validate({**added, "count": 9})
    shares = sharding.layer_weights(model, Layer.of(one), plans, Assumptions())
    each = float(np.sum(list(shares.values())))
    few, many = (
        float(
            sum(sharding.draft_weights(model, Draft(layers=(g,)), plans, Assumptions()).values())[0]
        )
        for g in (one, two)
    )
    assert many - few == pytest.approx((9 - one.count) * each, rel=EXACT)
