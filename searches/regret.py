"""What plans are worth when figures are uncertain: chances, regret, and what a measurement saves.

Costs have shape ``(samples, plans)``: one row for each draw of the uncertain figures, inf where a
plan breaks a limit then. The *regret* of a plan in a sample is the share by which it costs more
than the best plan of that sample.
"""

from dataclasses import dataclass

import numpy as np

from costmodels.plans import BoolArray, FloatArray
from searches.variants import EQUAL

MISSED = 1.0
"""Regret of a plan in a sample in which it breaks a limit: as if all of it were paid twice."""

_TOLD_APART = 0.95
"""Chance with which one plan must cost less than another for them to be no ties."""

_PARTS = 8
"""Ranges of a figure, equally likely, in which a measurement would tell that it lies."""


_LEAST_IN_PART = 4
"""Samples of a range: a choice from two, judged on two."""


@dataclass(frozen=True)
class Regret:
    """What becomes of the plans over the samples in which anything is feasible.

    ``chance_best``      share of the samples in which no plan costs less, shape ``(plans,)``
    ``chance_feasible``  share in which the plan keeps all limits
    ``expected``         mean regret
    ``best``             position of the plan with the least mean regret
    ``tied``             plans of which the samples do not say whether they cost more than that one
    ``infeasible``       share of all samples in which nothing is feasible
    """

    chance_best: FloatArray
    chance_feasible: FloatArray
    expected: FloatArray
    best: int
    tied: BoolArray
    infeasible: float


def regret(costs: FloatArray) -> Regret:
    """Weigh plans over samples. Raises ``ValueError`` if nothing is feasible in any sample."""
    some = np.isfinite(costs).any(axis=1)
    if not some.any():
        raise ValueError("nothing is feasible in any sample")
    kept = costs[some]
    lost = _regrets(kept)
    expected = lost.mean(axis=0)
    best = int(np.argmin(expected))
    dearer = (kept > kept[:, best : best + 1] * (1 + EQUAL)).mean(axis=0)
    tied = dearer < _TOLD_APART
    tied[best] = False
    return Regret(
        chance_best=(lost <= EQUAL).mean(axis=0),
        chance_feasible=np.isfinite(kept).mean(axis=0),
        expected=expected,
        best=best,
        tied=tied,
        infeasible=float(1 - some.mean()),
    )


def _regrets(costs: FloatArray) -> FloatArray:
    """Regret of every plan in every sample; ``costs`` has a finite one in each row."""
    return np.where(np.isfinite(costs), costs / costs.min(axis=1, keepdims=True) - 1, MISSED)


def saved(costs: FloatArray, values: FloatArray) -> float:
    """Return how much expected regret it saves to know one figure before choosing a plan.

    That is the expected value of partial perfect information: the least mean regret without the
    figure, less the mean over its ranges of the least within each. Which plan is best in a range
    is found on every second sample and judged on the others, so that chance alone saves nothing.

    Parameters
    ----------
    values: the figure in each sample, shape ``(samples,)``.
    """
    some = np.isfinite(costs).any(axis=1)
    lost, values = _regrets(costs[some]), values[some]
    parts = min(_PARTS, values.size // _LEAST_IN_PART)
    if not parts:
        return 0.0
    place = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    part = place * parts // values.size
    half = place % 2
    overall = int(np.argmin(lost.mean(axis=0)))
    known = np.empty(values.size)
    for number in range(parts):
        for side in (0, 1):
            judged = (part == number) & (half == side)
            chosen = lost[(part == number) & (half != side)].mean(axis=0).argmin()
            known[judged] = lost[judged, chosen]
    return max(float(lost[:, overall].mean() - known.mean()), 0.0)
