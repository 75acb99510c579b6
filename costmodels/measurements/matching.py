"""Which rows of a table describe which plans. Arrays have shape ``(plans,)``."""

from itertools import combinations

import numpy as np

from costmodels.measurements.table import ANY, PLAN_AXES, Measurements, stated_words
from costmodels.plans import COUNTS, WORDS, BoolArray, FloatArray, IntArray, PlanTable
from specs.errors import Fault

NONE = -1
"""Stands for the group of a plan that no row describes."""

_WORDED = {"sp", *WORDS}
_COUNTED = {"domain", *COUNTS}


class Matching:
    """Plans stated by rows, the vaguest first, so that the most precise one has the last word.

    ``stated`` has shape ``(groups, axes)``; see ``Measurements.plans_stated``.
    """

    def __init__(self, stated: IntArray) -> None:
        self.stated = stated
        named = stated != ANY
        self._patterns = [
            (np.flatnonzero(pattern), np.flatnonzero((named == pattern).all(axis=1)))
            for pattern in sorted(np.unique(named, axis=0), key=lambda p: (p.sum(), tuple(p)))
        ]

    def groups(self, plans: PlanTable) -> IntArray:
        """Group whose rows describe each plan most precisely, or :data:`NONE`."""
        found = np.full(len(plans), NONE, dtype=np.int64)
        for axes, groups in self._patterns:
            key = np.zeros(len(plans), dtype=np.int64)
            own = np.zeros(groups.size, dtype=np.int64)
            match: BoolArray = np.full(len(plans), True)
            for axis in axes:
                values, position = np.unique(self.stated[groups, axis], return_inverse=True)
                column = plans.column(PLAN_AXES[axis])
                place = np.minimum(np.searchsorted(values, column), values.size - 1)
                match &= values[place] == column
                key, own = key * values.size + place, own * values.size + position.reshape(-1)
                # Keys stay small: only those that occur are told apart.
                used, own = np.unique(own, return_inverse=True)
                slot = np.minimum(np.searchsorted(used, key), used.size - 1)
                match &= used[slot] == key
                key = slot
            order = np.argsort(own)
            found = np.where(match, groups[order][key], found)
        return found

    def nearest(self, plans: PlanTable) -> tuple[IntArray, FloatArray]:
        """Group whose stated degrees are nearest to those of each plan, and how far they are."""
        key = np.zeros(len(plans), dtype=np.int64)
        for axis in np.flatnonzero((self.stated != ANY).any(axis=0)):
            values, position = np.unique(plans.column(PLAN_AXES[axis]), return_inverse=True)
            key = np.unique(key * values.size + position, return_inverse=True)[1]
        _, first, same = np.unique(key, return_index=True, return_inverse=True)
        # Plans are many, and those that differ on these axes few.
        some = plans.take(first)
        far = np.stack([self._distance(some, group) for group in range(len(self.stated))])
        return far.argmin(axis=0)[same], far.min(axis=0)[same]

    def _distance(self, plans: PlanTable, group: int) -> FloatArray:
        """Largest log-ratio of a stated degree to that of each plan; infinite for other words."""
        far: FloatArray = np.zeros(len(plans))
        for axis, value in zip(PLAN_AXES, self.stated[group], strict=True):
            if value == ANY:
                continue
            column = plans.column(axis)
            if axis in _WORDED:
                far = np.where(column == value, far, np.inf)
            else:
                # There may be none of what a count counts.
                more = axis in _COUNTED
                far = np.maximum(far, np.abs(np.log((column + more) / (value + more))))
        return far


def ambiguous(rows: Measurements) -> list[Fault]:
    """Faults of rows that describe some plan as precisely as rows of other axes do."""
    matching = Matching(rows.plans_stated)
    faults = []
    for (one, ours), (other, theirs) in combinations(matching._patterns, 2):
        if one.size != other.size:
            continue
        both = np.intersect1d(one, other)
        seen = {tuple(rows.plans_stated[g, both]): g for g in ours}
        for group in theirs:
            if (match := seen.get(tuple(rows.plans_stated[group, both]))) is not None:
                pair = sorted(
                    (int(rows.line[np.argmax(rows.group == g)]), stated_words(rows.plans_stated[g]))
                    for g in (match, group)
                )
                (earlier, its), (later, own) = pair
                message = f"{own} and {its} of row {earlier} may be one plan"
                hint = "State the same axes in both"
                faults.append(Fault(f"row {later}", "", message, hint))
    return faults
