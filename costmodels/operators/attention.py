"""Grouped-query attention: projections, the read of the context, and what its ranks exchange."""

import numpy as np

from costmodels import sharding
from costmodels.collectives.fabric import Exchange
from costmodels.operators.work import Operator, Pass
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.model import BITS, GqaAttention, LayerGroup, ModelSpec
from specs.problem import Problem

STATISTICS = 2
"""Numbers merged beside each partial output: its largest score and its sum of exponentials."""

MERGE_BYTES = BITS["fp32"] // 8
"""Partial attention outputs are merged in FP32 (6.2.4)."""


def causal_pairs(new: FloatArray, held: FloatArray, cp: IntArray, layout: str) -> FloatArray:
    """Query-key pairs of the busiest CP rank when ``new`` tokens follow ``held`` ones (6.2.4).

    A token sees all held tokens, all earlier new ones and itself. ``zigzag`` pairs early with
    late positions, so all ranks do the same work; with ``contiguous`` the last rank does most.
    """
    chunk = new / cp
    pairs_all = new * held + new * (new + 1) / 2
    if layout == "zigzag":
        return pairs_all / cp
    before = new - chunk
    return chunk * (held + before) + chunk * (chunk + 1) / 2


def seen_pairs(problem: Problem, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Query-key pairs per sequence and query head that one card computes."""
    if pass_.phase == "prefill":
        layout = problem.assumptions.cp_layout
        pairs = causal_pairs(pass_.new_tokens, pass_.held_tokens, plans.cp, layout)
        return pairs / plans.kv_split
    return (pass_.held_tokens + 1) * sharding.history_share(plans)


def read_tokens(plans: PlanTable, pass_: Pass) -> FloatArray:
    """Tokens of one sequence whose keys and values one card reads or writes (6-4).

    Decode reads its share of the history and writes one token. In prefill every CP rank needs
    the keys and values of all tokens.
    """
    tokens = pass_.held_tokens + pass_.new_tokens
    if pass_.phase == "prefill":
        return tokens / plans.kv_split
    return tokens * sharding.history_share(plans)


def operators(problem: Problem, group: LayerGroup, plans: PlanTable, pass_: Pass) -> list[Operator]:
    """Projections and attention proper of one layer."""
    model, attention = problem.model, group.attention
    rows = pass_.rank_tokens(plans.cp)
    numbers, size = sharding.attention_shares(model, attention, plans, problem.assumptions)
    heads = sharding.attended_heads(attention, plans)
    pairs = pass_.rank_sequences * seen_pairs(problem, plans, pass_)
    kv_size = sharding.kv_bytes_per_token(model, attention, plans)
    return [
        Operator("dense_weights", "attention_projection", "attention", 2 * rows * numbers, size),
        Operator(
            "kv",
            "attention",
            "kv",
            4.0 * attention.head_dim * heads * pairs,
            pass_.rank_sequences * read_tokens(plans, pass_) * kv_size,
        ),
    ]


def exchanges(problem: Problem, group: LayerGroup, plans: PlanTable, pass_: Pass) -> list[Exchange]:
    """Collectives of one layer's attention, the sum of its output excepted."""
    found: list[Exchange] = []
    attention = group.attention
    rows = pass_.rank_tokens(plans.cp)
    number_bytes = problem.model.formats.activations.bytes_per_number
    heads = sharding.attended_heads(attention, plans)
    partial = rows * heads * (attention.head_dim + STATISTICS) * MERGE_BYTES
    one = np.ones_like(plans.tp)
    if (plans.kv_split > 1).any():
        # The ranks that split a history need the queries of all its heads, and merge outputs.
        queries = rows * heads * attention.head_dim * number_bytes
        found += [
            Exchange("all_gather", "all_gather", plans.kv_split, one, queries),
            Exchange("reduce_scatter", "reduce_scatter", plans.kv_split, one, partial),
        ]
    if (plans.cp > 1).any():
        if pass_.phase == "decode":
            # After the merge over kv_split each rank goes on with its own heads.
            merged = partial / plans.kv_split
            found.append(Exchange("allreduce", "allreduce", plans.cp, plans.tp, merged))
        else:
            found.append(_gather_context(problem.model, attention, plans, pass_))
    return found


def _gather_context(
    model: ModelSpec, attention: GqaAttention, plans: PlanTable, pass_: Pass
) -> Exchange:
    """Keys and values of all positions, collected from the CP ranks that hold them."""
    tokens = pass_.rank_sequences * (pass_.held_tokens + pass_.new_tokens) / plans.kv_split
    size = tokens * sharding.kv_bytes_per_token(model, attention, plans)
    return Exchange("all_gather", "all_gather", plans.cp, plans.tp, size)
