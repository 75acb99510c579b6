"""How large a supernode should be: the best plan of each size and placement."""

from typing import Any

import numpy as np

from costmodels.plans import decode
from costmodels.sessions import BOUNDS
from searches.digest import KINDS
from searches.exhaustive import Found
from searches.objective import order

Document = dict[str, Any]


def by_domain(found: Found) -> list[Document]:
    """Return the best feasible plan of each domain and placement of Engram tables and KV.

    All feasible plans count, however few of them a document lists; ``rank`` is that among them,
    ``None`` beyond those that are kept in order. Ordered by the size of the domain; empty where
    all feasible plans have the same.
    """
    feasible = order(found.evaluated)
    plans = found.evaluated.plans.take(feasible)
    if np.unique(plans.domain).size < 2:
        return []
    # Plans come best first, so the first of its kind is the best.
    kinds = np.stack([plans.column(axis) for axis in KINDS])
    _, first = np.unique(kinds, axis=1, return_index=True)
    best, outcomes = plans.take(first), found.evaluated.outcomes.take(feasible[first])
    return [
        {
            **{axis: decode(axis, int(best.column(axis)[row])) for axis in KINDS},
            "rank": int(rank) + 1 if rank < found.ranked.size else None,
            "tokens_per_s_per_card": float(outcomes.tokens_per_s[row] / best.total_cards[row]),
            "cost_per_on_time_session": float(outcomes.cost[row]),
            "bound_by": BOUNDS[int(outcomes.bound[row])],
        }
        for row, rank in enumerate(first)
    ]
