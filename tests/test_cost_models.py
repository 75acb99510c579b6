"""A cost model is a plug-in: one defined here is registered, listed, chosen and refused by name."""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from costmodels import base
from costmodels.base import RESOURCES, StepEstimate, cost_model, installed_models
from costmodels.plans import FloatArray
from costmodels.roofline import RooflineModel
from planner.cli import main
from planner.studies import check, rank
from specs.errors import SpecError

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml"
MODULE = "a_cost_model_of_the_tests"


class CommunicationFree(RooflineModel):
    """Roofline without collectives: what a plan would take if sending cost nothing."""

    name = "communication-free"

    def decode(self, *arguments: Any) -> StepEstimate:
        return _without_network(super().decode(*arguments))

    def prefill(self, *arguments: Any) -> StepEstimate:
        return _without_network(super().prefill(*arguments))


class Scaled(RooflineModel):
    """Roofline with every pass longer by a factor, given as an option."""

    name = "scaled"

    def __init__(self, options: str = "2") -> None:
        self.factor = float(options)
        if self.factor <= 0:
            raise ValueError("the factor must be greater than 0")

    def decode(self, *arguments: Any) -> StepEstimate:
        return _times(super().decode(*arguments), self.factor)

    def prefill(self, *arguments: Any) -> StepEstimate:
        return _times(super().prefill(*arguments), self.factor)


def _without_network(estimate: StepEstimate) -> StepEstimate:
    zero: Mapping[str, FloatArray] = {
        name: np.zeros_like(seconds) if RESOURCES.get(name) == "network" else seconds
        for name, seconds in estimate.components.items()
    }
    left = replace(estimate, components=zero)
    return replace(left, follows=left.seconds)


def _times(estimate: StepEstimate, factor: float) -> StepEstimate:
    longer = {name: seconds * factor for name, seconds in estimate.components.items()}
    return replace(estimate, components=longer, follows=estimate.follows * factor)


@pytest.fixture(autouse=True)
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install both models as a package of its own would: by metadata on the path, no more."""
    info = tmp_path / "models_of_the_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: models-of-the-tests\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        f"[{base.ENTRY_POINT_GROUP}]\n"
        f"communication-free = {MODULE}:CommunicationFree\n"
        f"scaled = {MODULE}:Scaled\n"
    )
    module = ModuleType(MODULE)
    vars(module).update(CommunicationFree=CommunicationFree, Scaled=Scaled)
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.syspath_prepend(str(tmp_path))
    cost_model.cache_clear()
    yield
    cost_model.cache_clear()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(words)
    printed = capsys.readouterr()
    return int(stop.value.code or 0), printed.out, printed.err


def test_both_are_installed() -> None:
    assert {"communication-free", "roofline", "scaled"} <= set(installed_models())
    assert isinstance(cost_model("communication-free"), CommunicationFree)
    assert type(cost_model("roofline")) is RooflineModel


def test_chosen_in_the_spec() -> None:
    document = rank(EXAMPLE, ["cost_model=communication-free"]).document()
    assert document["cost_model"] == "communication-free"
    assert document["plans"]
    for plan in document["plans"]:
        assert "allreduce" not in plan["step"]["breakdown"]
    usual = {p["plan"]["tp"]: p["outcome"]["makespan_s"] for p in rank(EXAMPLE).document()["plans"]}
    for plan in document["plans"]:
        assert plan["outcome"]["makespan_s"] < usual[plan["plan"]["tp"]]


def test_chosen_in_place_of_the_spec() -> None:
    stated = rank(EXAMPLE, ["cost_model=communication-free"]).frame()
    chosen = rank(EXAMPLE, cost_model="communication-free").frame()
    assert stated.equals(chosen)
    assert not stated.equals(rank(EXAMPLE).frame())


def test_a_factor_on_all_steps() -> None:
    sets = ["workload.classes.continue.deadline=10 s"]
    once = rank(EXAMPLE, sets).frame().set_index("tp")
    twice = rank(EXAMPLE, sets, cost_model="scaled").frame()
    thrice = rank(EXAMPLE, sets, cost_model="scaled:3").frame()
    for factor, frame in ((2, twice), (3, thrice)):
        longer = frame.set_index("tp").loc[once.index]
        for column in ("span_s", "tpot_s", "cost_per_on_time_session"):
            assert longer[column].tolist() == pytest.approx((factor * once[column]).tolist())


def test_verdicts_follow_the_model() -> None:
    """Twice as slow, TP 2 misses the 130 ms that it makes otherwise, and the reason says so."""
    assert 2 in set(rank(EXAMPLE).frame()["tp"])
    ranking = rank(EXAMPLE, cost_model="scaled")
    assert 2 not in set(ranking.frame()["tp"])
    (late,) = [e for e in ranking.document()["excluded"] if e["plan"]["tp"] == 2]
    assert {v["constraint"] for v in late["violations"]} == {"deadline", "on_time"}


def test_chosen_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "rank", str(EXAMPLE), "--json", "--cost-model", "communication-free")
    assert code == 0
    document = json.loads(out)
    assert document["cost_model"] == "communication-free"
    words = ("explain", str(EXAMPLE), "--json", "--plan", "tp=8", "--cost-model", "scaled:0.5")
    code, out, _ = run(capsys, *words)
    assert (code, json.loads(out)["verdict"]) == (0, "ranked")


def test_listed_in_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "catalog", "cost-models", "--json")
    assert code == 0
    listed = {row["name"]: row["title"] for row in json.loads(out)["cost-models"]}
    assert set(listed) == set(installed_models())
    assert listed["communication-free"].startswith("Roofline without collectives")
    assert "communication-free" in run(capsys, "catalog", "cost-models")[1]
    code, out, _ = run(capsys, "catalog", "cost-models", "scaled", "--json")
    assert [row["name"] for row in json.loads(out)["cost-models"]] == ["scaled"]


@pytest.mark.parametrize("command", ["rank", "explain"])
def test_unknown_name(capsys: pytest.CaptureFixture[str], command: str) -> None:
    words = (command, str(EXAMPLE), "--json", "--cost-model", "comunication-free")
    code, out, _ = run(capsys, *words)
    (fault,) = json.loads(out)["errors"]
    assert code == 2
    assert (fault["path"], fault["value"]) == ("cost_model", "comunication-free")
    assert fault["hint"] == "Did you mean 'communication-free'?"
    with pytest.raises(SpecError, match="Did you mean 'roofline'"):
        check(EXAMPLE, ["cost_model=rofline"])


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("roofline:fast", "cost model 'roofline' refuses these options"),
        ("communication-free:x", "cost model 'communication-free' refuses these options"),
        ("scaled:much", "cost model 'scaled' refuses these options: could not convert"),
        ("scaled:-1", "the factor must be greater than 0"),
    ],
)
def test_refused_options(capsys: pytest.CaptureFixture[str], name: str, says: str) -> None:
    code, out, err = run(capsys, "rank", str(EXAMPLE), "--cost-model", name)
    assert (code, out) == (2, "")
    assert says in err
    assert "Traceback" not in err
