"""Counts of a model's numbers by tensor class, for comparison with published counts."""

from collections import Counter

from specs.ffn import MoeFfn
from specs.model import LayerGroup, ModelSpec
from specs.tensors import Parts


def _parts(counts: Counter[str], parts: Parts, times: int) -> None:
    for matrix in parts.matrices:
        counts[matrix.tensor] += times * matrix.numbers
    # Tables of whole numbers choose experts; they are no parameters.
    counts["norms"] += times * sum(v.numbers for v in parts.vectors if v.tensor != "int64")


def _group(counts: Counter[str], model: ModelSpec, group: LayerGroup) -> None:
    for half in (group.attention.parts(model.hidden, "decode"), group.ffn.parts(model.hidden)):
        _parts(counts, half, group.count)
        if half.matrices:
            _parts(counts, model.mixer, group.count)
            counts["norms"] += group.count * model.hidden
    if isinstance(group.ffn, MoeFfn):
        one = sum(matrix.numbers for matrix in group.ffn.expert(model.hidden))
        one += group.ffn.expert_vectors(model.hidden)
        counts["experts"] += group.count * group.ffn.experts * one
    if group.engram:
        row = group.engram.inputs // group.engram.lookups
        beside = group.engram.matrix.numbers + group.engram.weights
        counts["engram"] += group.count * (group.engram.rows * row + beside)


def parameters(model: ModelSpec, *, draft: bool = False) -> dict[str, int]:
    """Numbers of the whole model by tensor class; modules count what they state.

    ``draft``: whether the module that drafts tokens is counted, too; published counts differ in
    this.
    """
    counts: Counter[str] = Counter()
    for group in model.groups:
        _group(counts, model, group)
    vocabulary = model.vocab * model.hidden
    counts["embedding"] = vocabulary
    counts["head"] = 0 if model.tied_embeddings else vocabulary
    counts["norms"] += model.hidden
    _parts(counts, model.last_mixer, 1)
    for module in model.modules:
        counts["modules"] += module.parameters
    if draft and model.draft:
        extra: Counter[str] = Counter()
        for group in model.draft.layers:
            _group(extra, model, group)
        extra["attention"] += model.draft.projections * model.hidden**2
        extra["norms"] += model.draft.vectors(model.hidden).numbers
        _parts(extra, model.last_mixer, 1)
        extra["head"] += 2 * model.vocab * model.draft.markov_rank
        extra["head"] += 2 * vocabulary if model.draft.own_head else 0
        counts["draft"] = extra.total()
    return {name: count for name, count in counts.items() if count}
