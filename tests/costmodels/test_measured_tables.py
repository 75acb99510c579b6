"""Tables that cannot be right are refused before any work, by file, row and column."""

from pathlib import Path
from typing import Any

import pytest

from costmodels.base import cost_model
from planner.studies import check, rank
from specs.errors import SpecError
from specs.load import load_problem
from specs.tables import MAX_BYTES, MAX_ROWS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml"

GOOD = """\
phase,tp,batch,context,milliseconds,stdev
decode,2,1,1000,10.1,0.1
decode,2,1,16000,10.6,0.1
decode,2,1,64000,12.8,0.1
decode,2,1,131064,15.9,0.1
decode,2,1,131071,15.9,0.1
decode,2,8,1000,10.6,0.1
decode,2,8,16000,15.1,0.1
decode,4,1,1000,5.3,0.1
decode,4,1,131064,8.0,0.1
"""

ROW_5 = "decode,2,1,131064,15.9,0.1"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cost_model.cache_clear()
    (tmp_path / "spec.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"))
    monkeypatch.chdir(tmp_path)


def refusal(text: str) -> SpecError:
    Path("times.csv").write_text(text)
    with pytest.raises(SpecError) as stop:
        check("spec.yaml", ["cost_model=measured:times.csv"])
    assert stop.value.source == "times.csv"
    return stop.value


def test_a_good_table_is_accepted() -> None:
    Path("times.csv").write_text(GOOD)
    check("spec.yaml", ["cost_model=measured:times.csv"])


WRONG: dict[str, tuple[str, list[tuple[str, str]]]] = {
    "unknown column": (
        GOOD.replace("stdev", "stddev"),
        [("column stddev", "no such column. Did you mean 'stdev'?")],
    ),
    "unknown axis": (GOOD.replace("tp", "tpp"), [("column tpp", "Did you mean 'tp'?")]),
    "no batch": (
        GOOD.replace("batch", "attention_dp"),
        [("column batch", "missing")],
    ),
    "no time": (GOOD.replace("milliseconds", "repeat"), [("", "got none")]),
    "two times": (
        GOOD.replace("stdev", "seconds"),
        [("", "exactly one of the columns seconds, milliseconds, microseconds is needed")],
    ),
    "no number": (
        GOOD.replace("15.9,", "fast,", 1),
        [("row 5, milliseconds", "must be a number greater than 0 (got fast)")],
    ),
    "not positive": (
        GOOD.replace(ROW_5, "decode,2,0,131064,-15.9,0.1"),
        [("row 5, batch", "whole number of 1 or more"), ("row 5, milliseconds", "got -15.9")],
    ),
    "no such phase": (
        GOOD.replace(ROW_5, "decoding" + ROW_5[6:]),
        [("row 5, phase", "must be decode or prefill (got decoding). Did you mean 'decode'?")],
    ),
    "no context": (
        GOOD.replace(ROW_5, "decode,2,1,,15.9,0.1"),
        [("row 5, context", "is empty")],
    ),
    "context of a prefill": (
        GOOD.replace(ROW_5, "prefill" + ROW_5[6:]),
        [("row 5, context", "belongs to no prefill row"), ("row 5, tokens", "is empty")],
    ),
    "one point twice": (
        GOOD + "decode,4,1,131064,9.1,0.1\n",
        [("row 11, milliseconds", "row 10 measured the same, tp=4 at batch 1, context 131064")],
    ),
    "a row in seconds": (
        GOOD.replace("15.9", "0.0159", 1),
        [("row 5, milliseconds", "0.0159 looks like seconds")],
    ),
    "a row in microseconds": (
        GOOD.replace("8.0", "8000", 1),
        [("row 10, milliseconds", "8000 looks like microseconds")],
    ),
    "a column in milliseconds": (
        GOOD.replace("milliseconds", "seconds"),
        [("column seconds", "its values look like milliseconds")],
    ),
    "an outlier": (
        GOOD.replace("131071,15.9", "131071,48"),
        [("row 6, milliseconds", "an outlier: 3")],
    ),
    "falls with context": (
        GOOD.replace("12.8", "7.8"),
        [("row 4, milliseconds", "26% less than row 3 with no more load")],
    ),
    "ambiguous axes": (
        GOOD.replace("stdev", "pp").replace(",0.1\n", ",\n") + "decode,,1,131064,8,1\n",
        [("row 11", "pp=1 and tp=2 of row 2 may be one plan. State the same axes in both")],
    ),
    "too short a row": (GOOD + "decode,4\n", [("", "row 11 has 2 cells, the header 6")]),
    "nothing filled in": (
        "phase,batch,context,seconds\ndecode,1,10,\n",
        [("", "no row has a time yet: fill in seconds")],
    ),
    "empty": ("", [("", "the table is empty")]),
    "too many rows": (
        "phase,batch,context,seconds\n" + "decode,1,1,1\n" * (MAX_ROWS + 1),
        [("", f"more than {MAX_ROWS:,} rows")],
    ),
    "too large": ("#" * (MAX_BYTES + 1), [("", f"larger than {MAX_BYTES / 1e6:g} MB")]),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_tables(case: str) -> None:
    text, expected = WRONG[case]
    faults = refusal(text).faults
    for path, words in expected:
        assert any(f.path == path and words in str(f) for f in faults), [str(f) for f in faults]


def test_every_slip_is_named() -> None:
    """Outliers and slips of a unit are all reported at once."""
    found = refusal(GOOD.replace(",10.", ",0.010").replace(",5.3", ",0.0053")).faults
    assert [f.path for f in found] == [f"row {line}, milliseconds" for line in (2, 3, 7, 9)]


@pytest.mark.parametrize("command", ["check", "rank"])
def test_the_command_line_ends_with_2(planner: Any, command: str) -> None:
    Path("times.csv").write_text(GOOD.replace("15.9", "fast", 1))
    Path("spec.yaml").write_text(
        EXAMPLE.read_text(encoding="utf-8").replace("roofline", "measured:times.csv")
    )
    done = planner(command, "spec.yaml")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: times.csv: row 5, milliseconds: must be a number")
    (fault,) = planner(command, "spec.yaml", "--json").document["errors"]
    assert fault["path"] == "row 5, milliseconds"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("measured:../times.csv", "must lie in the folder of the spec"),
        ("measured:none.csv", "none.csv: no such file"),
        ("measured:times.txt", "no such file"),
        ("measured", "name the table first"),
        ("measured:times.csv,base=rofline", "Did you mean 'roofline'"),
    ],
)
def test_files_that_are_not_read(name: str, says: str) -> None:
    Path("times.csv").write_text(GOOD)
    with pytest.raises(SpecError, match=says):
        check("spec.yaml", [f"cost_model={name}"])


def test_a_service_reads_no_files() -> None:
    Path("times.csv").write_text(GOOD)
    text = Path("spec.yaml").read_text().replace("roofline", "measured:times.csv")
    with pytest.raises(SpecError, match="files are not read here"):
        load_problem(text, files=False)
    assert load_problem(text).cost_model.startswith("measured:times.csv,sha256=")


def test_a_table_lies_beside_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("times.csv").write_text(GOOD)
    Path("spec.yaml").write_text(
        EXAMPLE.read_text(encoding="utf-8").replace("roofline", "measured:times.csv")
    )
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ranking = rank(tmp_path / "spec.yaml", ["space.tp=[2, 4]"])
    assert [p["basis"]["source"] for p in ranking.document()["plans"]] == [
        str(tmp_path / "times.csv")
    ] * len(ranking)


def test_an_edited_table_is_read_again() -> None:
    Path("times.csv").write_text(GOOD)
    before = rank("spec.yaml", ["cost_model=measured:times.csv"])
    Path("times.csv").write_text(GOOD.replace("15.9", "16.1"))
    after = rank("spec.yaml", ["cost_model=measured:times.csv"])
    spans = [float(r.frame().set_index("tp").span_s[2]) for r in (before, after)]
    assert spans == pytest.approx([8 * 15.9e-3, 8 * 16.1e-3])
    assert before.document()["problem_hash"] != after.document()["problem_hash"]


def test_rows_without_a_time_and_without_a_plan_are_told() -> None:
    Path("times.csv").write_text(GOOD + "decode,8,1,131064,,\ndecode,64,1,131064,3,0.1\n")
    notes = rank("spec.yaml", ["cost_model=measured:times.csv"]).document()["warnings"]
    assert "times.csv: rows without a time yet: 1." in notes
    assert "times.csv: this machine cannot run the plans of rows 12." in notes
