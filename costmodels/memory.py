"""Bytes in the memories of the fullest card (6-1): weights, KV, activations and workspace.

With a serving engine, what it takes stands in place of activations and workspace; see
``costmodels.engine_memory``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from costmodels import drafts, engine_memory, pages, sharding
from costmodels.base import MemoryEstimate
from costmodels.operators import ffn
from costmodels.operators.work import between
from costmodels.plans import ONE_CARD, TIER_AXES, BoolArray, FloatArray, IntArray, PlanTable
from costmodels.precision import by_format
from costmodels.remembered import remembered
from costmodels.tiers import readings, table_cards
from specs.formats import BITS
from specs.memory import Tier
from specs.problem import Problem

LOGITS_BYTES = BITS["fp32"] // 8
"""Logits are kept in FP32 until a token is drawn."""

Placed = dict[Tier, dict[str, FloatArray]]
"""Bytes in each memory, by component."""


def estimate(problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
    """Bytes on the fullest card when the busiest attention rank holds ``held`` sessions.

    ``held`` has shape ``(plans, classes)``. With ``capacity: pooled`` one copy of everything is
    spread over the cards of an instance instead. Activations and workspace lie in the working
    memory; what a plan places elsewhere is kept apart, by memory.
    """
    if problem.assumptions.capacity == "pooled":
        placed = _pooled(problem, plans, held)
    else:
        placed = _fullest_stage(problem, plans, held)
    memory = problem.hardware.memory
    nothing = {"weights": np.zeros(len(plans)), "kv": np.zeros(len(plans))}
    components = placed.pop(memory.working, nothing)
    room = {tier: there.share for tier, there in memory.tiers.items()}
    others: dict[str, MemoryEstimate] = {
        tier: MemoryEstimate(parts, np.full(len(plans), room.get(tier, 0.0)))
        for tier, parts in placed.items()
    }
    if problem.engine is not None:
        return engine_memory.shared_out(problem, problem.engine, plans, components, others)
    components["activations"] = _activations(problem, plans, held)
    components["workspace"] = np.full(len(plans), problem.assumptions.workspace)
    return MemoryEstimate(components, np.full(len(plans), room[memory.working]), others)


@dataclass(frozen=True)
class _Stages:
    """What the cards of each stage hold, for plans with equally many stages.

    ``rows``     positions of the plans
    ``weights``  bytes of weights by memory, shape ``(stages, rows)``
    ``session``  bytes of one session of each class, shape ``(classes, stages, rows)``
    ``flying``   bytes of KV of the tokens in flight, once, shape ``(stages, rows)``
    ``least``    bytes of KV that must fit even so, shape ``(stages, rows)``: an engine refuses to
                 start unless its pool holds one session of the longest that it admits
    ``keeps``    by memory, which plans keep their sessions there; ``None``: all
    """

    rows: IntArray
    weights: Mapping[Tier, FloatArray]
    session: FloatArray
    flying: FloatArray
    least: FloatArray
    keeps: Mapping[Tier, BoolArray | None]

    def sessions_in(self, tier: Tier, held: FloatArray) -> FloatArray:
        """Bytes that ``held`` sessions keep in a memory, shape ``(stages, rows)``."""
        if tier not in self.keeps:
            return np.zeros(self.session.shape[1:])
        kept: FloatArray = np.einsum("rc,csr->sr", held[self.rows], self.session)
        kept = np.maximum(kept + self.flying, self.least)
        here = self.keeps[tier]
        return kept if here is None else np.where(here[self.rows], kept, 0.0)


@remembered
def _stages(problem: Problem, plans: PlanTable) -> tuple[_Stages, ...]:
    """What the stages of all plans hold; the same however many sessions there are."""
    peaks = tuple(float(shape.peak_context) for shape in problem.workload.classes)
    if problem.engine is None:
        return tuple(_by_stage(problem, plans, peaks))
    factor = pages.start_factor(problem, plans)
    parts = _by_stage(problem, plans, (*peaks, float(problem.longest)))
    return tuple(
        replace(
            part,
            session=part.session[:-1],
            least=(part.session[-1] + part.flying) * factor[part.rows],
        )
        for part in parts
    )


def _by_stage(problem: Problem, plans: PlanTable, peaks: tuple[float, ...]) -> Iterator[_Stages]:
    """Weights, sessions that hold so many tokens, and tokens in flight, by stage."""
    model, assumptions = problem.model, problem.assumptions
    placed = readings(problem, plans).by_axis
    cards = table_cards(problem, plans)
    if problem.engine is not None:
        cards = engine_memory.table_cards(problem, problem.engine, cards)
    by_kind = sharding.stack_weights(model, plans, assumptions, cards)
    kept = np.array([_layer_sessions(problem, plans, n) for n in peaks])
    drafted = np.array([drafts.session_bytes(problem, plans, n) for n in peaks])
    in_flight = np.zeros_like(kept[0])
    first, last = _edge_weights(problem, plans)
    drafting = drafts.weights(problem, plans)
    head = sharding.head_bytes(model, plans)
    if problem.engine is not None:
        padding = engine_memory.expert_padding(problem, problem.engine, plans)
        experts = by_kind["experts_tier"]
        by_kind["experts_tier"] = [a * b for a, b in zip(experts, padding, strict=True)]
        in_flight = np.array(pages.in_flight_bytes(problem, problem.engine, plans))
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        layers = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
        weights: dict[Tier, FloatArray] = {}
        for axis, of_kind in by_kind.items():
            held = layers @ np.array(of_kind)[:, rows]
            if drafting:
                held[-1] += drafting[axis][rows]
            if axis == "weights_tier":
                held[0] += first[rows]
                held[-1] += last[rows]
                # Tied weights are stored once where the first stage is the last and deals them
                # alike.
                once = model.tied_embeddings and len(layers) == 1
                held[-1] += np.where(once & (plans.head_tp[rows] == 1), 0.0, head[rows])
            for reading in placed[axis]:
                here = held if reading.rows is None else np.where(reading.rows[rows], held, 0.0)
                weights[reading.tier] = weights.get(reading.tier, 0.0) + here
        session = layers @ kept[:, :, rows]
        session[:, -1] += drafted[:, rows]
        keeps = {reading.tier: reading.rows for reading in placed["kv_tier"]}
        flying = layers @ in_flight[:, rows]
        yield _Stages(rows, weights, session, flying, np.zeros_like(flying), keeps)


def _layer_sessions(problem: Problem, plans: PlanTable, tokens: float) -> list[FloatArray]:
    """Bytes that a session of so many tokens keeps in one layer of each kind, on one rank."""
    if problem.engine is not None:
        return pages.session_bytes(problem, problem.engine, plans, tokens)
    model, assumptions = problem.model, problem.assumptions
    return [sharding.session_bytes(model, kind, plans, tokens, assumptions) for kind in model.kinds]


def stage_bytes(problem: Problem, plan: PlanTable, held: FloatArray) -> dict[str, FloatArray]:
    """Weights, and KV of ``held`` sessions, on a card of each pipeline stage, in all memories.

    ``plan`` is one row, ``held`` has shape ``(1, classes)``, results have shape ``(stages,)``.
    """
    (same,) = by_format(problem, plan)
    (part,) = _stages(same.problem, same.plans)
    nothing = np.zeros(part.session.shape[1:])
    kept = (part.sessions_in(tier, held) for tier in part.keeps)
    return {
        "weights": sum(part.weights.values(), nothing)[:, 0],
        "kv": sum(kept, nothing)[:, 0],
    }


def kept_bytes(problem: Problem, plans: PlanTable, tokens: int) -> FloatArray:
    """Bytes that the busiest card keeps of a session that holds ``tokens`` tokens."""
    found: FloatArray = np.zeros(len(plans))
    for same in by_format(problem, plans):
        for part in _by_stage(same.problem, same.plans, (float(tokens),)):
            found[same.rows[part.rows]] = part.session[0].max(axis=0)
    return found


def admitted_bytes(problem: Problem, plans: PlanTable) -> FloatArray:
    """Bytes that the busiest card grants one session of the longest that is admitted.

    Those that it keeps, and those of all tokens in flight, as engines count concurrency.
    """
    found: FloatArray = np.zeros(len(plans))
    for same in by_format(problem, plans):
        for part in _by_stage(same.problem, same.plans, (float(problem.longest),)):
            found[same.rows[part.rows]] = (part.session[0] + part.flying).max(axis=0)
    return found


def _edge_weights(problem: Problem, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Bytes on the first and on the last stage beside their layers, the output head excepted."""
    model = problem.model
    first = sharding.embedding_bytes(model, plans)
    for module in model.modules if problem.assumptions.count_modules else ():
        first = first + (module.bytes / plans.tp if module.spread else module.bytes)
    norm = model.hidden * model.formats.norms.bytes_per_number
    mixer = sharding.vector_bytes(model, model.last_mixer.vectors)
    mixing = sharding.held_bytes(model, model.last_mixer.matrices, plans, problem.assumptions)
    last = np.full(len(plans), norm + mixer) + sum(mixing.values())
    return first, last


def _fullest_stage(problem: Problem, plans: PlanTable, held: FloatArray) -> Placed:
    """Weights and KV, in each memory, of the pipeline stage that fills it most."""
    found: Placed = {}
    for part in _stages(problem, plans):
        for tier in dict.fromkeys((*part.weights, *part.keeps)):
            sessions = part.sessions_in(tier, held)
            weights = part.weights.get(tier, np.zeros_like(sessions))
            fullest = np.argmax(weights + sessions, axis=0)[None]
            for name, size in (("weights", weights), ("kv", sessions)):
                column = found.setdefault(tier, {}).setdefault(name, np.zeros(len(plans)))
                column[part.rows] = np.take_along_axis(size, fullest, axis=0)[0]
    return found


@lru_cache(maxsize=1024)
def _one_card(drafting: int, *tiers: int) -> PlanTable:
    """Return the plan of a whole model on one card, with its data in the given memories."""
    placed = dict(zip(("mtp", *TIER_AXES), (drafting, *tiers), strict=True))
    return ONE_CARD.with_columns(**{a: np.full(1, value) for a, value in placed.items()})


def _pooled(problem: Problem, plans: PlanTable, held: FloatArray) -> Placed:
    """One copy of weights and KV, spread evenly over the cards of an instance."""
    found: Placed = {}
    keys = np.stack([np.minimum(plans.mtp, 1), *(plans.column(a) for a in TIER_AXES)], axis=1)
    unique, inverse = np.unique(keys, axis=0, return_inverse=True)
    for position, key in enumerate(unique.tolist()):
        rows = np.flatnonzero(inverse.reshape(-1) == position)
        (one,) = _stages(problem, _one_card(*key))
        lanes = plans.attention_dp[rows] / plans.cards[rows]
        for tier in dict.fromkeys((*one.weights, *one.keeps)):
            parts = found.setdefault(
                tier, {name: np.zeros(len(plans)) for name in ("weights", "kv")}
            )
            if tier in one.weights:
                parts["weights"][rows] = one.weights[tier][0, 0] / plans.cards[rows]
            if tier in one.keeps:
                parts["kv"][rows] = held[rows] @ one.session[:, 0, 0] * lanes
    return found


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
