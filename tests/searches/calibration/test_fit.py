"""A fit finds the terms that points were made with, and knows how well it knows them."""

from functools import cache

import numpy as np
import pytest

from costmodels.calibration.effects import values_for
from costmodels.calibration.terms import TERMS
from searches.calibration.compose import compose
from searches.calibration.features import Features
from searches.calibration.fit import Fitted, fit, observations
from specs.calibration import Calibration, Subject
from tests.searches.calibration.synthetic import (
    CARD,
    ENGINE,
    PRIORS,
    calibration,
    derived,
    lasting,
    per_token,
    points,
    random_effects,
    random_terms,
    terms_of,
)

NAMES = tuple(TERMS)
WELL = 0.1
"""Standard deviation of a logarithm up to which a term counts as told by noiseless points."""


@cache
def made() -> Features:
    return derived(points())


def truth(seed: int) -> Calibration:
    return calibration(random_terms(seed), random_effects(made(), seed))


@cache
def fitted(seed: int, noise: float = 0.0) -> tuple[Features, Fitted]:
    found = lasting(made(), truth(seed), noise, seed)
    return found, fit(observations(found))


def off(found: Features, done: Fitted, known: Calibration, of: Subject) -> np.ndarray:
    """Logarithms of the terms of a subject over the true ones."""
    got = values_for(compose("found", done, found), of)
    true = values_for(known, of)
    return np.log([got[name] / true[name] for name in NAMES])


def deviation(done: Fitted, of: Subject) -> tuple[np.ndarray, np.ndarray]:
    return done.deviation({k: str(v) for k, v in of.model_dump(exclude_none=True).items()})


def subjects() -> list[Subject]:
    return sorted(set(made().subjects), key=str)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_known_terms_are_found_again(seed: int) -> None:
    """Of an engine on a card, for every model: what points tell within 5 %, mostly within 1 %."""
    found, done = fitted(seed)
    told = 0
    for subject in subjects():
        error, (after, _) = np.abs(off(found, done, truth(seed), subject)), deviation(done, subject)
        assert (error[after < WELL] < 0.05).all()
        assert np.median(error[after < WELL]) < 0.01
        assert (error < 1.96 * after).mean() > 0.95
        told += np.count_nonzero(after < WELL)
    assert told > 0.3 * len(NAMES) * len(subjects())


def test_estimates_agree_wherever_terms_do_not() -> None:
    """What points do not tell apart does not show in times either."""
    found, done = fitted(1)
    terms = terms_of(compose("found", done, found), found)
    measured = [point.tpot_s for point in found.points]
    assert per_token(found, terms) == pytest.approx(measured, rel=0.02)


def test_noise_widens_intervals_in_proportion() -> None:
    widths, told = [], None
    for noise in (0.02, 0.05, 0.1):
        _, done = fitted(1, noise)
        assert done.scale == pytest.approx(noise, rel=0.25)
        after, before = (
            np.array(d) for d in zip(*(deviation(done, s) for s in subjects()), strict=True)
        )
        told = after < 0.15 * before if told is None else told
        widths.append(after[told])
    assert told is not None
    assert np.count_nonzero(told) > 20
    for wider, narrower, factor in ((widths[1], widths[0], 2.5), (widths[2], widths[1], 2.0)):
        # The prior holds back what the data tell less well.
        assert 0.6 * factor < np.median(wider / narrower) < 1.25 * factor
        assert (wider > narrower).all()


def test_intervals_hold_the_truth_nineteen_times_of_twenty() -> None:
    inside = []
    for seed in range(10, 22):
        found, done = fitted(seed, 0.05)
        for subject in subjects():
            after, before = deviation(done, subject)
            error = np.abs(off(found, done, truth(seed), subject))
            inside.append((error < 1.96 * after)[after < 0.5 * before])
    share = np.concatenate(inside).mean()
    assert 0.9 <= share <= 1.0


def test_what_points_do_not_tell_is_named_and_stays() -> None:
    """Points of one card each say nothing of links."""
    some = [i for i, point in enumerate(made().points) if point.cards == 1]
    found = lasting(made().take(some), calibration(random_terms(4)))
    done = fit(observations(found))
    model = compose("one card", done, found)
    links = [n for n in NAMES if n.endswith(("network", "alltoall", "reduce"))]
    assert {f"{name}: {ENGINE} on {CARD}" for name in links} <= set(model.not_identified)
    for name in links:
        assert not model.terms[name].identified
        assert model.terms[name].value == pytest.approx(PRIORS[name], rel=1e-3)
    assert f"decode.weights: {ENGINE} on {CARD}" not in model.not_identified


def test_priors_of_a_card_move_what_points_do_not_tell() -> None:
    some = [i for i, point in enumerate(made().points) if point.cards == 1]
    found = lasting(made().take(some), calibration(random_terms(4)))
    # One measured card leaves the base free as well, so it takes a part of the way.
    priors = {CARD: {"start_up.reduce": 1.1, "decode.context": 3.0}, "another": {"prefill.step": 1}}
    plain, moved = (compose("c", fit(observations(found), p), found) for p in (None, priors))
    subject = found.subjects[0]
    ratio = {n: values_for(moved, subject)[n] / values_for(plain, subject)[n] for n in NAMES}
    assert ratio["start_up.reduce"] < 0.97
    for name in ("decode.context", "prefill.step"):
        assert ratio[name] == pytest.approx(1.0, rel=0.15)


def test_an_outlier_counts_little() -> None:
    found, _ = fitted(1, 0.02)
    point = found.points[40]
    wrong = list(found.points)
    wrong[40] = point.__class__(**{**vars(point), "tpot_s": 3 * (point.tpot_s or 1)})
    spoilt = Features(**{**vars(found), "points": tuple(wrong)})
    after, before = fit(observations(spoilt)), fit(observations(found))
    subject = found.subjects[41]
    known = truth(1)
    difference = off(spoilt, after, known, subject) - off(found, before, known, subject)
    well = deviation(before, subject)[0] < WELL
    assert np.abs(difference[well]).max() < 0.05
