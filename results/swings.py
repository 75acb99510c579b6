"""What the best cost hangs on, as JSON values: figures moved one by one, and Sobol indices."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from results.sweeps import Plans, header
from searches.ranges import Dimension
from searches.sobol import indices
from searches.variants import EQUAL, Leaf
from specs.problem import Problem

Document = dict[str, Any]

TORNADO = "planner/tornado/1"
SOBOL = "planner/sobol/1"

_SIDES = ("below", "above")


def tornado(
    problem: Problem,
    share: float,
    ends: Sequence[tuple[Leaf, tuple[float, float]]],
    answers: Sequence[Document],
) -> Document:
    """Return each figure with the best cost at its two ends, the widest swing first.

    ``answers``: that of the problem as it is, then those at both ends of each figure. The swing is
    the difference between the largest and the smallest of the three costs.
    """
    plans = Plans(answers)
    now, *rest = answers
    bars = [
        _bar(leaf, values, rest[2 * i : 2 * i + 2], now, plans)
        for i, (leaf, values) in enumerate(ends)
    ]
    return {
        **header(problem, TORNADO),
        "share": share,
        "best": {"winner": plans.number(now["best"]), "cost_per_on_time_session": now["cost"]},
        "plans": plans.document(),
        "bars": sorted(bars, key=_widest),
    }


def _bar(
    leaf: Leaf,
    values: tuple[float, float],
    answers: Sequence[Document],
    now: Document,
    plans: Plans,
) -> Document:
    sides = {
        side: {"value": value, **plans.point(answer)}
        for side, value, answer in zip(_SIDES, values, answers, strict=True)
    }
    answered = [answer for answer in answers if not answer["refused"]]
    costs = [answer["cost"] for answer in (now, *answered)]
    known = [cost for cost in costs if cost is not None]
    return {
        "path": leaf.path,
        "unit": leaf.unit,
        "current": leaf.value,
        **sides,
        "swing": max(known) - min(known),
        "nothing_feasible": len(known) < len(costs),
        "winner_changes": any(answer["best"] != now["best"] for answer in answered),
    }


def _widest(bar: Document) -> tuple[bool, float, str]:
    """Order by swing; a figure at whose end nothing is feasible has the widest of all."""
    return not bar["nothing_feasible"], -bar["swing"], bar["path"]


def sobol(
    problem: Problem, dimensions: Sequence[Dimension], n: int, answers: Sequence[Document]
) -> Document:
    """Return the indices of the best cost.

    ``None`` where some points have no feasible plan, or the best cost is the same at all.
    """
    plans = Plans(answers)
    costs = np.array([math.nan if a["cost"] is None else a["cost"] for a in answers])
    lacking = int(np.isnan(costs).sum())
    varies = not lacking and np.ptp(costs) > EQUAL * costs.max()
    found = indices(costs, len(dimensions), problem.search.seed) if varies else None
    return {
        **header(problem, SOBOL),
        "samples": n,
        "points": len(answers),
        "seed": problem.search.seed,
        "without_plan": lacking,
        "mean_cost": None if lacking else float(costs[: 2 * n].mean()),
        "standard_deviation": None if lacking else float(costs[: 2 * n].std()),
        "plans": plans.document(),
        "indices": [
            {
                "path": dimension.path,
                "unit": dimension.unit,
                "low": dimension.values[0],
                "high": dimension.values[-1],
                "log": dimension.range is not None and dimension.range.log,
                "first": found and _index(found.first, found.first_ends, i),
                "total": found and _index(found.total, found.total_ends, i),
            }
            for i, dimension in enumerate(dimensions)
        ],
    }


def _index(values: Any, ends: Any, leaf: int) -> Document:
    low, high = ends
    return {"value": float(values[leaf]), "low": float(low[leaf]), "high": float(high[leaf])}
