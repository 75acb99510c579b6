"""What share of the model one card holds.

Memory, operators and constraints all take shares from here, so they cannot disagree. Results are
arrays of shape ``(plans,)``. Every function is defined for degrees that do not divide, too: a
share is then rounded up, and the sharding constraints say that the plan is not allowed.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache

import numpy as np

from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.assumptions import Assumptions
from specs.attention import Attention
from specs.ffn import Ffn, MoeFfn
from specs.formats import Format, StoredFormat
from specs.model import Draft, Engram, Layer, ModelSpec
from specs.tensors import Matrix, Over, Parts, State, Stream, Vectors

Runs = tuple[tuple[int, int], ...]
"""A stack as (kind of layer, layers in a row)."""


WEIGHT_AXES = ("weights_tier", "experts_tier", "engram_tier")
"""Axes that place weights in a memory."""


@lru_cache(maxsize=4096)
def stage_layers(runs: Runs, kinds: int, stages: int) -> IntArray:
    """Return how many layers of each kind each stage holds, shape ``(stages, kinds)``.

    Layers stay in order and are split as evenly as whole layers allow. The first stages take the
    extra ones, because the last also computes the output head. Stages beyond the layers would be
    empty, whatever their number, so there is no row for them.
    """
    of_layer = np.repeat([kind for kind, _ in runs], [count for _, count in runs])
    total = len(of_layer)
    stages = min(stages, total)
    sizes = np.full(stages, total // stages)
    sizes[: total % stages] += 1
    held: IntArray = np.zeros((stages, kinds), dtype=np.int64)
    np.add.at(held, (np.repeat(np.arange(stages), sizes), of_layer), 1)
    held.setflags(write=False)
    return held


def matrix_bytes(
    number_format: StoredFormat,
    rows: FloatArray | IntArray | int,
    columns: FloatArray | IntArray | int,
) -> FloatArray:
    """Bytes of a stored matrix (shard) with its scales; ``rows`` is the input dimension.

    A shard stores whole scales: a block or group that it holds in part still has one.
    """
    numbers = np.multiply(rows, columns, dtype=np.float64)
    size = numbers * number_format.bytes_per_number
    if number_format.block:
        block_rows, block_columns = number_format.block
        scales = np.ceil(np.divide(rows, block_rows)) * np.ceil(np.divide(columns, block_columns))
        size = size + scales * number_format.scale_bytes
    elif number_format.group:
        scales = np.ceil(np.divide(rows, number_format.group)) * columns
        size = size + scales * number_format.scale_bytes
    return np.asarray(size, dtype=np.float64)


def head_shards(plans: PlanTable) -> IntArray:
    """Ranks of a TP group that hold different heads; ``kv_split`` of them share each history."""
    return np.maximum(plans.tp // plans.kv_split, 1)


def history_share(plans: PlanTable) -> FloatArray:
    """Share of a session's history that one rank holds."""
    return 1.0 / (plans.kv_split * plans.cp)


def attended_heads(heads: int, plans: PlanTable) -> IntArray:
    """Query heads that one rank attends with: those of its head shard."""
    return -(-heads // head_shards(plans))


def shared_ranks(plans: PlanTable) -> IntArray:
    """Ranks that deal the experts that every token runs; 1 where each holds a copy."""
    return np.where(plans.has("shared_experts", "copied"), 1, plans.tp)


_RANKS: dict[Over, Callable[[PlanTable], IntArray]] = {
    "heads": lambda plans: plans.tp,
    "kv_heads": head_shards,
    "own_heads": lambda plans: plans.tp,
    "width": lambda plans: plans.tp,
    "shared_width": shared_ranks,
    "expert_width": lambda plans: plans.expert_tp,
}
"""Ranks over which each kind of cut is dealt."""


def shard(matrix: Matrix, plans: PlanTable) -> tuple[IntArray | int, IntArray | int]:
    """Rows and columns of a matrix on one rank.

    Ranks that hold the same KV head hold its projections too: KV heads are dealt to fewer ranks
    where ``kv_split`` of them share a history, and copied where TP exceeds them.
    """
    cut = matrix.cut
    if cut is None:
        return matrix.rows, matrix.columns
    ranks = _RANKS[cut.over](plans)
    if matrix.projects_output:
        ranks = ranks * plans.o_proj_tp
    units = -(-cut.units // ranks)
    if cut.side == "rows":
        return units * (matrix.rows // cut.units), matrix.columns
    return matrix.rows, units * (matrix.columns // cut.units)


def matrix_share(
    number_format: Format, matrix: Matrix, plans: PlanTable, assumptions: Assumptions
) -> tuple[FloatArray, FloatArray]:
    """Numbers and bytes of a matrix, all copies, that one rank multiplies a token with and reads.

    Batch shards that deal an output projection each multiply their part with the tokens of all.
    With ``read_shards: even`` every rank counts an even share of the whole instead, and with
    ``pooled`` an even share over all cards of a stage is read.
    """
    whole = matrix.times * matrix_bytes(number_format, matrix.rows, matrix.columns)
    if assumptions.read_shards == "even":
        ranks = plans.tp if matrix.cut else np.ones_like(plans.tp)
        shards = plans.o_proj_tp if matrix.projects_output else np.ones_like(plans.tp)
        return matrix.numbers / ranks, whole / (plans.tp * shards)
    rows, columns = shard(matrix, plans)
    shape = plans.tp.shape
    numbers = np.broadcast_to(matrix.times * np.multiply(rows, columns, dtype=np.float64), shape)
    if matrix.projects_output:
        numbers = numbers * plans.o_proj_tp
    if assumptions.read_shards == "pooled":
        return numbers, whole / plans.stage_cards
    size = matrix.times * matrix_bytes(number_format, rows, columns)
    return numbers, np.broadcast_to(size, shape)


def matrix_shares(
    model: ModelSpec, matrices: Iterable[Matrix], plans: PlanTable, assumptions: Assumptions
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """Numbers and bytes of some matrices on one rank, by tensor class."""
    found: dict[str, tuple[FloatArray, FloatArray]] = {}
    for matrix in matrices:
        number_format: Format = getattr(model.formats, matrix.tensor)
        numbers, size = matrix_share(number_format, matrix, plans, assumptions)
        if matrix.tensor in found:
            others = found[matrix.tensor]
            numbers, size = others[0] + numbers, others[1] + size
        found[matrix.tensor] = numbers, size
    return found


def vector_bytes(model: ModelSpec, vectors: Iterable[Vectors], *, read: bool = False) -> float:
    """Bytes of elementwise numbers, all or those that every step reads; every rank holds them."""
    size = {"norms": model.formats.norms.bytes_per_number, "fp32": 4.0, "int64": 8.0}
    return sum(v.numbers * size[v.tensor] for v in vectors if v.read or not read)


def half_norms(model: ModelSpec, parts: Parts) -> tuple[Vectors, ...]:
    """Vectors of one half of a layer: its own, its input norm, and those of its mixer.

    A half without tensors is not there, and has no norm.
    """
    if not parts.matrices:
        return ()
    return (Vectors(model.hidden), *parts.vectors, *model.mixer.vectors)


def experts_per_group(ffn: MoeFfn, plans: PlanTable, assumptions: Assumptions) -> FloatArray:
    """Experts, copies included, that one expert group holds."""
    slots = (ffn.experts + plans.redundant_experts) / plans.ep
    return slots if assumptions.expert_split == "fractional" else np.ceil(slots)


def redundant_experts(experts: int, groups: IntArray | int) -> IntArray | int:
    """Fewest extra copies that let ``experts`` be dealt evenly over ``groups``."""
    return -experts % groups


def expert_width(ffn: MoeFfn, plans: PlanTable) -> IntArray:
    """Intermediate width of one expert on one card."""
    return -(-ffn.intermediate // plans.expert_tp)


def expert_share(model: ModelSpec, ffn: MoeFfn, plans: PlanTable) -> tuple[FloatArray, FloatArray]:
    """Numbers and bytes of one routed expert on one card."""
    numbers, size = np.zeros(len(plans)), np.zeros(len(plans))
    for matrix in ffn.expert(model.hidden):
        rows, columns = shard(matrix, plans)
        numbers += matrix.times * np.multiply(rows, columns, dtype=np.float64)
        size += matrix.times * matrix_bytes(model.formats.experts, rows, columns)
    biases = ffn.expert_vectors(model.hidden) / plans.expert_tp
    return numbers, size + biases * model.formats.norms.bytes_per_number


def vocabulary_rows(model: ModelSpec, plans: PlanTable) -> IntArray:
    """Rows of the token embedding on one rank; the last rank is padded, as engines do."""
    return -(-model.vocab // plans.tp)


def head_rows(model: ModelSpec, plans: PlanTable) -> IntArray:
    """Rows of the output projection on one rank, dealt over TP and ``head_tp`` batch shards."""
    return -(-model.vocab // (plans.tp * plans.head_tp))


def layer_weights(
    model: ModelSpec, layer: Layer, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of one layer of a kind on one card, by tensor class."""
    weights = attention_weights(model, layer.attention, plans, assumptions)
    for tensor, size in network_weights(model, layer.ffn, plans, assumptions).items():
        weights[tensor] = weights[tensor] + size if tensor in weights else size
    if layer.engram:
        beside, table = engram_weights(model, layer.engram, plans.stage_cards, assumptions)
        weights["engram"] = beside + table
    return weights


def stack_weights(
    model: ModelSpec, plans: PlanTable, assumptions: Assumptions, table_cards: IntArray
) -> dict[str, list[FloatArray]]:
    """Bytes of one layer of each kind of the stack, by the axis that places them in a memory.

    Halves in common are worked out once. The rows of Engram tables are dealt over ``table_cards``.
    """
    attentions = {
        kind: sum(attention_weights(model, kind, plans, assumptions).values())
        for kind in dict.fromkeys(k.attention for k in model.kinds)
    }
    networks, experts = {}, {}
    for network in dict.fromkeys(k.ffn for k in model.kinds):
        by_class = network_weights(model, network, plans, assumptions)
        experts[network] = by_class.pop("experts", np.zeros(len(plans)))
        networks[network] = sum(by_class.values())
    found: dict[str, list[FloatArray]] = {axis: [] for axis in WEIGHT_AXES}
    for kind in model.kinds:
        beside, table = np.zeros(len(plans)), np.zeros(len(plans))
        if kind.engram:
            beside, table = engram_weights(model, kind.engram, table_cards, assumptions)
        found["weights_tier"].append(attentions[kind.attention] + networks[kind.ffn] + beside)
        found["experts_tier"].append(experts[kind.ffn])
        found["engram_tier"].append(table)
    return found


def attention_weights(
    model: ModelSpec, kind: Attention, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of the attention of one layer on one card, by tensor class."""
    return _half_weights(model, kind.parts(model.hidden, "decode"), plans, assumptions)


def network_weights(
    model: ModelSpec, kind: Ffn, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of the feed-forward network of one layer on one card, by tensor class."""
    weights = _half_weights(model, kind.parts(model.hidden), plans, assumptions)
    if isinstance(kind, MoeFfn):
        _, one = expert_share(model, kind, plans)
        weights["experts"] = experts_per_group(kind, plans, assumptions) * one
    return weights


def _half_weights(
    model: ModelSpec, parts: Parts, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    mixer = model.mixer.matrices if parts.matrices else ()
    weights = held_bytes(model, (*parts.matrices, *mixer), plans, assumptions)
    weights["norms"] = np.full(len(plans), vector_bytes(model, half_norms(model, parts)))
    return weights


def engram_weights(
    model: ModelSpec, table: Engram, cards: IntArray, assumptions: Assumptions
) -> tuple[FloatArray, FloatArray]:
    """Bytes on one card of what goes with an Engram table, and of its rows, dealt over ``cards``.

    With ``engram_projection: with_table`` the projection is dealt like the rows.
    """
    beside = float(matrix_bytes(model.formats.engram, table.inputs, table.outputs))
    beside += vector_bytes(model, (table.vectors,))
    if assumptions.engram_projection == "with_table":
        return np.zeros(len(cards)), (table.table_bytes + beside) / cards
    return np.full(len(cards), beside), table.table_bytes / cards


def held_bytes(
    model: ModelSpec, matrices: Iterable[Matrix], plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of matrices on one card by tensor class: what is not dealt lies there whole.

    Reading one copy from all cards of a stage (``read_shards: pooled``) changes nothing here.
    """
    matrices = tuple(matrices)
    if assumptions.read_shards == "pooled":
        assumptions = assumptions.model_copy(update={"read_shards": "exact"})
    dealt = matrix_shares(model, [m for m in matrices if m.cut], plans, assumptions)
    found = {tensor: size for tensor, (_, size) in dealt.items()}
    for matrix in matrices:
        if not matrix.cut:
            number_format = getattr(model.formats, matrix.tensor)
            whole = matrix.times * matrix_bytes(number_format, matrix.rows, matrix.columns)
            found[matrix.tensor] = found.get(matrix.tensor, np.zeros(len(plans))) + whole
    return found


def draft_weights(
    model: ModelSpec, draft: Draft, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of a draft module on one card, by the axis that places them in a memory."""
    found: dict[str, FloatArray] = {axis: np.zeros(len(plans)) for axis in WEIGHT_AXES}
    for group in draft.layers:
        by_class = layer_weights(model, Layer.of(group), plans, assumptions)
        for tensor, size in by_class.items():
            axis = {"experts": "experts_tier", "engram": "engram_tier"}.get(tensor, "weights_tier")
            found[axis] = found[axis] + group.count * size
    one = float(matrix_bytes(model.formats.attention, model.hidden, model.hidden))
    mixer = model.last_mixer
    rest = draft.projections * one + sum(
        held_bytes(model, mixer.matrices, plans, assumptions).values(), np.zeros(len(plans))
    )
    rest = rest + vector_bytes(model, (draft.vectors(model.hidden), *mixer.vectors))
    if draft.markov_rank:
        rest = rest + 2 * matrix_bytes(model.formats.head, draft.markov_rank, model.vocab)
    if draft.own_head:
        rest = rest + embedding_bytes(model, plans) + head_bytes(model, plans)
    found["weights_tier"] = found["weights_tier"] + rest
    return found


def embedding_bytes(model: ModelSpec, plans: PlanTable) -> FloatArray:
    """Bytes of the token embedding on one rank of the first stage."""
    return matrix_bytes(model.formats.embedding, vocabulary_rows(model, plans), model.hidden)


def head_bytes(model: ModelSpec, plans: PlanTable) -> FloatArray:
    """Bytes that one rank of the last stage reads for the output projection."""
    return matrix_bytes(model.formats.head, model.hidden, head_rows(model, plans))


def stream_heads(stream: Stream, plans: PlanTable) -> IntArray:
    """Heads whose entries one rank holds: its share, or one copy where TP exceeds them.

    ``kv_split`` ranks share the history of the same heads, so heads are dealt to fewer shards.
    """
    return -(-stream.heads // (plans.tp if stream.is_window else head_shards(plans)))


def attending(stream: Stream, plans: PlanTable) -> IntArray:
    """Query heads that one rank attends to a stream with."""
    if not stream.dealt:
        return np.full_like(plans.tp, stream.query_heads)
    if stream.is_window:
        return -(-stream.query_heads // plans.tp)
    return attended_heads(stream.query_heads, plans)


def entry_bytes(model: ModelSpec, stream: Stream, plans: PlanTable) -> FloatArray:
    """Bytes of one entry of a stream, on a rank that holds its heads."""
    vector = model.formats.kept(stream.tensor).vector_bytes(stream.width, stream.rope)
    return np.asarray(stream.vectors * vector * stream_heads(stream, plans), dtype=np.float64)


def stream_share(stream: Stream, plans: PlanTable) -> FloatArray:
    """Share of a stream's entries that one rank holds; windows are too short to be split."""
    return np.ones(len(plans)) if stream.is_window else history_share(plans)


def state_bytes(model: ModelSpec, state: State, plans: PlanTable) -> FloatArray:
    """Bytes of one session's state of fixed size on one rank, which holds its heads of it."""
    number = getattr(model.formats, state.tensor).bytes_per_number
    return np.asarray(-(-state.heads // plans.tp) * state.numbers * number, dtype=np.float64)


def entries(stream: Stream, tokens: FloatArray | float) -> FloatArray:
    """Entries that ``tokens`` tokens of context leave in a stream."""
    whole = np.asarray(tokens, dtype=np.float64)
    if stream.ratio > 1:
        whole = np.floor(whole / stream.ratio)
    return whole if stream.kept is None else np.minimum(whole, stream.kept)


def session_bytes(
    model: ModelSpec, layer: Layer, plans: PlanTable, tokens: float, assumptions: Assumptions
) -> FloatArray:
    """Bytes that a session of ``tokens`` tokens keeps in one layer on one rank."""
    parts = layer.attention.parts(model.hidden, "decode")
    total: FloatArray = np.zeros(len(plans))
    for stream in parts.streams:
        if stream.owned:
            share = entries(stream, tokens) * stream_share(stream, plans)
            total = total + entry_bytes(model, stream, plans) * share
    for state in parts.states:
        if state.passed:
            # One after each token that a step verifies, to return to.
            total = total + state_bytes(model, state, plans) * (1 + plans.mtp)
        elif assumptions.compressor_state == "counted":
            total = total + state_bytes(model, state, plans)
    return total
