"""Bytes on the fullest card of a plan (6-1): weights, KV, activations and workspace."""

from collections.abc import Callable

import numpy as np

from costmodels import sharding
from costmodels.base import MemoryEstimate
from costmodels.operators import ffn as ffn_operators
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.model import BITS
from specs.problem import Problem

LOGITS_BYTES = BITS["fp32"] // 8
"""Logits are kept in FP32 until a token is drawn."""


def estimate(problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
    """Bytes on the fullest card when the busiest attention rank holds ``held`` sessions.

    ``held`` has shape ``(plans, classes)``. With ``capacity: pooled`` one copy of everything is
    spread over the cards of an instance instead.
    """
    capacity = np.full(len(plans), problem.hardware.memory.hbm.capacity)
    if problem.assumptions.capacity == "pooled":
        components = _pooled(problem, plans, held)
    else:
        components = _fullest_stage(problem, plans, held)
    components["activations"] = _activations(problem, plans, held)
    components["workspace"] = np.full(len(plans), problem.assumptions.workspace)
    return MemoryEstimate(components, capacity)


def _peak_tokens(problem: Problem, held: FloatArray) -> FloatArray:
    peaks = np.array([float(c.peak_context) for c in problem.workload.classes])
    tokens: FloatArray = held @ peaks
    return tokens


def _layer_bytes(problem: Problem, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Bytes of weights, and of KV per token, of one layer of each group; ``(groups, plans)``."""
    model, assumptions = problem.model, problem.assumptions
    weights, kv = [], []
    for group in model.layers:
        by_class = sharding.layer_weights(model, group, plans, assumptions)
        weights.append(np.sum(list(by_class.values()), axis=0))
        per_token = sharding.kv_bytes_per_token(model, group.attention, plans)
        kv.append(per_token * sharding.history_share(plans))
    return np.array(weights), np.array(kv)


def _fullest_stage(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """Weights and KV of the pipeline stage whose cards are fullest."""
    model = problem.model
    counts = tuple(group.count for group in model.layers)
    layer_weights, layer_kv = _layer_bytes(problem, plans)
    embedding = sharding.embedding_bytes(model, plans)
    final = model.hidden * model.formats.norms.bytes_per_number
    head = sharding.head_bytes(model, plans)
    tokens = _peak_tokens(problem, held)
    weights = np.empty(len(plans))
    kv = np.empty(len(plans))
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        layers = sharding.stage_layers(counts, int(stages))
        stage_weights = layers @ layer_weights[:, rows]
        stage_weights[0] += embedding[rows]
        stage_weights[-1] += final
        # Tied weights are stored once where the first stage is the last.
        if not (model.tied_embeddings and len(layers) == 1):
            stage_weights[-1] += head[rows]
        stage_kv = layers @ (layer_kv[:, rows] * tokens[rows])
        fullest = np.argmax(stage_weights + stage_kv, axis=0)
        weights[rows] = np.take_along_axis(stage_weights, fullest[None], axis=0)[0]
        kv[rows] = np.take_along_axis(stage_kv, fullest[None], axis=0)[0]
    return {"weights": weights, "kv": kv}


def _pooled(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """One copy of weights and KV, spread evenly over the cards of an instance."""
    one_card = PlanTable.from_columns({"tp": [1]})
    nothing = np.zeros((1, len(problem.workload.classes)))
    whole = _fullest_stage(problem, one_card, nothing)["weights"][0]
    _, layer_kv = _layer_bytes(problem, one_card)
    counts = np.array([group.count for group in problem.model.layers])
    per_token = float(counts @ layer_kv[:, 0])
    tokens = _peak_tokens(problem, held) * plans.attention_dp
    return {"weights": whole / plans.cards, "kv": per_token * tokens / plans.cards}


def _activations(problem: Problem, plans: PlanTable, held: FloatArray) -> FloatArray:
    """Live activations of one pass: residual stream, the largest intermediate, and logits.

    Rows are those of the larger of one decode step (a token of each session held, or of the
    plan's batch) and one prefill (the longest prompt).
    """
    model = problem.model
    if problem.assumptions.activations == "in_workspace":
        return np.zeros(len(plans))
    sequences = held.sum(axis=1)
    cap = np.ceil(plans.batch / plans.attention_dp)
    sequences = np.where(plans.batch > 0, np.minimum(sequences, cap), sequences)
    longest = max(c.prompt for c in problem.workload.classes)
    rows = np.maximum(sequences, longest / plans.cp)
    largest: FloatArray = np.zeros(len(plans))
    for group in model.layers:
        heads = sharding.query_heads(group.attention, plans)
        heads = heads + 2 * sharding.kv_heads(group.attention, plans)
        attention = rows * (model.hidden + heads * group.attention.head_dim)
        network = ffn_operators.activation_numbers(model, group, plans, rows)
        largest = np.maximum(largest, np.maximum(attention, network))
    shards = np.where(plans.sp == 1, plans.tp, 1)
    numbers = rows * model.hidden / shards + largest
    logits = sequences * sharding.vocabulary_rows(model, plans) * LOGITS_BYTES
    return numbers * model.formats.activations.bytes_per_number + logits


def largest_true(
    test: Callable[[IntArray], "np.typing.NDArray[np.bool_]"], upper: IntArray
) -> IntArray:
    """Largest number up to ``upper`` for which ``test`` holds, by bisection; 0 if none.

    ``test`` maps one candidate per plan to a mask, and must not turn true again once false.
    """
    low = np.zeros_like(upper)
    high = upper.copy()
    while (low < high).any():
        middle = (low + high + 1) // 2
        ok = test(middle)
        low = np.where(ok, middle, low)
        high = np.where(ok, high, np.maximum(middle - 1, low))
    return low
