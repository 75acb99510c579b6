"""``planner tradeoffs``: the front, its knee, and the price of limits."""

from typing import Any

import numpy as np
import pytest

from planner.sweeps import Asking
from planner.tradeoffs import tradeoffs
from results.tradeoffs import OBJECTIVES, knee

BURST = "examples/qwen3-32b-128k-hgx-h100.yaml"
STEADY = "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"


@pytest.fixture(scope="module")
def steady() -> dict[str, Any]:
    return tradeoffs(Asking(STEADY, ["space.tp=open", "space.replicas=open"]))


def test_no_plan_of_the_front_beats_another(steady: dict[str, Any]) -> None:
    points = np.array([[row[name] for name in OBJECTIVES] for row in steady["front"]])
    for point in points:
        assert not ((points <= point).all(axis=1) & (points < point).any(axis=1)).any()
    assert sum(row["knee"] for row in steady["front"]) == 1


def test_prices_are_what_ranking_again_saves(planner: Any, steady: dict[str, Any]) -> None:
    priced = [row for row in steady["limits"] if not row["refused"]]
    dear = priced[0]
    assert dear["path"] == "hardware.memory.hbm.capacity"
    opened = ("--set", "space.tp=open", "--set", "space.replicas=open")

    def cost(*words: str) -> float:
        shown = planner("rank", STEADY, "--json", *opened, *words)
        return shown.document["plans"][0]["outcome"]["cost_per_on_time_session"]

    saved = cost() - cost("--set", f"{dear['path']}={dear['moved_to']!r}")
    assert dear["saves"] == pytest.approx(saved)
    assert dear["saves_per_unit"] == pytest.approx(saved / (dear["moved_to"] - dear["value"]))


def test_more_of_a_limit_never_costs(steady: dict[str, Any]) -> None:
    assert all(row["saves"] >= -1e-12 for row in steady["limits"] if row["saves"] is not None)


def test_what_a_machine_does_not_have_is_refused_by_name() -> None:
    rows = tradeoffs(Asking(BURST))["limits"]
    (cards, _) = [row for row in rows if row["path"] == "limits.cards"]
    assert "must not exceed the 8 cards" in cards["refused"]


@pytest.mark.parametrize(
    ("cost", "time", "bend"),
    [
        ([1.0, 1.1, 5.0], [10.0, 2.0, 1.0], 1),
        ([1.0, 3.5, 5.0], [10.0, 9.0, 1.0], 0),  # no point lies below the line
        ([1.0], [1.0], 0),
        ([1.0, 2.0], [3.0, 3.0], 0),
    ],
)
def test_the_knee_is_where_the_front_bends(cost: list, time: list, bend: int) -> None:
    assert knee(np.array(cost), np.array(time)) == bend


def test_nothing_feasible_is_an_answer(planner: Any) -> None:
    shown = planner("tradeoffs", BURST, "--set", "space.tp=[1]")
    assert (shown.code, "Nothing is feasible" in shown.out) == (3, True)


def test_files_and_words(planner: Any, tmp_path: Any) -> None:
    shown = planner("tradeoffs", BURST, "--out", str(tmp_path))
    assert shown.code == 0
    assert "not beaten in cost, times and cards at once" in shown.out
    assert "https://" not in (tmp_path / "tradeoffs.html").read_text().split("</script>")[-1]
    assert (tmp_path / "tradeoffs.json").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--set", "limits.card=3"), "cards"),
        (("--executor", "rey"), "ray"),
        (("--cost-model", "rufline"), "roofline"),
    ],
)
def test_wrong_questions(planner: Any, words: tuple[str, ...], says: str) -> None:
    refused = planner("tradeoffs", BURST, *words)
    assert (refused.code, says in refused.err) == (2, True), refused.err
