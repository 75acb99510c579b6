"""Shards sum to the whole where degrees divide, and to more where they do not."""

from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import sharding
from costmodels.memory import estimate
from costmodels.plans import TIER_AXES, PlanTable
from specs import catalog
from specs.assumptions import Assumptions
from specs.ffn import MoeFfn
from specs.formats import Format, Formats
from specs.model import ModelSpec
from specs.problem import Problem
from specs.tensors import Stream
from tests.shapes import attention, expert, groups, halves, mixer
from tests.stacks import model_of, models, switches
from tests.strategies import changed, planned, problems

CATALOGUE = [model_of(catalog.entry("models", name)) for name in catalog.names("models")]
WHOLE = PlanTable.from_columns({"tp": [1]})
ASSUMED = Assumptions()

every_model = pytest.mark.parametrize("model", CATALOGUE, ids=lambda model: model.name)
degrees = st.fixed_dictionaries(
    {
        "tp": st.integers(1, 32),
        "kv_split": st.integers(1, 8),
        "cp": st.integers(1, 4),
        "ep": st.integers(1, 16),
        "expert_tp": st.integers(1, 8),
        "redundant_experts": st.integers(0, 8),
    }
)


def dealt(model: ModelSpec, ways: str) -> set[int]:
    """Units that matrices of the stack are dealt in: ``heads``, ``kv``, ``width`` or experts."""
    found: set[int] = set()
    for group in groups(model):
        parts = [m for half in halves(model, group) for m in half.matrices]
        if isinstance(group.ffn, MoeFfn):
            parts += [m._replace(dealt="experts") for m in expert(group.ffn, model.hidden)[0]]
        found |= {m.units for m in parts if m.dealt == ways}
    return found


def dividing(model: ModelSpec) -> list[dict[str, int]]:
    """Degrees that divide everything there is to divide in ``model``."""
    experts = gcd(*(f.experts for f in model.moe)) if model.moe else 1
    widths = {*dealt(model, "heads"), *dealt(model, "width"), model.vocab}
    found = []
    for tp in (1, 2, 3, 4, 8, 13, 16, 64):
        if any(n % tp for n in widths) or any(n % tp and tp % n for n in dealt(model, "kv")):
            continue
        expert_tp = gcd(tp, *dealt(model, "experts")) if model.moe else 1
        found.append({"tp": tp, "ep": gcd(experts, 8), "expert_tp": expert_tp})
    return found


def streams(model: ModelSpec) -> list[Stream]:
    return [
        stream
        for kind in model.kinds
        for stream in kind.attention.parts(model.hidden, "decode").streams
    ]


def plan(axes: dict[str, int]) -> PlanTable:
    return PlanTable.from_columns({axis: [value] for axis, value in axes.items()})


def plain(model: ModelSpec) -> ModelSpec:
    """The model without scales, whose rounding is a law of its own."""
    return model.model_copy(update={"formats": Formats()})


def total(model: ModelSpec, axes: dict[str, int]) -> dict[str, float]:
    """Bytes over the ranks that hold a tensor class, by class; the whole stack."""
    one = plan(axes)
    found: dict[str, float] = {}
    for kind, count in zip(model.kinds, model.kind_counts, strict=True):
        for name, share in sharding.layer_weights(model, kind, one, ASSUMED).items():
            ranks = axes["tp"]
            if name == "experts":
                ranks = axes.get("ep", 1) * axes.get("expert_tp", 1)
            if name == "engram":
                ranks = axes["tp"] * axes.get("cp", 1)
            found[name] = found.get(name, 0.0) + count * float(share[0]) * ranks
    found["embedding"] = float(sharding.embedding_bytes(model, one)[0]) * axes["tp"]
    found["head"] = float(sharding.head_bytes(model, one)[0]) * axes["tp"]
    return found


def copies(model: ModelSpec, axes: dict[str, int]) -> dict[str, float]:
    """Bytes that ranks hold beyond one copy: of KV heads, and of what is not dealt at all."""
    tp, shards = axes["tp"], max(axes["tp"] // axes.get("kv_split", 1), 1)
    found: dict[str, float] = {}

    def more(name: str, size: float, times: float) -> None:
        found[name] = found.get(name, 0.0) + size * (times - 1)

    for group in groups(model):
        norm = model.formats.norms.bytes_per_number
        for half in halves(model, group):
            mixing = mixer(model)
            for m in (*half.matrices, *mixing.matrices):
                stored = getattr(model.formats, m.tensor).bytes_per_number
                times = tp if not m.dealt else 1
                if m.dealt in ("kv", "own"):
                    times = tp * -(-m.units // (shards if m.dealt == "kv" else tp)) / m.units
                more(m.tensor, group.count * m.numbers * stored, times)
            learned = half.learned + mixing.learned
            size = (model.hidden + learned.norms) * norm + 8 * learned.idle_int64
            size += 4 * (learned.fp32 + learned.idle_fp32)
            more("norms", group.count * size, tp)
        if group.engram:
            table = group.engram
            size = table.inputs * table.outputs * model.formats.engram.bytes_per_number
            cards = tp * axes.get("cp", 1)
            more("engram", group.count * (size + table.weights * norm), cards)
    return found


def sums_to_the_whole(model: ModelSpec, axes: dict[str, int]) -> None:
    whole = total(model, {"tp": 1})
    parts = total(model, axes)
    for name, extra in copies(model, axes).items():
        parts[name] -= extra
    assert parts == pytest.approx(whole, rel=1e-12)


@every_model
def test_weights_of_catalogue_models_sum_to_the_whole(model: ModelSpec) -> None:
    for axes in dividing(model):
        sums_to_the_whole(plain(model), axes)


@settings(max_examples=200)
@given(models())
def test_weights_of_random_stacks_sum_to_the_whole(raw: dict[str, Any]) -> None:
    """Dealt matrices once over their ranks, KV heads once for every copy, the rest on all."""
    model = plain(model_of(raw))
    for axes in dividing(model):
        sums_to_the_whole(model, axes)


@every_model
def test_the_whole_is_the_published_size(model: ModelSpec) -> None:
    one = total(model, {"tp": 1})
    if model.tied_embeddings:
        del one["head"]
    size = sum(one.values()) + model.hidden * model.formats.norms.bytes_per_number
    stated = sum(module.parameters for module in model.modules)
    if model.formats == Formats() and all(k.attention.kind == "gqa" for k in model.kinds):
        fp32 = sum(g.count * half.learned.fp32 for g in groups(model) for half in halves(model, g))
        expected = 2 * ((model.parameters or 0) - stated) + 2 * fp32
        assert size == expected, "two bytes a parameter in BF16, and two more in FP32"
    else:
        assert size > 0


@settings(max_examples=200)
@given(models(), degrees)
def test_shards_are_never_less_than_the_whole(raw: dict[str, Any], axes: dict[str, int]) -> None:
    model = model_of(raw)
    whole, parts = total(model, {"tp": 1}), total(model, axes)
    for name, size in whole.items():
        assert parts[name] >= size * (1 - 1e-12), name


@settings(max_examples=200)
@given(models(), degrees)
def test_norms_router_and_mixers_are_whole_on_every_card(
    raw: dict[str, Any], axes: dict[str, int]
) -> None:
    model = model_of(raw)
    for kind in model.kinds:
        here = sharding.layer_weights(model, kind, plan(axes), ASSUMED)
        there = sharding.layer_weights(model, kind, WHOLE, ASSUMED)
        for name in ("norms", "router", "hyper", "compressor"):
            assert here.get(name) == there.get(name)


@settings(max_examples=200)
@given(models(moe=True), degrees)
def test_every_expert_and_copy_has_a_slot(raw: dict[str, Any], axes: dict[str, int]) -> None:
    model = model_of(raw)
    one = plan(axes)
    fractional = Assumptions(expert_split="fractional")
    for ffn in model.moe:
        needed = ffn.experts + axes["redundant_experts"]
        slots = float(sharding.experts_per_group(ffn, one, ASSUMED)[0])
        assert slots == -(-needed // axes["ep"])
        exact = float(sharding.experts_per_group(ffn, one, fractional)[0])
        assert exact * axes["ep"] == pytest.approx(needed)
        copies = int(sharding.redundant_experts(ffn.experts, axes["ep"]))
        assert (ffn.experts + copies) % axes["ep"] == 0
        assert 0 <= copies < axes["ep"]


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_stages_hold_all_layers_in_order_and_evenly(
    runs: list[tuple[int, int]], stages: int
) -> None:
    held = sharding.stage_layers(tuple(runs), 3, stages)
    stack = [kind for kind, count in runs for _ in range(count)]
    assert held.shape == (min(stages, len(stack)), 3), "no stage is empty"
    sizes = held.sum(axis=1).tolist()
    assert sum(sizes) == len(stack)
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True), "the last stage has the head, and no extra layer"
    for size, row in zip(sizes, held.tolist(), strict=True):
        here, stack = stack[:size], stack[size:]
        assert row == [here.count(kind) for kind in range(3)], "in order"


@settings(max_examples=200)
@given(models(), st.sampled_from([1, 2, 3, 4, 6, 8, 12]), st.integers(1, 4), st.integers(1, 4))
def test_kv_over_its_ranks_sums_to_the_whole(
    raw: dict[str, Any], shards: int, kv_split: int, cp: int
) -> None:
    """Over ``kv_split`` and ``cp`` exactly; over head shards once for every copy of a head.

    A window is not split: its heads go round all of TP, and it is whole on all CP ranks.
    """
    model = model_of(raw)
    axes = plan({"tp": shards * kv_split, "kv_split": kv_split, "cp": cp})
    for stream in streams(model):
        heads = stream.heads
        share = sharding.entry_bytes(model, stream, axes) * sharding.stream_share(stream, axes)
        ranks = shards if stream.kept is None else shards * kv_split
        over = float(share[0]) * ranks * (kv_split * cp if stream.kept is None else 1)
        whole = float(sharding.entry_bytes(model, stream, WHOLE)[0])
        assert over >= whole * (1 - 1e-12)
        if heads % ranks == 0:
            assert over == pytest.approx(whole)
        elif ranks % heads == 0:
            assert over == pytest.approx(whole * ranks / heads)


@settings(max_examples=200)
@given(models(), degrees, st.integers(0, 5000), st.integers(1, 3000), switches)
def test_what_a_session_keeps_grows_with_its_context(
    raw: dict[str, Any], axes: dict[str, int], tokens: int, more: int, counted: bool
) -> None:
    """Never less with more context, more only where a window or a state does not bound it."""
    model = model_of(raw)
    assumed = Assumptions(compressor_state="counted" if counted else "in_workspace")
    for kind in model.kinds:
        fewer, greater = (
            float(sharding.session_bytes(model, kind, plan(axes), n, assumed)[0])
            for n in (tokens, tokens + more)
        )
        kept = attention(kind.attention, model.hidden).kept
        grows = any(k.owned and k.left(tokens + more) > k.left(tokens) for k in kept)
        assert (greater > fewer) if grows else (greater == fewer)
        nothing = float(sharding.session_bytes(model, kind, plan(axes), 0, assumed)[0])
        states = attention(kind.attention, model.hidden).states
        assert (nothing > 0) == any(s.passed or counted for s in states)


@settings(max_examples=200)
@given(models(), st.integers(1, 16))
def test_states_over_their_ranks_sum_to_the_whole(raw: dict[str, Any], tp: int) -> None:
    model = model_of(raw)
    for kind in model.kinds:
        for state in kind.attention.parts(model.hidden, "decode").states:
            over = float(sharding.state_bytes(model, state, plan({"tp": tp}))[0]) * tp
            whole = float(sharding.state_bytes(model, state, WHOLE)[0])
            assert over >= whole
            if state.heads % tp == 0:
                assert over == whole


@settings(max_examples=200)
@given(
    st.sampled_from([{"block": (4, 8)}, {"block": (16, 16)}, {"group": 8}, {"group": 32}]),
    st.integers(1, 200),
    st.integers(1, 200),
    st.integers(1, 8),
)
def test_scales_are_stored_for_every_block_that_a_shard_touches(
    scaling: dict[str, Any], rows: int, columns: int, parts: int
) -> None:
    fmt = Format(dtype="fp8", scale="fp32", **scaling)
    block = fmt.block or (fmt.group or 1, 1)
    touched = {(r // block[0], c // block[1]) for r in range(rows) for c in range(columns)}
    assert float(sharding.matrix_bytes(fmt, rows, columns)) == rows * columns + 4 * len(touched)
    share = -(-rows // parts)
    cut = float(sharding.matrix_bytes(fmt, share, columns)) * parts
    assert cut >= float(sharding.matrix_bytes(fmt, rows, columns))


@settings(max_examples=40)
@given(planned(moe=None))
def test_weights_of_one_stage_sum_to_the_model(drawn: tuple[Problem, PlanTable]) -> None:
    """On one stage the estimate holds what the shards say: nothing forgotten, nothing twice."""
    problem, plans = drawn
    problem = changed(problem, assumptions={"capacity": "per_card", "count_modules": True})
    model = problem.model
    plans = plans.take(plans.pp == 1)
    plans = plans.with_columns(**{axis: np.zeros_like(plans.tp) for axis in TIER_AXES})
    held = np.zeros((len(plans), len(problem.workload.classes)))
    weights = estimate(problem, plans, held).components["weights"]
    expected = np.zeros(len(plans))
    for kind, count in zip(model.kinds, model.kind_counts, strict=True):
        shares = sharding.layer_weights(model, kind, plans, problem.assumptions)
        expected += count * np.sum(list(shares.values()), axis=0)
    expected += sharding.embedding_bytes(model, plans)
    if not model.tied_embeddings:
        expected += sharding.head_bytes(model, plans)
    expected += model.hidden * model.formats.norms.bytes_per_number
    for module in model.modules:
        expected += module.bytes / (plans.tp if module.spread else 1)
    mixer = model.last_mixer.matrices
    joined = sharding.held_bytes(model, mixer, plans, problem.assumptions)
    expected += sum(joined.values())
    expected += sharding.vector_bytes(model, model.last_mixer.vectors)
    assert weights == pytest.approx(expected, rel=1e-12)


@settings(max_examples=80)
@given(planned())
def test_the_fullest_stage_is_at_least_the_mean_and_at_most_the_whole(
    drawn: tuple[Problem, PlanTable],
) -> None:
    problem, plans = drawn
    problem = changed(problem, assumptions={"capacity": "per_card"})
    held = np.ones((len(plans), len(problem.workload.classes)))
    parts = estimate(problem, plans, held).components
    alone = estimate(problem, plans.with_columns(pp=np.ones_like(plans.pp)), held).components
    stage, whole = (c["weights"] + c["kv"] for c in (parts, alone))
    # A tied embedding is stored on the first stage and again on the last.
    assert (stage * plans.pp >= whole * (1 - 1e-12)).all()
    head = sharding.head_bytes(problem.model, plans)
    assert (stage <= (whole + head) * (1 + 1e-12)).all()


@settings(max_examples=60)
@given(problems(moe=True, most_candidates=500))
def test_pooled_memory_counts_everything_once(problem: Problem) -> None:
    problem = changed(problem, assumptions={"capacity": "pooled"})
    plans = PlanTable.from_columns({"tp": [2, 4], "pp": [3, 1], "ep": [2, 4]})
    held = np.ones((2, len(problem.workload.classes)))
    parts = estimate(problem, plans, held).components
    whole = estimate(problem, WHOLE, held[:1]).components
    for name in ("weights", "kv"):
        assert parts[name] * plans.cards == pytest.approx(np.repeat(whole[name], 2))


def test_the_text_counts_the_same_bytes() -> None:
    """6.1.2 and 6.2.2: 188 KiB a token, 58.96 GB a card; 32B: 65.52 GB, 256 KiB a token."""
    by_name = {model.name: model for model in CATALOGUE}
    big = by_name["qwen3-235b-a22b"]
    assert per_token(big) == 188 * 1024
    eight = total(big, {"tp": 8, "ep": 8})
    final = 8 * big.hidden * 2
    assert (sum(eight.values()) + final) / 8 / 1e9 == pytest.approx(58.96, abs=0.005)
    dense = by_name["qwen3-32b"]
    assert sum(total(dense, {"tp": 1}).values()) / 1e9 == pytest.approx(65.52, abs=0.005)
    assert per_token(dense) == 256 * 1024


def per_token(model: ModelSpec) -> float:
    """KV of one token in all layers on one card."""
    (kind,) = model.kinds
    size = sharding.session_bytes(model, kind, WHOLE, 1, ASSUMED)
    return float(size[0]) * model.layer_count
