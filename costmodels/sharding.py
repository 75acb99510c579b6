"""What share of the model one card holds.

Memory, operators and constraints all take shares from here, so they cannot disagree. Results are
arrays of shape ``(plans,)``. Every function is defined for degrees that do not divide, too: a
share is then rounded up, and the sharding constraints say that the plan is not allowed.
"""

from functools import lru_cache

import numpy as np

from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.model import DenseFfn, GqaAttention, LayerGroup, ModelSpec, MoeFfn, StoredFormat
from specs.problem import Assumptions


@lru_cache(maxsize=4096)
def stage_layers(layer_counts: tuple[int, ...], stages: int) -> IntArray:
    """Return how many layers of each group each stage holds, shape ``(stages, groups)``.

    Layers stay in order and are split as evenly as whole layers allow. The first stages take the
    extra ones, because the last also computes the output head. Stages beyond the layers would be
    empty, whatever their number, so there is no row for them.
    """
    total = sum(layer_counts)
    stages = min(stages, total)
    sizes = np.full(stages, total // stages)
    sizes[: total % stages] += 1
    ends = np.cumsum(sizes)
    group_ends = np.cumsum(layer_counts)
    starts, group_starts = ends - sizes, group_ends - np.asarray(layer_counts)
    overlap = np.minimum(ends[:, None], group_ends) - np.maximum(starts[:, None], group_starts)
    held: IntArray = np.maximum(overlap, 0)
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


def query_heads(attention: GqaAttention, plans: PlanTable) -> IntArray:
    """Query heads whose projections one rank holds."""
    return -(-attention.q_heads // plans.tp)


def head_shards(plans: PlanTable) -> IntArray:
    """Ranks of a TP group that hold different heads; ``kv_split`` of them share each history."""
    return np.maximum(plans.tp // plans.kv_split, 1)


def attended_heads(attention: GqaAttention, plans: PlanTable) -> IntArray:
    """Query heads that one rank attends with: those of its head shard."""
    return -(-attention.q_heads // head_shards(plans))


def ffn_width(ffn: DenseFfn, plans: PlanTable) -> IntArray:
    """Intermediate width of a dense network on one card."""
    return -(-ffn.intermediate // plans.tp)


def kv_heads(attention: GqaAttention, plans: PlanTable) -> IntArray:
    """KV heads that one rank holds: its share, or one copy where TP exceeds the KV heads.

    ``kv_split`` ranks share the history of the same heads, so heads are dealt to fewer shards.
    """
    return -(-attention.kv_heads // head_shards(plans))


def history_share(plans: PlanTable) -> FloatArray:
    """Share of a session's history that one rank holds."""
    return 1.0 / (plans.kv_split * plans.cp)


def attention_shares(
    model: ModelSpec, attention: GqaAttention, plans: PlanTable, assumptions: Assumptions
) -> tuple[FloatArray, FloatArray]:
    """Numbers and bytes of the projections of one layer that one card holds and reads.

    Ranks that hold the same KV head hold its K and V projections too; with ``read_shards: even``
    every rank is counted with an even share of all projections instead.
    """
    if assumptions.read_shards == "exact":
        return _projections(model, attention, plans)
    numbers, size = _projections(model, attention, PlanTable.from_columns({"tp": [1]}))
    return numbers / plans.tp, size / plans.tp


def _projections(
    model: ModelSpec, attention: GqaAttention, plans: PlanTable
) -> tuple[FloatArray, FloatArray]:
    fmt = model.formats.attention
    width_q = query_heads(attention, plans) * attention.head_dim
    width_kv = kv_heads(attention, plans) * attention.head_dim
    size = (
        matrix_bytes(fmt, model.hidden, width_q)
        + 2 * matrix_bytes(fmt, model.hidden, width_kv)
        + matrix_bytes(fmt, width_q, model.hidden)
    )
    numbers = 2 * model.hidden * (width_q + width_kv)
    return numbers.astype(np.float64), size


def ffn_bytes(number_format: StoredFormat, hidden: int, width: IntArray | FloatArray) -> FloatArray:
    """Bytes of a gated network of three matrices, ``width`` wide in the middle."""
    up_and_gate = 2 * matrix_bytes(number_format, hidden, width)
    return up_and_gate + matrix_bytes(number_format, width, hidden)


def norm_bytes(model: ModelSpec, group: LayerGroup) -> float:
    """Bytes of the normalisation weights and biases of one layer; every rank holds them all."""
    attention = group.attention
    per_head = 2 * attention.head_dim if attention.qk_norm else 0
    bias = attention.q_heads + 2 * attention.kv_heads if attention.qkv_bias else 0
    numbers = 2 * model.hidden + per_head + bias * attention.head_dim
    return numbers * model.formats.norms.bytes_per_number


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


def vocabulary_rows(model: ModelSpec, plans: PlanTable) -> IntArray:
    """Rows of the vocabulary on one rank; the last rank is padded, as engines do."""
    return -(-model.vocab // plans.tp)


def layer_weights(
    model: ModelSpec, group: LayerGroup, plans: PlanTable, assumptions: Assumptions
) -> dict[str, FloatArray]:
    """Bytes of one layer of ``group`` on one card, by tensor class."""
    formats = model.formats
    weights = {
        "attention": attention_shares(model, group.attention, plans, assumptions)[1],
        "norms": np.full(len(plans), norm_bytes(model, group)),
    }
    ffn = group.ffn
    if isinstance(ffn, MoeFfn):
        one = ffn_bytes(formats.experts, model.hidden, expert_width(ffn, plans))
        weights["experts"] = experts_per_group(ffn, plans, assumptions) * one
        router = float(matrix_bytes(formats.router, model.hidden, ffn.experts))
        weights["router"] = np.full(len(plans), router)
    else:
        weights["ffn"] = ffn_bytes(formats.ffn, model.hidden, ffn_width(ffn, plans))
    return weights


def embedding_bytes(model: ModelSpec, plans: PlanTable) -> FloatArray:
    """Bytes of the token embedding on one rank of the first stage."""
    return matrix_bytes(model.formats.embedding, vocabulary_rows(model, plans), model.hidden)


def head_bytes(model: ModelSpec, plans: PlanTable) -> FloatArray:
    """Bytes that one rank of the last stage reads for the output projection."""
    return matrix_bytes(model.formats.head, model.hidden, vocabulary_rows(model, plans))


def kv_bytes_per_token(model: ModelSpec, attention: GqaAttention, plans: PlanTable) -> FloatArray:
    """Bytes of one token's keys and values in one layer, on a rank that holds its heads.

    A rank holds only its ``history_share`` of the tokens.
    """
    head = model.formats.kv.bytes_per_head(attention.head_dim)
    return np.asarray(2.0 * kv_heads(attention, plans) * head, dtype=np.float64)
