"""From rows to points: repetitions averaged, and how sure each point is.

A *point* is one plan (as far as rows state it) at one load. Its time is the geometric mean of its
rows. Noise is relative: a standard deviation of the logarithm of the time.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from costmodels.measurements.table import Measurements
from costmodels.plans import FloatArray, IntArray
from specs.errors import Fault

AT_ODDS = 3.0
"""Standard deviations by which two rows of one point may differ."""
UNKNOWN = 0.1
"""The same as a share of the time, where nothing says how noisy rows are."""


@dataclass(frozen=True)
class Points:
    """Columns of shape ``(points,)``.

    ``row``    a row of each point, the first
    ``group``  plans of the point, a position in ``Measurements.plans_stated``
    ``load``   shape ``(points, columns)``
    ``log``    logarithm of the seconds
    ``noise``  standard error of it; 0 where nothing is known
    """

    row: IntArray
    group: IntArray
    load: FloatArray
    log: FloatArray
    noise: FloatArray

    def __len__(self) -> int:
        return int(self.row.size)


def points_of(rows: Measurements) -> tuple[Points, list[Fault]]:
    """Average the rows of each point; faults name rows of one point that disagree.

    The standard error of a point with ``n`` rows is the root of the mean variance of its rows over
    ``n``. The variance of a row is that of its ``stdev``, else that among repetitions, pooled over
    all points; a single row among points without repetitions has none.
    """
    keys = np.column_stack([rows.group, rows.load])
    _, first, point = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    point = point.reshape(-1)
    count = np.bincount(point)
    log = np.log(rows.seconds)
    mean = np.bincount(point, log) / count
    spare = len(rows) - count.size
    among = np.bincount(point, (log - mean[point]) ** 2).sum() / spare if spare else 0.0
    variance = np.where(np.isnan(rows.stdev), among, (rows.stdev / rows.seconds) ** 2)
    noise = np.sqrt(np.bincount(point, variance)) / count
    found = Points(first, rows.group[first], rows.load[first], mean, noise)
    return found, _at_odds(rows, point, log)


def _at_odds(rows: Measurements, point: IntArray, log: FloatArray) -> list[Fault]:
    """Faults of rows that say the same point, not as repetitions of each other, and differ."""
    faults = []
    order = np.lexsort([rows.line, rows.repeat, point])
    for one, other in pairwise(order):
        if point[one] != point[other] or rows.repeat[one] != rows.repeat[other]:
            continue
        stated = (rows.stdev[[one, other]] / rows.seconds[[one, other]]) ** 2
        allowed = UNKNOWN if np.isnan(stated).any() else AT_ODDS * float(np.sqrt(stated.sum()))
        if abs(log[one] - log[other]) > allowed:
            message = (
                f"row {rows.line[one]} measured the same, {rows.where(one)}, as "
                f"{rows.written(one)}: they differ by more than noise"
            )
            hint = "Number repetitions in a column repeat, or delete one"
            faults.append(rows.fault(other, message, hint))
    return faults
