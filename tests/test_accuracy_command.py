"""``planner accuracy``: what it prints, writes and refuses."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from specs.points import read_points

SAMPLE = Path(__file__).parent / "data/points.csv"


def test_prints_tables(planner: Any) -> None:
    done = planner("accuracy", str(SAMPLE))
    assert done.code == 0
    assert "30 of 32 rows" in done.out
    for word in ("MAPE", "Kendall tau", "by hardware", "by batch", "prefill alone"):
        assert word in done.out


def test_prints_one_document(planner: Any) -> None:
    found = planner("accuracy", str(SAMPLE), "--json").document
    assert found["schema"] == "planner/accuracy/1"
    assert (found["rows"], found["estimated"]) == (32, 30)
    assert found["coverage"] == pytest.approx(30 / 32)
    assert {row["line"] for row in found["unestimated"]} == {32, 33}
    assert sum(cell["points"] for cell in found["cells"]) == found["tpot"]["points"]
    for groups in found["by"].values():
        assert sum(group["points"] for group in groups.values()) == found["tpot"]["points"]


def test_writes_files(planner: Any, tmp_path: Path) -> None:
    done = planner("accuracy", str(SAMPLE), "--out", str(tmp_path / "out"), "--json")
    files = {file.name for file in (tmp_path / "out").iterdir()}
    assert files == {"accuracy.json", "points.csv", "points.parquet", "accuracy.html"}
    assert json.loads((tmp_path / "out/accuracy.json").read_text()) == done.document
    table = pd.read_csv(tmp_path / "out/points.csv")
    assert len(table) == len(pd.read_parquet(tmp_path / "out/points.parquet")) == 30
    off = (table["tpot_s_predicted"] / table["tpot_s_measured"] - 1).abs().dropna()
    assert off.mean() == pytest.approx(done.document["tpot"]["mape"])
    assert "plotly" in (tmp_path / "out/accuracy.html").read_text()


def test_where_chooses_points(planner: Any) -> None:
    every = planner("accuracy", str(SAMPLE), "--json").document
    some = planner("accuracy", str(SAMPLE), "--json", "--where", "hardware=h200 sxm").document
    assert some["by"]["hardware"] == {"hgx-h200": every["by"]["hardware"]["hgx-h200"]}
    both = planner("accuracy", str(SAMPLE), "--json", "--where", "hardware=H200,engine=sglang")
    assert both.code == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--where", "modell=x"], "Did you mean 'model'?"),
        (["--where", "model"], "expected KEY=VALUE"),
        (["--where", "model=nothing"], "no point of the table is such"),
        (["--cost-model", "rooflin"], "Did you mean 'roofline'?"),
    ],
)
def test_bad_options(planner: Any, words: list[str], message: str) -> None:
    done = planner("accuracy", str(SAMPLE), *words)
    assert done.code == 2
    assert message in done.err


def test_the_spec_of_a_point_is_ranked(planner: Any, tmp_path: Path) -> None:
    """Also that of a machine with memories that hold nothing."""
    point = next(p for p in read_points(SAMPLE).points if p.machine == "ascend-950dt-16")
    (tmp_path / "spec.json").write_text(json.dumps(point.spec()), encoding="utf-8")
    done = planner("rank", str(tmp_path / "spec.json"), "--json")
    assert (done.code, len(done.document["plans"])) == (0, 1)


def test_bad_cells_name_row_and_column(planner: Any, tmp_path: Path) -> None:
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    header = lines[0].split(",")
    cells = lines[2].split(",")
    cells[header.index("tpot_ms")] = "fast"
    file = tmp_path / "bad.csv"
    file.write_text("\n".join([lines[0], lines[1], ",".join(cells)]), encoding="utf-8")
    done = planner("accuracy", str(file))
    assert done.code == 2
    assert "row 3, tpot_ms: must be a number above 0 (got fast)" in done.err
    assert planner("accuracy", str(tmp_path / "none.csv")).code == 2


def test_cross_validation_fits_a_model_of_its_own(planner: Any) -> None:
    refused = planner("accuracy", str(SAMPLE), "--cross-validate", "--cost-model", "roofline")
    assert refused.code == 2
    assert "cannot be named with --cross-validate" in refused.err
