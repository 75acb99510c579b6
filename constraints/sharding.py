"""How the model may be cut: heads, widths, experts, vocabulary, layers."""

from abc import abstractmethod

import numpy as np

from constraints.base import Case, Constraint, first
from costmodels import sharding
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.precision import by_format
from specs.model import ModelSpec
from specs.precision import CHECKPOINT, RECIPES
from specs.problem import Problem
from specs.tensors import Cut, Matrix, Over


class Dealt(Constraint):
    """Equal parts of the model are dealt whole to ranks.

    A subclass says which numbers of parts, to how many ranks, and what a remainder means.
    """

    @abstractmethod
    def parts(self, problem: Problem) -> tuple[int, ...]:
        """Return the numbers of parts that are dealt."""

    @abstractmethod
    def ranks(self, plans: PlanTable) -> IntArray:
        """Return the ranks that each number is dealt to."""

    @abstractmethod
    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        """Say that a number of parts does not divide."""

    def applies(self, problem: Problem) -> bool:
        return bool(self.parts(problem))

    def margin(self, case: Case) -> FloatArray:
        ranks = self.ranks(case.plans)
        left = [-(parts % ranks) for parts in self.parts(case.problem)]
        return np.min([np.zeros_like(ranks), *left], axis=0).astype(np.float64)

    def reason(self, case: Case) -> str:
        ranks = first(self.ranks(case.plans))
        parts = next(p for p in self.parts(case.problem) if p % ranks)
        return self.sentence(case.problem, parts, ranks)


class QueryHeads(Dealt):
    """TP deals whole query heads."""

    name = "query_heads"
    title = "TP divides the query heads"
    reads = ("tp",)
    unit = "heads"

    def parts(self, problem: Problem) -> tuple[int, ...]:
        return problem.model.units("heads")

    def ranks(self, plans: PlanTable) -> IntArray:
        return plans.tp

    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        model = problem.model
        attending = {k.attention.parts(model.hidden, "decode").heads for k in model.kinds}
        name = "query heads" if parts in attending else "groups of the output projection"
        return f"{parts} {name} do not divide by TP {ranks}"


class KvHeads(Constraint):
    """KV heads are dealt whole, or each is copied to equally many ranks."""

    name = "kv_heads"
    title = "KV heads divide by the TP ranks that hold different heads, or those by them"
    reads = ("tp", "kv_split")
    unit = "heads"

    def margin(self, case: Case) -> FloatArray:
        shards = sharding.head_shards(case.plans)
        margins = [np.zeros(len(case.plans))]
        model = case.problem.model
        dealt: tuple[tuple[Over, IntArray], ...]
        dealt = (("kv_heads", shards), ("own_heads", case.plans.tp))
        for over, ranks in dealt:
            for heads in model.units(over):
                left = np.minimum(heads % ranks, ranks % heads)
                margins.append(-left.astype(np.float64))
        return np.min(margins, axis=0)

    def reason(self, case: Case) -> str:
        shards = first(sharding.head_shards(case.plans))
        model, tp = case.problem.model, first(case.plans.tp)
        for heads in model.units("own_heads"):
            if heads % tp and tp % heads:
                return f"{heads} key heads and TP {tp} do not divide each other"
        heads = next(h for h in model.units("kv_heads") if h % shards and shards % h)
        return f"{heads} KV heads and {shards} head shards do not divide each other"


class FfnWidth(Dealt):
    """TP deals whole columns of the dense feed-forward matrices."""

    name = "ffn_width"
    title = "TP divides the dense intermediate width"
    reads = ("tp",)
    unit = "columns"

    def parts(self, problem: Problem) -> tuple[int, ...]:
        return problem.model.units("width")

    def ranks(self, plans: PlanTable) -> IntArray:
        return plans.tp

    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        return f"an intermediate width of {parts} does not divide by TP {ranks}"


class SharedWidth(Dealt):
    """TP deals whole columns of the experts that every token runs, unless each rank copies them."""

    name = "shared_width"
    title = "TP divides the width of the shared experts that it deals"
    reads = ("tp", "shared_experts")
    unit = "columns"

    def parts(self, problem: Problem) -> tuple[int, ...]:
        return problem.model.units("shared_width")

    def ranks(self, plans: PlanTable) -> IntArray:
        return sharding.shared_ranks(plans)

    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        return f"shared experts of width {parts} do not divide by TP {ranks}; copy them instead"


class OutputHeads(Dealt):
    """The ranks that deal the output projection hold whole heads of it."""

    name = "output_heads"
    title = "TP and o_proj_tp together divide the heads of the output projection"
    reads = ("tp", "o_proj_tp")
    unit = "heads"

    def applies(self, problem: Problem) -> bool:
        return problem.space.o_proj_tp is not None

    def parts(self, problem: Problem) -> tuple[int, ...]:
        cuts = (m.cut for m in problem.model.matrices if m.projects_output)
        return tuple(sorted({cut.units for cut in cuts if cut}))

    def ranks(self, plans: PlanTable) -> IntArray:
        return plans.tp * plans.o_proj_tp

    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        return f"{parts} heads of the output projection do not divide by {ranks} ranks"


class ExpertWidth(Dealt):
    """Expert TP deals whole columns of each expert."""

    name = "expert_width"
    title = "Expert TP divides the intermediate width of an expert"
    reads = ("expert_tp",)
    unit = "columns"

    def parts(self, problem: Problem) -> tuple[int, ...]:
        return tuple(sorted({ffn.intermediate for ffn in problem.model.moe}))

    def ranks(self, plans: PlanTable) -> IntArray:
        return plans.expert_tp

    def sentence(self, problem: Problem, parts: int, ranks: int) -> str:
        return f"an expert width of {parts} does not divide by expert TP {ranks}"


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
    reads = ("tp", "kv_split", "expert_tp", "shared_experts", "o_proj_tp", "precision")
    unit = "columns"

    def applies(self, problem: Problem) -> bool:
        wanted = problem.space.precision or (CHECKPOINT,)
        names = tuple(RECIPES) if wanted == "open" else wanted
        return any(_blocked(problem.in_precision(name).model) for name in names)

    def margin(self, case: Case) -> FloatArray:
        margin = np.zeros(len(case.plans))
        for same in by_format(case.problem, case.plans):
            rows = same.rows
            for _, width, block in _shards(same.problem.model, same.plans):
                margin[rows] = np.minimum(margin[rows], -(width % block).astype(np.float64))
        return margin

    def reason(self, case: Case) -> str:
        for same in by_format(case.problem, case.plans):
            for name, width, block in _shards(same.problem.model, same.plans):
                if first(width) % block:
                    return (
                        f"a card's share of {name} is {first(width)} wide, not a multiple of the "
                        f"quantisation block of {block}"
                    )
        return "all shards hold whole blocks"


def _blocked(model: ModelSpec) -> list[tuple[Matrix, Cut, tuple[int, int]]]:
    """Matrices that are dealt to ranks and stored in blocks."""
    matrices = [m for ffn in model.moe for m in ffn.expert(model.hidden)]
    found = []
    for matrix in (*matrices, *model.matrices):
        block = getattr(model.formats, matrix.tensor).block
        if matrix.cut and block:
            found.append((matrix, matrix.cut, block))
    return found


def _shards(model: ModelSpec, plans: PlanTable) -> list[tuple[str, IntArray, int]]:
    """Name and width of every dealt dimension on one card, and the block that cuts it.

    A matrix that is whole on the card may end in part of a block: its width counts as 0.
    """
    found = []
    for matrix, cut, block in _blocked(model):
        rows, columns = sharding.shard(matrix, plans)
        by_rows = cut.side == "rows"
        width, whole = (rows, matrix.rows) if by_rows else (columns, matrix.columns)
        dealt = np.broadcast_to(width, plans.tp.shape)
        size = block[0] if by_rows else block[1]
        found.append((_DEALT[cut.over], np.where(dealt == whole, 0, dealt), size))
    return found


_DEALT = {
    "expert_width": "an expert",
    "shared_width": "the shared experts",
    "heads": "query heads",
    "kv_heads": "KV heads",
    "own_heads": "KV heads",
    "width": "the dense network",
}


SHARDING: tuple[Constraint, ...] = (
    QueryHeads(),
    KvHeads(),
    FfnWidth(),
    SharedWidth(),
    ExpertWidth(),
    OutputHeads(),
    QuantisationBlocks(),
    Layers(),
    Vocabulary(),
    ExpertGroups(),
)
