"""Several objectives at once: the Pareto front with its knee, and what each limit costs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodels.plans import FloatArray
from results.sweeps import header
from results.words import CURRENCY_UNIT, NOTHING, common_axes, plan_name, share
from searches.exhaustive import Found
from searches.objective import front, order
from searches.variants import Changes, Leaf

Document = dict[str, Any]

SCHEMA = "planner/tradeoffs/1"

OBJECTIVES = ("cost_per_on_time_session", "tpot_s", "ttft_s", "cards")
"""What the plans of the front are not beaten in, all at once; less is better."""


@dataclass(frozen=True)
class Step:
    """A limit and how far it is moved, with the answer there as ``results.sweeps`` keeps it."""

    limit: Leaf
    changes: Changes
    answer: Document

    @property
    def moved(self) -> float:
        """By how much the limit is moved, in its unit."""
        (value,) = self.changes.values()
        return float(str(value)) - self.limit.value


def document(found: Found, steps: Sequence[Step]) -> Document:
    """Return the front of a ranking and the price of its limits; empty if nothing is feasible."""
    some = bool(found.ranked.size)
    cost = float(found.evaluated.outcomes.cost[found.ranked[0]]) if some else np.nan
    return {
        **header(found.space.problem, SCHEMA),
        "objectives": list(OBJECTIVES),
        "front": _front(found) if some else [],
        "limits": sorted(
            (_price(step, cost) for step in steps if some),
            key=lambda row: -(row["saves_share"] or 0.0),
        ),
    }


def _front(found: Found) -> list[Document]:
    kept = found.evaluated
    rows = front(kept, order(kept))
    outcomes, plans = kept.outcomes.take(rows), kept.plans.take(rows)
    told = (outcomes.cost, outcomes.tpot_s, outcomes.ttft_s, plans.total_cards)
    points = np.stack([np.nan_to_num(column.astype(np.float64)) for column in told], axis=1)
    bend = knee(points[:, 0], points[:, 1])
    named = [plans.row(row) for row in range(len(plans))]
    common = common_axes(named)
    return [
        {
            "name": plan_name(plan, common),
            "plan": plan,
            **dict(zip(OBJECTIVES, point.tolist(), strict=True)),
            "cards": int(point[-1]),
            "knee": row == bend,
        }
        for row, (plan, point) in enumerate(zip(named, points, strict=True))
    ]


def knee(cost: FloatArray, time: FloatArray) -> int:
    """Return where a front of cost against time bends most, shape ``(points,)`` each.

    That is the point furthest below the line from the cheapest to the fastest one, both scaled to
    their ranges; the cheapest where no point is.
    """
    scaled = sum((c - c.min()) / (np.ptp(c) or 1.0) for c in (cost, time))
    below = 1 - scaled
    return int(np.argmax(below)) if below.max() > 0 else int(np.argmin(cost))


def _price(step: Step, cost: float) -> Document:
    """Return what moving a limit saves; ``None`` where the spec refuses the move."""
    then = step.answer["cost"]
    known = then is not None and not step.answer["refused"]
    (value,) = step.changes.values()
    return {
        "path": step.limit.path,
        "unit": step.limit.unit,
        "value": step.limit.value,
        "moved_to": value,
        "saves": cost - then if known else None,
        "saves_per_unit": (cost - then) / step.moved if known else None,
        "saves_share": 1 - then / cost if known else None,
        "cards": step.answer["cards"],
        "refused": step.answer["refused"],
    }


def lead(document: Document) -> str:
    """Say how many plans are on the front, which is the knee, and which limit costs most."""
    plans = document["front"]
    if not plans:
        return NOTHING
    best = next(row for row in plans if row["knee"])
    cost = best["cost_per_on_time_session"]
    unit = CURRENCY_UNIT[document["currency"]]
    at = f"{best['name'] or 'the only one'}: {cost:.6g} {unit} a session on {best['cards']} cards."
    if len(plans) == 1:
        said = f"One plan is the best in cost, times and cards at once, {at}"
    else:
        said = (
            f"{len(plans):,} plans are not beaten in cost, times and cards at once. "
            f"Cost against time a token bends at {at}"
        )
    dear = [row for row in document["limits"] if (row["saves_share"] or 0) > 0]
    if not dear:
        return f"{said} No limit costs anything: a little more of any of them saves nothing."
    return (
        f"{said} The dearest limit is {dear[0]['path']}: moving it a step saves "
        f"{share(dear[0]['saves_share'])}."
    )
