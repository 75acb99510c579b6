"""How the model may be cut: heads, widths, experts, layers, and which axes go together."""

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels import sharding
from costmodels.plans import NEUTRAL, FloatArray, IntArray
from specs.model import ModelSpec
from specs.problem import Problem
from specs.tensors import Matrix


def _left_over(total: int, parts: IntArray) -> FloatArray:
    """0 where ``parts`` divides ``total``, else minus the remainder."""
    return -(total % parts).astype(np.float64)


def _worst(totals: tuple[int, ...], parts: IntArray) -> FloatArray:
    """Worst remainder of several totals, as a margin."""
    return np.min([np.zeros(parts.shape), *(_left_over(t, parts) for t in totals)], axis=0)


class QueryHeads(Constraint):
    """TP deals whole query heads."""

    name = "query_heads"
    title = "TP divides the query heads"
    reads = ("tp",)
    unit = "heads"

    def margin(self, case: Case) -> FloatArray:
        return _worst(case.problem.model.units("heads"), case.plans.tp)

    def reason(self, case: Case) -> str:
        tp = first(case.plans.tp)
        heads = next(h for h in case.problem.model.units("heads") if h % tp)
        return f"{heads} query heads do not divide by TP {tp}"


class KvHeads(Constraint):
    """KV heads are dealt whole, or each is copied to equally many ranks."""

    name = "kv_heads"
    title = "KV heads divide by the TP ranks that hold different heads, or those by them"
    reads = ("tp", "kv_split")
    unit = "heads"

    def margin(self, case: Case) -> FloatArray:
        shards = sharding.head_shards(case.plans)
        margins = [np.zeros(len(case.plans))]
        for heads in case.problem.model.units("kv_heads"):
            left = np.minimum(heads % shards, shards % heads)
            margins.append(-left.astype(np.float64))
        return np.min(margins, axis=0)

    def reason(self, case: Case) -> str:
        shards = first(sharding.head_shards(case.plans))
        units = case.problem.model.units("kv_heads")
        heads = next(h for h in units if h % shards and shards % h)
        return f"{heads} KV heads and {shards} head shards do not divide each other"


class KvSplit(Constraint):
    """The ranks that split a history are part of a TP group."""

    name = "kv_split"
    title = "kv_split divides TP"
    reads = ("tp", "kv_split")
    unit = "ranks"
    definition = True

    def margin(self, case: Case) -> FloatArray:
        return -(case.plans.tp % case.plans.kv_split).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        return f"kv_split {first(plans.kv_split)} does not divide TP {first(plans.tp)}"


class FfnWidth(Constraint):
    """TP deals whole columns of the dense feed-forward matrices."""

    name = "ffn_width"
    title = "TP divides the intermediate width of dense networks and shared experts"
    reads = ("tp",)
    unit = "columns"

    def applies(self, problem: Problem) -> bool:
        return bool(problem.model.units("width"))

    def margin(self, case: Case) -> FloatArray:
        return _worst(case.problem.model.units("width"), case.plans.tp)

    def reason(self, case: Case) -> str:
        tp = first(case.plans.tp)
        width = next(w for w in case.problem.model.units("width") if w % tp)
        return f"an intermediate width of {width} does not divide by TP {tp}"


class ExpertWidth(Constraint):
    """Expert TP deals whole columns of each expert."""

    name = "expert_width"
    title = "Expert TP divides the intermediate width of an expert"
    reads = ("expert_tp",)
    unit = "columns"

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        widths = {ffn.intermediate for ffn in case.problem.model.moe}
        return np.min([_left_over(w, case.plans.expert_tp) for w in widths], axis=0)

    def reason(self, case: Case) -> str:
        degree = first(case.plans.expert_tp)
        width = next(f.intermediate for f in case.problem.model.moe if f.intermediate % degree)
        return f"an expert width of {width} does not divide by expert TP {degree}"


class ExpertGroups(Constraint):
    """Experts, with their extra copies, are dealt whole and evenly over EP."""

    name = "expert_groups"
    title = "EP divides the experts and their copies"
    reads = ("ep", "redundant_experts")
    unit = "experts"

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe and problem.assumptions.expert_split == "whole"

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        slots = [ffn.experts + plans.redundant_experts for ffn in case.problem.model.moe]
        return np.min([-(s % plans.ep).astype(np.float64) for s in slots], axis=0)

    def reason(self, case: Case) -> str:
        ep, copies = first(case.plans.ep), first(case.plans.redundant_experts)
        experts = next(f.experts for f in case.problem.model.moe if (f.experts + copies) % ep)
        more = sharding.redundant_experts(experts, ep)
        return (
            f"{experts} experts and {copies} copies do not divide by EP {ep}; {more} copies would"
        )


class MoeCards(Constraint):
    """Attention and experts are two views of the same cards."""

    name = "moe_cards"
    title = "tp·cp·attention_dp·attention_replicas = ep·expert_tp in a mixture of experts"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "ep", "expert_tp")
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        return -np.abs(plans.stage_cards - plans.ep * plans.expert_tp).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        return (
            f"attention takes {first(plans.stage_cards)} cards of a stage "
            f"(tp·cp·attention_dp·attention_replicas) and experts "
            f"{first(plans.ep * plans.expert_tp)} (ep·expert_tp)"
        )


class DenseAxes(Constraint):
    """A dense model has no experts to spread, and one batch shard an instance."""

    name = "dense_axes"
    title = "A dense model takes no EP, expert TP, attention DP, attention replicas or copies"
    reads = ("attention_dp", "attention_replicas", "ep", "expert_tp", "redundant_experts")
    unit = "degrees"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return not problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        excess = plans.redundant_experts.copy()
        for axis in self.reads[:-1]:
            excess = excess + plans.column(axis) - 1
        return -excess.astype(np.float64)

    def reason(self, case: Case) -> str:
        plan = case.plans.row(0)
        set_axes = [f"{a} {plan[a]}" for a in self.reads if plan[a] != NEUTRAL[a]]
        return f"{case.problem.model.name} is dense and takes no {', '.join(set_axes)}"


class AttentionLayout(Constraint):
    """Tokens are either repeated over expert groups or dispatched to them, in whole lanes."""

    name = "attention_layout"
    title = "Attention is repeated or dispatched, and expert TP fits its lanes"
    reads = ("tp", "cp", "attention_dp", "attention_replicas", "expert_tp")
    unit = "cards"
    definition = True

    def applies(self, problem: Problem) -> bool:
        return problem.model.is_moe

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        both = (plans.attention_dp > 1) & (plans.attention_replicas > 1)
        uneven = np.minimum(plans.lanes % plans.expert_tp, plans.expert_tp % plans.lanes)
        uneven = np.where(plans.attention_dp > 1, uneven, 0)
        return -(both * plans.attention_dp + uneven).astype(np.float64)

    def reason(self, case: Case) -> str:
        plans = case.plans
        if first(plans.attention_dp) > 1 and first(plans.attention_replicas) > 1:
            return (
                "attention_replicas repeats tokens where attention_dp dispatches them; choose one"
            )
        return (
            f"with attention DP, tp·cp = {first(plans.lanes)} and expert TP "
            f"{first(plans.expert_tp)} must divide each other"
        )


class Layers(Constraint):
    """Every pipeline stage holds at least one layer."""

    name = "layers"
    title = "PP does not exceed the layers"
    reads = ("pp",)
    unit = "layers"

    def margin(self, case: Case) -> FloatArray:
        return (case.problem.model.layer_count - case.plans.pp).astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{case.problem.model.layer_count} layers do not fill {first(case.plans.pp)} stages"


class Microbatches(Constraint):
    """Micro-batches follow each other through pipeline stages, so there must be stages."""

    name = "microbatches"
    title = "Micro-batches need pipeline stages"
    reads = ("pp", "microbatches")
    unit = "micro-batches"
    definition = True

    def margin(self, case: Case) -> FloatArray:
        plans = case.plans
        return np.where(plans.pp > 1, 0, 1 - plans.microbatches).astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{first(case.plans.microbatches)} micro-batches, but only one pipeline stage"


class Vocabulary(Constraint):
    """Every TP rank holds at least one row of the vocabulary; the last may be padded."""

    name = "vocabulary"
    title = "TP does not exceed the vocabulary"
    reads = ("tp",)
    unit = "rows"

    def margin(self, case: Case) -> FloatArray:
        return (case.problem.model.vocab - case.plans.tp).astype(np.float64)

    def reason(self, case: Case) -> str:
        return f"{case.problem.model.vocab} rows of vocabulary for TP {first(case.plans.tp)}"


class QuantisationBlocks(Constraint):
    """A shard of a block-quantised matrix holds whole blocks."""

    name = "quantisation_blocks"
    title = "Shards of block-quantised matrices hold whole blocks"
    reads = ("tp", "kv_split", "expert_tp")
    unit = "columns"

    def applies(self, problem: Problem) -> bool:
        return bool(self._blocked(problem.model))

    @staticmethod
    def _blocked(model: ModelSpec) -> list[Matrix]:
        """Matrices that are dealt to ranks and stored in blocks."""
        matrices = [m for ffn in model.moe for m in ffn.expert(model.hidden)]
        matrices += model.matrices
        return [m for m in matrices if m.cut and getattr(model.formats, m.tensor).block]

    def _shards(self, case: Case) -> list[tuple[str, IntArray, int]]:
        """Name and width of every dealt dimension on one card, and the block that cuts it."""
        model, plans = case.problem.model, case.plans
        found: list[tuple[str, IntArray, int]] = []
        for matrix in self._blocked(model):
            block = getattr(model.formats, matrix.tensor).block
            routed = matrix.tensor == "experts"
            # Experts are dealt over ranks of their own, as wide as TP would deal them.
            ranks = plans.with_columns(tp=plans.expert_tp, kv_split=np.ones_like(plans.tp))
            rows, columns = sharding.shard(matrix, ranks if routed else plans)
            side, width, whole = (
                (0, rows, matrix.rows) if matrix.is_output else (1, columns, matrix.columns)
            )
            name = _DEALT.get(matrix.tensor) or _DEALT[matrix.cut.over if matrix.cut else ""]
            dealt = np.asarray(width) * np.ones_like(plans.tp)
            # A matrix that is not dealt may end in part of a block.
            found.append((name, np.where(dealt == whole, 0, dealt), block[side]))
        return found

    def margin(self, case: Case) -> FloatArray:
        margins = [np.zeros(len(case.plans))]
        margins += [-(w % block).astype(np.float64) for _, w, block in self._shards(case)]
        return np.min(margins, axis=0)

    def reason(self, case: Case) -> str:
        for name, width, block in self._shards(case):
            if first(width) % block:
                return (
                    f"a card's share of {name} is {first(width)} wide, not a multiple of the "
                    f"quantisation block of {block}"
                )
        return "all shards hold whole blocks"


_DEALT = {
    "experts": "an expert",
    "shared_experts": "the shared experts",
    "heads": "query heads",
    "kv_heads": "KV heads",
    "width": "the dense network",
}


SHARDING: tuple[Constraint, ...] = (
    KvSplit(),
    QueryHeads(),
    KvHeads(),
    FfnWidth(),
    ExpertWidth(),
    QuantisationBlocks(),
    Layers(),
    Vocabulary(),
    Microbatches(),
    DenseAxes(),
    AttentionLayout(),
    MoeCards(),
    ExpertGroups(),
)
