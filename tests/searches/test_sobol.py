"""Sobol indices against known ones: of a published function, and of a cost that is a sum."""

import math

import numpy as np
import pytest

from planner.sweeps import Asking, sobol
from searches.sobol import design, indices
from tests.examples import FOUR_128K


def test_indices_of_ishigami() -> None:
    """Ishigami and Homma (1990): sin x1 + 7 sin² x2 + 0.1 x3⁴ sin x1 between -π and π."""
    x = -math.pi + 2 * math.pi * design(3, 1024, 0)
    values = np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])
    found = indices(values, 3, 0)
    first = [0.5 * (1 + 0.1 * math.pi**4 / 5) ** 2, 49 / 8, 0.0]
    crossed = 0.01 * math.pi**8 * 8 / 225
    variance = sum(first) + crossed
    total = [first[0] + crossed, first[1], crossed]
    assert found.first == pytest.approx([part / variance for part in first], abs=0.01)
    assert found.total == pytest.approx([part / variance for part in total], abs=0.01)
    assert (found.first_ends == np.array(indices(values, 3, 0).first_ends)).all()
    for value, (low, high) in ((found.first, found.first_ends), (found.total, found.total_ends)):
        assert (low <= value).all()
        assert (value <= high).all()


def test_the_design_changes_one_column_at_a_time() -> None:
    points = design(3, 16, 7).reshape(5, 16, 3)
    a, b = points[:2]
    for leaf, mixed in enumerate(points[2:]):
        assert (mixed[:, leaf] == b[:, leaf]).all()
        others = [i for i in range(3) if i != leaf]
        assert (mixed[:, others] == a[:, others]).all()
    assert (design(3, 16, 7) == design(3, 16, 7)).all()
    assert (design(3, 16, 8) != design(3, 16, 7)).any()


def test_indices_of_a_cost_that_is_a_sum() -> None:
    """A burst under one plan costs its steps, to which overheads of a step and a layer add.

    Eight steps of 64 layers: the widths of the two parts are 1 ms and 64 · 20 µs, uniform, and
    the variances go with their squares.
    """
    sets = ["space.tp=[2]", "workload.classes[0].deadline=10 s"]
    over = [
        "assumptions.overheads.decode.step=0..1 ms",
        "assumptions.overheads.decode.layer=0..20 us",
        "hardware.memory.host.latency=1 us..2 us",
    ]
    found = sobol(Asking(FOUR_128K, sets), 64, over)
    widths = [1e-3, 64 * 20e-6, 0.0]
    known = [width**2 / sum(w**2 for w in widths) for width in widths]
    for kind in ("first", "total"):
        values = [item[kind]["value"] for item in found["indices"]]
        assert values == pytest.approx(known, abs=0.02)
    now = 0.2382216
    assert found["mean_cost"] == pytest.approx(now + 8 * 8 / 4 * sum(widths) / 2, rel=1e-3)
    assert found["points"] == 64 * 5


def test_points_without_a_plan_have_no_indices() -> None:
    found = sobol(
        Asking(FOUR_128K), 16, ["limits.cards=7..8", "workload.classes[0].deadline=50 ms..200 ms"]
    )
    assert 0 < found["without_plan"] < found["points"]
    assert found["indices"][0]["first"] is None
    assert found["mean_cost"] is None


def test_a_cost_that_does_not_vary_has_no_indices() -> None:
    found = sobol(
        Asking(FOUR_128K),
        16,
        ["assumptions.acceptance[0]=0.7..0.8", "workload.classes[0].deadline=150 ms..155 ms"],
    )
    assert found["without_plan"] == 0
    assert found["standard_deviation"] == 0
    assert found["indices"][0]["total"] is None
