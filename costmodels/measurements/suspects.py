"""Rows that cannot be right: times that fall, slips of a unit, and outliers.

Rows are set against the estimate of another cost model, ``log_ratio = log(measured / estimate)``.
A machine is slower than its estimate by a factor that changes little by little with the load, so a
row that stands far off the others is a mistake of the table.
"""

import numpy as np

from costmodels.measurements.points import AT_ODDS, Points
from costmodels.measurements.table import UNITS, Measurements
from costmodels.plans import BoolArray, FloatArray, IntArray
from specs.errors import Fault

DEEP = 0.25
"""Share by which a time may fall as the load grows before it counts as a mistake."""
SLIP = 200.0
"""Factor from which a row, and a column, is in another unit than it says."""
FAR = 6.0
"""Robust standard deviations from which a row that is also twice or half as long is an outlier."""

_STEP = np.log(1e3)
_FEWEST = 3
_MAD = 1.4826
_REWEIGHTED = 30


def falls(
    rows: Measurements, points: Points, depth: FloatArray, moved: FloatArray
) -> tuple[list[Fault], list[str]]:
    """Return faults of times that fall steeply as the load grows, and notes of smaller falls.

    ``depth``: how far each point lies below one of no more load; ``moved``: how far it was moved.
    A fall within noise is neither.
    """
    faults, notes = [], []
    for point in np.flatnonzero(depth > 0):
        above = _above(points, int(point))
        noise = AT_ODDS * float(np.hypot(points.noise[point], points.noise[above]))
        if depth[point] <= noise:
            continue
        row, other = int(points.row[point]), int(points.row[above])
        share = 1 - np.exp(-depth[point])
        message = (
            f"{share:.0%} less than row {rows.line[other]} with no more load: "
            f"{rows.where(row)} against {rows.where(other)}, {rows.written(other)}"
        )
        if depth[point] > max(noise, -np.log(1 - DEEP)):
            faults.append(rows.fault(row, message, "Measure both again"))
        else:
            taken = np.exp(points.log[point] + moved[point]) / UNITS[rows.unit]
            notes.append(
                f"{rows.file}: row {rows.line[row]} is {message}. A step cannot get shorter, so "
                f"it counts as {taken:.6g} {rows.unit}."
            )
    return faults, notes


def _above(points: Points, point: int) -> int:
    """Return the slowest point of the same plans at no more load."""
    less = (points.load <= points.load[point]).all(axis=1)
    less &= points.group == points.group[point]
    candidates = np.flatnonzero(less)
    return int(candidates[np.argmax(points.log[candidates])])


def slips(rows: Measurements, log_ratio: FloatArray) -> list[Fault]:
    """Return faults of a column, or of rows, in another unit than the name of the column says."""
    middle = float(np.nanmedian(log_ratio))
    thousands = _thousands(middle)
    if thousands:
        factor = np.exp(middle)
        times = f"{factor:,.0f} times" if factor > 1 else f"1/{1 / factor:,.0f} of"
        looks = _looks_like(rows.unit, thousands)
        return [
            Fault(
                f"column {rows.unit}",
                "",
                f"its values look like {looks}: the middle one of the {rows.phase} rows is "
                f"{times} the estimate",
                f"Name the column {looks}, if that is what they are" if looks in UNITS else "",
            )
        ]
    faults = []
    for row, off in enumerate(log_ratio - middle):
        if thousands := _thousands(float(off)):
            looks = _looks_like(rows.unit, thousands)
            faults.append(
                rows.fault(
                    row,
                    f"{rows.written(row)} looks like {looks}: against the estimate it is "
                    f"{np.exp(abs(off)):,.0f} times {'longer' if off > 0 else 'shorter'} than the "
                    f"other rows",
                )
            )
    return faults


def _thousands(log: float) -> int:
    """Factors of 1000 by which a value is off; 0 if it is not off by one."""
    if not abs(log) >= np.log(SLIP):  # nor is one without an estimate
        return 0
    return int(np.sign(log)) * max(1, round(abs(log) / _STEP))


def _looks_like(unit: str, thousands: int) -> str:
    """Name the unit of numbers that are 1000 times too large (1) or too small (-1) for ``unit``."""
    units = tuple(UNITS)
    position = units.index(unit) + thousands
    return units[position] if 0 <= position < len(units) else "another unit"


def outliers(rows: Measurements, log_ratio: FloatArray) -> list[Fault]:
    """Return faults of rows that leave the trend of the others of the same plans.

    The trend is the plane in the logarithms of the load with the least absolute residuals.
    """
    residual = np.full(len(rows), np.nan)
    for group in range(len(rows.plans_stated)):
        chosen = np.flatnonzero((rows.group == group) & np.isfinite(log_ratio))
        terms = _terms(rows.load[chosen])
        if chosen.size >= terms.shape[1] + _FEWEST:
            residual[chosen] = _off_trend(terms, log_ratio[chosen])
    seen = residual[np.isfinite(residual)]
    if not seen.size:
        return []
    spread = _MAD * float(np.median(np.abs(seen)))
    limit = max(FAR * spread, np.log(2.0))
    return [
        rows.fault(
            int(row),
            f"an outlier: {np.exp(abs(residual[row])):.3g} times "
            f"{'longer' if residual[row] > 0 else 'shorter'} than the other rows of "
            f"{rows.plan_words(int(row)) or 'these plans'} let expect",
            "Measure it again, or delete it",
        )
        for row in np.flatnonzero(np.abs(residual) > limit)
    ]


def _terms(load: FloatArray) -> FloatArray:
    """Return a constant and the logarithms of the columns of the load that vary."""
    logs = np.log(load + 1)
    varies: BoolArray = np.ptp(logs, axis=0) > 0 if len(load) else np.zeros(load.shape[1], bool)
    return np.column_stack([np.ones(len(load)), logs[:, varies]])


def _off_trend(terms: FloatArray, values: FloatArray) -> FloatArray:
    """Return residuals of the fit with the least absolute ones, by reweighted least squares."""
    weight = np.ones(len(values))
    residual = values
    for _ in range(_REWEIGHTED):
        root = np.sqrt(weight)
        found = np.linalg.lstsq(terms * root[:, None], values * root, rcond=None)[0]
        residual = values - terms @ found
        weight = 1 / np.maximum(np.abs(residual), 1e-6)
    return residual


def typical_ratio(group: IntArray, log_ratio: FloatArray) -> tuple[float, float]:
    """Return the factor from estimate to measurement, and how far plans scatter around it.

    The factor is the median over plans of the median over their rows; the scatter is the root mean
    square of the plans around it, in logarithms, and the whole factor where there is one plan.
    """
    seen = np.isfinite(log_ratio)
    if not seen.any():
        return 1.0, 0.0
    middles = np.array([np.median(log_ratio[seen & (group == g)]) for g in np.unique(group[seen])])
    middle = float(np.median(middles))
    if middles.size == 1:
        return float(np.exp(middle)), abs(middle)
    return float(np.exp(middle)), float(np.sqrt(np.mean((middles - middle) ** 2)))
