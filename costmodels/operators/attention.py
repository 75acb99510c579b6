"""Attention of any kind: projections, what it reads of the context, and what its ranks exchange.

Kinds differ only in the tensors that they describe (``specs.attention``).
"""

from dataclasses import replace

import numpy as np

from costmodels import sharding
from costmodels.collectives.fabric import Exchange
from costmodels.operators.sums import sum_bytes
from costmodels.operators.work import Operator, Pass, dense
from costmodels.plans import FloatArray, PlanTable
from specs.formats import BITS
from specs.model import ModelSpec
from specs.problem import Problem
from specs.tensors import Parts, State, Stream

STATISTICS = 2
"""Numbers merged beside each partial output: its largest score and its sum of exponentials."""

MERGE_BYTES = BITS["fp32"] // 8
"""Partial attention outputs are merged in FP32 (6.2.4)."""


def seen_up_to(stream: Stream, tokens: FloatArray) -> FloatArray:
    """Entries that tokens 1 to ``tokens`` of a sequence see, added up.

    Token i sees min(⌊i/r⌋, m) entries, at most m of them by window or top-k. Without the bound
    the sum over i ≤ n = q·r + s is r·q(q−1)/2 + q(s+1); from r·m tokens on each adds m.
    """
    ratio, most = stream.ratio, stream.most_seen
    growing = tokens if most is None else np.minimum(tokens, ratio * most)
    whole = growing if ratio == 1 else np.floor(growing / ratio)
    total = ratio * whole * (whole - 1) / 2 + whole * (growing - ratio * whole + 1)
    return total if most is None else total + (tokens - growing) * most


def seen_entries(stream: Stream, tokens: FloatArray) -> FloatArray:
    """Entries that the last of ``tokens`` tokens sees."""
    found = sharding.entries(stream, tokens)
    return found if stream.seen is None else np.minimum(found, stream.seen)


def pairs(problem: Problem, stream: Stream, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Pairs of a new token and an entry that it sees, per sequence, on the busiest rank (6.2.4).

    A token sees what is held, all earlier new tokens and itself. ``zigzag`` pairs early with late
    positions, so all CP ranks do the same work; with ``contiguous`` the last rank does most.
    """
    new, held = pass_.new_tokens, pass_.held_tokens
    if pass_.phase == "decode":
        # Tokens that are verified together see nearly the same context, the last one most.
        return new * seen_entries(stream, held + new) * sharding.stream_share(stream, plans)
    # Prefill splits the queries over CP, not the history.
    share = 1.0 / plans.kv_split if not stream.is_window else np.ones(len(plans))
    end, chunk = held + new, new / plans.cp
    if problem.assumptions.prefill_context == "middle":
        return chunk * seen_entries(stream, held + new / 2) * share
    if problem.assumptions.cp_layout == "zigzag":
        total = seen_up_to(stream, end) - seen_up_to(stream, held)
        return total / plans.cp * share
    return (seen_up_to(stream, end) - seen_up_to(stream, end - chunk)) * share


def read_entries(problem: Problem, stream: Stream, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Entries of one sequence that one card reads or writes (6-4).

    Decode reads what the new token sees and writes one entry. In prefill every CP rank needs the
    entries of all tokens, a window those of its own tokens and the last before them; each is read
    once, or by every new token that sees it.
    """
    tokens = pass_.held_tokens + pass_.new_tokens
    if pass_.phase == "decode":
        # Tokens verified together share what all of them see; each has a choice of its own.
        seen = sharding.entries(stream, tokens)
        if stream.seen is not None:
            seen = np.minimum(seen, pass_.new_tokens * stream.seen)
        return seen * sharding.stream_share(stream, plans)
    if problem.assumptions.prefill_reads == "per_token":
        return pairs(problem, stream, plans, pass_)
    if stream.kept is None:
        return sharding.entries(stream, tokens) / plans.kv_split
    return np.minimum(tokens, pass_.new_tokens / plans.cp + stream.kept)


def operators(problem: Problem, parts: Parts, plans: PlanTable, pass_: Pass) -> list[Operator]:
    """Projections and attention proper of one layer."""
    rows = pass_.rank_tokens(plans.cp)
    each = [matrix for matrix in parts.matrices if matrix.ratio == 1]
    found = dense(problem, each, plans, rows, "attention_projection")
    for matrix in parts.matrices:
        if matrix.ratio > 1:
            entries = _completed(matrix.ratio, plans, pass_)
            found += dense(problem, (matrix,), plans, entries, "attention_projection")
    expanding = [matrix for matrix in parts.matrices if matrix.expands]
    if expanding:
        # A prefill makes keys and values of its prefix again, and of what other CP ranks take in,
        # as latents travel; the matrix is read already.
        others = pass_.new_tokens * (1 - 1 / plans.cp)
        again = pass_.rank_sequences * (pass_.held_tokens + others)
        for tensor, (numbers, _) in sharding.matrix_shares(
            problem.model, expanding, plans, problem.assumptions
        ).items():
            flops = 2.0 * again * numbers
            found.append(
                Operator("dense_weights", "attention_projection", tensor, flops, 0.0 * flops)
            )
    found += [_stream(problem, stream, plans, pass_) for stream in parts.streams]
    found += [_state(problem.model, state, plans, pass_) for state in parts.states if state.passed]
    return found


def kept_only(
    problem: Problem, parts: Parts, plans: PlanTable, whole: Pass, passed: Pass
) -> list[Operator]:
    """What the tokens that do not pass a layer still leave in its context.

    ``whole`` is the pass of all tokens, ``passed`` that of those that pass the layer; where any
    do, the matrices have been read already.
    """
    found = []
    for matrix in parts.matrices:
        if matrix.keeps:
            rows = _completed(matrix.ratio, plans, whole) - _completed(matrix.ratio, plans, passed)
            made = dense(problem, (matrix,), plans, rows, "attention_projection")
            unread = passed.new_tokens == 0
            found += [replace(operator, bytes=operator.bytes * unread) for operator in made]
    return found


def _completed(ratio: int, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Entries of ``ratio`` tokens that the new tokens of one rank complete."""
    held, new = pass_.held_tokens, pass_.new_tokens
    found = pass_.rank_sequences * (np.floor((held + new) / ratio) - np.floor(held / ratio))
    return found / plans.cp if pass_.phase == "prefill" else found


def _stream(problem: Problem, stream: Stream, plans: PlanTable, pass_: Pass) -> Operator:
    heads = sharding.attending(stream, plans)
    read = read_entries(problem, stream, plans, pass_)
    size = sharding.entry_bytes(problem.model, stream, plans)
    return Operator(
        stream.tensor,
        "attention",
        stream.tensor,
        float(stream.flops) * heads * pass_.rank_sequences * pairs(problem, stream, plans, pass_),
        pass_.rank_sequences * read * size,
    )


def _state(model: ModelSpec, state: State, plans: PlanTable, pass_: Pass) -> Operator:
    """A pass reads each state and writes it back; every token updates it.

    A step that verifies drafted tokens writes a state after each of them, to return to.
    """
    heads = -(-state.heads // plans.tp)
    flops = float(state.flops) * heads * pass_.rank_tokens(plans.cp)
    written = pass_.new_tokens if pass_.phase == "decode" else 1.0
    size = (1.0 + written) * pass_.rank_sequences * sharding.state_bytes(model, state, plans)
    return Operator("state", "attention", "state", flops, size)


def exchanges(problem: Problem, parts: Parts, plans: PlanTable, pass_: Pass) -> list[Exchange]:
    """Collectives of one layer's attention, the sum of its output excepted."""
    found: list[Exchange] = []
    rows = pass_.rank_tokens(plans.cp)
    number_bytes = problem.model.formats.activations.bytes_per_number
    one = np.ones_like(plans.tp)
    if any(not stream.is_window for stream in parts.streams):
        heads = sharding.attended_heads(parts.heads, plans)
        partial = rows * heads * (parts.output_width + STATISTICS) * MERGE_BYTES
        if (plans.kv_split > 1).any():
            # Ranks that split a history need the queries of all its heads, and merge outputs.
            queries = rows * heads * parts.query_width * number_bytes
            found += [
                Exchange("all_gather", "all_gather", plans.kv_split, one, queries),
                Exchange("reduce_scatter", "reduce_scatter", plans.kv_split, one, partial),
            ]
        if pass_.phase == "decode" and (plans.cp > 1).any():
            # After the merge over kv_split each rank goes on with its own heads.
            merged = partial / plans.kv_split
            found.append(Exchange("allreduce", "allreduce", plans.cp, plans.tp, merged))
    if parts.matrices and (plans.o_proj_tp > 1).any():
        found += _dealt_output(problem, parts, plans, rows)
    if pass_.phase == "prefill" and (plans.cp > 1).any():
        size = _gathered(problem.model, parts, plans, pass_)
        ranks = np.where(size > 0, plans.cp, 1)
        found.append(Exchange("all_gather", "all_gather", ranks, plans.tp, size))
    return found


def _dealt_output(
    problem: Problem, parts: Parts, plans: PlanTable, rows: FloatArray
) -> list[Exchange]:
    """Exchanges of batch shards that deal the output projection among them.

    Each gets the heads it projects from all shards, and the sums go back to their shards.
    """
    ranks = plans.o_proj_tp
    numbers = rows * (parts.attended_width / plans.tp) * (ranks - 1) / ranks
    sent = numbers * problem.model.formats.activations.bytes_per_number
    sums = sum_bytes(problem, rows * ranks, problem.model.hidden)
    return [
        Exchange("o_proj_exchange", "all_to_all", ranks, plans.lanes, sent),
        Exchange("reduce_scatter", "reduce_scatter", ranks, plans.lanes, sums),
    ]


def _gathered(model: ModelSpec, parts: Parts, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Bytes that the CP ranks collect from each other before attention.

    All entries of a context, the last of every piece of the sequence for a window (two pieces a
    rank, as the first and the last are paired), and the states that a rank starts from.
    """
    tokens = pass_.held_tokens + pass_.new_tokens
    total: FloatArray = np.zeros(len(plans))
    for stream in parts.streams:
        if stream.owned:
            count = sharding.entries(stream, tokens) / plans.kv_split
            if stream.kept is not None:
                count = np.minimum(tokens, 2.0 * plans.cp * stream.kept)
            total = total + count * sharding.entry_bytes(model, stream, plans)
    for state in parts.states:
        if state.passed:
            total = total + plans.cp * sharding.state_bytes(model, state, plans)
    return pass_.rank_sequences * total
