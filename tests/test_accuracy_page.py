"""The page of accuracy: rules, columns and figures of the points that come along."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from docs import make_accuracy
from planner.accuracy import compare
from specs.point_cells import COLUMNS
from specs.points import RULES, read_points

ROOT = Path(__file__).resolve().parents[1]
PAGE = make_accuracy.PAGE.read_text(encoding="utf-8")
SAMPLE = ROOT / "tests/data/points.csv"


def test_every_rule_and_column_is_on_the_page() -> None:
    assert [name for name in (*RULES, *COLUMNS) if f"`{name}`" not in PAGE] == []


def test_every_rule_says_how_many_points_it_applies_to() -> None:
    points = read_points(ROOT / make_accuracy.POINTS).points
    for name in RULES:
        count = sum(name in p.rules for p in points)
        assert re.search(rf"^\| `{name}` \| {count:,} \|", PAGE, re.MULTILINE), name


def test_every_row_without_an_estimate_is_on_the_page() -> None:
    for refused in read_points(ROOT / make_accuracy.POINTS).refused:
        assert refused.name in PAGE


@pytest.mark.parametrize("names", [["roofline"], ["roofline", "another"]])
def test_cost_models_stand_beside_each_other(names: list[str]) -> None:
    found = compare(SAMPLE)
    text = make_accuracy.text([replace(found, cost_model=name) for name in names])
    assert "$" not in text.replace("$ planner", "")
    (row,) = (line for line in text.splitlines() if line.startswith("| llama-3.3-70b |"))
    assert row.count("%") == 3 * len(names)
    assert all((f"MAPE, {name}" in text) == (len(names) > 1) for name in names)
