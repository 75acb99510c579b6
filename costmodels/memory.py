"""Bytes on the fullest card of a plan (6-1): weights, KV, activations and workspace."""

from collections.abc import Callable
from functools import partial

import numpy as np

from costmodels import drafts, sharding
from costmodels.base import MemoryEstimate
from costmodels.operators import attention as attention_operators
from costmodels.operators import ffn as ffn_operators
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.formats import BITS
from specs.model import Layer
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


def _layer_bytes(
    problem: Problem, plans: PlanTable, held: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Bytes of weights, and of all sessions' context, of one layer of each kind.

    Both have shape ``(kinds, plans)``.
    """
    model, assumptions = problem.model, problem.assumptions
    weights, context = [], []
    for kind in model.kinds:
        by_class = sharding.layer_weights(model, kind, plans, assumptions)
        weights.append(np.sum(list(by_class.values()), axis=0))
        one = partial(_layer_session, problem, kind, plans)
        context.append(_sessions(problem, held, one))
    return np.array(weights), np.array(context)


def _layer_session(problem: Problem, kind: Layer, plans: PlanTable, tokens: float) -> FloatArray:
    return sharding.session_bytes(problem.model, kind, plans, tokens, problem.assumptions)


def _sessions(problem: Problem, held: FloatArray, one: Callable[[float], FloatArray]) -> FloatArray:
    """Bytes of all sessions of a rank, from those of one that ends with so many tokens."""
    total: FloatArray = np.zeros(len(held))
    for index, shape in enumerate(problem.workload.classes):
        total = total + held[:, index] * one(shape.peak_context)
    return total


def _edge_weights(problem: Problem, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Bytes on the first and on the last stage beside their layers, the output head excepted."""
    model = problem.model
    first = sharding.embedding_bytes(model, plans)
    for module in model.modules:
        first = first + (module.bytes / plans.tp if module.spread else module.bytes)
    norm = model.hidden * model.formats.norms.bytes_per_number
    mixer = sharding.vector_bytes(model, model.last_mixer.vectors)
    shares = sharding.matrix_shares(model, model.last_mixer.matrices, plans, problem.assumptions)
    last = np.full(len(plans), norm + mixer) + sum(size for _, size in shares.values())
    return first, last + drafts.weights(problem, plans)


def _fullest_stage(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """Weights and KV of the pipeline stage whose cards are fullest."""
    model = problem.model
    layer_weights, layer_context = _layer_bytes(problem, plans, held)
    first, last = _edge_weights(problem, plans)
    head = sharding.head_bytes(model, plans)
    drafted = _sessions(problem, held, partial(drafts.session_bytes, problem, plans))
    weights = np.empty(len(plans))
    kv = np.empty(len(plans))
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        layers = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
        stage_weights = layers @ layer_weights[:, rows]
        stage_weights[0] += first[rows]
        stage_weights[-1] += last[rows]
        # Tied weights are stored once where the first stage is the last and deals them alike.
        once = model.tied_embeddings and len(layers) == 1
        stage_weights[-1] += np.where(once & (plans.head_tp[rows] == 1), 0.0, head[rows])
        stage_kv = layers @ layer_context[:, rows]
        stage_kv[-1] += drafted[rows]
        fullest = np.argmax(stage_weights + stage_kv, axis=0)
        weights[rows] = np.take_along_axis(stage_weights, fullest[None], axis=0)[0]
        kv[rows] = np.take_along_axis(stage_kv, fullest[None], axis=0)[0]
    return {"weights": weights, "kv": kv}


def _pooled(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """One copy of weights and KV, spread evenly over the cards of an instance."""
    one_card = PlanTable.from_columns({"tp": [1], "mtp": [1]})
    nothing = np.zeros((1, held.shape[1]))
    undrafted = one_card.with_columns(mtp=np.zeros_like(one_card.mtp))
    whole = _fullest_stage(problem, undrafted, nothing)["weights"][0]
    counts = np.array(problem.model.kind_counts)
    session, drafted = [], []
    for one in np.eye(held.shape[1]):
        session.append(float(counts @ _layer_bytes(problem, one_card, one[None])[1][:, 0]))
        in_draft = partial(drafts.session_bytes, problem, one_card)
        drafted.append(float(_sessions(problem, one[None], in_draft)[0]))
    kept = held @ np.array(session) + (plans.mtp > 0) * (held @ np.array(drafted))
    weights = whole + (plans.mtp > 0) * drafts.weights(problem, one_card)[0]
    return {"weights": weights / plans.cards, "kv": kept * plans.attention_dp / plans.cards}


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
    chunk = np.where(plans.prefill_chunk > 0, np.minimum(plans.prefill_chunk, longest), longest)
    rows = np.maximum(sequences * (1 + plans.mtp), chunk / plans.cp)
    largest: FloatArray = np.zeros(len(plans))
    for kind in model.kinds:
        parts = kind.attention.parts(model.hidden, "prefill")
        between = attention_operators.activation_numbers(parts, plans, rows)
        network = ffn_operators.activation_numbers(model, kind.ffn, plans, rows)
        largest = np.maximum(largest, np.maximum(rows * model.hidden + between, network))
    shards = np.where(plans.sp == 1, plans.tp, 1)
    numbers = rows * model.hidden / shards + largest
    verified = sequences * (1 + plans.mtp) * plans.head_tp
    logits = verified * sharding.head_rows(model, plans) * LOGITS_BYTES
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
