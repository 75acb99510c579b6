"""Where experts lie: the busiest expert group in order and placed, by degree of EP."""

from typing import Any

import numpy as np

from constraints.axes import stated
from costmodels.operators.expert_placement import balanced, contiguous
from costmodels.operators.routing import observed, uniform_without_replacement
from costmodels.sharding import redundant_experts
from specs.errors import SpecError
from specs.ffn import MoeFfn
from specs.problem import Problem
from specs.routing import HistogramRouting

Document = dict[str, Any]

SCHEMA = "planner/experts/1"

MOST_SLOTS = 8192
"""Experts and copies of one layer that are placed."""

_TOKENS = (1, 4, 16, 64, 256, 1024, 4096)
"""Tokens of a step for which active experts are told."""


def experts_document(
    problem: Problem, ep: int | None = None, copies: int | None = None
) -> Document:
    """Return the load of expert groups under the observed routing of a problem, as JSON values.

    Parameters
    ----------
    problem: its routing is a histogram, with or without placement: both are compared.
    ep: one degree of EP; if not given those of the space, or powers of two up to the cards.
    copies: redundant experts; the fewest that let experts be dealt evenly if not given.

    Loads are those of the busiest group over the mean of all, for each observed layer and as the
    mean over layers. Raises ``SpecError`` where there is nothing to place or no even way to do it.
    """
    routing, ffn = _observed(problem)
    degrees = (ep,) if ep is not None else _degrees(problem, ffn)
    return {
        "schema": SCHEMA,
        "model": problem.model.name,
        "routing": routing.summary,
        "experts": ffn.experts,
        "top_k": ffn.top_k,
        "observed_layers": len(routing.counts),
        "active_experts": _active(routing, ffn),
        "degrees": [_degree(routing, ffn, degree, copies) for degree in degrees],
    }


def _observed(problem: Problem) -> tuple[HistogramRouting, MoeFfn]:
    routing = problem.assumptions.routing
    if not problem.model.moe:
        raise SpecError.single("model", problem.model.name, "has no experts to place")
    if not isinstance(routing, HistogramRouting):
        said = routing if isinstance(routing, str) else routing.summary
        raise SpecError.single(
            "assumptions.routing",
            said,
            "experts are placed by how often each was chosen, so this must be a histogram",
            "Write e.g. {kind: histogram, name: deepseek-v4-flash}",
        )
    return routing, problem.model.moe[0]


def _degrees(problem: Problem, ffn: MoeFfn) -> tuple[int, ...]:
    most = min(problem.card_limit, ffn.experts)
    return stated(problem, "ep") or tuple(2**i for i in range(most.bit_length()))


def _active(routing: HistogramRouting, ffn: MoeFfn) -> list[Document]:
    tokens = np.array(_TOKENS, dtype=np.float64)
    one = np.ones(len(tokens), dtype=np.int64)
    counted = observed(routing, ffn, tokens, one, 0 * one).active
    uniform = uniform_without_replacement(ffn, tokens, one).active
    return [
        {"tokens": number, "observed": float(here), "uniform": float(even)}
        for number, here, even in zip(_TOKENS, counted, uniform, strict=True)
    ]


def _degree(routing: HistogramRouting, ffn: MoeFfn, groups: int, copies: int | None) -> Document:
    extra = int(redundant_experts(ffn.experts, groups)) if copies is None else copies
    slots = ffn.experts + extra
    if slots > MOST_SLOTS:
        raise SpecError.single(
            "--copies" if copies else "--ep",
            copies or groups,
            f"at most {MOST_SLOTS} experts and copies of a layer are placed, these are {slots}",
        )
    if slots % groups:
        raise SpecError.single(
            "--copies",
            extra,
            f"{ffn.experts} experts and these do not divide by EP {groups}",
            f"Write e.g. {redundant_experts(ffn.experts, groups)}",
        )
    in_order = contiguous(ffn.experts, groups, extra)
    placed = [balanced(counts, groups, extra) for counts in routing.counts]
    means = [sum(counts) / groups for counts in routing.counts]
    return {
        "ep": groups,
        "redundant_experts": extra,
        "slots_per_group": slots // groups,
        "contiguous": _ratios([in_order.loads(c).max() for c in routing.counts], means),
        "balanced": _ratios([p.busiest for p in placed], means)
        | {
            "bound": _ratios([p.bound for p in placed], means),
            "certificate": "optimal" if all(p.optimal for p in placed) else "bound",
        },
        "placement": [[list(card) for card in p.cards] for p in placed],
    }


def _ratios(loads: list[float], means: list[float]) -> Document:
    """Loads over the means, layer by layer and in short."""
    layers = [float(load / mean) for load, mean in zip(loads, means, strict=True)]
    return {"mean": sum(layers) / len(layers), "worst": max(layers), "layers": layers}
