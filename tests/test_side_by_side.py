"""Roofline and calibrated beside each other: the page, the default, and what plans rest on."""

import math
import re
import shlex
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels.base import cost_model
from costmodels.plans import PlanTable
from docs import make_side_by_side as page
from specs import catalog
from specs.calibration import Calibration, Covered
from specs.load import CALIBRATION, load_problem
from specs.problem import Problem

ROOT = page.ROOT
ENGINE_EXAMPLES = sorted(
    str(p.relative_to(ROOT)) for p in (ROOT / "examples/engine").glob("*.yaml")
)
H100 = str(ROOT / "examples/engine/minimax-m2.5-hgx-h100-vllm.yaml")
L40S = ("hardware=l40s-8", "limits.cards=1", "model=llama-3.1-8b")
"""A card that no data cover, and what it can serve."""

LOOSE = ("workload.classes.api.ttft=null", "workload.classes.api.tpot=null")
"""No limits."""

MADE = Calibration.model_validate(catalog.entry("calibrations", CALIBRATION))
TEXT = page.PAGE.read_text(encoding="utf-8")


@cache
def problem(path: str, *sets: str) -> Problem:
    return load_problem(str(ROOT / path), sets)


# The page


def test_every_engine_example_is_on_the_page() -> None:
    assert [path for path in ENGINE_EXAMPLES if path not in page.EXAMPLES] == []


def test_commands_of_the_page_run(planner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    commands = re.findall(r"^\$ planner (.+)$", TEXT, re.MULTILINE)
    assert len(commands) >= 2 * len(page.EXAMPLES)
    for command in commands:
        assert planner(*shlex.split(command), "--top", "1").code == 0, command


def test_the_page_says_how_the_winner_fares() -> None:
    for path, sets in page.EXAMPLES.items():
        found = page.compared(path, sets)
        same = found.best("roofline").row(0) == found.best("calibrated").row(0)
        told = page.sentence(found)
        assert ("**The winner stays**" in told) == same
        assert ("**The winner changes**" in told) != same


@pytest.mark.parametrize("path", page.EXAMPLES)
def test_what_grows_adds_up_to_what_the_cost_grows_by(path: str) -> None:
    found = page.compared(path, page.EXAMPLES[path])
    plan = found.best("calibrated")
    costs = [float(found.at(model, plan)[0].outcomes.cost[0]) for model in page.MODELS]
    assert sum(page.growth(found, plan).values()) == pytest.approx(costs[1] - costs[0], rel=1e-9)


# Laws


@cache
def skeletons(path: str) -> PlanTable:
    """Plans of an example that can be built, whether or not they fit."""
    return page.rank(problem(path)).found.evaluated.plans


@given(
    path=st.sampled_from(ENGINE_EXAMPLES),
    batch=st.integers(1, 2048),
    context=st.floats(1, 2e5),
    tokens=st.floats(1, 3e4),
)
def test_no_calibrated_pass_is_shorter(
    path: str, batch: int, context: float, tokens: float
) -> None:
    """Peaks are never exceeded and nothing is free, so the roofline is a bound from below."""
    asked = problem(path)
    plans = skeletons(path)
    many, held = np.full(len(plans), batch), np.full(len(plans), context)
    roofline, calibrated = (cost_model(name) for name in page.MODELS)
    steps = [m.decode(asked, plans, many, held).seconds for m in (roofline, calibrated)]
    assert (steps[1] >= steps[0] * (1 - 1e-9)).all()
    news = np.full(len(plans), tokens)
    passes = [
        m.prefill(asked, plans, plans.attention_dp, news, held).seconds
        for m in (roofline, calibrated)
    ]
    assert (passes[1] >= passes[0] * (1 - 1e-9)).all()


# The default


def on(card: str, engine: str | None) -> Problem:
    raw = {
        "model": "llama-3.1-8b",
        "hardware": card,
        "workload": {"kind": "steady", "classes": [{"name": "chat", "generate": 128}]},
        "limits": {"cards": 1},
    }
    return load_problem(raw | ({"engine": engine} if engine else {}))


def test_the_default_is_calibrated_where_data_cover_engine_and_card() -> None:
    assert on("hgx-h100", "vllm").cost_model == "calibrated"
    assert on("hgx-h100", None).cost_model == "roofline"
    assert MADE.cover("vllm", on("l40s-8", "vllm").hardware.card.name) is None
    assert on("l40s-8", "vllm").cost_model == "roofline"
    assert on("l40s-8", None).cost_model == "roofline"


def test_the_default_follows_what_is_set() -> None:
    """Engine and machine may come from ``--set``; a cost model that is stated stays."""
    spec = str(ROOT / "examples/deepseek-v4-pro-chat-hgx-h200.yaml")
    assert load_problem(spec).cost_model == "roofline"
    assert load_problem(spec, ["engine=sglang"]).cost_model == "calibrated"
    assert load_problem(spec, ["engine=sglang", "cost_model=roofline"]).cost_model == "roofline"
    assert load_problem(H100, L40S).cost_model == "roofline"


def test_engine_examples_are_calibrated() -> None:
    for path in ENGINE_EXAMPLES:
        asked = problem(path)
        assert asked.cost_model == "calibrated", path
        assert asked.engine is not None
        assert MADE.cover(asked.engine.name, asked.hardware.card.name), path


# What plans rest on


def cover(path: str = H100) -> Covered:
    asked = load_problem(path)
    assert asked.engine is not None
    found = MADE.cover(asked.engine.name, asked.hardware.card.name)
    assert found is not None
    return found


def test_basis_has_source_and_distance(planner: Any) -> None:
    done = planner("rank", H100, "--json", "--set", "space.attention_dp=[1]")
    for plan in done.document["plans"]:
        basis = plan["basis"]
        assert set(basis) == {"source", "inside", "distance", "noise"}
        assert f"calibration {MADE.name}" in basis["source"]
        assert f"{cover().points:,} points" in basis["source"]
        assert basis["inside"] == (basis["distance"] == 0)


def test_a_plan_inside_is_told_and_not_marked(planner: Any) -> None:
    words = ("rank", H100, "--set", "space.attention_dp=[1]", "--set", "space.ep=[2]")
    (plan,) = planner(*words, "--json").document["plans"]
    assert plan["basis"]["inside"]
    printed = planner(*words).out
    assert "Step times rest on calibration" in printed
    assert "?" not in printed


@pytest.mark.parametrize(
    ("sets", "plan", "axis"),
    [
        (("workload.concurrency=8192", "workload.classes.api.ttft=null"), "tp=8", "batch"),
        (("space.attention_dp=[8]",), "attention_dp=8", "attention_dp"),
    ],
)
def test_a_plan_beyond_the_data_is_marked(
    planner: Any, sets: tuple[str, ...], plan: str, axis: str
) -> None:
    words = [H100, *(w for text in sets for w in ("--set", text))]
    found = planner("explain", *words, "--plan", plan, "--json").document
    value = found["step"]["batch"] if axis == "batch" else found["plan"][axis]
    most = getattr(cover(), axis)[1]
    assert value > most
    assert not found["basis"]["inside"]
    assert found["basis"]["distance"] >= math.log(value / most) - 1e-9
    printed = " ".join(planner("explain", *words, "--plan", plan).out.split())
    assert "The plan lies outside the range of the data by a factor of " in printed


def test_an_unseen_model_is_marked_and_named(planner: Any) -> None:
    asked = ("--set", "model=qwen3-14b", "--set", "space.tp=[8]")
    document = planner("rank", H100, *asked, "--json").document
    assert not any(p["basis"]["inside"] for p in document["plans"])
    assert any("hold no qwen3-14b/bf16" in warning for warning in document["warnings"])
    printed = " ".join(planner("rank", H100, *asked).out.split())
    assert "? outside the range of the data: calibration" in printed
    assert "hold no qwen3-14b/bf16" in printed


def test_calibrated_without_data_says_that_it_is_the_roofline(planner: Any) -> None:
    words = ("rank", H100, *(w for text in (*L40S, *LOOSE) for w in ("--set", text)))
    steps = {}
    for model in page.MODELS:
        document = planner(*words, "--cost-model", model, "--json").document
        steps[model] = [p["step"]["seconds"] for p in document["plans"]]
        bases = [p["basis"] for p in document["plans"]]
        assert all(basis["inside"] == (model == "roofline") for basis in bases)
    assert steps["roofline"] == steps["calibrated"]
    assert any("No measurement covers vllm on" in warning for warning in document["warnings"])


# The calibration in words


def test_the_catalogue_shows_a_calibration_in_words(
    planner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    listed = planner("catalog", "calibrations")
    assert (listed.code, MADE.title in listed.out) == (0, True)
    shown = planner("catalog", "calibrations", CALIBRATION)
    printed = " ".join(shown.out.split())
    assert f"{MADE.points:,} measured points" in printed
    assert "decode: reads of routed experts" in printed
    assert "% of peak" in printed
    for pair in MADE.covered:
        assert pair.engine in printed
    whole = planner("catalog", "calibrations", CALIBRATION, "--json").document
    assert Calibration.model_validate(whole["calibrations"][0]) == MADE
