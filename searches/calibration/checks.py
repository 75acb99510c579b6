"""Points that no fit can use: too few, all alike, or with times that cannot be right.

Times are set against those of the priors, which are right within a factor of a few on every
machine, so a factor of hundreds is a slip of a unit.
"""

from collections.abc import Sequence

import numpy as np

from costmodels.calibration.terms import PRIORS
from costmodels.plans import FloatArray
from searches.calibration.features import Features
from specs.errors import Fault, SpecError
from specs.points import Point

LEAST = 10
"""Points with a time per token that a fit needs."""

SLIP = 200.0
"""Factor from the estimate at which a time must be in another unit than its column says."""

FAR = 100.0
"""Factor from the middle of all points at which a row is an outlier: robust fits bear less, and
engines that stumble under load have been published at 35 times."""

_ALIKE = 1e-3
"""Difference of the share of a term in the time, below which points say the same of it."""

_MOST = 20
"""Rows that are named."""


def check_points(points: Sequence[Point], file: str, folds: bool) -> None:
    """Refuse too few points, or too few groups for cross-validation if there are to be folds.

    Raises ``SpecError``.
    """
    if len(points) < LEAST:
        raise _refused(
            file,
            f"{len(points)} points with a time per token that can be estimated; a fit needs at "
            f"least {LEAST}",
        )
    groups = {point.fold_group for point in points}
    if folds and len(groups) < 2:
        raise _refused(
            file,
            f"all points are of one model, machine and lengths ({groups.pop()}), so nothing is "
            f"left to judge a fit by",
            "Measure other lengths, or fit without cross-validation (--no-validation)",
        )


def check_times(found: Features, file: str) -> None:
    """Refuse points that are all alike, and times in a wrong unit or far from all others.

    Raises ``SpecError`` that names each row.
    """
    parts = found.tpot * np.array(list(PRIORS.values()))
    estimate = parts.sum(axis=1)
    shares = parts / estimate[:, None]
    if not (np.ptp(shares, axis=0) > _ALIKE).any():
        raise _refused(
            file,
            "all points are of one configuration under one load: they say how long a step takes, "
            "but not which term takes it",
            "Vary the batch, the lengths or the plan",
        )
    log = np.log([point.tpot_s or np.nan for point in found.points]) - np.log(estimate)
    middle = float(np.nanmedian(log))
    if abs(middle) > np.log(SLIP):
        raise _refused(
            file,
            f"column tpot_ms: its values do not look like milliseconds: the middle one is "
            f"{_times(middle)} the estimate",
        )
    faults = [
        _fault(point, float(off))
        for point, off in zip(found.points, log - middle, strict=True)
        if abs(off) > np.log(FAR)
    ]
    if faults:
        raise SpecError(faults[:_MOST], source=file)


def far_from_fit(found: Features, log_ratio: FloatArray, factor: float = 2.0) -> list[Point]:
    """Return points whose time per token a fit misses by a factor, which a robust fit bears."""
    return [
        point
        for point, off in zip(found.points, log_ratio, strict=True)
        if abs(off) > np.log(factor)
    ]


def _fault(point: Point, off: float) -> Fault:
    what = "looks like another unit than milliseconds" if abs(off) > np.log(SLIP) else "an outlier"
    return Fault(
        f"row {point.line}, tpot_ms",
        f"{1e3 * (point.tpot_s or 0):.6g}",
        f"{what}: against the estimate it is {_times(off)} what the other rows are",
        "Correct it, or delete the row",
    )


def _times(log: float) -> str:
    factor = float(np.exp(abs(log)))
    return f"{factor:,.0f} times" if log > 0 else f"1/{factor:,.0f} of"


def _refused(file: str, message: str, hint: str = "") -> SpecError:
    return SpecError([Fault("", "", message, hint)], source=file)
