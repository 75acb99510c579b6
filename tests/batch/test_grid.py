"""What a grid says, and the problems that it becomes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from costmodels.base import model_of
from specs.errors import SpecError
from specs.load import load_problem, problem_hash
from specs.problems import Collection, collect
from tests.batch.support import ROOT, SURVEY, TINY, written

EXAMPLE = ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml"


def collected(folder: Path, *sets: str, **changes: Any) -> Collection:
    return collect([written(folder, TINY | changes)], sets, model_of)


def test_everything_is_crossed_with_everything(tmp_path: Path) -> None:
    found = collected(tmp_path, vary={"limits.cards": [4, 8]})
    assert len(found.items) == 2 * 2 * 1 * 2
    assert len({problem_hash(item.problem) for item in found.items}) == 8
    for item in found.items:
        assert item.problem.model.name == item.labels["model"]
        assert item.problem.hardware.name == item.labels["hardware"]
        assert str(item.problem.limits.cards) == item.labels["limits.cards"]
        assert item.problem.space.pp == (1,)


def test_a_problem_of_a_grid_is_that_of_a_spec_that_says_the_same(tmp_path: Path) -> None:
    item = collected(tmp_path).items[1]
    burst = {key: value for key, value in TINY["workloads"][0].items() if key != "label"}
    spec = TINY["base"] | {"model": "qwen3-8b", "hardware": "hgx-h200", "workload": burst}
    assert problem_hash(item.problem) == problem_hash(load_problem(spec))


def test_labels_are_names_unless_given(tmp_path: Path) -> None:
    base = {"base": "hgx-h100", "overrides": {"memory.hbm.capacity": "96 GB"}}
    found = collected(tmp_path, hardware=["hgx-h100", {"label": "96 GB", **base}])
    first, second = found.items[:2]
    assert (first.labels["hardware"], second.labels["hardware"]) == ("hgx-h100", "96 GB")
    memory = second.problem.hardware.memory
    assert memory.tiers[memory.working].capacity == 96e9
    assert second.problem.name == "qwen3-8b · 96 GB · burst"


def test_base_may_be_a_file_that_gives_what_the_grid_leaves_out(tmp_path: Path) -> None:
    base = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    written(tmp_path, base, "base.yaml")
    found = collect(
        [written(tmp_path, {"base": "base.yaml", "models": ["qwen3-8b"]})], [], model_of
    )
    (item,) = found.items
    same = load_problem(base | {"model": "qwen3-8b"})
    assert problem_hash(item.problem) == problem_hash(same)
    assert item.labels["hardware"] == "hgx-h100"
    assert found.name == "grid"


def test_overrides_change_leaves_one_at_a_time(tmp_path: Path) -> None:
    overrides = [
        {"label": "as it is"},
        {"label": "two cards", "set": {"limits.cards": 2, "space.tp": [2]}},
    ]
    found = collected(tmp_path, overrides=overrides)
    assert [item.labels["override"] for item in found.items[:2]] == ["as it is", "two cards"]
    assert found.items[0].problem.limits.cards is None
    assert found.items[1].problem.limits.cards == 2
    assert found.items[1].problem.space.tp == (2,)


def test_skip_leaves_out_what_a_rule_names(tmp_path: Path) -> None:
    vary = {"limits.cards": [4, 8]}
    skip = [{"model": "qwen3-4b", "limits.cards": ["8"]}, {"hardware": ["hgx-h200"]}]
    found = collected(tmp_path, vary=vary, skip=skip)
    left = [(item.labels["model"], item.labels["limits.cards"]) for item in found.items]
    assert left == [("qwen3-8b", "4"), ("qwen3-8b", "8"), ("qwen3-4b", "4")]


def test_priorities_of_labels_add_up(tmp_path: Path) -> None:
    priority = {"model": {"qwen3-4b": 2}, "hardware": {"hgx-h200": 1, "hgx-h100": -1}}
    found = collected(tmp_path, priority=priority)
    assert [item.priority for item in found.items] == [-1, 1, 1, 3]


def test_sets_come_after_all_else(tmp_path: Path) -> None:
    found = collected(tmp_path, "limits.cards=2", vary={"limits.cards": [4, 8]})
    assert {item.problem.limits.cards for item in found.items} == {2}


def test_specs_and_folders_are_batches_too(tmp_path: Path) -> None:
    examples = ROOT / "examples"
    files = sorted(file.stem for file in examples.glob("*.yaml"))
    found = collect([str(examples)], [], model_of)
    assert found.name == "examples"
    assert [item.labels["spec"] for item in found.items] == files
    two = collect([str(EXAMPLE), str(examples / "own-hardware-inline.yaml")], [], model_of)
    assert len(two.items) == 2
    assert two.name == f"{EXAMPLE.stem} and 1 more"


def test_the_survey_holds_1000_problems() -> None:
    found = collect([str(SURVEY)], [], model_of)
    assert len(found.items) == 1000
    assert len({problem_hash(item.problem) for item in found.items}) == 1000


def test_faults_of_several_problems_are_told_once_with_a_count(tmp_path: Path) -> None:
    vary = {"limits.cards": [8, 9], "space.cp": [1, 0]}
    with pytest.raises(SpecError) as caught:
        collected(tmp_path, vary=vary)
    first, *others = caught.value.faults
    assert first.message == "3 faults in 12 of 16 problems; nothing was computed"
    told = {(fault.path, fault.value): fault.message for fault in others}
    assert "[qwen3-8b · hgx-h100 · burst · limits.cards=8 · space.cp=0 and 7 more]" in str(told)
    assert "[qwen3-8b · hgx-h200 · burst · limits.cards=9 · space.cp=1 and 1 more]" in str(told)


def test_a_model_check_stops_the_batch_as_well(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="2 faults in 2 of 4 problems"):

        def refuse(problem: Any) -> None:
            if problem.model.name == "qwen3-4b":
                raise SpecError.single("model", problem.hardware.name, "is not wanted")

        collect([written(tmp_path, TINY)], [], refuse)
