"""How close the calibrated model comes to the points that ship with the project."""

from functools import cache

import numpy as np
import pytest

from costmodels.calibration.terms import TERMS
from docs.make_accuracy import ASCEND, KERNELS, POINTS, ascend_left_out
from planner.accuracy import compare
from planner.calibrate import calibrate
from results.accuracy_report import Comparison
from searches.predict import named, predict
from specs.points import Point, read_points


@cache
def points() -> tuple[Point, ...]:
    return read_points(POINTS).points


def errors(comparison: Comparison, *vendors: str) -> np.ndarray:
    """Relative errors of the time per token of whole deployments and of offline decoding."""
    ratios = [
        tpot / point.tpot_s - 1
        for point, tpot in zip(
            comparison.predictions.points, comparison.predictions.tpot_s, strict=True
        )
        if point.tpot_s and point.vendor in vendors and "decode_pool" not in point.rules
    ]
    return np.array(ratios)


def test_the_ascend_rows_left_out_one_by_one() -> None:
    found = ascend_left_out(points())
    assert [name for name, _, _ in found] == list(ASCEND)
    off = [abs(estimate / measured - 1) for _, measured, estimate in found]
    assert np.mean(off) <= 0.12


def test_the_shipped_calibration_is_near_a_sample_of_its_points() -> None:
    some = [point for point in points()[::25] if point.tpot_s and point.mode == "agg"]
    found = predict(some, named("calibrated"))
    ratio = found.tpot_s / np.array([point.tpot_s for point in some])
    assert np.mean(np.abs(ratio - 1)) <= 0.12
    assert np.mean(found.inside) >= 0.9


@pytest.mark.soak
def test_points_that_a_fit_has_not_seen() -> None:
    fresh = calibrate(POINTS, KERNELS)
    assert set(fresh.calibration.terms) == set(TERMS)
    found = compare(POINTS, "calibrated", model_of=fresh.held_out)
    near = errors(found, "nvidia", "ascend")
    assert np.abs(near).mean() <= 0.12
    assert abs(near.mean()) <= 0.03
    assert np.abs(errors(found, "amd")).mean() <= 0.18
    assert found.coverage >= 0.9
