"""How tokens choose experts: what one layer of one expert group reads and computes.

Notation: ``E`` experts, ``k`` chosen by each token, ``m`` tokens of the instance, ``G`` expert
groups. Shapes ``(plans,)``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from costmodels.operators import expert_placement
from costmodels.operators.expert_placement import Dealt
from costmodels.plans import FloatArray, IntArray
from specs.ffn import MoeFfn
from specs.routing import HistogramRouting, SkewRouting

_NEVER = -1e3
"""Logarithm of a chance that is none, where that of zero would be infinite."""


@dataclass(frozen=True)
class Routed:
    """Outcome of routing one batch in one layer.

    ``active``          experts chosen by any token, over the whole instance
    ``busiest_active``  of those, experts of the group that has most
    ``busiest_tasks``   token-expert computations of the group that has most
    """

    active: FloatArray
    busiest_active: FloatArray
    busiest_tasks: FloatArray


def uniform_without_replacement(ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """Each token draws k different experts at random: E(1 - (1 - k/E)ᵐ) are active (6-8)."""
    active = (
        ffn.experts * -np.expm1(tokens * np.log1p(-ffn.top_k / ffn.experts))
        if (ffn.top_k < ffn.experts)
        else np.full_like(tokens, ffn.experts)
    )
    return Routed(active, active / groups, tokens * ffn.top_k / groups)


def uniform_with_replacement(ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """Each of the m·k choices is drawn on its own: E(1 - (1 - 1/E)ᵐᵏ) are active."""
    if ffn.experts == 1:
        active = np.ones_like(tokens)
    else:
        active = ffn.experts * -np.expm1(tokens * ffn.top_k * np.log1p(-1 / ffn.experts))
    return Routed(active, active / groups, tokens * ffn.top_k / groups)


def balanced(ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """The choices cover as many experts as they can, each as often as the others (6.3.2)."""
    active = np.minimum(ffn.experts, tokens * ffn.top_k)
    return Routed(active, active / groups, tokens * ffn.top_k / groups)


def concentrated(ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """All tokens choose the same k experts, and one group holds them (6.3.2)."""
    active = np.full_like(tokens, ffn.top_k)
    held = np.minimum(active, np.ceil(ffn.experts / groups))
    return Routed(active, held, tokens * held)


def concentrated_spread(ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """All tokens choose the same k experts, dealt evenly over the groups (6.3.2)."""
    active = np.full_like(tokens, ffn.top_k)
    held = np.ceil(ffn.top_k / groups)
    return Routed(active, held, tokens * held)


ROUTINGS: dict[str, Callable[[MoeFfn, FloatArray, IntArray], Routed]] = {
    f.__name__: f
    for f in (
        uniform_without_replacement,
        uniform_with_replacement,
        balanced,
        concentrated,
        concentrated_spread,
    )
}
"""Routing assumptions by the word that a spec uses."""


def skewed(skew: SkewRouting, ffn: MoeFfn, tokens: FloatArray, groups: IntArray) -> Routed:
    """The busiest group computes ``factor`` times the mean m·k/G, or all that it can get.

    A token brings it at most one computation for each expert that it holds. As many experts are
    active as if the choices were uniform.
    """
    even = uniform_without_replacement(ffn, tokens, groups)
    most = tokens * np.minimum(ffn.top_k, np.ceil(ffn.experts / groups))
    return replace(even, busiest_tasks=np.minimum(skew.factor * even.busiest_tasks, most))


def observed(
    histogram: HistogramRouting,
    ffn: MoeFfn,
    tokens: FloatArray,
    groups: IntArray,
    copies: IntArray,
) -> Routed:
    """Experts are drawn as often as they were counted: 1 - (1 - c/n)ᵐ is the chance to be active.

    ``c`` of the ``n`` tokens that a layer was counted over chose an expert; its copies share them.
    Each layer waits for its own busiest group, so what the busiest has is the mean over the
    observed layers. ``copies`` are the redundant experts, and copies are counted as active experts
    of their group.
    """
    found = [np.zeros_like(tokens, dtype=np.float64) for _ in range(3)]
    for number, extra in np.unique(np.stack([groups, copies]), axis=1).T.tolist():
        rows = (groups == number) & (copies == extra)
        batches, back = np.unique(tokens[rows], return_inverse=True)
        layers = [
            _layer(histogram, counts, ffn.top_k, batches, number, extra)
            for counts in histogram.counts
        ]
        for column, values in zip(found, np.mean(layers, axis=0), strict=True):
            column[rows] = values[back]
    return Routed(*found)


def _layer(
    histogram: HistogramRouting,
    counts: tuple[int, ...],
    top_k: int,
    batches: FloatArray,
    groups: int,
    copies: int,
) -> FloatArray:
    """Columns of :class:`Routed` for one observed layer, shape ``(3, batches)``."""
    chance = np.array(counts) * (top_k / sum(counts))
    pieces = dealt(histogram, counts, groups, copies)
    active = np.zeros((groups, len(batches)))
    on_slot = _drawn(chance[pieces.expert] / pieces.copies, batches)
    np.add.at(active, pieces.group, pieces.part[:, None] * on_slot)
    tasks = pieces.loads(chance).max() * batches
    return np.stack([_drawn(chance, batches).sum(axis=0), active.max(axis=0), tasks])


def _drawn(chance: FloatArray, tokens: FloatArray) -> FloatArray:
    """Chance that any of the tokens draws, shape ``(chances, tokens)``."""
    with np.errstate(divide="ignore"):
        missed = np.maximum(np.log1p(-chance), _NEVER)
    return np.asarray(-np.expm1(np.outer(missed, tokens)))


def dealt(histogram: HistogramRouting, counts: tuple[int, ...], groups: int, copies: int) -> Dealt:
    """Return which group holds which experts of one observed layer."""
    if histogram.placement == "balanced":
        return expert_placement.balanced(counts, groups, copies).dealt
    return expert_placement.contiguous(len(counts), groups, copies)


def groups_per_token(ffn: MoeFfn, groups: IntArray) -> FloatArray:
    """Expected number of expert groups that hold at least one of a token's k experts.

    The token draws k different experts at random: G(1 - C(E - E/G, k) / C(E, k)).
    """
    drawn = np.arange(ffn.top_k)[:, None]
    outside = ffn.experts * (1 - 1 / groups)
    missed = np.prod(np.maximum(outside - drawn, 0) / (ffn.experts - drawn), axis=0)
    return np.asarray(groups * (1 - missed), dtype=np.float64)
