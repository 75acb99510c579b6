"""Folds: no point is judged by a fit that has seen its group."""

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from searches.calibration.features import Features
from searches.calibration.validate import folds, held_out
from searches.predict import predict
from specs.points import read_points
from tests.searches.calibration.synthetic import (
    calibration,
    derived,
    measured,
    points,
    random_terms,
)

SAMPLE = Path(__file__).parents[2] / "data/points.csv"
POINTS = (*points(), *read_points(SAMPLE).points)


def test_a_group_never_stands_in_two_folds() -> None:
    fold: dict[str, set[int]] = {}
    for point, number in zip(POINTS, folds(POINTS), strict=True):
        fold.setdefault(point.fold_group, set()).add(int(number))
    assert all(len(numbers) == 1 for numbers in fold.values())
    assert len({n for numbers in fold.values() for n in numbers}) > 3


@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_rows_does_not_matter(seed: int) -> None:
    expected = {p.id: int(n) for p, n in zip(POINTS, folds(POINTS), strict=True)}
    shuffled = random.Random(seed).sample(POINTS, len(POINTS))
    assert {p.id: int(n) for p, n in zip(shuffled, folds(shuffled), strict=True)} == expected


def test_times_do_not_matter() -> None:
    slower = [replace(p, tpot_s=2 * (p.tpot_s or 1), ttft_s=None) for p in POINTS]
    assert folds(slower).tolist() == folds(POINTS).tolist()


def test_lengths_of_one_model_on_one_machine_are_spread() -> None:
    of_model: dict[tuple[str, str], set[tuple[str, int]]] = {}
    for point, number in zip(POINTS, folds(POINTS), strict=True):
        of_model.setdefault((point.model, point.machine), set()).add((point.lengths, int(number)))
    for found in of_model.values():
        assert len({number for _, number in found}) == min(len(found), 10)


def test_each_point_is_estimated_by_the_fit_of_the_other_folds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    some = tuple(p for p in points() if p.concurrency in (1, 32) and p.cards < 4)
    found = derived(measured(some, calibration(random_terms(2))))
    seen: list[set[str]] = []

    def watched(rest: Features) -> Features:
        seen.append({p.fold_group for p in rest.points})
        return rest

    take = Features.take
    monkeypatch.setattr(Features, "take", lambda self, rows: watched(take(self, rows)))
    told: list[tuple[int, int]] = []
    held = held_out(found, progress=lambda done, total: told.append((done, total)))
    judged = predict(found.points, held)
    groups = {p.fold_group for p in found.points}
    left_out = [groups - s for s in seen if groups - s and len(groups - s) < len(groups) / 2]
    assert set().union(*left_out) == groups
    assert told[-1][0] == told[-1][1] == len(set(folds(found.points).tolist()))
    # Noiseless points of one law: what one group does not tell the others do.
    ratio = judged.tpot_s / [p.tpot_s or np.nan for p in judged.points]
    assert np.median(np.abs(ratio - 1)) < 0.05
    assert judged.inside.all()


def test_a_point_moves_no_estimate_of_its_own_fold() -> None:
    """Also by a factor of three, where it would move those of a fit that saw it."""
    some = tuple(p for p in points() if p.concurrency in (1, 32) and p.cards < 4)
    found = derived(measured(some, calibration(random_terms(2))))
    fold = folds(found.points)
    spoilt = replace(
        found,
        points=tuple(
            replace(p, tpot_s=3 * (p.tpot_s or 1), ttft_s=3 * (p.ttft_s or 1))
            if n == fold[0]
            else p
            for p, n in zip(found.points, fold, strict=True)
        ),
    )
    before, after = (predict(some.points, held_out(some)).tpot_s for some in (found, spoilt))
    assert after[fold == fold[0]] == pytest.approx(before[fold == fold[0]], rel=1e-9)
    assert not np.allclose(after[fold != fold[0]], before[fold != fold[0]], rtol=1e-3)


def test_no_points_have_no_folds() -> None:
    assert folds([]).tolist() == []
