"""Where an answer changes, as JSON values."""

import math
from collections.abc import Sequence
from typing import Any

from searches.probing import DECADES, FACTORS
from searches.thresholds import OTHERS, Change, Found, Probed, ratio
from searches.variants import Answer, plan_of
from specs.load import problem_hash
from specs.problem import Problem

Document = dict[str, Any]

SCHEMA = "planner/thresholds/1"


def leaf_document(found: Found) -> Document:
    """Return what moving one figure does."""
    leaf = found.leaf
    return {
        "path": leaf.path,
        "current": leaf.value,
        "unit": leaf.unit,
        **{side: _change(probed.change) for side, probed in found.sides.items()},
        "tried": {side: _tried(probed) for side, probed in found.sides.items()},
        "feasible_from": [
            {
                "path": leaf.path,
                "plan": plan_of(becomes.plan),
                "value": becomes.value,
                "unit": leaf.unit,
                "current": leaf.value,
                "side": "from" if becomes.upwards else "up_to",
            }
            for becomes in found.feasible_from
        ],
    }


def _change(change: Change | None) -> Document | None:
    if change is None:
        return None
    return {
        "value": change.value,
        "last": change.last,
        "plan": plan_of(change.plan) if change.plan else None,
        "verified": change.verified,
    }


def _tried(probed: Probed) -> Document:
    return {"values": list(probed.values), "moves": probed.moves, "refused": probed.refused}


def document(problem: Problem, best: Answer, leaves: Sequence[Document]) -> Document:
    """Return the answer: the nearest changes first, by ratio to the present value."""
    changes = [{k: v for k, v in leaf.items() if k != "feasible_from"} for leaf in leaves]
    becoming = [item for leaf in leaves for item in leaf["feasible_from"]]
    return {
        "schema": SCHEMA,
        "name": problem.name,
        "problem_hash": problem_hash(problem),
        "best": {
            "plan": plan_of(best.best) if best.best else None,
            "cost_per_on_time_session": best.cost,
            "currency": best.currency,
        },
        "grid": {"factors": list(FACTORS), "decades_from_0": DECADES, "plans_followed": OTHERS},
        "thresholds": sorted(changes, key=_nearest),
        "feasible_from": sorted(
            becoming, key=lambda item: (ratio(item["value"], item["current"]), item["path"])
        ),
    }


def _nearest(leaf: Document) -> tuple[bool, float, str]:
    """Order figures by their nearest change; those without one come last."""
    changes = [leaf[side] for side in ("below", "above") if leaf[side]]
    apart = [ratio(change["value"], leaf["current"]) for change in changes]
    return not changes, min(apart, default=math.inf), leaf["path"]
