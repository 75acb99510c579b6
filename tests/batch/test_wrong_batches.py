"""Wrong batches: exit code 2 and one clear message, before any work."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.batch.support import ROOT, TINY, written

EXAMPLE = str(ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml")


class Wrong(NamedTuple):
    """A wrong command, and what the fault that it ends with says."""

    words: Callable[[Path], list[str]]
    message: str
    path: str = ""
    hint: str = ""


def grid(**changes: Any) -> Callable[[Path], list[str]]:
    """A batch of the tiny grid with other keys; those that are ``None`` are left out."""
    said = {key: value for key, value in (TINY | changes).items() if value is not None}
    return lambda folder: [written(folder, said)]


def option(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: [written(folder, TINY), *words]


def text(content: str) -> Callable[[Path], list[str]]:
    def words(folder: Path) -> list[str]:
        (folder / "grid.yaml").write_text(content, encoding="utf-8")
        return [str(folder / "grid.yaml")]

    return words


def beside(folder: Path) -> list[str]:
    return [written(folder, TINY), EXAMPLE]


def empty(folder: Path) -> list[str]:
    (folder / "none").mkdir()
    return [str(folder / "none")]


def blocked(folder: Path) -> list[str]:
    (folder / "file").write_text("not a folder")
    return [written(folder, TINY), "--out", str(folder / "file" / "out")]


MANY = {"limits.cards": list(range(1, 200)), "space.tp": [[n] for n in range(1, 200)]}

WRONG: dict[str, Wrong] = {
    "nothing named": Wrong(lambda folder: [], "no spec is named"),
    "no such file": Wrong(lambda folder: ["nowhere.yaml"], "no such file"),
    "empty folder": Wrong(empty, "no file in this folder ends in"),
    "grid beside a spec": Wrong(beside, "a grid stands alone, and 2 files are named"),
    "unsafe YAML": Wrong(text("base: !!python/object/apply:os.system [ls]\n"), "tags"),
    "unknown key": Wrong(grid(hardwares=["hgx-h100"]), "unknown key", "hardwares", "'hardware'"),
    "unknown model": Wrong(
        grid(models=["qwen3-8b", "qwen3-33b"]), "no model of that name", "models[1]", "'qwen3-32b'"
    ),
    "unknown file": Wrong(grid(hardware=["mine/rack.yaml"]), "no such file", "hardware[0]"),
    "entry that is a number": Wrong(grid(models=[8]), "expected a name, the path", "models[0]"),
    "label that is a list": Wrong(
        grid(models=[{"label": ["a"], "base": "qwen3-8b"}]), "expected text", "models[0].label"
    ),
    "same label twice": Wrong(grid(models=["qwen3-8b"] * 2), "labels must differ", "models"),
    "no load": Wrong(grid(workloads=None), "missing, and the base has no workload", "workloads"),
    "base that is not there": Wrong(grid(base="base.yaml"), "no such file"),
    "unknown key of the base": Wrong(
        grid(base={"limit": {"cards": 8}}), "unknown key", "limit", "'limits'"
    ),
    "fault in a part": Wrong(
        grid(hardware=[{"base": "hgx-h100", "overrides": {"card.prise": 2}}]),
        "unknown key",
        "hardware[0].card.prise",
        "'price'",
    ),
    "path that leads nowhere": Wrong(
        grid(vary={"limits.card": [8]}), "unknown key", "limits.card", "'cards'"
    ),
    "nothing to vary": Wrong(grid(vary={"limits.cards": []}), "empty", "vary.limits.cards"),
    "override without label": Wrong(
        grid(overrides=[{"set": {"limits.cards": 8}}]), "missing", "overrides[0].label"
    ),
    "skip of an unknown label": Wrong(
        grid(skip=[{"hardware": "hgx-h300"}]), "no hardware has that label", "skip[0].hardware"
    ),
    "skip of what does not vary": Wrong(
        grid(skip=[{"machine": "hgx-h100"}]), "the grid varies nothing", "skip[0].machine"
    ),
    "skip of everything": Wrong(
        grid(skip=[{"hardware": ["hgx-h100", "hgx-h200"]}]), "leaves none of the 4", "skip"
    ),
    "priority of an unknown label": Wrong(
        grid(priority={"model": {"qwen3-9b": 1}}), "no model has that label", "priority.model"
    ),
    "priority that is text": Wrong(
        grid(priority={"model": {"qwen3-8b": "high"}}),
        "expected a whole number",
        "priority.model.qwen3-8b",
    ),
    "too many problems": Wrong(grid(vary=MANY), "a grid holds at most 20,000 problems"),
    "limit below nothing": Wrong(grid(limit={"seconds": 0}), "greater than 0", "limit.seconds"),
    "limit on the command line": Wrong(option("--limit-plans", "0"), "greater than or equal to 1"),
    "wrong setting": Wrong(option("--set", "limits.cards"), "expected PATH=VALUE"),
    "unknown cost model": Wrong(option("--cost-model", "rooflin"), "", "cost_model", "'roofline'"),
    "start from another study": Wrong(
        option("--set", "search.method=optuna", "--set", "search.start_from=0123abcd"),
        "no other study is at hand",
        "search.start_from",
    ),
    "unknown executor": Wrong(option("--executor", "slurm"), "expected local, processes"),
    "no store": Wrong(option("--store", "none"), "a batch is kept in a store", "--store"),
    "store of another kind": Wrong(option("--store", "mysql://h/d"), "SQLite or PostgreSQL"),
    "status of an unknown batch": Wrong(
        lambda folder: ["--status", "nightly"], "no batch of that name", "--status"
    ),
    "status beside specs": Wrong(option("--status", "tiny"), "stands alone", "--status"),
    "folder that cannot be made": Wrong(blocked, "cannot make this folder", "--out"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_batch(
    name: str, planner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    wrong = WRONG[name]
    words = wrong.words(tmp_path)
    store = [] if "--store" in words else ["--store", str(tmp_path / "store.db")]
    printed = planner("batch", *words, *store, "--json")
    assert printed.code == 2
    assert "Traceback" not in printed.err
    errors = printed.document["errors"]
    assert printed.document["schema"] == "planner/error/1"
    found = [e for e in errors if wrong.message in e["message"] and e["path"].endswith(wrong.path)]
    assert found, errors
    assert wrong.hint in found[0]["hint"]
    assert not list(tmp_path.glob("out/*/winners.*"))
