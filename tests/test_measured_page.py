"""The page of measured step times: its commands print what stands below them."""

import csv
import io
import re
from pathlib import Path
from typing import Any

import pytest

from costmodels.measurements.table import LOADS, UNITS
from planner.studies import rank
from specs.tables import MAX_BYTES, MAX_ROWS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/measured.md").read_text(encoding="utf-8")
EXAMPLE = "examples/measured/qwen3-32b-128k.yaml"
COMMANDS = [
    block.removeprefix("$ ").split("\n", 1)
    for block in re.findall(r"^```console\n(.*?)\n```$", PAGE, re.MULTILINE | re.DOTALL)
]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.mark.parametrize(("command", "shown"), COMMANDS)
def test_commands_print_what_is_shown(planner: Any, command: str, shown: str) -> None:
    done = planner(*command.split()[1:])
    assert done.code == 0
    lines = [line.rstrip() for line in done.out.split("\n")]
    assert [line for line in shown.split("\n") if line not in lines] == []


def test_every_column_is_on_the_page() -> None:
    columns = {"phase", "repeat", "stdev", *UNITS, *(c for load in LOADS.values() for c in load)}
    assert {column for column in columns if f"`{column}`" not in PAGE} == set()


def test_limits_are_on_the_page() -> None:
    assert f"at most {MAX_ROWS:,} rows and {MAX_BYTES / 1e6:g} MB" in PAGE


SPECS = (
    "examples/qwen3-32b-128k-hgx-h100.yaml",
    "examples/qwen3-235b-a22b-8k-hgx-h100.yaml",
    "examples/deepseek-v4-pro-chat-hgx-h200.yaml",
)


@pytest.mark.parametrize("spec", SPECS)
def test_a_filled_table_measures_the_best_plans(
    planner: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spec: str
) -> None:
    """Filled in with any times that rise with the load, its plans are inside the range."""
    monkeypatch.chdir(tmp_path)
    source = str(ROOT / spec)
    assert planner("measure", source, "--top", "2", "-o", "times.csv").code == 0
    rows = list(csv.DictReader(io.StringIO(Path("times.csv").read_text())))
    assert rows
    assert all(not row["seconds"] and not row["stdev"] for row in rows)
    before = rank(source)
    best = before.document(top=1)["plans"][0]
    for row in rows:
        base = best["step"]["seconds"] * (1.02 if row["phase"] == "decode" else 20)
        load = float(row["batch"]) * float(row.get("context") or row["tokens"])
        row["seconds"] = str(base * (1 + 1e-9 * load))
    with Path("times.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    after = rank(source, cost_model="measured:times.csv")
    inside = {p["basis"]["source"]: p["basis"]["inside"] for p in after.document(500)["plans"]}
    assert inside["times.csv"]


def test_measure_never_overwrites(planner: Any, tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("hours of work")
    done = planner("measure", EXAMPLE, "-o", str(file))
    assert (done.code, file.read_text()) == (2, "hours of work")
    assert "exists, and may hold measurements" in done.err


def test_measure_nothing(planner: Any) -> None:
    done = planner("measure", EXAMPLE, "--set", "space.tp=[1]")
    assert (done.code, done.out) == (3, "")
