"""The largest pass of a serving engine, which it tries at start-up, and the graphs it captures.

All arrays have shape ``(plans,)``, all sizes are bytes of one card.
"""

import numpy as np

from costmodels.operators import ffn
from costmodels.operators.work import between
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sharding import attended_heads, entry_bytes
from specs.attention import Attention, HeadedAttention
from specs.engine import BatchLimits, Engine, EngineMemory, HyperPass
from specs.ffn import DenseFfn, Ffn, MoeFfn
from specs.model import ModelSpec
from specs.problem import Problem
from specs.tensors import Stream

FP32 = 4


def activations(
    problem: Problem, engine: Engine, plans: PlanTable, limits: BatchLimits
) -> FloatArray:
    """Peak of the pass: its tokens, or its samples, and buffers that stay.

    Sampling follows when the activations are gone, for as many sequences as a pass may have.
    """
    model, memory = problem.model, engine.memory
    tokens = limits.tokens / plans.cp
    hyper = hyper_pass(model, memory)
    if hyper:
        live = _hyper_token(model, hyper, plans)
        kept = tokens * hyper.kept_copies * model.residual_width * _number(model)
        kept = kept + _workspace(problem, memory, hyper, plans, tokens) + _positions(model, hyper)
    else:
        live = _token(model, plans)
        kept = index_keys(problem, memory, plans)
    indexed = any(s.tensor == "index" for a in _attentions(model) for s in _streams(model, a))
    passing = tokens * live + (memory.index_scores if indexed else 0.0)
    return np.maximum(passing, limits.sequences * model.vocab * memory.logit_bytes) + kept


def graphs(problem: Problem, engine: Engine, plans: PlanTable, limits: BatchLimits) -> FloatArray:
    """Captured graphs: one for each batch and layer of a stage."""
    memory = engine.memory
    if not memory.graph_batch:
        return np.zeros(len(plans))
    captured = _captured(min(memory.graph_batch, 2 * limits.sequences))
    base, each = memory.graph_base, memory.graph_layer
    hyper = hyper_pass(problem.model, memory)
    if hyper:
        base, each = hyper.graph_base, hyper.graph_layer
        if hyper.whole_graphs:
            captured += _captured(min(memory.graph_batch, limits.sequences))
    layers: FloatArray = np.ceil(problem.model.layer_count / plans.pp)
    return base + each * captured * layers


def hyper_pass(model: ModelSpec, memory: EngineMemory) -> HyperPass | None:
    """What start-up takes in place of the common terms, if that is known for such a model."""
    return memory.hyper_pass if model.hyper_connections else None


def index_keys(problem: Problem, memory: EngineMemory, plans: PlanTable) -> FloatArray:
    """Keys that are gathered for an indexer."""
    model = problem.model
    key: FloatArray = np.zeros(len(plans))
    for attention in _attentions(model):
        for stream in _streams(model, attention):
            if stream.tensor == "index":
                key = np.maximum(key, entry_bytes(model, stream, plans) / stream.ratio)
    return memory.index_sessions * problem.longest * key


def _token(model: ModelSpec, plans: PlanTable) -> FloatArray:
    """Bytes of one token: three residual streams, and the widest network or attention.

    A gated network keeps its product as well.
    """
    widest: FloatArray = np.zeros(len(plans))
    for network in _networks(model):
        numbers = ffn.activation_numbers(model, network, plans)
        if isinstance(network, DenseFfn) and network.gated:
            numbers = numbers * 1.5
        widest = np.maximum(widest, numbers)
    for attention in _attentions(model):
        matrices = attention.parts(model.hidden, "prefill").matrices
        widest = np.maximum(widest, between(matrices, plans))
    return (3 * model.residual_width + widest) * _number(model)


def _hyper_token(model: ModelSpec, hyper: HyperPass, plans: PlanTable) -> FloatArray:
    """Bytes of one token while a layer with hyper-connections attends, where it is widest."""
    widest: FloatArray = np.zeros(len(plans))
    for attention in _attentions(model):
        widest = np.maximum(widest, _attending(model, attention, hyper, plans))
    return hyper.stream_copies * (model.residual_width + model.hidden) * _number(model) + widest


def _attending(
    model: ModelSpec, attention: Attention, hyper: HyperPass, plans: PlanTable
) -> FloatArray:
    """Bytes of one token between the projections of an attention and its output.

    Queries and outputs of padded heads; the low-rank query and the latest key, before and after
    their norms; what compressors computed, in FP32; and the queries of an indexer, once more in
    one byte each.
    """
    if not isinstance(attention, HeadedAttention):
        return np.zeros(len(plans))
    number = _number(model)
    heads = _padded(attended_heads(attention.q_heads, plans), hyper.head_multiple)
    narrow = (attention.q_lora or 0) + attention.kv_heads * attention.head_dim
    matrices = attention.parts(model.hidden, "prefill").matrices
    scores = sum(m.times * m.columns for m in matrices if m.tensor == "compressor")
    queries = sum(
        s.query_heads * s.width for s in _streams(model, attention) if s.tensor == "index"
    )
    numbers: FloatArray = 2.0 * (heads * attention.head_dim + narrow)
    return number * numbers + FP32 * scores + queries * (number + 1)


def _workspace(
    problem: Problem,
    memory: EngineMemory,
    hyper: HyperPass,
    plans: PlanTable,
    tokens: FloatArray,
) -> FloatArray:
    """One buffer that kernels take turns in: rows of experts, gathered entries, or index keys."""
    model = problem.model
    number = _number(model)
    found: FloatArray = index_keys(problem, memory, plans)
    for network in _networks(model):
        if isinstance(network, MoeFfn):
            # A group sees the tokens of all, and takes rows for all that they choose.
            all_groups = np.maximum(plans.ep / plans.attention_dp, 1.0)
            numbers = ffn.activation_numbers(model, network, plans) * all_groups
            rows: FloatArray = tokens * numbers * number
            found = np.maximum(found, rows)
    for attention in _attentions(model):
        entries, width = tokens, 0
        for stream in _streams(model, attention):
            if stream.tensor != "index":
                width = stream.width
                entries = entries + (stream.kept or problem.longest / stream.ratio)
        gathered: FloatArray = hyper.gathered_sessions * entries * width * number
        found = np.maximum(found, gathered)
    return found


def _positions(model: ModelSpec, hyper: HyperPass) -> float:
    """Tables of rotary positions: layers with a window alone have one of their own."""
    tables = {
        (any(s.ratio > 1 for s in _streams(model, attention)), attention.rope_dim)
        for attention in _attentions(model)
        if isinstance(attention, HeadedAttention)
    }
    return hyper.position_bytes * model.max_context * sum(width for _, width in tables)


def _captured(largest: int) -> int:
    """Number of batches up to ``largest`` that are captured."""
    steps = min(largest, 256) // 8 + max(largest - 256, 0) // 16
    return steps + sum(batch <= largest for batch in (1, 2, 4))


def _padded(heads: IntArray, multiple: int) -> FloatArray:
    return np.ceil(heads / multiple) * multiple


def _number(model: ModelSpec) -> float:
    return model.formats.activations.bytes_per_number


def _attentions(model: ModelSpec) -> tuple[Attention, ...]:
    return tuple(dict.fromkeys(kind.attention for kind in model.kinds))


def _networks(model: ModelSpec) -> tuple[Ffn, ...]:
    return tuple(dict.fromkeys(kind.ffn for kind in model.kinds))


def _streams(model: ModelSpec, attention: Attention) -> tuple[Stream, ...]:
    return attention.parts(model.hidden, "prefill").streams
