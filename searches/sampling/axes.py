"""Plans as points that a sampler can propose: one coordinate an axis, and the nearest real plan.

Most combinations of values are no plans. So a proposal is taken as a wish: it stands for the plan
of the grid that is nearest to it and has not been tried. Everything that is tried keeps the
structural rules that way, and what a sampler learns from are plans, never wishes.

Degrees count by their ratios, so one doubling is a distance of 1; words are all 1 apart.
"""

from collections.abc import Mapping
from functools import cached_property

import numpy as np
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    IntDistribution,
)

from constraints.space import Space
from costmodels.plans import WORDS, FloatArray, IntArray, decode, encode
from searches.sampling.trials import Params
from specs.search import Scalar

_NEARBY = 64
"""Plans looked at first around a proposal; sixteen times more where none of them will do."""

_FARTHEST = 2**18
"""Plans looked at around one proposal before it is given up."""

_FEW = 12
"""Counts from 0 on that are told apart like words: none is not half of one."""


class PlanAxes:
    """The axes of a space that have a choice, and which of its plans have been tried."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self._coupled = _choices(space.grid.coupled)
        self._free = _choices(space.grid.free)
        self._gone: set[int] = set()

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """What a sampler is told of each axis."""
        return {a: _distribution(a, v) for a, v in {**self._coupled, **self._free}.items()}

    def params(self, row: int) -> Params:
        """Return the values of one plan of the grid."""
        columns = self.space.grid.take(np.array([row]))
        return {axis: _value(axis, int(columns[axis][0])) for axis in self.distributions}

    def claim(self, wish: Mapping[str, Scalar]) -> int | None:
        """Take the nearest plan that has not been taken and finds room in memory.

        Returns its row number; ``None`` if there is none within reach.
        """
        many = _NEARBY
        while True:
            row = self._first(self.nearest(wish, many))
            if row is not None or many >= min(len(self.space.grid), _FARTHEST):
                return row
            many *= 16

    def draw(self, rng: np.random.Generator) -> int | None:
        """Take any plan that has not been taken and finds room in memory, all alike."""
        seen = 0
        while seen < min(16 * len(self.space.grid), _FARTHEST):
            row = self._first(rng.integers(len(self.space.grid), size=_NEARBY))
            if row is not None:
                return row
            seen += _NEARBY
        return None

    def _first(self, rows: IntArray) -> int | None:
        """Take the first of some plans that will do; those that never will are not seen again."""
        fresh = np.array([row for row in rows.tolist() if row not in self._gone], dtype=np.int64)
        if not fresh.size:
            return None
        fits = self.space.case(self.space.take(fresh)).memory.fits
        first = int(np.argmax(fits)) if fits.any() else fresh.size
        self._gone.update(fresh[: first + 1].tolist())
        return int(fresh[first]) if first < fresh.size else None

    def nearest(self, wish: Mapping[str, Scalar], most: int) -> IntArray:
        """Row numbers of the plans nearest to a wish, nearest first; axes without a wish are equal.

        The distance is a sum over axes, so the nearest plans are made of the nearest rows of the
        skeleton and the nearest values of each free axis.
        """
        grid = self.space.grid
        skeleton = next(iter(grid.coupled.values())).size if grid.coupled else 1
        far = np.zeros(skeleton)
        for axis in self._coupled:
            far += _distance(axis, grid.coupled[axis], wish)
        rows = _least(far, most)
        far = far[rows]
        for axis, values in grid.free.items():
            each = _distance(axis, values, wish)
            rows = (rows[:, None] * values.size + np.arange(values.size)).ravel()
            far = (far[:, None] + each).ravel()
            best = _least(far, most)
            rows, far = rows[best], far[best]
        return rows


def _choices(columns: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Return the values of each column that holds more than one."""
    found = {axis: np.unique(column) for axis, column in columns.items()}
    return {axis: values for axis, values in found.items() if values.size > 1}


def _least(far: FloatArray, most: int) -> IntArray:
    """Positions of the least distances in order, the first of equal ones first."""
    if most < far.size:
        edge = np.partition(far, most - 1)[most - 1]
        near = np.flatnonzero(far <= edge)
        return near[np.argsort(far[near], kind="stable")][:most]
    return np.argsort(far, kind="stable")


def _told_apart(axis: str, values: IntArray) -> bool:
    """Whether the values of an axis have no order that counts."""
    return axis in WORDS or axis == "sp" or (values[0] == 0 and values.size <= _FEW)


def _distribution(axis: str, values: IntArray) -> BaseDistribution:
    if _told_apart(axis, values):
        return CategoricalDistribution([_value(axis, int(v)) for v in values])
    return IntDistribution(int(values[0]), int(values[-1]), log=bool(values[0] > 0))


def _value(axis: str, number: int) -> Scalar:
    # An axis that a plan leaves open has the number of that in its column.
    value = decode(axis, number)
    return number if value is None else value


def _distance(axis: str, column: IntArray, wish: Mapping[str, Scalar]) -> FloatArray:
    """Distance of each value of a column from what is wished for on its axis."""
    if axis not in wish or column.size == 1:
        return np.zeros(column.size)
    wanted = encode(axis, wish[axis])  # type: ignore[arg-type]  # axes hold no fractions
    if _told_apart(axis, np.unique(column)):
        return (column != wanted).astype(np.float64)
    if column.min() > 0:
        return np.abs(np.log2(column / max(wanted, 1)))
    return np.abs(column - wanted) / (column.max() - column.min())
