"""What a fit is told of points: it and the cost model must say the same."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodels.calibrated import CalibratedModel
from costmodels.calibration.effects import values_for
from costmodels.calibration.terms import TERMS
from searches.calibration.features import features
from searches.predict import predict
from specs.calibration import Calibration, Subject
from specs.points import read_points
from tests.searches.calibration.synthetic import (
    PRIORS,
    calibration,
    derived,
    first_token,
    measured,
    per_token,
    points,
    random_terms,
    terms_of,
)

SAMPLE = Path(__file__).parents[2] / "data/points.csv"
POINTS = [p for p in read_points(SAMPLE).points if p.engine]
FOUND = derived(POINTS)


def known(seed: int) -> Calibration:
    """Random terms and deviations that cover every engine and card of the sample."""
    rng = np.random.default_rng(seed)
    pairs = sorted({(str(s.engine), str(s.card)) for s in FOUND.subjects})
    effects = {
        Subject(engine=pairs[0][0]): {"decode": float(np.exp(rng.normal(0, 0.3)))},
        Subject(card=pairs[-1][1]): {"prefill": float(np.exp(rng.normal(0, 0.3)))},
        Subject(drafting=True): {"decode.step": 1.7},
    }
    return calibration(random_terms(seed), effects, tuple(pairs))


def test_every_point_is_derived() -> None:
    assert FOUND.failed == ()
    assert FOUND.points == tuple(POINTS)
    assert np.isfinite(FOUND.tpot).all()
    # Differences of times leave a little noise.
    longest = max(p.tpot_s or 0 for p in POINTS)
    assert (FOUND.step * [*PRIORS.values()] > -1e-9 * longest).all()
    assert (FOUND.prompts * [*PRIORS.values()] > -1e-9 * longest).all()
    prompted = [p.prompt > 0 for p in POINTS]
    assert np.isfinite(FOUND.ttft).all(axis=1).tolist() == prompted


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_slopes_times_terms_are_the_times_of_the_cost_model(seed: int) -> None:
    """The contract between fit and product, for all points of the sample."""
    model = CalibratedModel(known(seed))
    said = predict(POINTS, lambda point: model)
    assert not said.failed
    here = features(POINTS, values=lambda subject: values_for(known(seed), subject))
    assert per_token(here, terms_of(known(seed), here)) == pytest.approx(said.tpot_s, rel=1e-6)


def test_slopes_do_not_depend_on_where_they_are_taken() -> None:
    """But for the choice of an algorithm; so one pass over the points is enough."""
    elsewhere = features(POINTS, values=lambda subject: random_terms(5))
    same = np.isclose(elsewhere.tpot, FOUND.tpot, rtol=1e-6, atol=1e-12)
    assert same.all(axis=1).mean() > 0.5
    assert same.mean() > 0.95


def test_a_first_token_of_few_sessions_agrees_as_well() -> None:
    terms = calibration(random_terms(6))
    some = tuple(p for p in points() if p.concurrency == 1)[::7]
    told = measured(some, terms)
    found = features(told, values=lambda subject: random_terms(6))
    assert first_token(found, terms_of(terms, found)) == pytest.approx(
        [p.ttft_s for p in told], rel=1e-6
    )


def test_the_order_of_points_does_not_matter() -> None:
    back = derived(POINTS[::-1])
    assert back.points == FOUND.points[::-1]
    assert back.tpot == pytest.approx(FOUND.tpot[::-1], rel=1e-12)
    assert back.batch.tolist() == FOUND.batch[::-1].tolist()
    assert back.subjects == FOUND.subjects[::-1]


def test_a_point_that_cannot_be_estimated_is_listed() -> None:
    longer = replace(POINTS[0], id="too long", prompt=10**7)
    found = derived([POINTS[1], longer, POINTS[2]])
    assert [row.name for row in found.failed] == ["too long"]
    assert found.points == (POINTS[1], POINTS[2])
    assert found.tpot.shape == (2, len(TERMS))


def test_some_points_are_taken() -> None:
    some = FOUND.take([3, 1])
    assert some.points == (POINTS[3], POINTS[1])
    assert (some.tpot == FOUND.tpot[[3, 1]]).all()


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    features(POINTS[:8], lambda done, total: told.append((done, total)))
    assert told[-1] == (8, 8)
