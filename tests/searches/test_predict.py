"""Estimates of measured points: the same as a ranking of the one plan, point by point."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from costmodels.base import CostModel, cost_model
from planner.studies import rank
from searches.predict import named, predict
from specs.errors import SpecError
from specs.points import Point, read_points
from specs.problem import Problem

SAMPLE = Path(__file__).parents[1] / "data/points.csv"
POINTS = read_points(SAMPLE).points


def test_every_point_is_estimated() -> None:
    found = predict(POINTS, named("roofline"))
    assert found.failed == ()
    assert np.isfinite(found.tpot_s).all()
    prompted = np.array([p.prompt > 0 for p in POINTS])
    assert (np.isfinite(found.ttft_s) == prompted).all()
    assert found.inside.all()


@pytest.mark.parametrize("point", [p for p in POINTS if p.concurrency][::4], ids=lambda p: p.id)
def test_a_ranking_of_the_one_plan_says_the_same(point: Point) -> None:
    ranking = rank(point.spec())
    if not ranking.feasible:
        pytest.skip("the constraints know less of this plan than who measured it")
    outcomes = ranking.found.evaluated.outcomes.take(ranking.found.ranked)
    found = predict([point], named("roofline"))
    assert outcomes.tpot_s == pytest.approx(found.tpot_s, rel=1e-12)
    if point.prompt:
        assert outcomes.ttft_s == pytest.approx(found.ttft_s, rel=1e-12)


def test_points_do_not_depend_on_their_company() -> None:
    together = predict(POINTS, named("roofline"))
    alone = [predict([p], named("roofline")).tpot_s[0] for p in POINTS]
    assert together.tpot_s == pytest.approx(alone, rel=1e-12)


def test_a_model_for_each_point() -> None:
    class Slow:
        name = "slow"

        def __getattr__(self, name: str) -> object:
            return getattr(cost_model("roofline"), name)

    slow: CostModel = Slow()  # type: ignore[assignment]
    asked: list[str] = []

    def model_of(point: Point) -> CostModel:
        asked.append(point.fold_group)
        return slow if point.model == POINTS[0].model else cost_model("roofline")

    found = predict(POINTS, model_of)
    assert asked == [p.fold_group for p in POINTS]
    assert found.tpot_s == pytest.approx(predict(POINTS, named("roofline")).tpot_s)


def test_progress_is_told() -> None:
    told: list[tuple[int, int]] = []
    predict(POINTS, named("roofline"), lambda done, total: told.append((done, total)))
    assert told[-1] == (len(POINTS), len(POINTS))
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_one_bad_point_spoils_no_other() -> None:
    longer = replace(POINTS[0], id="too long", prompt=10**7)
    found = predict([POINTS[0], longer], named("roofline"))
    assert [f.name for f in found.failed] == ["too long"]
    assert "must not exceed" in found.failed[0].reason
    assert np.isfinite(found.tpot_s).tolist() == [True, False]


def test_a_model_that_does_not_fit_is_a_reason() -> None:
    class Picky:
        name = "picky"

        def check(self, problem: Problem) -> None:
            raise SpecError.single("cost_model", "picky", "knows nothing of this")

        def __getattr__(self, name: str) -> object:
            return getattr(cost_model("roofline"), name)

    picky: CostModel = Picky()  # type: ignore[assignment]
    found = predict(POINTS, lambda point: picky)
    assert len(found.failed) == len(POINTS)


def test_sessions_beyond_memory_wait() -> None:
    crowded = replace(POINTS[0], concurrency=10**6)
    open_load = replace(POINTS[0], concurrency=None)
    found = predict([crowded, open_load], named("roofline"))
    assert found.tpot_s[0] == pytest.approx(found.tpot_s[1])
