"""The rows of one phase, ready to be asked: whose plans they are, and the surfaces through them.

Arrays have shape ``(plans,)``, loads ``(columns, plans)``; see ``measurements.table.LOADS``.
"""

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from costmodels.measurements.matching import NONE, Matching, ambiguous
from costmodels.measurements.points import Points, points_of
from costmodels.measurements.surface import MOST_CELLS, Grid, Surfaces, grid_of
from costmodels.measurements.suspects import falls
from costmodels.measurements.table import Measurements, stated_words
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from specs.errors import Fault, SpecError


@dataclass(frozen=True)
class Phase:
    """Measured passes of one phase. ``notes`` say what was put right in them."""

    rows: Measurements
    matching: Matching
    surfaces: Surfaces
    notes: tuple[str, ...]

    @classmethod
    def of(cls, rows: Measurements) -> "Phase | None":
        """Lay the surfaces through some rows; nothing for no rows.

        Raises ``SpecError`` for rows that contradict each other.
        """
        if not len(rows):
            return None
        points, faults = points_of(rows)
        faults += [*ambiguous(rows), *_scattered(rows, points)]
        if faults:
            raise SpecError(faults, source=rows.file)
        members = [np.flatnonzero(points.group == g) for g in range(len(rows.plans_stated))]
        grids = [grid_of(points, chosen) for chosen in members]
        depth, moved = np.zeros(len(points)), np.zeros(len(points))
        for chosen, grid in zip(members, grids, strict=True):
            depth[chosen], moved[chosen] = grid.depth, grid.moved
        faults, notes = falls(rows, points, depth, moved)
        if faults:
            raise SpecError(faults, source=rows.file)
        if not points.noise.any():
            grids = [_with_noise(grid, _scatter(moved)) for grid in grids]
        return cls(rows, Matching(rows.plans_stated), Surfaces.through(grids), tuple(notes))

    def end(self, group: IntArray, top: bool) -> FloatArray:
        """Return the load at the upper or lower end of the range of each group."""
        columns = range(self.rows.load.shape[1])
        return np.stack([self.surfaces.range_of(group, column)[top] for column in columns])

    def inside(self, group: IntArray, load: FloatArray) -> BoolArray:
        """Whether each plan has rows, and each load lies between measured points."""
        found: BoolArray = group != NONE
        own = np.flatnonzero(found)
        found[own] = self.surfaces.inside(group[own], load[:, own])
        return found

    def noise(self, group: IntArray, load: FloatArray) -> FloatArray:
        """Standard error as a share, that of the edge beyond the range; 0 without rows."""
        found = np.zeros(group.size)
        own = np.flatnonzero(group != NONE)
        held = self.surfaces.clamped(group[own], load[:, own])
        found[own] = self.surfaces.noise_at(group[own], held)
        return found

    def distance(self, plans: PlanTable, group: IntArray, load: FloatArray) -> FloatArray:
        """Largest log-ratio of any load or stated degree to the nearest plan that has rows."""
        bare = np.flatnonzero(group == NONE)
        if not bare.size:
            return self.surfaces.distance(group, load)
        nearest = group.copy()
        nearest[bare], far = self.matching.nearest(plans.take(bare))
        found = self.surfaces.distance(nearest, load)
        found[bare] = np.maximum(found[bare], far)
        return found


def _scattered(rows: Measurements, points: Points) -> list[Fault]:
    """Return faults of plans whose loads span too large a grid."""
    faults = []
    for group, stated in enumerate(rows.plans_stated):
        load = points.load[points.group == group]
        cells = prod(np.unique(column).size for column in load.T)
        if cells > MOST_CELLS:
            line = rows.line[np.argmax(rows.group == group)]
            message = (
                f"the loads of {stated_words(stated) or 'these plans'} span a grid of {cells:,} "
                f"points, more than {MOST_CELLS:,}"
            )
            faults.append(Fault(f"row {line}", "", message, "Measure at the same few loads"))
    return faults


def _scatter(moved: FloatArray) -> float:
    """Root mean square by which points had to move to rise with the load."""
    return float(np.sqrt(np.mean(moved**2)))


def _with_noise(grid: Grid, noise: float) -> Grid:
    return replace(grid, noise=np.full_like(grid.noise, noise))
