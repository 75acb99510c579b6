"""Feed-forward networks, dense or mixtures of experts, and what their ranks exchange."""

from dataclasses import replace

import numpy as np

from costmodels import sharding
from costmodels.collectives.fabric import Exchange
from costmodels.operators.routing import (
    ROUTINGS,
    Routed,
    groups_per_token,
    observed,
    skewed,
)
from costmodels.operators.sums import output_sum, sum_bytes, vector_bytes
from costmodels.operators.work import Operator, Pass, between, dense
from costmodels.plans import FloatArray, IntArray, PlanTable
from specs.ffn import Ffn, MoeFfn
from specs.model import ModelSpec
from specs.problem import Problem
from specs.routing import HistogramRouting, SkewRouting

_CLASSES = {"shared_experts": ("experts", "shared_experts")}
"""Efficiency and component of tensor classes that are not of the dense network."""


def operators(problem: Problem, ffn: Ffn, plans: PlanTable, pass_: Pass) -> list[Operator]:
    """Matrix operators of one layer's feed-forward network."""
    rows = pass_.rank_tokens(plans.cp)
    found: list[Operator] = []
    matrices = ffn.parts(problem.model.hidden).matrices
    for tensor in dict.fromkeys(matrix.tensor for matrix in matrices):
        efficiency, component = _CLASSES.get(tensor, ("ffn", "dense_weights"))
        some = [matrix for matrix in matrices if matrix.tensor == tensor]
        found += dense(problem, some, plans, rows, efficiency, component)
    if isinstance(ffn, MoeFfn):
        found.append(_experts(problem, ffn, plans, pass_))
    return found


def routed(problem: Problem, ffn: MoeFfn, plans: PlanTable, pass_: Pass) -> Routed:
    """Outcome of routing the tokens of one pass, by the spec's assumption."""
    routing, tokens = problem.assumptions.routing, pass_.instance_tokens
    if isinstance(routing, HistogramRouting):
        return observed(routing, ffn, tokens, plans.ep, plans.redundant_experts)
    if isinstance(routing, SkewRouting):
        outcome = skewed(routing, ffn, tokens, plans.ep)
    else:
        outcome = ROUTINGS[routing](ffn, tokens, plans.ep)
    return replace(outcome, busiest_active=outcome.busiest_active * _copies(problem, ffn, plans))


def _experts(problem: Problem, ffn: MoeFfn, plans: PlanTable, pass_: Pass) -> Operator:
    """Routed experts of the busiest group."""
    outcome = routed(problem, ffn, plans, pass_)
    slots = sharding.experts_per_group(ffn, plans, problem.assumptions)
    # A group that any token reaches reads one expert at least: there are no parts of an expert.
    least = np.minimum(np.ceil(outcome.busiest_active), 1.0)
    read = np.minimum(np.maximum(outcome.busiest_active, least), slots)
    numbers, size = sharding.expert_share(problem.model, ffn, plans)
    flops = 2.0 * outcome.busiest_tasks * numbers
    return Operator("experts", "experts", "experts", flops, read * size)


def _copies(problem: Problem, ffn: MoeFfn, plans: PlanTable) -> FloatArray:
    """Slots per expert: copies made to split unevenly many experts are read beside them."""
    if problem.assumptions.expert_split == "fractional":
        return np.ones(len(plans))
    return 1.0 + plans.redundant_experts / ffn.experts


def exchanges(problem: Problem, ffn: Ffn, plans: PlanTable, pass_: Pass) -> list[Exchange]:
    """Collectives of one layer's network: the sum of a dense one, or what experts exchange."""
    rows = pass_.rank_tokens(plans.cp)
    if not isinstance(ffn, MoeFfn):
        return output_sum(problem, plans, rows) if ffn.parts(problem.model.hidden).matrices else []
    found = _expert_sums(problem, ffn, plans, pass_)
    if (plans.attention_dp > 1).any():
        found += _dispatch(problem, ffn, plans, pass_)
    if ffn.shared_intermediate:
        # Without dispatch the sums over experts of full width take the shared ones with them.
        alone = (plans.attention_dp > 1) | (ffn.latent is not None)
        ranks = np.where(alone, sharding.shared_ranks(plans), 1)
        size = sum_bytes(problem, rows, problem.model.hidden)
        found.append(Exchange("allreduce", "allreduce", ranks, np.ones_like(plans.tp), size))
    return found


def _expert_sums(problem: Problem, ffn: MoeFfn, plans: PlanTable, pass_: Pass) -> list[Exchange]:
    """Sum what the ranks of each expert contribute, and what the groups contribute (6.3.1).

    Without attention DP every card holds all tokens, so nothing is dispatched: partial sums are
    added inside each expert first, then over the expert groups. With attention DP the groups'
    outputs travel back by All-to-All, and each lane holds its share of the tokens.
    """
    rows = pass_.rank_tokens(plans.cp)
    # Prefill splits the tokens over CP, but without dispatch each group must see them all: the
    # gather on the way in and the sum on the way out are the two halves of this AllReduce.
    undivided = pass_.rank_sequences * pass_.new_tokens
    dispatched = plans.attention_dp > 1
    lanes = _token_lanes(plans, pass_)
    inner = np.where(dispatched, np.minimum(plans.expert_tp, lanes), plans.expert_tp)
    inner_rows = np.where(dispatched, rows * inner / lanes, undivided)
    one = np.ones_like(plans.tp)
    outer = np.where(dispatched, 1, plans.ep)
    width = ffn.width(problem.model.hidden)
    inner_size = sum_bytes(problem, inner_rows, width)
    outer_size = sum_bytes(problem, undivided, width)
    return [
        Exchange("allreduce", "allreduce", inner, one, inner_size),
        Exchange("allreduce", "allreduce", outer, plans.expert_tp, outer_size),
    ]


def _token_lanes(plans: PlanTable, pass_: Pass) -> IntArray:
    """Cards that hold the same tokens: prefill splits the sequence over CP, decode repeats it."""
    return plans.tp if pass_.phase == "prefill" else plans.lanes


def _dispatch(problem: Problem, ffn: MoeFfn, plans: PlanTable, pass_: Pass) -> list[Exchange]:
    """Send tokens to their experts and outputs back; then share them between the lanes.

    Where an expert group is wider than the lanes of one batch shard, several shards make up the
    group: they gather each other's tokens before and scatter the sums after. Between groups a card
    exchanges with its counterparts, which hold the same part of other experts.
    """
    model, assumptions = problem.model, problem.assumptions
    rows = pass_.rank_tokens(plans.cp)
    groups = np.where(plans.attention_dp > 1, plans.ep, 1)
    lanes = _token_lanes(plans, pass_)
    sent = rows * plans.expert_tp / lanes * (groups - 1)
    width = ffn.width(model.hidden)
    out = vector_bytes(model, assumptions.dispatch_dtype, width)
    back = vector_bytes(model, assumptions.combine_dtype, width)
    skew = _busiest_share(problem, ffn, plans, pass_)
    copies = sent * skew * ffn.top_k
    if assumptions.a2a_dedup == "card":
        copies = sent * np.minimum(skew * groups_per_token(ffn, plans.ep), 1.0)
    inner = np.minimum(plans.expert_tp, lanes)
    sharing = np.where(plans.attention_dp > 1, lanes // inner, 1)
    gathered = rows * vector_bytes(model, None, width)
    together = np.where(plans.attention_dp > 1, np.maximum(plans.expert_tp // lanes, 1), 1)
    sums = sum_bytes(problem, together * rows, width)
    return [
        Exchange("all_gather", "all_gather", together, lanes, together * gathered),
        Exchange("reduce_scatter", "reduce_scatter", together, lanes, sums),
        Exchange("dispatch", "all_to_all", groups, plans.expert_tp, copies * out),
        Exchange("combine", "all_to_all", groups, plans.expert_tp, copies * back),
        Exchange("all_gather", "all_gather", sharing, inner, gathered),
    ]


def _busiest_share(problem: Problem, ffn: MoeFfn, plans: PlanTable, pass_: Pass) -> FloatArray:
    """Share of all choices that falls on the busiest group: 1/G when evenly spread."""
    tasks = routed(problem, ffn, plans, pass_).busiest_tasks
    return tasks / np.maximum(pass_.instance_tokens * ffn.top_k, 1e-300)


def activation_numbers(model: ModelSpec, ffn: Ffn, plans: PlanTable) -> FloatArray:
    """Largest intermediate of one feed-forward layer on one card, numbers for each token."""
    if isinstance(ffn, MoeFfn):
        middle = (1 + ffn.gated) * sharding.expert_width(ffn, plans) + ffn.width(model.hidden)
        return ffn.top_k * plans.attention_dp / plans.ep * middle
    return between(ffn.parts(model.hidden).matrices, plans)
