"""How tokens choose experts: what one layer of one expert group reads and computes.

Notation: ``E`` experts, ``k`` chosen by each token, ``m`` tokens of the instance, ``G`` expert
groups. Shapes ``(plans,)``.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodels.plans import FloatArray, IntArray
from specs.ffn import MoeFfn


@dataclass(frozen=True)
class Routed:
    """Outcome of routing one batch in one layer.

    ``active``          experts chosen by any token, over the whole instance
    ``busiest_active``  of those, experts of the busiest group
    ``busiest_tasks``   token-expert computations of the busiest group
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
"""Routing assumptions by the name that a spec uses."""


def groups_per_token(ffn: MoeFfn, groups: IntArray) -> FloatArray:
    """Expected number of expert groups that hold at least one of a token's k experts.

    The token draws k different experts at random: G(1 - C(E - E/G, k) / C(E, k)).
    """
    drawn = np.arange(ffn.top_k)[:, None]
    outside = ffn.experts * (1 - 1 / groups)
    missed = np.prod(np.maximum(outside - drawn, 0) / (ffn.experts - drawn), axis=0)
    return np.asarray(groups * (1 - missed), dtype=np.float64)
