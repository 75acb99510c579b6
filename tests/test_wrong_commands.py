"""Wrong input on the command line: exit code 2 and one message, with --json as one document."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from planner.cli import main

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml"

Words = tuple[str, ...]


class Wrong(NamedTuple):
    """A wrong command, and what the fault that it ends with says."""

    words: Callable[[Path], Words] | Words
    message: str
    path: str = ""
    value: str = ""
    hint: str = ""


def setting(text: str) -> Words:
    return ("rank", str(EXAMPLE), "--set", text)


def document(content: str | bytes) -> Callable[[Path], Words]:
    """A command that reads a document with this content."""

    def words(folder: Path) -> Words:
        file = folder / "spec.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return ("rank", str(file))

    return words


def added(line: str) -> Callable[[Path], Words]:
    return document(EXAMPLE.read_text(encoding="utf-8") + line)


def replaced(old: str, new: str) -> Callable[[Path], Words]:
    text = EXAMPLE.read_text(encoding="utf-8")
    assert old in text
    return document(text.replace(old, new))


def unwritable(folder: Path) -> Words:
    (folder / "file").write_text("not a folder")
    return ("rank", str(EXAMPLE), "--out", str(folder / "file" / "answer"))


WRONG: dict[str, Wrong] = {
    # Documents that are none.
    "empty file": Wrong(document(""), "the document is empty"),
    "only a comment": Wrong(document("# nothing\n"), "the document is empty"),
    "binary file": Wrong(document(bytes(range(256)) * 8), "not UTF-8 text"),
    "null bytes": Wrong(document(b"\0" * 1000), "not valid YAML"),
    "folder": Wrong(lambda folder: ("rank", str(folder)), "a folder, not a file"),
    "no such file": Wrong(("rank", "no-such.yaml"), "no such file"),
    "10 MB": Wrong(document("name: " + "x" * 10_000_000 + "\n"), "larger than 1000 kB"),
    "tag": Wrong(added("seed: !!python/object/apply:os.system [ls]\n"), "tags"),
    "own tag": Wrong(added("seed: !mine 1\n"), "tags"),
    "anchor": Wrong(added("seed: &a 1\n"), "anchors and aliases"),
    "key twice": Wrong(added("model: qwen3-8b\n"), "key 'model' stands twice"),
    "two documents": Wrong(added("---\na: 1\n"), "more than one document"),
    "list": Wrong(document("- 1\n"), "expected keys and values at the top"),
    "nested": Wrong(document("a: " + "[" * 5000 + "\n"), "nested more than 40 deep"),
    "broken YAML": Wrong(document("a: [1\n"), "not valid YAML on line"),
    # Values.
    "NaN": Wrong(
        replaced("workspace: 2 GiB", "workspace: .nan"),
        "must be finite",
        "assumptions.workspace",
        "nan",
    ),
    "infinite": Wrong(
        setting("hardware.memory.hbm.bandwidth=.inf"),
        "must be finite",
        "hardware.memory.hbm.bandwidth",
        "inf",
    ),
    "unit of another dimension": Wrong(
        setting("hardware.memory.hbm.capacity=80 GB/s"),
        "'GB/s' is a unit of bytes/s",
        "hardware.memory.hbm.capacity",
        "80 GB/s",
    ),
    "unknown unit": Wrong(
        setting("hardware.memory.hbm.capacity=80 GX"),
        "'GX' is no known unit",
        "hardware.memory.hbm.capacity",
        "80 GX",
    ),
    "degree of 0": Wrong(
        replaced("tp: [1, 2, 4, 8]", "tp: [1, 0]"), "must be at least 1", "space.tp[1]", "0"
    ),
    "deadline of 0": Wrong(
        replaced("130 ms}", "0}"), "must be greater than 0", "workload.classes[0].deadline", "0"
    ),
    "negative deadline": Wrong(
        setting("workload.classes.continue.deadline=-1 s"),
        "must be greater than 0",
        "workload.classes[0].deadline",
        "-1 s",
    ),
    "share above 1": Wrong(
        setting("workload.on_time_share=1.5"), "must be at most 1", "workload.on_time_share", "1.5"
    ),
    "half a card": Wrong(setting("limits.cards=7.5"), "", "limits.cards", "7.5"),
    "more cards than there are": Wrong(
        setting("limits.cards=9"),
        "must not exceed the 8 cards of hgx-h100, got 9",
        "limits.cards",
    ),
    "context too long": Wrong(
        setting("workload.classes.continue.context=200000"),
        "must not exceed the 131072 tokens",
        "workload.classes.continue",
    ),
    "word": Wrong(
        setting("assumptions.billing=alocated"),
        "",
        "assumptions.billing",
        "alocated",
        "Did you mean 'allocated'",
    ),
    # Names.
    "unknown key": Wrong(
        replaced("workspace: 2 GiB", "workspce: 2 GiB"),
        "unknown key",
        "assumptions.workspce",
        "",
        "Did you mean 'workspace'",
    ),
    "unknown axis": Wrong(
        replaced("pp: [1]", "pq: [1]"), "unknown key", "space.pq", "", "Did you mean"
    ),
    "unknown model": Wrong(
        replaced("model: qwen3-32b", "model: qwen3-33b"),
        "no model of that name",
        "model",
        "qwen3-33b",
        "Did you mean 'qwen3-32b'",
    ),
    "unknown machine": Wrong(
        setting("hardware=hgx-h10"), "no hardware of that name", "hardware", "hgx-h10"
    ),
    "rule with an unknown axis": Wrong(setting("space.where=[tpp <= 8]"), "", "space.where"),
    "rule that is no rule": Wrong(setting("space.where=[import os]"), "", "space.where"),
    "set without a value": Wrong(setting("space.tp"), "expected PATH=VALUE", "", "space.tp"),
    "set of an unknown path": Wrong(setting("space.tq=[1]"), "unknown key", "space.tq"),
    "set of an unknown class": Wrong(
        setting("workload.classes.continued.deadline=1 s"),
        "no item of that name",
        "workload.classes.continued",
        "",
        "Did you mean 'continue'",
    ),
    "set beyond the list": Wrong(
        setting("workload.classes[7].deadline=1 s"), "no such item", "workload.classes[7]"
    ),
    "set of a wrong value": Wrong(setting("space.tp=[1, 2"), "not valid YAML", "space.tp"),
    # What comes in a later version.
    "engine": Wrong(
        setting("engine=vlm"), "no engine of that name", "engine", "vlm", "Did you mean 'vllm'"
    ),
    "fleet": Wrong(
        setting("fleet={pools: [], demands: [{name: a, generate: 1, rate: 1}]}"),
        "must not be empty",
        "fleet.pools",
    ),
    # Options.
    "plan without a value": Wrong(
        ("explain", str(EXAMPLE), "--plan", "tp"), "expected AXIS=VALUE", "plan", "tp"
    ),
    "plan with an unknown axis": Wrong(
        ("explain", str(EXAMPLE), "--plan", "tpp=8"), "no such axis", "plan.tpp", "", "Did you mean"
    ),
    "plan with a degree of 0": Wrong(
        ("explain", str(EXAMPLE), "--plan", "tp=0"), "expected a whole number", "plan.tp", "0"
    ),
    "plan with a negative degree": Wrong(
        ("explain", str(EXAMPLE), "--plan", "tp=-8"), "expected a whole number", "plan.tp", "-8"
    ),
    "plan with an unknown word": Wrong(
        ("explain", str(EXAMPLE), "--plan", "allreduce=rign"),
        "no such value",
        "plan.allreduce",
        "rign",
        "Did you mean 'ring'",
    ),
    "executor": Wrong(
        ("rank", str(EXAMPLE), "--executor", "locl"),
        "expected local, processes[:N] or ray[:ADDRESS]",
        "search.executor",
        "locl",
        "Did you mean 'local'",
    ),
    "no processes": Wrong(
        ("rank", str(EXAMPLE), "--executor", "processes:0"), "N at least 1", "search.executor"
    ),
    "cost model": Wrong(
        ("rank", str(EXAMPLE), "--cost-model", "rooflin"),
        "no such cost model",
        "cost_model",
        "rooflin",
        "Did you mean 'roofline'",
    ),
    "unwritable folder": Wrong(unwritable, "cannot make this folder", "--out"),
    "no plans to show": Wrong(("rank", str(EXAMPLE), "--top", "0"), "--top"),
    "top in words": Wrong(("rank", str(EXAMPLE), "--top", "many"), "--top"),
    "JSON and CSV": Wrong(("rank", str(EXAMPLE), "--csv", "--json"), "exclude each other"),
    "no spec": Wrong(("rank",), "SPEC"),
    "unknown option": Wrong(("rank", str(EXAMPLE), "--tops", "3"), "--tops"),
    "unknown command": Wrong(("rnak", str(EXAMPLE)), "rnak"),
    "catalogue kind": Wrong(
        ("catalog", "modles"), "no such kind", "catalog", "modles", "Did you mean 'models'"
    ),
    "catalogue name": Wrong(
        ("catalog", "models", "qwen3-32c"),
        "no model of that name",
        "model",
        "qwen3-32c",
        "Did you mean 'qwen3-32b'",
    ),
    "catalogue of rules": Wrong(
        ("catalog", "constraints", "memry"),
        "no such entry",
        "catalog constraints",
        "memry",
        "Did you mean 'memory'",
    ),
    "path as a name": Wrong(("catalog", "models", "../hardware/hgx-h100"), "no model of that name"),
    "digits that are none": Wrong(
        ("rank", str(EXAMPLE), "--executor", "processes:²"), "N at least 1", "search.executor"
    ),
    "degree in digits that are none": Wrong(
        ("explain", str(EXAMPLE), "--plan", "tp=²"), "expected a whole number", "plan.tp"
    ),
    "format of KV that the card cannot multiply": Wrong(
        setting("model.formats.kv={dtype: fp4, compute: fp32}"), "needed for the kv of"
    ),
}

CASES = [pytest.param(wrong, id=name) for name, wrong in WRONG.items()]


def stopped(capsys: pytest.CaptureFixture[str], words: Words) -> tuple[str, str]:
    """What a command that ends with exit code 2 printed on stdout and on stderr."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    assert stop.value.code == 2
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert "Traceback" not in text
        assert len(text) < 2000
    return printed.out, printed.err


@pytest.mark.parametrize("wrong", CASES)
def test_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: Wrong) -> None:
    words = wrong.words(tmp_path) if callable(wrong.words) else wrong.words
    if "--json" in words:
        pytest.skip("asks for a document")
    out, err = stopped(capsys, words)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("error: ") == 1
    for part in (wrong.message, wrong.path, wrong.value, wrong.hint):
        assert part in err


@pytest.mark.parametrize("wrong", CASES)
def test_in_json(capsys: pytest.CaptureFixture[str], tmp_path: Path, wrong: Wrong) -> None:
    words = wrong.words(tmp_path) if callable(wrong.words) else wrong.words
    out, err = stopped(capsys, (*words, *(() if "--json" in words else ("--json",))))
    assert err == ""
    document: dict[str, Any] = json.loads(out)
    assert document["schema"] == "planner/error/1"
    (fault,) = document["errors"]
    assert set(fault) == {"path", "value", "message", "hint"}
    assert all(isinstance(text, str) for text in fault.values())
    assert fault["message"]
    assert wrong.message in fault["message"]
    assert fault["path"].startswith(wrong.path)
    assert fault["hint"].startswith(wrong.hint)
    if wrong.value:
        assert fault["value"] == wrong.value


def test_all_faults_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("check", str(EXAMPLE), "--set", "limits.cards=0", "--set", "space.tp=[0, -1]")
    out, _ = stopped(capsys, (*words, "--json"))
    found = [fault["path"] for fault in json.loads(out)["errors"]]
    assert sorted(found) == ["limits.cards", "space.tp[0]", "space.tp[1]"]
    _, err = stopped(capsys, words)
    assert len(re.findall("must be at least 1", err)) == 3


@pytest.mark.parametrize("command", ["rank", "explain", "check"])
def test_every_command_checks_first(capsys: pytest.CaptureFixture[str], command: str) -> None:
    _, err = stopped(capsys, (command, str(EXAMPLE), "--set", "search.executor=locl"))
    assert "Did you mean 'local'" in err


def test_nothing_is_left_behind(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    folder = tmp_path / "answer"
    stopped(capsys, ("rank", "no-such.yaml", "--out", str(folder)))
    assert not folder.exists() or not list(folder.iterdir())
