"""Monotone surfaces through measured points, one for the plans of each group.

A surface is a grid over the loads that a group was measured at. Between the knots of the grid,
seconds are linear in each column of the load (multilinear), which is the form of a step that reads
its weights once and the tokens of every session: ``w + batch · (a + b · context)``.

Measured times that fall as the load grows are moved to the nearest times that do not: half way
between the largest time at no more load, and the smallest at no less, in logarithms. That is the
monotone regression with the least largest change; times that do not fall stay as they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from costmodels.measurements.points import Points
from costmodels.plans import BoolArray, FloatArray, IntArray

NEXT = 0.01
"""Logarithm of the ratio up to which two loads are as good as one."""
MOST_CELLS = 1_000_000
"""Knots in the grid of one group."""


@dataclass(frozen=True)
class Surfaces:
    """The grids of all groups behind each other. ``columns`` is the width of a load.

    ``knots``   by column: the knots of every group, group after group
    ``ranks``   by column: the same as sortable keys, ``group · span + rank of the knot``
    ``values``  by column: all different knots, rising
    ``start``   first knot of each group, shape ``(columns, groups + 1)``
    ``cell``    first value of each group in the arrays below, shape ``(groups,)``
    ``seconds`` ``noise`` ``known``  at every knot of every grid; the last is false where the grid
                has a knot that was not measured
    """

    knots: tuple[FloatArray, ...]
    ranks: tuple[IntArray, ...]
    values: tuple[FloatArray, ...]
    start: IntArray
    cell: IntArray
    seconds: FloatArray
    noise: FloatArray
    known: BoolArray

    @classmethod
    def through(cls, grids: list["Grid"]) -> "Surfaces":
        """Lay the grids of all groups behind each other."""
        columns = range(len(grids[0].knots))
        knots = tuple(np.concatenate([grid.knots[d] for grid in grids]) for d in columns)
        values = tuple(np.unique(k) for k in knots)
        sizes = np.array([[len(grid.knots[d]) for grid in grids] for d in columns])
        start = np.concatenate([np.zeros((len(sizes), 1), int), np.cumsum(sizes, axis=1)], axis=1)
        group = [np.repeat(np.arange(len(grids)), size) for size in sizes]
        ranks = tuple(
            g * (v.size + 1) + np.searchsorted(v, k) + 1
            for g, v, k in zip(group, values, knots, strict=True)
        )
        cells = np.cumsum([0, *(grid.seconds.size for grid in grids)])[:-1]
        joined = (
            np.concatenate([getattr(grid, name).reshape(-1) for grid in grids])
            for name in ("seconds", "noise", "known")
        )
        return cls(knots, ranks, values, start, cells, *joined)

    def range_of(self, group: IntArray, column: int) -> tuple[FloatArray, FloatArray]:
        """Least and largest measured value of a column of the load, for groups of plans."""
        start = self.start[column]
        return self.knots[column][start[group]], self.knots[column][start[group + 1] - 1]

    def clamped(self, group: IntArray, load: FloatArray) -> FloatArray:
        """Return the nearest load that lies in the measured range; shapes ``(columns, plans)``."""
        found = np.empty_like(load)
        for column, value in enumerate(load):
            found[column] = np.clip(value, *self.range_of(group, column))
        return found

    def _corners(
        self, group: IntArray, load: FloatArray
    ) -> Iterator[tuple[FloatArray, IntArray, list[IntArray]]]:
        """Yield weight, cell and knots of each corner around loads within the measured range."""
        below, upper, strides = [], [], []
        for column, value in enumerate(load):
            first = self.start[column][group]
            size = self.start[column][group + 1] - first
            rank = np.searchsorted(self.values[column], value, side="right")
            key = group * (self.values[column].size + 1) + rank
            knot = np.searchsorted(self.ranks[column], key, side="right") - 1
            knot = np.clip(knot, first, first + np.maximum(size - 2, 0))
            far = np.minimum(knot + 1, first + size - 1)
            left, right = self.knots[column][knot], self.knots[column][far]
            width = np.where(far > knot, right - left, 1.0)
            below.append((knot, far, first))
            upper.append((value - left) / width)
            strides.append(size)
        for corner in range(2 ** len(load)):
            weight: FloatArray = np.ones(group.size)
            cell = np.zeros(group.size, dtype=np.int64)
            knots = []
            for column, (knot, far, first) in enumerate(below):
                high = corner >> column & 1
                weight = weight * (upper[column] if high else 1 - upper[column])
                knots.append(far if high else knot)
                cell = cell * strides[column] + knots[-1] - first
            yield weight, self.cell[group] + cell, knots

    def at(self, group: IntArray, load: FloatArray) -> FloatArray:
        """Seconds at loads within the measured range, shape ``(plans,)``."""
        found: FloatArray = np.zeros(group.size)
        for weight, cell, _ in self._corners(group, load):
            found = found + weight * self.seconds[cell]
        return found

    def noise_at(self, group: IntArray, load: FloatArray) -> FloatArray:
        """Standard error of the seconds as a share of them, at loads within the range."""
        variance: FloatArray = np.zeros(group.size)
        for weight, cell, _ in self._corners(group, load):
            variance = variance + (weight * self.seconds[cell] * self.noise[cell]) ** 2
        found: FloatArray = np.sqrt(variance) / self.at(group, load)
        return found

    def inside(self, group: IntArray, load: FloatArray) -> BoolArray:
        """Whether a load lies between measured points only, or next to the edge of the range."""
        held = self.clamped(group, load)
        found: BoolArray = np.all(np.abs(np.log((load + 1) / (held + 1))) <= NEXT, axis=0)
        for weight, cell, _ in self._corners(group, held):
            found &= (weight == 0) | self.known[cell]
        return found

    def distance(self, group: IntArray, load: FloatArray) -> FloatArray:
        """Largest log-ratio of a load to the nearest measured point around it."""
        nearest = np.full(group.size, np.inf)
        for _, cell, knots in self._corners(group, self.clamped(group, load)):
            far = np.zeros(group.size)
            for column, value in enumerate(load):
                # One is added because a load may hold no tokens at all.
                ratio = np.log((value + 1) / (self.knots[column][knots[column]] + 1))
                far = np.maximum(far, np.abs(ratio))
            nearest = np.where(self.known[cell], np.minimum(nearest, far), nearest)
        return nearest


@dataclass(frozen=True)
class Grid:
    """One group: its knots by column, and what is at each of them, shape of the grid.

    ``moved``  how far each point of the group had to move, in logarithms, and ``depth`` how far
               it lay below one of no more load
    """

    knots: tuple[FloatArray, ...]
    seconds: FloatArray
    noise: FloatArray
    known: BoolArray
    moved: FloatArray
    depth: FloatArray


def grid_of(points: Points, chosen: IntArray) -> Grid:
    """Lay the monotone surface through some points, all of one group."""
    load, log = points.load[chosen], points.log[chosen]
    axes = [np.unique(column, return_inverse=True) for column in load.T]
    at = tuple(position.reshape(-1) for _, position in axes)
    shape = tuple(knots.size for knots, _ in axes)
    known = np.zeros(shape, dtype=bool)
    known[at] = True
    low, high = _bounds(shape, at, log)
    settled, depth = (low[at] + high[at]) / 2, low[at] - log
    noise = np.full(shape, points.noise[chosen].max())
    noise[at] = points.noise[chosen]
    seconds = np.empty(shape)
    if not known.all():
        low, high = _bounds(shape, at, settled)
        guess = np.log(_typical(load, settled, [knots for knots, _ in axes]))
        seconds[:] = np.exp(np.clip(guess, low, high))
    seconds[at] = np.exp(settled)
    moved = settled - log
    # A point that does not move keeps its time to the last digit.
    seconds[at] = np.where(moved == 0, np.exp(log), seconds[at])
    return Grid(tuple(knots for knots, _ in axes), seconds, noise, known, moved, depth)


def _bounds(
    shape: tuple[int, ...], at: tuple[IntArray, ...], log: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Largest time at no more load, and smallest at no less, at every knot; infinite without."""
    low, high = np.full(shape, -np.inf), np.full(shape, np.inf)
    low[at], high[at] = log, log
    for axis in range(len(shape)):
        low = np.maximum.accumulate(low, axis=axis)
        high = np.flip(np.minimum.accumulate(np.flip(high, axis), axis=axis), axis)
    return low, high


def _typical(load: FloatArray, log: FloatArray, knots: list[FloatArray]) -> FloatArray:
    """Seconds at every knot by the form of a pass, fitted to the points with no term below 0.

    The terms: a constant, the new tokens of all sessions, and those times the tokens before them.
    """
    from scipy.optimize import nnls

    def terms(columns: list[FloatArray]) -> FloatArray:
        batch, *new, held = columns
        taken = batch * new[0] if new else batch
        return np.stack([np.ones_like(taken), taken, taken * held], axis=-1)

    seconds = np.exp(log)
    rows = terms(list(load.T)) / seconds[:, None]
    scale = np.maximum(rows.max(axis=0), 1e-300)
    weights, _ = nnls(rows / scale, np.ones(len(rows)))
    everywhere = terms(list(np.meshgrid(*knots, indexing="ij")))
    found: FloatArray = np.maximum(everywhere @ (weights / scale), 1e-300)
    return found
