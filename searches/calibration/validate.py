"""Cross-validation: every point is estimated by a fit that has seen none of its group.

A group is a model on a machine with one pair of lengths. The groups of one model on one machine are
dealt to folds in the order of their digests, so the split follows from the table alone and stands
before anything is fitted. Estimates come from the cost model itself, as a user would get them.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from costmodels.calibrated import CalibratedModel
from costmodels.plans import IntArray
from searches.calibration.compose import compose
from searches.calibration.features import Features
from searches.calibration.fit import Priors, fit, observations
from searches.exhaustive import Progress, tell_nobody
from searches.predict import ModelOf
from specs.points import Point

FOLDS = 10
"""Parts that the groups are dealt to; fewer where there are fewer groups."""


def folds(points: Sequence[Point], parts: int = FOLDS) -> IntArray:
    """Return the fold of each point."""
    groups: dict[tuple[str, str], set[str]] = {}
    for point in points:
        groups.setdefault((point.model, point.machine), set()).add(point.fold_group)
    fold: dict[str, int] = {}
    for pair, lengths in groups.items():
        first = _digest("/".join(pair))
        for index, group in enumerate(sorted(lengths, key=_digest)):
            fold[group] = (first + index) % parts
    return np.array([fold[point.fold_group] for point in points], dtype=np.int64)


def _digest(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)


def held_out(
    found: Features, priors: Priors | None = None, progress: Progress = tell_nobody
) -> ModelOf:
    """Return what gives each point the model of a fit that has not seen its group.

    A point that is not among ``found`` gets the model of the first fold, which has not seen it.
    """
    fold = folds(found.points)
    numbers = np.unique(fold)
    models = {}
    for done, number in enumerate(numbers, 1):
        rest = found.take(np.flatnonzero(fold != number))
        fitted = fit(observations(rest), priors)
        models[int(number)] = CalibratedModel(compose(f"fold {number}", fitted, rest))
        progress(done, len(numbers))
    of_point = {point.id: models[int(n)] for point, n in zip(found.points, fold, strict=True)}
    return lambda point: of_point.get(point.id, models[int(numbers[0])])


def left_out(found: Features, name: str, priors: Priors | None = None) -> CalibratedModel:
    """Return the model of a fit that has seen all points but one."""
    rest = found.take([i for i, point in enumerate(found.points) if point.id != name])
    return CalibratedModel(compose(f"without {name}", fit(observations(rest), priors), rest))
