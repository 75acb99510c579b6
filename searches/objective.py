"""The order among plans: cheapest first, and equals by what a user would rather run."""

import numpy as np
from numpy.typing import NDArray

from costmodels.plans import BoolArray, FloatArray, IntArray
from searches.evaluate import Evaluated
from specs.problem import Objective
from specs.space import AXES

_DIGITS = 12
"""Significant digits to which costs are compared, so that rounding decides nothing."""


def _rounded(values: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_DIGITS - 1 - np.floor(np.log10(np.abs(values))))
        rounded = np.round(values * scale) / scale
    return np.where(np.isfinite(rounded), rounded, values)


def order(found: Evaluated) -> IntArray:
    """Rows of the feasible plans, best first.

    Equal costs are ordered by more slack to the limits, fewer cards, and then the axes in table
    order, smaller degrees first: the simplest of equal plans comes first.
    """
    rows = np.flatnonzero(found.feasible & np.isfinite(found.outcomes.cost))
    plans = found.plans.take(rows)
    keys: list[NDArray[np.generic]] = [plans.column(axis) for axis in reversed(tuple(AXES))]
    keys += [plans.total_cards, -_rounded(found.outcomes.slack_s[rows])]
    keys.append(_rounded(found.outcomes.cost[rows]))
    return rows[np.lexsort(keys)]


def ties(costs: FloatArray, objective: Objective) -> BoolArray:
    """Whether each cost, best first, is within the stated share of the best."""
    if not costs.size:
        return np.zeros(0, dtype=bool)
    return _rounded(costs) <= _rounded(costs[:1]) * (1 + objective.tie_within)
