"""What one trial costs: a ladder from a cheap bound to the exact price, within a task.

First room in memory is asked for, then a cost that a plan cannot undercut
(``costmodels.sessions.bounds``); only plans whose bound beats the best known cost are priced by
their time lines. A bound never excludes the best plan, so what a ladder finds is what pricing every
plan would find.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from constraints.axes import complete
from constraints.space import Space
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.sessions.bounds import least_cost
from searches.digest import Counts, Digest, nearest
from searches.evaluate import Evaluated, evaluate, space_of
from searches.objective import order
from searches.variants import changed
from specs.errors import SpecError
from specs.problem import Problem
from specs.search import Scalar

_TOGETHER = 512
"""Plans that are priced before the next bounds are compared with the best price."""


def _within(space: Space, plans: PlanTable, best: float) -> tuple[IntArray, FloatArray]:
    """Rows of the plans that find room and may cost less than ``best``, least bound first.

    Their bounds come second.
    """
    rows = np.flatnonzero(space.case(plans).memory.fits)
    bounds = least_cost(space.model, space.problem, plans.take(rows))
    promising = np.argsort(bounds, kind="stable")[: np.count_nonzero(bounds < best)]
    return rows[promising], bounds[promising]


def price_plans(space: Space, rows: IntArray, best: float) -> Digest:
    """Price those of some plans of a space whose bound is below ``best``, which may be infinite."""
    plans = space.take(rows)
    if np.isfinite(best):
        within = np.sort(_within(space, plans, best)[0])
        rows, plans = rows[within], plans.take(within)
    found = evaluate(space, plans)
    return Digest(rows, found, Counts.of(space, found))


@dataclass(frozen=True)
class Ask:
    """One trial that changes leaves: its number, the changes, and the plan where it has its own.

    ``columns``  values of the chosen axes; ``None`` for the best plan of the changed problem
    ``best``     cost that a trial must be able to beat to be priced
    """

    number: int
    changes: Mapping[str, Scalar]
    columns: Mapping[str, int] | None
    best: float


def price_variant(problem: Problem, ask: Ask) -> Digest | None:
    """Price a changed problem by its best plan, or by one plan, as a task.

    Returns a digest of one plan whose row is the number of the trial. ``None``: the spec refuses
    the changes, the plan breaks a structural rule, nothing finds room, or no bound beats ``best``.
    """
    try:
        space = space_of(changed(problem, ask.changes))
        plans = space.plans() if ask.columns is None else _one(space, ask.columns)
    except SpecError:
        return None
    rows, bounds = _within(space, plans, ask.best)
    if not rows.size:
        return None
    found, counts = _cheapest(space, plans.take(rows), bounds)
    return Digest(np.array([ask.number]), found, counts)


def _one(space: Space, columns: Mapping[str, int]) -> PlanTable:
    """Return the table of one plan, empty if the plan breaks a structural rule."""
    plan = complete(space.problem, {a: np.array([v]) for a, v in columns.items()})
    case = space.case(plan)
    kept = all(constraint.allowed(case)[0] for constraint in space.structural)
    return plan if kept else plan.take(slice(0))


def _cheapest(space: Space, plans: PlanTable, bounds: FloatArray) -> tuple[Evaluated, Counts]:
    """Return the cheapest feasible plan, else the nearest miss, and counts of what was priced.

    Plans come least bound first, so pricing ends once the next bound is no better than a price.
    """
    best: Evaluated | None = None
    counts: Counts | None = None
    for start in range(0, len(plans), _TOGETHER):
        if best is not None and best.feasible[0] and bounds[start] >= best.outcomes.cost[0]:
            break
        found = evaluate(space, plans.take(slice(start, start + _TOGETHER)))
        counted = Counts.of(space, found)
        counts = counted if counts is None else counts + counted
        both = found if best is None else Evaluated.concatenate([best, found])
        ranked = order(both, most=1)
        best = both.take(ranked if ranked.size else nearest(both)[:1])
    assert best is not None and counts is not None
    return best, counts
