"""Bytes on the fullest card of a plan (6-1): weights, KV, activations and workspace."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from costmodels import drafts, sharding
from costmodels.base import MemoryEstimate
from costmodels.operators import ffn
from costmodels.operators.work import between
from costmodels.plans import ONE_CARD, FloatArray, IntArray, PlanTable
from costmodels.precision import by_format
from costmodels.remembered import remembered
from specs.formats import BITS
from specs.problem import Problem

LOGITS_BYTES = BITS["fp32"] // 8
"""Logits are kept in FP32 until a token is drawn."""

_DRAFTING_CARD = ONE_CARD.with_columns(mtp=np.ones(1, dtype=np.int64))


def estimate(problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
    """Bytes on the fullest card when the busiest attention rank holds ``held`` sessions.

    ``held`` has shape ``(plans, classes)``. With ``capacity: pooled`` one copy of everything is
    spread over the cards of an instance instead.
    """
    memory = problem.hardware.memory
    capacity = np.full(len(plans), memory.tiers[memory.working].share)
    if problem.assumptions.capacity == "pooled":
        components = _pooled(problem, plans, held)
    else:
        components = _fullest_stage(problem, plans, held)
    components["activations"] = _activations(problem, plans, held)
    components["workspace"] = np.full(len(plans), problem.assumptions.workspace)
    return MemoryEstimate(components, capacity)


@dataclass(frozen=True)
class _Stages:
    """What the cards of each stage hold, for plans with equally many stages.

    ``rows``     positions of the plans
    ``weights``  bytes of weights, shape ``(stages, rows)``
    ``session``  bytes of one session of each class, shape ``(classes, stages, rows)``
    """

    rows: IntArray
    weights: FloatArray
    session: FloatArray


@remembered
def _stages(problem: Problem, plans: PlanTable) -> tuple[_Stages, ...]:
    """What the stages of all plans hold; the same however many sessions there are."""
    peaks = tuple(float(shape.peak_context) for shape in problem.workload.classes)
    return tuple(_by_stage(problem, plans, peaks))


def _by_stage(problem: Problem, plans: PlanTable, peaks: tuple[float, ...]) -> Iterator[_Stages]:
    """Weights, and sessions that hold so many tokens, by stage."""
    model, assumptions = problem.model, problem.assumptions
    by_kind = np.array(sharding.stack_weights(model, plans, assumptions))
    kept = np.array(
        [
            [sharding.session_bytes(model, kind, plans, n, assumptions) for kind in model.kinds]
            for n in peaks
        ]
    )
    drafted = np.array([drafts.session_bytes(problem, plans, n) for n in peaks])
    first, last = _edge_weights(problem, plans)
    head = sharding.head_bytes(model, plans)
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        layers = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
        weights = layers @ by_kind[:, rows]
        weights[0] += first[rows]
        weights[-1] += last[rows]
        # Tied weights are stored once where the first stage is the last and deals them alike.
        once = model.tied_embeddings and len(layers) == 1
        weights[-1] += np.where(once & (plans.head_tp[rows] == 1), 0.0, head[rows])
        session = layers @ kept[:, :, rows]
        session[:, -1] += drafted[:, rows]
        yield _Stages(rows, weights, session)


def kept_bytes(problem: Problem, plans: PlanTable, tokens: int) -> FloatArray:
    """Bytes that the busiest card keeps of a session that holds ``tokens`` tokens."""
    found: FloatArray = np.zeros(len(plans))
    for same in by_format(problem, plans):
        for part in _by_stage(same.problem, same.plans, (float(tokens),)):
            found[same.rows[part.rows]] = part.session[0].max(axis=0)
    return found


def _edge_weights(problem: Problem, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Bytes on the first and on the last stage beside their layers, the output head excepted."""
    model = problem.model
    first = sharding.embedding_bytes(model, plans)
    for module in model.modules:
        first = first + (module.bytes / plans.tp if module.spread else module.bytes)
    norm = model.hidden * model.formats.norms.bytes_per_number
    mixer = sharding.vector_bytes(model, model.last_mixer.vectors)
    mixing = sharding.held_bytes(model, model.last_mixer.matrices, plans, problem.assumptions)
    last = np.full(len(plans), norm + mixer) + sum(mixing.values())
    return first, last + drafts.weights(problem, plans)


def _fullest_stage(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """Weights and KV of the pipeline stage whose cards are fullest."""
    weights, kv = np.empty(len(plans)), np.empty(len(plans))
    for part in _stages(problem, plans):
        sessions = np.einsum("rc,csr->sr", held[part.rows], part.session)
        fullest = np.argmax(part.weights + sessions, axis=0)[None]
        weights[part.rows] = np.take_along_axis(part.weights, fullest, axis=0)[0]
        kv[part.rows] = np.take_along_axis(sessions, fullest, axis=0)[0]
    return {"weights": weights, "kv": kv}


def _pooled(problem: Problem, plans: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """One copy of weights and KV, spread evenly over the cards of an instance."""
    weights, kv = np.empty(len(plans)), np.empty(len(plans))
    for whole in (ONE_CARD, _DRAFTING_CARD):
        rows = np.flatnonzero(np.minimum(plans.mtp, 1) == whole.mtp[0])
        if rows.size:
            (one,) = _stages(problem, whole)
            lanes = plans.attention_dp[rows] / plans.cards[rows]
            weights[rows] = one.weights[0, 0] / plans.cards[rows]
            kv[rows] = held[rows] @ one.session[:, 0, 0] * lanes
    return {"weights": weights, "kv": kv}


@remembered
def _widest(problem: Problem, plans: PlanTable) -> FloatArray:
    """Numbers of the largest intermediate of any layer, for each token of a rank."""
    model = problem.model
    widest: FloatArray = np.zeros(len(plans))
    for kind in model.kinds:
        parts = kind.attention.parts(model.hidden, "prefill")
        attention = model.hidden + between(parts.matrices, plans)
        network = ffn.activation_numbers(model, kind.ffn, plans)
        widest = np.maximum(widest, np.maximum(attention, network))
    return widest


def _activations(problem: Problem, plans: PlanTable, held: FloatArray) -> FloatArray:
    """Live activations of one pass: residual stream, the largest intermediate, and logits.

    Rows are those of the larger of one decode step (the tokens of each session held, or of the
    plan's batch) and one prefill (the longest prompt, or a chunk of it).
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
    shards = np.where(plans.sp == 1, plans.tp, 1)
    numbers = rows * model.residual_width / shards + rows * _widest(problem, plans)
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
