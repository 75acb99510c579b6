"""How large a supernode should be: the best plan of each size and placement."""

from typing import Any

import numpy as np

from costmodels.plans import decode
from costmodels.sessions import BOUNDS
from searches.exhaustive import Found

Document = dict[str, Any]

_AXES = ("domain", "engram_tier", "kv_tier")


def by_domain(found: Found) -> list[Document]:
    """Return the best feasible plan of each domain and placement of Engram tables and KV.

    All ranked plans count, however few of them a document lists. Ordered by the size of the
    domain; empty where all ranked plans have the same.
    """
    plans = found.evaluated.plans.take(found.ranked)
    if np.unique(plans.domain).size < 2:
        return []
    # Plans come best first, so the first of its kind is the best.
    kinds = np.stack([plans.column(axis) for axis in _AXES])
    _, first = np.unique(kinds, axis=1, return_index=True)
    best, outcomes = plans.take(first), found.evaluated.outcomes.take(found.ranked[first])
    return [
        {
            **{axis: decode(axis, int(best.column(axis)[row])) for axis in _AXES},
            "rank": int(rank) + 1,
            "tokens_per_s_per_card": float(outcomes.tokens_per_s[row] / best.total_cards[row]),
            "cost_per_on_time_session": float(outcomes.cost[row]),
            "bound_by": BOUNDS[int(outcomes.bound[row])],
        }
        for row, rank in enumerate(first)
    ]
