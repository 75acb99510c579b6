"""The order among plans: cheapest first, and equals by what a user would rather run."""

from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from costmodels.plans import BoolArray, FloatArray, IntArray
from searches.evaluate import Evaluated
from specs.problem import Objective
from specs.space import AXES

_DIGITS = 12
"""Significant digits to which costs are compared, so that rounding decides nothing."""

_SURE = 0.95
"""Chance with which a difference that counts is not noise."""

APART = NormalDist().inv_cdf((1 + _SURE) / 2)
"""Standard errors that a difference must exceed to count: 1.96."""


def _rounded(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        rounded = np.round(values * scale) / scale
    return np.where(np.isfinite(rounded), rounded, values)


def order(found: Evaluated, most: int | None = None) -> IntArray:
    """Rows of the feasible plans, best first; only the best ``most`` where that is given.

    Equal costs are ordered by more slack to the limits, fewer cards, and then the axes in table
    order, smaller degrees first: the simplest of equal plans comes first.
    """
    rows = np.flatnonzero(found.feasible & np.isfinite(found.outcomes.cost))
    cost = _rounded(found.outcomes.cost[rows])
    if most is not None and most < rows.size:
        # Sorting by all keys is dear, so first leave out what costs too much to be among them.
        among = cost <= np.partition(cost, most - 1)[most - 1]
        rows, cost = rows[among], cost[among]
    plans = found.plans.take(rows)
    keys: list[NDArray[np.generic]] = [plans.column(axis) for axis in reversed(tuple(AXES))]
    keys += [plans.total_cards, -_rounded(found.outcomes.slack_s[rows]), cost]
    return rows[np.lexsort(keys)][:most]


def front(found: Evaluated, ordered: IntArray) -> IntArray:
    """Rows that no other beats in cost, time per token, time to the first token and cards at once.

    ``ordered`` are the rows that compete, best first; of equals the first is taken.
    """
    outcomes = found.outcomes
    told = [_rounded(outcomes.cost), outcomes.tpot_s, outcomes.ttft_s, found.plans.total_cards]
    # A time that does not exist, as that to the first token of a pool that only decodes, is equal.
    return ordered[unbeaten(np.nan_to_num(np.stack([column[ordered] for column in told], axis=1)))]


def unbeaten(points: FloatArray) -> IntArray:
    """Rows that no other row beats, of points of shape ``(rows, figures)``; less is better.

    A row beats another if it is nowhere more and somewhere less. Of equal rows the first is taken.
    Ascending by the first figure, then by the others.
    """
    # In this order no row is beaten by a later one.
    left, best = np.lexsort(points.T[::-1]), list[int]()
    while left.size:
        best.append(int(left[0]))
        left = left[(points[left] < points[left[0]]).any(axis=1)]
    return np.array(best, dtype=np.int64)


def ties(costs: FloatArray, objective: Objective) -> BoolArray:
    """Whether each cost, best first, is within the stated share of the best."""
    if not costs.size:
        return np.zeros(0, dtype=bool)
    return _rounded(costs) <= _rounded(costs[:1]) * (1 + objective.tie_within)


def standard_error(noise: FloatArray) -> FloatArray:
    """Standard error of the difference of each cost to the first, as a share.

    ``noise`` is the standard error of each cost as a share of it, best first.
    """
    error: FloatArray = np.hypot(noise, noise[:1])
    return error


def within_noise(costs: FloatArray, noise: FloatArray) -> BoolArray:
    """Whether noise alone may make each cost, best first, differ from the best."""
    error = standard_error(noise)
    return (error > 0) & (costs - costs[:1] <= APART * error * costs[:1])


def repetitions(more: float, error: float) -> int:
    """How often two plans must be measured again, as often as they were, to tell them apart.

    ``more`` and ``error``: difference of their costs, and its standard error, as shares. ``n`` more
    times make the error ``1 / sqrt(n + 1)`` of what it is.
    """
    return int((APART * error / more) ** 2)
