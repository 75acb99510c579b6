"""The command line: exit codes, the documents it prints, and what it says in words."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXAMPLE = str(ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml")


def test_rank_answers(planner: Any) -> None:
    done = planner("rank", EXAMPLE)
    assert done.code == 0
    assert "0.238" in done.out


def test_rank_prints_one_document(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--json", "--top", "2")
    assert done.code == 0
    assert done.document["schema"] == "planner/ranking/1"
    assert [p["plan"]["tp"] for p in done.document["plans"]] == [2, 4]
    assert done.document["certificate"]["feasible"] == 3


def test_set_changes_a_leaf(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--json", "--set", "space.tp=[8]")
    assert [p["plan"]["tp"] for p in done.document["plans"]] == [8]


def test_csv_lists_the_feasible_plans(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--csv", "--top", "1")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert done.code == 0
    assert [row["tp"] for row in rows] == ["2", "4", "8"]


def test_out_writes_a_report(planner: Any, tmp_path: Path) -> None:
    done = planner("rank", EXAMPLE, "--json", "--out", str(tmp_path / "answer"))
    written = {path.name for path in (tmp_path / "answer").iterdir()}
    assert {"report.html", "plans.parquet", "result.json"} <= written
    assert done.document["plans"]
    assert "report.html" in done.err


@pytest.mark.parametrize(
    ("words", "path"),
    [
        (("rank", EXAMPLE, "--set", "space.tq=[8]"), "space.tq"),
        (("rank", EXAMPLE, "--set", "limits.cards=-1"), "limits.cards"),
        (("check", EXAMPLE, "--set", "workload.classes.continue.deadline=0"), "deadline"),
        (("explain", EXAMPLE, "--plan", "tpp=8"), "plan.tpp"),
        (("rank", "no-such-file.yaml"), ""),
        (("rank", EXAMPLE, "--no-such-option"), ""),
        (("rank", EXAMPLE, "--csv"), ""),
    ],
)
def test_bad_input_ends_with_2_and_an_error_document(
    planner: Any, words: tuple[str, ...], path: str
) -> None:
    done = planner(*words, "--json")
    assert done.code == 2
    assert done.document["schema"] == "planner/error/1"
    assert any(path in fault["path"] for fault in done.document["errors"])
    assert all(fault["message"] for fault in done.document["errors"])


def test_bad_input_in_words(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--set", "space.tq=[8]")
    assert done.code == 2
    assert not done.out
    assert done.err.startswith("error: ")
    assert "Traceback" not in done.err


def test_nothing_feasible_ends_with_3_and_the_conflict(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--json", "--set", "space.tp=[1]")
    assert done.code == 3
    assert done.document["plans"] == []
    conflict = done.document["conflict"]
    assert conflict["cores"] == [["memory", "space.tp"], ["on_time", "space.tp"]]
    repairs = [
        {change["path"]: change["to"] for change in repair["changes"]}
        for repair in conflict["relaxations"]
    ]
    deadline = "workload.classes.continue.deadline"
    memory, context = "hardware.memory.hbm.capacity", "workload.classes.continue.context"
    assert {"space.tp": [1, 2]} in repairs
    assert {memory: 102.04e9, deadline: pytest.approx(0.23481)} in repairs
    assert any(repair.get(context) == 47020 for repair in repairs)
    assert all(repair["verified"] for repair in conflict["relaxations"])


def test_nothing_feasible_in_words(planner: Any) -> None:
    done = planner("rank", EXAMPLE, "--set", "space.tp=[1]")
    words = " ".join(done.out.split())
    assert done.code == 3
    assert "102.04 GB" in words
    assert "234.810 ms" in words
    assert "47020" in words


def test_explain_an_excluded_plan(planner: Any) -> None:
    done = planner("explain", EXAMPLE, "--plan", "tp=1")
    assert done.code == 0
    assert "needs 102.03 GB a card, 80.00 GB there" in " ".join(done.out.split())


def test_explain_a_ranked_plan(planner: Any) -> None:
    document = planner("explain", EXAMPLE, "--plan", "tp=8", "--json").document
    assert (document["verdict"], document["rank"], document["of"]) == ("ranked", 3, 3)
    assert document["violations"] == []


def test_explain_the_space(planner: Any) -> None:
    done = planner("explain", EXAMPLE)
    assert done.code == 0
    assert "memory" in done.out


def test_check(planner: Any) -> None:
    assert planner("check", EXAMPLE, "--json").document["valid"] is True


def test_schema(planner: Any) -> None:
    assert "workload" in planner("schema").document["properties"]


def test_catalog(planner: Any) -> None:
    document = planner("catalog", "models", "--json").document
    assert document["schema"] == "planner/catalog/1"
    assert {"qwen3-32b", "qwen3-235b-a22b"} <= {entry["name"] for entry in document["models"]}
    assert "hgx-h100" in planner("catalog", "hardware").out
    assert planner("catalog", "no-such-kind").code == 2
