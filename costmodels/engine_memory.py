"""What a serving engine takes of a card beside weights and KV, and where it draws the line.

An engine hands out a share of the memory that the driver reports. Components that the share covers
must fit into it together with weights and KV, whose pool takes all that is left; the others must
fit into the rest of the card. All arrays have shape ``(plans,)``, all sizes are bytes.
"""

from collections.abc import Callable

import numpy as np

from costmodels import trial_pass
from costmodels.base import MemoryEstimate
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.remembered import remembered
from costmodels.sharding import expert_width
from specs.attention import LinearAttention
from specs.engine import BatchLimits, Engine, batch_limits
from specs.ffn import MoeFfn
from specs.problem import Problem

OUTSIDE = "outside"
"""Name of the part of a card that an engine does not hand out, beside the memories."""


def reported(problem: Problem) -> float:
    """Bytes of one card's working memory that its driver reports."""
    tier = problem.hardware.memory.tiers[problem.hardware.memory.working]
    return tier.reported or tier.share


def limits(problem: Problem, engine: Engine) -> BatchLimits:
    """Return the largest pass that the engine prepares for on this machine's cards."""
    card = problem.hardware.card.name
    return batch_limits(engine.memory, card, reported(problem), problem.longest)


def chunk(problem: Problem, plans: PlanTable, most: int) -> IntArray:
    """Tokens of a prompt that one pass takes in, of at most ``most``.

    The plan's chunk, or else the largest pass of the engine, or else all of them.
    """
    engine = problem.engine
    own = most if engine is None else min(limits(problem, engine).tokens, most)
    return np.where(plans.prefill_chunk > 0, np.minimum(plans.prefill_chunk, most), own)


def shared_out(
    problem: Problem,
    engine: Engine,
    plans: PlanTable,
    held: dict[str, FloatArray],
    others: dict[str, MemoryEstimate],
) -> MemoryEstimate:
    """Estimate of a card whose weights and KV are ``held``, with ``others`` in further memories."""
    memory, size = engine.memory, reported(problem)
    overheads = _overheads(problem, plans)
    if memory.share_of == "rest":
        # KV may take a share of what the others leave: the rest of that stays free.
        free = held["kv"] * (1 / memory.share - 1)
        return MemoryEstimate(
            {**held, **overheads, "left_free": free}, np.full(len(plans), size), others
        )
    inside = held | {name: overheads[name] for name in memory.covers}
    covered: set[str] = set(memory.covers)
    outside = {name: part for name, part in overheads.items() if name not in covered}
    room = np.full(len(plans), memory.share * size)
    states = any(isinstance(kind.attention, LinearAttention) for kind in problem.model.kinds)
    if states and memory.state_pools > 1:
        pool = room - np.sum([part for name, part in inside.items() if name != "kv"], axis=0)
        outside["pool_copies"] = (memory.state_pools - 1) * np.maximum(pool, 0.0)
    rest = MemoryEstimate(outside, size - room)
    return MemoryEstimate(inside, room, {**others, OUTSIDE: rest})


@remembered
def _overheads(problem: Problem, plans: PlanTable) -> dict[str, FloatArray]:
    """What an engine takes beside weights and KV; the same however many sessions there are."""
    engine = problem.engine
    if engine is None:
        return {}
    return {name: of(problem, engine, plans) for name, of in _OVERHEADS.items()}


def _activations(problem: Problem, engine: Engine, plans: PlanTable) -> FloatArray:
    """Peak of the pass that an engine tries at start-up."""
    return trial_pass.activations(problem, engine, plans, limits(problem, engine))


def _context(problem: Problem, engine: Engine, plans: PlanTable) -> FloatArray:
    """Device context and loaded kernels."""
    return np.full(len(plans), engine.memory.context)


def _buffers(problem: Problem, engine: Engine, plans: PlanTable) -> FloatArray:
    """Buffers of the groups that a card exchanges with, and of its innermost links."""
    groups = (plans.tp > 1).astype(float) + (plans.pp > 1) + (plans.cp > 1)
    groups = groups + (plans.stage_cards > plans.tp * plans.cp)
    links = (problem.hardware.levels[0].bandwidth or 0.0) * engine.memory.link_buffer
    return groups * engine.memory.group_buffer + (groups > 0) * links


def _graphs(problem: Problem, engine: Engine, plans: PlanTable) -> FloatArray:
    """Captured graphs."""
    return trial_pass.graphs(problem, engine, plans, limits(problem, engine))


_OVERHEADS: dict[str, Callable[[Problem, Engine, PlanTable], FloatArray]] = {
    "activations": _activations,
    "context": _context,
    "buffers": _buffers,
    "graphs": _graphs,
}


def expert_padding(problem: Problem, engine: Engine, plans: PlanTable) -> list[FloatArray]:
    """Factor by which kernels pad the experts of each kind of layer."""
    model, memory = problem.model, engine.memory
    found = []
    for kind in model.kinds:
        factor = np.ones(len(plans))
        if isinstance(kind.ffn, MoeFfn) and model.formats.experts.dtype == "fp4":
            factor = _padded(expert_width(kind.ffn, plans), memory.expert_width_multiple)
            side = np.full(len(plans), kind.ffn.width(model.hidden))
            factor = factor * _padded(side, memory.expert_hidden_multiple)
        found.append(factor)
    return found


def table_cards(problem: Problem, engine: Engine, cards: IntArray) -> IntArray:
    """Cards that the rows of a table are dealt over, of the ``cards`` that could hold some."""
    if engine.memory.tables_over == "stage":
        return cards
    return np.minimum(cards, problem.hardware.server.cards)


def _padded(width: IntArray, multiple: int) -> FloatArray:
    """Factor by which a width grows up to a multiple."""
    factor: FloatArray = -(-width // multiple) * multiple / width
    return factor


def kv_room(problem: Problem, memory: MemoryEstimate) -> FloatArray:
    """Bytes that everything else leaves for KV, in the memory of a card that ``memory`` is of.

    Below 0 where the rest does not fit by itself, as engines say before they stop.
    """
    room: FloatArray = memory.capacity - memory.bytes + memory.components["kv"]
    if problem.engine is not None and "left_free" in memory.components:
        room = (room + memory.components["left_free"]) * problem.engine.memory.share
    return room
