"""Shards sum to the whole where degrees divide, and to more where they do not."""

from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodels import sharding
from costmodels.memory import estimate
from costmodels.plans import PlanTable
from specs import catalog
from specs.model import Format, ModelSpec, MoeFfn
from specs.problem import Assumptions, Problem
from tests.strategies import changed, model_of, models, planned, problems

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


def dividing(model: ModelSpec) -> list[dict[str, int]]:
    """Degrees that divide everything there is to divide in ``model``."""
    heads = gcd(*(g.attention.q_heads for g in model.layers))
    kv_heads = {g.attention.kv_heads for g in model.layers}
    experts = gcd(*(f.experts for f in model.moe)) if model.moe else 1
    widths = [g.ffn.intermediate for g in model.layers if g.ffn.kind == "dense"]
    found = []
    for tp in (1, 2, 3, 4, 8, 13, 16, 64):
        shares = [heads, model.vocab, *widths]
        if any(n % tp for n in shares) or any(n % tp and tp % n for n in kv_heads):
            continue
        expert_tp = gcd(tp, *(f.intermediate for f in model.moe)) if model.moe else 1
        found.append({"tp": tp, "ep": gcd(experts, 8), "expert_tp": expert_tp})
    return found


def plan(axes: dict[str, int]) -> PlanTable:
    return PlanTable.from_columns({axis: [value] for axis, value in axes.items()})


def plain(model: ModelSpec) -> ModelSpec:
    """The model without scales, whose rounding is a law of its own."""
    return model.model_copy(update={"formats": type(model.formats)()})


def total(model: ModelSpec, axes: dict[str, int]) -> dict[str, float]:
    """Bytes over the ranks that a tensor class is split over, by class; the whole stack."""
    one = plan(axes)
    ranks = {"attention": axes["tp"], "ffn": axes["tp"], "norms": 1, "router": 1}
    ranks["experts"] = axes.get("ep", 1) * axes.get("expert_tp", 1)
    found: dict[str, float] = {}
    for group in model.layers:
        for name, share in sharding.layer_weights(model, group, one, ASSUMED).items():
            found[name] = found.get(name, 0.0) + group.count * float(share[0]) * ranks[name]
    found["embedding"] = float(sharding.embedding_bytes(model, one)[0]) * axes["tp"]
    found["head"] = float(sharding.head_bytes(model, one)[0]) * axes["tp"]
    return found


def copied_kv(model: ModelSpec, axes: dict[str, int]) -> float:
    """Bytes of K and V projections that ranks hold beyond one copy."""
    extra = 0.0
    for group in model.layers:
        shards = min(axes["tp"] // axes.get("kv_split", 1), group.attention.kv_heads)
        one_copy = 2 * model.hidden * group.attention.kv_heads * group.attention.head_dim
        size = one_copy * model.formats.attention.bytes_per_number
        extra += group.count * size * (axes["tp"] / shards - 1)
    return extra


def sums_to_the_whole(model: ModelSpec, axes: dict[str, int]) -> None:
    whole = total(model, {"tp": 1})
    parts = total(model, axes)
    parts["attention"] -= copied_kv(model, axes)
    assert parts == pytest.approx(whole, rel=1e-12)


@every_model
def test_weights_of_catalogue_models_sum_to_the_whole(model: ModelSpec) -> None:
    for axes in dividing(model):
        sums_to_the_whole(model, axes)


@settings(max_examples=200)
@given(models())
def test_weights_of_random_stacks_sum_to_the_whole(raw: dict[str, Any]) -> None:
    model = plain(model_of(raw))
    for axes in dividing(model):
        sums_to_the_whole(model, axes)


@every_model
def test_the_whole_is_the_published_size(model: ModelSpec) -> None:
    one = total(model, {"tp": 1})
    if model.tied_embeddings:
        del one["head"]
    size = sum(one.values()) + model.hidden * model.formats.norms.bytes_per_number
    if model.parameters:
        assert size == 2 * model.parameters, "two bytes a parameter in BF16"


@settings(max_examples=200)
@given(models(), degrees)
def test_shards_are_never_less_than_the_whole(raw: dict[str, Any], axes: dict[str, int]) -> None:
    model = model_of(raw)
    whole, parts = total(model, {"tp": 1}), total(model, axes)
    for name, size in whole.items():
        assert parts[name] >= size * (1 - 1e-12), name


@settings(max_examples=200)
@given(models(), degrees)
def test_norms_and_router_are_whole_on_every_card(
    raw: dict[str, Any], axes: dict[str, int]
) -> None:
    model = model_of(raw)
    for group in model.layers:
        here = sharding.layer_weights(model, group, plan(axes), ASSUMED)
        there = sharding.layer_weights(model, group, WHOLE, ASSUMED)
        assert here["norms"] == there["norms"]
        assert here.get("router") == there.get("router")


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
@given(st.lists(st.integers(1, 9), min_size=1, max_size=4), st.integers(1, 12))
def test_stages_hold_all_layers_in_order_and_evenly(counts: list[int], stages: int) -> None:
    held = sharding.stage_layers(tuple(counts), stages)
    assert held.shape == (min(stages, sum(counts)), len(counts)), "no stage is empty"
    assert held.sum(axis=0).tolist() == counts
    sizes = held.sum(axis=1).tolist()
    assert max(sizes) - min(sizes) <= 1
    assert sizes == sorted(sizes, reverse=True), "the last stage has the head, and no extra layer"
    order = [group for stage in held for group, n in enumerate(stage) for _ in range(n)]
    assert order == sorted(order)


@settings(max_examples=200)
@given(models(), st.sampled_from([1, 2, 3, 4, 6, 8, 12]), st.integers(1, 4), st.integers(1, 4))
def test_kv_over_its_ranks_sums_to_the_whole(
    raw: dict[str, Any], shards: int, kv_split: int, cp: int
) -> None:
    """Over ``kv_split`` and ``cp`` exactly; over head shards once for every copy of a head."""
    model = model_of(raw)
    axes = plan({"tp": shards * kv_split, "kv_split": kv_split, "cp": cp})
    for group in model.layers:
        heads = group.attention.kv_heads
        share = sharding.kv_bytes_per_token(model, group.attention, axes)
        share = float((share * sharding.history_share(axes))[0])
        whole = float(sharding.kv_bytes_per_token(model, group.attention, WHOLE)[0])
        ranks = shards * kv_split * cp
        assert share * ranks >= whole * (1 - 1e-12)
        if heads % shards == 0:
            assert share * ranks == pytest.approx(whole)
        elif shards % heads == 0:
            assert share * ranks == pytest.approx(whole * shards / heads)


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


@settings(max_examples=80)
@given(planned(moe=None))
def test_weights_of_one_stage_sum_to_the_model(drawn: tuple[Problem, PlanTable]) -> None:
    """On one stage the estimate holds what the shards say: nothing forgotten, nothing twice."""
    problem, plans = drawn
    problem = changed(problem, assumptions={"capacity": "per_card"})
    model = problem.model
    plans = plans.take(plans.pp == 1)
    held = np.zeros((len(plans), len(problem.workload.classes)))
    weights = estimate(problem, plans, held).components["weights"]
    expected = np.zeros(len(plans))
    for group in model.layers:
        shares = sharding.layer_weights(model, group, plans, problem.assumptions)
        expected += group.count * np.sum(list(shares.values()), axis=0)
    expected += sharding.embedding_bytes(model, plans)
    if not model.tied_embeddings:
        expected += sharding.head_bytes(model, plans)
    expected += model.hidden * model.formats.norms.bytes_per_number
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
    (group,) = big.layers
    assert isinstance(group.ffn, MoeFfn)
    per_token = float(sharding.kv_bytes_per_token(big, group.attention, WHOLE)[0])
    assert per_token * group.count == 188 * 1024
    eight = total(big, {"tp": 8, "ep": 8})
    replicated = 8 * (eight["norms"] + eight["router"]) + 8 * big.hidden * 2
    split = sum(size for name, size in eight.items() if name not in ("norms", "router"))
    split -= copied_kv(big, {"tp": 8})
    copied = copied_kv(big, {"tp": 8})
    assert (split + replicated + copied) / 8 / 1e9 == pytest.approx(58.96, abs=0.005)
    dense = by_name["qwen3-32b"]
    assert sum(total(dense, {"tp": 1}).values()) / 1e9 == pytest.approx(65.52, abs=0.005)
    (group,) = dense.layers
    per_token = float(sharding.kv_bytes_per_token(dense, group.attention, WHOLE)[0])
    assert per_token * group.count == 256 * 1024
