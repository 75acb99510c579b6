"""``planner uncertainty``: spreads as a spec states them, the answer, and wrong inputs."""

import re
from typing import Any

import numpy as np
import pytest

from planner.sweeps import Asking
from planner.uncertainty import uncertainty
from searches.spreads import uncertain
from specs.errors import SpecError
from specs.load import load_problem

SPEC = "examples/qwen3-32b-128k-hgx-h100.yaml"
HBM = "hardware.memory.hbm.bandwidth"
DEADLINE = "workload.classes.continue.deadline"


def stated(*sets: str) -> Any:
    (found,) = uncertain(load_problem(SPEC, sets))
    return found


@pytest.mark.parametrize(
    ("said", "ends"),
    [
        ("{X: ± 20 %}", (0.104, 0.156)),
        ("{X: ± 6 ms}", (0.124, 0.136)),
        ("{X: {kind: uniform, within: 10 %}}", (0.117, 0.143)),
        ("{X: {low: 100 ms, high: 0.2}}", (0.1, 0.2)),
        ("{X: [131 ms, 125 ms, 128 ms]}", (0.125, 0.131)),
        ("{X: {kind: normal, deviation: 1 ms}}", (0.127, 0.133)),
    ],
)
def test_spreads_reach_their_ends(said: str, ends: tuple[float, float]) -> None:
    found = stated(f"uncertainty={said.replace('X', DEADLINE)}")
    reached = found.at(np.array([0.0, 1.0]))
    assert reached == pytest.approx(ends)


def test_a_value_may_state_its_spread() -> None:
    problem = load_problem(SPEC, [f"{DEADLINE}=120 ms ± 10 %"])
    (found,) = uncertain(problem)
    assert problem.workload.classes[0].deadline == pytest.approx(0.12)
    assert found.leaf.path == DEADLINE
    assert found.at(np.array([0.0, 0.5, 1.0])) == pytest.approx([0.108, 0.12, 0.132])


def test_a_normal_spread_has_its_mean_and_deviation() -> None:
    found = stated(f"uncertainty={{{HBM}: {{kind: normal, deviation: 5 %}}}}")
    values = found.at((np.arange(4096) + 0.5) / 4096) / 3.35e12
    assert values.mean() == pytest.approx(1, abs=1e-4)
    assert values.std() == pytest.approx(0.05, rel=0.02)


def test_whole_figures_stay_whole() -> None:
    found = stated("uncertainty={workload.classes.continue.sessions: ± 3}")
    values = found.at(np.linspace(0, 1, 50))
    assert (values == np.round(values)).all()
    assert set(values) >= {1, 4, 7}


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    # From 119.1 ms on TP2 is in time and the cheapest; below, nothing is.
    sets = [f"uncertainty={{{DEADLINE}: {{low: 110 ms, high: 130 ms}}, {HBM}: ± 1 %}}"]
    return uncertainty(Asking(SPEC, sets), 64)


def test_the_chance_of_a_threshold_is_that_of_its_side(answer: dict[str, Any]) -> None:
    first = answer["plans"][0]
    assert (first["plan"]["tp"], first["best_as_stated"]) == (2, True)
    assert first["chance_best"] == 1
    assert answer["nothing_feasible"] == pytest.approx(9.111 / 20, abs=0.06)
    tp8 = next(row for row in answer["plans"] if row["plan"]["tp"] == 8)
    # Feasible from 123.528 ms on, of the draws from 119.111 ms on.
    assert tp8["chance_feasible"] == pytest.approx(6.472 / 10.889, abs=0.1)


def test_the_answer_is_the_same_everywhere(answer: dict[str, Any]) -> None:
    sets = [f"uncertainty={{{DEADLINE}: {{low: 110 ms, high: 130 ms}}, {HBM}: ± 1 %}}"]
    assert uncertainty(Asking(SPEC, sets, executor_name="processes:2"), 64) == answer


def test_the_command_says_what_to_take(planner: Any) -> None:
    shown = planner(
        "uncertainty", SPEC, "--samples", "32", "--set", f"uncertainty={{{DEADLINE}: ± 5 %}}"
    )
    assert shown.code == 0
    assert "has the least expected regret" in shown.out
    assert "Regret: what a plan costs more" in shown.out


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("{X: 3}", "uncertainty"),
        ("{X: {kind: gauss, deviation: 1 ms}}", "gauss|normal"),
        ("{X: {kind: normal}}", "deviation"),
        ("{X: {kind: normal, deviation: 0}}", "must be above 0"),
        ("{X: {kind: normal, deviation: -1 ms}}", "must be above 0"),
        ("{X: {kind: normal, deviation: 3 GB}}", "unit of bytes"),
        ("{X: {kind: uniform}}", "needs within, or low and high"),
        ("{X: {low: 1 ms}}", "needs both low and high"),
        ("{X: {low: 2 ms, high: 1 ms}}", "low must be less than high"),
        ("{X: {within: 5 %, low: 1 ms}}", "needs within, or low and high"),
        ("{X: [1 ms]}", "at least 2"),
        ("{X: [1 ms, fast]}", "expected a quantity"),
        ("{X: ± 200 %}", "reaches a value that is refused"),
        ("{workload.classes.continue.dedline: ± 5 %}", "deadline"),
        ("{model: ± 5 %}", "is no number"),
        ("{space.tp: ± 5 %}", "says how to search|no number"),
    ],
)
def test_wrong_spreads_are_refused_by_name(planner: Any, said: str, says: str) -> None:
    refused = planner("uncertainty", SPEC, "--set", f"uncertainty={said.replace('X', DEADLINE)}")
    assert refused.code == 2
    assert "Traceback" not in refused.err
    assert re.search(says, refused.err), refused.err


def test_nothing_feasible_is_an_answer(planner: Any) -> None:
    words = ("--set", f"uncertainty={{{DEADLINE}: ± 5 %}}", "--set", "space.tp=[1]")
    shown = planner("uncertainty", SPEC, "--samples", "32", *words)
    assert (shown.code, "Nothing is feasible" in shown.out) == (3, True)


def test_two_spreads_of_one_figure_are_refused() -> None:
    sets = [f"uncertainty={{{DEADLINE}: ± 5 %}}", f"{DEADLINE}=120 ms ± 10 %"]
    with pytest.raises(SpecError, match=r"stands twice|states a spread"):
        uncertain(load_problem(SPEC, sets))


@pytest.mark.parametrize("samples", ["0", "31", "100", "16384"])
def test_draws_are_a_power_of_two(planner: Any, samples: str) -> None:
    words = ("--samples", samples, "--set", f"uncertainty={{{DEADLINE}: ± 5 %}}")
    refused = planner("uncertainty", SPEC, *words)
    assert (refused.code, "power of 2" in refused.err) == (2, True)


def test_no_spread_is_no_question(planner: Any) -> None:
    refused = planner("uncertainty", SPEC)
    assert (refused.code, "states no spread" in refused.err) == (2, True)


def test_a_ranking_says_how_sure_it_is(planner: Any) -> None:
    shown = planner("rank", SPEC, "--json", "--set", f"uncertainty={{{DEADLINE}: ± 5 %}}")
    plans, whole = shown.document["plans"], shown.document["uncertainty"]["plans"]
    assert [item["chance_best"] for item in plans] == [1.0, 0.0, 0.0]
    assert {item["expected_regret"] for item in plans} == {r["expected_regret"] for r in whole}


def test_a_wrong_path_is_told_before_any_work(planner: Any) -> None:
    refused = planner("check", SPEC, "--set", "uncertainty={hardware.memory.hbm.bandwith: ± 5 %}")
    assert (refused.code, "bandwidth" in refused.err) == (2, True)
