"""How tokens choose experts: what one layer of one expert group reads and computes.

Notation: ``E`` experts, ``k`` chosen by each token, ``m`` tokens of the instance, ``G`` expert
groups. Shapes ``(plans,)``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from costmodels.operators import expert_placement
from costmodels.plans import FloatArray, IntArray
from specs.ffn import MoeFfn
from specs.routing import HistogramRouting, SkewRouting

_BLOCK = 2**22
"""Chances that are worked out at once: 32 MB."""

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
        spread = _spread(histogram.counts, histogram.placement, ffn.top_k, number, extra)
        for column, values in zip(found, spread.routed(batches), strict=True):
            column[rows] = values[back]
    return Routed(*found)


@dataclass(frozen=True)
class _Spread:
    """The observed layers after each other, with their experts dealt to groups.

    ``layers``    how many they are
    ``chance``    that a token chooses each expert, shape ``(layers · experts,)``
    ``on_slot``   that it comes to the slot of each piece, shape ``(pieces,)``
    ``group``     group of each piece, those of a further layer numbered on
    ``part``      share of the slot in each piece
    ``groups``    expert groups of one layer
    ``busiest``   computations of the busiest group for one token, averaged over layers
    """

    layers: int
    groups: int
    chance: FloatArray
    on_slot: FloatArray
    group: IntArray
    part: FloatArray
    busiest: float

    def routed(self, batches: FloatArray) -> FloatArray:
        """Columns of :class:`Routed` for some numbers of tokens, shape ``(3, batches)``."""
        blocks = -(-len(batches) * len(self.part) // _BLOCK)
        return np.concatenate([self._block(b) for b in np.array_split(batches, blocks)], axis=1)

    def _block(self, batches: FloatArray) -> FloatArray:
        active = np.zeros((self.layers * self.groups, len(batches)))
        np.add.at(active, self.group, self.part[:, None] * _drawn(self.on_slot, batches))
        held = active.reshape(self.layers, self.groups, -1).max(axis=1).mean(axis=0)
        everywhere = _drawn(self.chance, batches).sum(axis=0) / self.layers
        return np.stack([everywhere, held, self.busiest * batches])


@lru_cache(maxsize=256)
def _spread(
    counts: tuple[tuple[int, ...], ...], placement: str, top_k: int, groups: int, copies: int
) -> _Spread:
    if placement == "balanced":
        dealt = [expert_placement.balanced(layer, groups, copies).dealt for layer in counts]
    else:
        dealt = [expert_placement.contiguous(len(counts[0]), groups, copies)] * len(counts)
    # In this order a certain choice is exactly 1.
    chances = [np.array(layer) * top_k / sum(layer) for layer in counts]
    pairs = list(zip(chances, dealt, strict=True))
    return _Spread(
        len(counts),
        groups,
        np.concatenate(chances),
        np.concatenate([chance[pieces.expert] / pieces.copies for chance, pieces in pairs]),
        np.concatenate([at * groups + pieces.group for at, pieces in enumerate(dealt)]),
        np.concatenate([pieces.part for pieces in dealt]),
        float(np.mean([pieces.loads(chance).max() for chance, pieces in pairs])),
    )


def _drawn(chance: FloatArray, tokens: FloatArray) -> FloatArray:
    """Chance that any of the tokens draws, shape ``(chances, tokens)``."""
    with np.errstate(divide="ignore"):
        missed = np.maximum(np.log1p(-chance), _NEVER)
    return np.asarray(-np.expm1(np.outer(missed, tokens)))


def groups_per_token(ffn: MoeFfn, groups: IntArray) -> FloatArray:
    """Expected number of expert groups that hold at least one of a token's k experts.

    The token draws k different experts at random: G(1 - C(E - E/G, k) / C(E, k)).
    """
    drawn = np.arange(ffn.top_k)[:, None]
    outside = ffn.experts * (1 - 1 / groups)
    missed = np.prod(np.maximum(outside - drawn, 0) / (ffn.experts - drawn), axis=0)
    return np.asarray(groups * (1 - missed), dtype=np.float64)
