import copy
from pathlib import Path
from typing import Any

import pytest

from specs import load_problem
from specs.errors import SpecError
from specs.hardware import HardwareSpec
from specs.paths import get, leaf_unit, numeric_leaves, parse, put, text
from specs.problem import Problem

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))


@pytest.fixture
def problem(raw: dict[str, Any]) -> Problem:
    return load_problem(raw)


def test_parts() -> None:
    parts = ("workload", "classes", 0, "deadline")
    assert parse("workload.classes[0].deadline") == parts
    assert text(parts) == "workload.classes[0].deadline"


@pytest.mark.parametrize(
    "path", ["", ".", "a.", ".a", "a..b", "a[", "a[x]", "[0]", "a=b", "a" * 600]
)
def test_malformed_paths(path: str) -> None:
    with pytest.raises(SpecError, match="not a path"):
        parse(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("workload.classes.continue.deadline", 0.13),
        ("workload.classes[0].deadline", 0.13),
        ("hardware.levels.nvlink.bandwidth", 450e9),
        ("hardware.card.peak.bf16", 989.4e12),
        ("model.layers[0].count", 64),
        ("space.tp", (1, 2, 4, 8)),
        ("limits.power", None),
    ],
)
def test_get(problem: Problem, path: str, value: object) -> None:
    assert get(problem, path) == value
    assert get(problem.model_dump(), path) == value


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("workload.classes.contniue.deadline", "Did you mean 'continue'"),
        ("workload.classes[1].deadline", r"workload\.classes has 1"),
        ("hardware.memory.hbn", "Did you mean 'hbm'"),
        ("limits.cards.x", "holds no further keys"),
        ("limits[0]", "limits is not a list"),
        ("model.layers.first", r"Write e\.g\. model\.layers\[0\]"),
        ("model.layer_count", "unknown key"),
    ],
)
def test_wrong_paths(problem: Problem, path: str, says: str) -> None:
    assert problem.model.layer_count  # what a spec derives is no part of it
    raw = problem.model_dump()
    for act in (lambda: get(problem, path), lambda: get(raw, path), lambda: put(raw, path, 1)):
        with pytest.raises(SpecError, match=says):
            act()


def test_put_copies(problem: Problem) -> None:
    raw = problem.model_dump()
    before = copy.deepcopy(raw)
    changed = put(raw, "workload.classes.continue.deadline", "1 s")
    assert raw == before
    assert changed["workload"]["classes"][0]["deadline"] == "1 s"
    assert Problem.model_validate(changed).workload.classes[0].deadline == 1


def test_put_adds_what_the_model_knows() -> None:
    assert put({}, "space.tp", [1]) == {"space": {"tp": [1]}}
    assert put({"limits": None}, "limits.power", 1) == {"limits": {"power": 1}}
    added = put({}, "assumptions.efficiency.decode.memory", 0.8)
    assert added == {"assumptions": {"efficiency": {"decode": {"memory": 0.8}}}}
    with pytest.raises(SpecError, match="Did you mean 'memory'"):
        put({}, "assumptions.efficiency.decode.memroy", 0.8)


def test_put_below_another_root() -> None:
    changed = put({"name": "x"}, "memory.hbm.capacity", "96 GB", root=HardwareSpec)
    assert changed["memory"] == {"hbm": {"capacity": "96 GB"}}


def test_numbers_of_counts_become_whole() -> None:
    assert isinstance(put({}, "limits.cards", 8.0)["limits"]["cards"], int)
    assert isinstance(put({}, "limits.power", 8.0)["limits"]["power"], float)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_every_numeric_leaf_is_reachable_by_its_path(file: Path) -> None:
    problem = load_problem(file)
    raw = problem.model_dump()
    leaves = numeric_leaves(problem)
    assert leaves
    for path, value in leaves.items():
        assert float(get(problem, path)) == value
        assert Problem.model_validate(put(raw, path, value)) == problem


def test_leaves_use_names_where_there_are_any(problem: Problem) -> None:
    leaves = numeric_leaves(problem)
    assert leaves["workload.classes.continue.deadline"] == 0.13
    assert leaves["hardware.levels.nvlink.latency"] == pytest.approx(0.822e-6)
    assert leaves["model.layers[0].count"] == 64
    assert "limits.power" not in leaves  # not set
    assert not any("qk_norm" in path for path in leaves)


def test_names_that_are_no_part_of_a_path_give_way_to_positions(raw: dict[str, Any]) -> None:
    raw["workload"]["classes"][0]["name"] = "v1.5"
    assert "workload.classes[0].deadline" in numeric_leaves(load_problem(raw))


@pytest.mark.parametrize(
    ("path", "unit"),
    [
        ("workload.classes.continue.deadline", "s"),
        ("hardware.levels[0].bandwidth", "bytes/s"),
        ("hardware.card.peak.bf16", "FLOP/s"),
        ("hardware.server.power", "W"),
        ("assumptions.overhead", "s"),
        ("workload.on_time_share", "share"),
        ("model.hidden", ""),
        ("model.nothing", ""),
    ],
)
def test_units(path: str, unit: str) -> None:
    assert leaf_unit(path) == unit
