"""Thresholds: the published ones, ties, what moves nothing, and ranking again on both sides."""

import math
from typing import Any

import pytest

from planner.studies import rank
from planner.thresholds import thresholds
from searches.executors import LocalExecutor
from searches.exhaustive import search
from searches.probing import Asked, Line, grid, moving
from searches.variants import Leaf, Variant, leaf, numeric_leaves
from specs.errors import SpecError
from specs.load import load_problem
from tests.examples import FOUR_128K, LONG_CHATS, MOE_8K, SUPERNODES

Document = dict[str, Any]

DEADLINE = "workload.classes.continue.deadline"


def item(document: Document, path: str) -> Document:
    (found,) = (leaf for leaf in document["thresholds"] if leaf["path"] == path)
    return found


def ranked(source: str, path: str, value: float) -> list[tuple[Document, float]]:
    """The feasible plans with their costs, best first, as ``planner rank`` finds them."""
    found = search(load_problem(source, [f"{path}={value!r}"]), LocalExecutor())
    costs = found.evaluated.outcomes.cost
    return [(found.evaluated.plans.row(row), float(costs[row])) for row in found.ranked]


def wins(plan: Document, plans: list[tuple[Document, float]]) -> bool:
    """Whether a plan is among those that cost least."""
    return plan in [other for other, cost in plans if cost <= plans[0][1] * (1 + 1e-9)]


def confirm(source: str, document: Document) -> int:
    """Rank again 0.1 % on both sides of every threshold; return how many there are."""
    changes = [
        (found, found[side])
        for found in document["thresholds"]
        for side in ("below", "above")
        if found[side]
    ]
    for found, change in changes:
        confirm_one(source, found, change, document["best"]["plan"])
    return len(changes)


def confirm_one(source: str, found: Document, change: Document, best: Document) -> None:
    path, value, last = found["path"], change["value"], change["last"]
    away = math.copysign(1e-3 * value, value - last)
    # Whole figures change between neighbours, and some at once.
    apart = abs(value - last) >= 1 or (value - away - found["current"]) * away < 0
    inside, outside = (last, value) if apart else (value - away, value + away)
    before = ranked(source, path, inside)
    assert wins(best, before), (path, inside)
    try:
        after = ranked(source, path, outside)
    except SpecError:
        # The spec accepts nothing 0.1 % further.
        after = ranked(source, path, value)
    if change["plan"] is None:
        assert after == [], (path, outside)
    else:
        assert wins(change["plan"], after), (path, outside)
        assert not wins(best, after), (path, outside)


@pytest.fixture(scope="module")
def deadline() -> Document:
    return thresholds(FOUR_128K, over=["workload.classes[0].deadline"])


def test_tp2_wins_down_to_the_published_deadline(deadline: Document) -> None:
    assert deadline["best"]["plan"]["tp"] == 2
    found = item(deadline, DEADLINE)
    assert found["below"]["value"] * 1e3 == pytest.approx(119.111, abs=5e-4)
    assert found["below"]["plan"] is None
    assert found["below"]["verified"]
    assert found["above"] is None


def test_other_plans_are_feasible_from_the_published_deadlines(deadline: Document) -> None:
    found = {f["plan"]["tp"]: (f["side"], f["value"] * 1e3) for f in deadline["feasible_from"]}
    assert found.keys() == {4, 8}
    assert found[8] == ("from", pytest.approx(123.528, abs=5e-4))
    assert found[4] == ("from", pytest.approx(127.575, abs=5e-4))


def test_thresholds_are_where_the_ranking_changes(deadline: Document) -> None:
    """The limit is the time of the last of the sessions that must be on time."""
    outcome = rank(FOUR_128K).document(1)["plans"][0]["outcome"]
    needed = sorted(outcome["completion_s"])[2]
    assert item(deadline, DEADLINE)["below"]["value"] == pytest.approx(needed, rel=2e-6)


@pytest.mark.parametrize(
    ("source", "paths", "changes"),
    [
        (
            FOUR_128K,
            ["hardware.memory.hbm.capacity", "limits.cards", "workload.classes[0].sessions"],
            4,
        ),
        (MOE_8K, ["assumptions.efficiency.decode.network"], 1),
    ],
)
def test_a_sample_is_ranked_again(source: str, paths: list[str], changes: int) -> None:
    found = thresholds(source, over=paths)
    assert confirm(source, found) == changes


@pytest.mark.soak
@pytest.mark.parametrize("source", [FOUR_128K, MOE_8K, LONG_CHATS, SUPERNODES])
def test_all_thresholds_are_ranked_again(source: str) -> None:
    found = thresholds(source)
    assert confirm(source, found)
    changes = [one[side] for one in found["thresholds"] for side in ("below", "above")]
    assert all(change is None or change["verified"] for change in changes)


def test_the_nearest_comes_first() -> None:
    paths = ["limits.cards", DEADLINE, "assumptions.acceptance[0]"]
    found = thresholds(FOUR_128K, over=paths)
    assert [leaf["path"] for leaf in found["thresholds"]] == [DEADLINE, *paths[::2]]


def test_ties_are_no_change() -> None:
    """Plans that differ in what nothing uses cost the same at any value."""
    alone = thresholds(FOUR_128K, over=[DEADLINE])
    tied = thresholds(FOUR_128K, ["space.alltoall=[direct, pairwise]"], over=[DEADLINE])
    assert item(tied, DEADLINE)["below"]["value"] == item(alone, DEADLINE)["below"]["value"]
    assert item(tied, DEADLINE)["above"] is None


def test_a_whole_figure_changes_at_its_neighbour() -> None:
    change = item(thresholds(FOUR_128K, over=["limits.cards"]), "limits.cards")["below"]
    assert (change["last"], change["value"]) == (8, 7)
    assert change["plan"]["replicas"] == 3


def test_what_bounds_a_figure_is_said() -> None:
    found = item(thresholds(FOUR_128K, over=["limits.cards"]), "limits.cards")
    assert found["tried"]["above"] == {
        "values": [],
        "moves": False,
        "refused": "limits.cards: must not exceed the 8 cards of hgx-h100, got 9",
    }


def test_nothing_feasible_has_no_best_plan() -> None:
    found = thresholds(FOUR_128K, [f"{DEADLINE}=1 ms"], over=[DEADLINE])
    assert found["best"]["plan"] is None
    assert found["thresholds"] == found["feasible_from"] == []


def test_figures_that_move_nothing_are_found_together() -> None:
    """Moved together they seem to move if any does; moved alone, those that do not are alike."""
    problem = load_problem(FOUR_128K)
    asked = Asked(problem, Variant.of(problem))
    ends = [
        (found, values[-1])
        for found in numeric_leaves(problem)
        if (values := Line(asked, found).reach("above")[0])
    ]
    assert moving(asked, [end for end in ends if "prefill" in end[0].path]) == ()
    assert moving(asked, [end for end in ends if ".host." in end[0].path]) == ()
    mixed = [end for end in ends if end[0].path.startswith("hardware.memory")]
    assert "hardware.memory.hbm.bandwidth" in moving(asked, mixed)


def test_two_that_cancel_out_are_seen_to_move() -> None:
    problem = load_problem(FOUR_128K)
    asked = Asked(problem, Variant.of(problem))
    names = ("bandwidth", "topology.oversubscription", "links", "latency")
    ends = [
        (found, found.value * 1000)
        for name in names
        if (found := leaf(problem, f"hardware.levels.nvlink.{name}"))
    ]
    assert "hardware.levels.nvlink.bandwidth" in moving(asked, ends)


@pytest.mark.parametrize(
    ("value", "whole", "side", "values"),
    [
        (10.0, False, "above", (12.5, 20.0, 50.0, 200.0, 1000.0, 10000.0)),
        (10.0, False, "below", (8.0, 5.0, 2.0, 0.5, 0.1, 0.01, 0.0)),
        (8.0, True, "below", (7.0, 6.0, 4.0, 2.0, 0.0)),
        (1.0, True, "above", (2.0, 5.0, 20.0, 100.0, 1000.0)),
        (0.0, False, "below", ()),
        (0.0, True, "above", (1.0, 10.0, 100.0, 1e3, 1e4, 1e5, 1e6)),
    ],
)
def test_the_grid(value: float, whole: bool, side: Any, values: tuple[float, ...]) -> None:
    assert grid(Leaf("x", value, "", whole), side) == pytest.approx(values)


def test_thresholds_are_the_same_elsewhere(elsewhere: str, deadline: Document) -> None:
    assert thresholds(FOUR_128K, over=[DEADLINE], executor_name=elsewhere) == deadline
