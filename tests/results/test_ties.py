"""Plans that noise does not tell apart are ties, and the answer says what would separate them."""

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels.base import cost_model
from planner.studies import rank
from searches.objective import APART, repetitions, standard_error, within_noise

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = str(ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml")
HEADER = "phase,tp,batch,context,milliseconds,stdev\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost_model.cache_clear()
    monkeypatch.chdir(tmp_path)


def answer(step_ms: dict[int, float], stdev: float) -> dict[str, Any]:
    """Rank the example by steps measured over its whole context."""
    Path("times.csv").write_text(
        HEADER
        + "".join(
            f"decode,{tp},1,{context},{ms},{stdev * ms}\n"
            for tp, ms in step_ms.items()
            for context in (131064, 131072)
        )
    )
    return rank(EXAMPLE, cost_model="measured:times.csv").document()


def test_measuring_changes_the_winner() -> None:
    assert [p["plan"]["tp"] for p in rank(EXAMPLE).document()["plans"]] == [2, 4, 8]
    document = answer({2: 16.2, 4: 8.0}, 0.0)
    assert [p["plan"]["tp"] for p in document["plans"]] == [4, 2, 8]
    best, second, _ = document["plans"]
    # Two rounds of eight steps on eight cards for four sessions, against one round.
    assert best["outcome"]["cost_per_on_time_session"] == pytest.approx(8 * 16 * 8.0e-3 / 4)
    assert second["outcome"]["cost_per_on_time_session"] == pytest.approx(8 * 8 * 16.2e-3 / 4)
    assert not second["tie_with_best"]
    assert best["basis"] == {"source": "times.csv", "inside": True, "distance": 0, "noise": 0}


def test_a_tie_says_how_often_to_measure_again() -> None:
    document = answer({2: 16.2, 4: 8.0}, 0.01)
    best, second, _ = document["plans"]
    assert (best["tie_with_best"], second["tie_with_best"]) == (False, True)
    error = sqrt(2) * 0.01
    again = int((APART * error / (16.2 / 16 - 1)) ** 2)
    assert second["reason"] == (
        f"measured within noise of the best: 1.2% against a standard error of 1.4%; "
        f"repeat both {again} more times to tell them apart"
    )
    assert "with 1 more that noise does not tell from it" in best["reason"]


def test_far_apart_is_no_tie() -> None:
    assert not answer({2: 16.2, 4: 7.5}, 0.01)["plans"][1]["tie_with_best"]


def test_estimates_are_marked_and_told(planner: Any) -> None:
    """TP 4 and 8 have no rows: their estimates, scaled like TP 2, are marked and not trusted."""
    sets = ("--set", "workload.classes.continue.deadline=200 ms")
    answer({2: 16.2}, 0.001)
    words = ("rank", EXAMPLE, "--cost-model", "measured:times.csv", *sets)
    document = planner(*words, "--json").document
    inside = {p["plan"]["tp"]: p["basis"]["inside"] for p in document["plans"]}
    assert inside == {2: True, 4: False, 8: False}
    (four,) = [p for p in document["plans"] if p["plan"]["tp"] == 4]
    assert four["reason"].startswith("within the error of its estimate: 7.")
    assert four["basis"]["noise"] > 0.05
    printed = " ".join(planner(*words).out.split())
    assert "2=? tp=4" in printed
    assert "? outside the range of the data: roofline at stated efficiencies, times 1.09" in printed


def test_a_best_plan_without_measurements_is_told() -> None:
    document = answer({8: 5.2}, 0.001)
    assert document["plans"][0]["plan"]["tp"] == 2
    assert any("measure it before you rely on its rank" in w for w in document["warnings"])


def test_late_by_an_estimate_is_told() -> None:
    """Scaled like TP 2, TP 4 would be late: no measurement says so."""
    document = answer({2: 16.2}, 0.001)
    assert [p["plan"]["tp"] for p in document["plans"]] == [2]
    (told,) = [w for w in document["warnings"] if "ruled out by time limits" in w]
    assert told.startswith("2 plans")


shares = st.floats(1e-4, 0.5)


@given(shares, shares, shares)
def test_repetitions_separate(more: float, one: float, other: float) -> None:
    """After so many more the difference counts, and after one less it would not."""
    error = float(np.hypot(one, other))
    costs, noise = np.array([1.0, 1 + more]), np.array([one, other])
    if not within_noise(costs, noise)[1]:
        return
    again = repetitions(more, error)
    assert again >= 1
    assert not within_noise(costs, noise / sqrt(again + 2))[1]
    assert within_noise(costs, noise / sqrt(again) / (1 + 1e-9))[1]
    assert standard_error(noise)[1] == pytest.approx(error)


def test_no_noise_makes_no_tie() -> None:
    assert not within_noise(np.array([1.0, 1.0]), np.zeros(2)).any()
