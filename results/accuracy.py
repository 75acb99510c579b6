"""How close estimates come to measurements: errors, agreement in order, and what a choice costs.

All arrays have shape ``(points,)``. A relative error is estimate over measurement, less one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from costmodels.plans import FloatArray, IntArray

LEAST_RANKED = 3
"""Configurations that a group must have for an order among them to mean something."""

_DRAWS = 20
"""Repeats drawn from each group to find what agreement repeats allow."""

BANDS = {"1": 1, "2-4": 4, "5-16": 16, "17-64": 64, "65-256": 256, ">256": 2**63}
"""Largest concurrency of each band, in rising order."""


@dataclass(frozen=True)
class Errors:
    """Errors of some estimates.

    ``mape``          mean of the absolute relative errors
    ``median_ratio``  median of estimate over measurement
    ``median_error``  median of the absolute relative errors; ``p90`` their 90th percentile
    ``bias``          mean of the relative errors
    """

    points: int
    mape: float
    median_ratio: float
    median_error: float
    p90: float
    bias: float


def errors(predicted: FloatArray, measured: FloatArray) -> Errors:
    """Return the errors of estimates; NaN throughout where there are none."""
    if not predicted.size:
        return Errors(0, *(float("nan"),) * 5)
    ratio = predicted / measured
    off = np.abs(ratio - 1)
    return Errors(
        points=int(ratio.size),
        mape=float(off.mean()),
        median_ratio=float(np.median(ratio)),
        median_error=float(np.median(off)),
        p90=float(np.percentile(off, 90)),
        bias=float((ratio - 1).mean()),
    )


def kendall_tau(a: FloatArray, b: FloatArray) -> float:
    """Kendall's tau-b: pairs in the same order less pairs in opposite order, over all pairs.

    Ties are taken out of the pairs of the column that has them. NaN where a column is all ties.
    """
    above = np.triu_indices(a.size, 1)
    first, second = (np.sign(x[:, None] - x[None, :])[above] for x in (a, b))
    pairs = np.sqrt(float(np.count_nonzero(first)) * float(np.count_nonzero(second)))
    return float(first @ second / pairs) if pairs else float("nan")


def regret(predicted: FloatArray, measured: FloatArray) -> float:
    """What the configuration of least estimated cost costs more, measured, than the best one."""
    return float(measured[np.argmin(predicted)] / measured.min() - 1)


@dataclass(frozen=True)
class Agreement:
    """A figure of every group of configurations, and its mean over groups.

    ``mean`` counts groups alike, ``weighted`` by their points; NaN without groups.
    """

    groups: tuple[Hashable, ...]
    figure: FloatArray
    points: IntArray

    @property
    def mean(self) -> float:
        """Mean over the groups."""
        return float(self.figure.mean()) if self.figure.size else float("nan")

    @property
    def weighted(self) -> float:
        """Mean over the points of the groups."""
        if not self.figure.size:
            return float("nan")
        return float(np.average(self.figure, weights=self.points))


@dataclass(frozen=True)
class Repeats:
    """Measurements of each configuration of one group, and the median of its estimates."""

    predicted: FloatArray
    measured: tuple[FloatArray, ...]

    @property
    def medians(self) -> FloatArray:
        """Median measurement of each configuration."""
        return np.array([np.median(some) for some in self.measured])

    @property
    def points(self) -> int:
        """Points of the group."""
        return sum(some.size for some in self.measured)

    def allowed_tau(self) -> float:
        """Agreement of repeats with each other: no estimate can be expected to agree better.

        One repeat of each configuration is drawn and set against the median of the others; a
        configuration without repeats agrees with itself, so that the true bound is no higher.
        """
        drawn = np.random.default_rng(0)
        found = []
        for _ in range(_DRAWS):
            picked = [int(drawn.integers(some.size)) for some in self.measured]
            one = np.array([some[i] for some, i in zip(self.measured, picked, strict=True)])
            others = np.array(
                [
                    np.median(np.delete(some, i)) if some.size > 1 else some[0]
                    for some, i in zip(self.measured, picked, strict=True)
                ]
            )
            found.append(kendall_tau(others, one))
        return float(np.nanmean(found)) if np.isfinite(found).any() else float("nan")


def repeats(
    groups: Sequence[Hashable],
    configurations: Sequence[Hashable],
    predicted: FloatArray,
    measured: FloatArray,
) -> dict[Hashable, Repeats]:
    """Gather the points of each group by configuration."""
    rows: dict[Hashable, dict[Hashable, list[int]]] = {}
    for index, (group, configuration) in enumerate(zip(groups, configurations, strict=True)):
        rows.setdefault(group, {}).setdefault(configuration, []).append(index)
    return {
        group: Repeats(
            np.array([np.median(predicted[some]) for some in found.values()]),
            tuple(measured[some] for some in found.values()),
        )
        for group, found in rows.items()
    }


def order_agreement(found: dict[Hashable, Repeats]) -> tuple[Agreement, Agreement]:
    """Kendall's tau of the estimates in each group, and the tau that repeats allow there."""
    ranked = {g: some for g, some in found.items() if len(some.measured) >= LEAST_RANKED}
    tau = {g: kendall_tau(some.predicted, some.medians) for g, some in ranked.items()}
    kept = {g: some for g, some in ranked.items() if np.isfinite(tau[g])}
    points = np.array([some.points for some in kept.values()], dtype=np.int64)
    allowed = np.array([some.allowed_tau() for some in kept.values()])
    return (
        Agreement(tuple(kept), np.array([tau[g] for g in kept]), points),
        Agreement(tuple(kept), allowed, points),
    )


def choice_regret(found: dict[Hashable, Repeats]) -> Agreement:
    """Regret of the choice in each group that has one to make."""
    kept = {g: some for g, some in found.items() if len(some.measured) > 1}
    return Agreement(
        tuple(kept),
        np.array([regret(some.predicted, some.medians) for some in kept.values()]),
        np.array([some.points for some in kept.values()], dtype=np.int64),
    )


def band(concurrency: int) -> str:
    """Return the band of a concurrency."""
    return next(name for name, most in BANDS.items() if concurrency <= most)
