"""``planner calibrate``: what it prints, writes and refuses."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from costmodels.calibrated import CalibratedModel
from costmodels.calibration.terms import TERMS
from planner import calibrate as command
from planner.cli import main
from results import calibration as report
from specs.calibration import Calibration
from specs.points import Point
from tests.searches.calibration.synthetic import calibration, measured, points, random_terms, table

KERNELS = Path(__file__).parents[1] / "benchmarks/points/kernels.json"

Row = dict[str, str]
Change = Callable[[list[Row]], None]


def few(point: Point) -> bool:
    return point.model in ("qwen3-8b", "qwen3-32b") and point.cards < 8


def rows() -> list[Row]:
    """Points with known terms, as rows of a table."""
    told = {p.id: p for p in measured(points(), calibration(random_terms(1))) if few(p)}
    found = []
    for line, row in enumerate(csv.DictReader(io.StringIO(table())), start=2):
        if point := told.get(f"row {line}"):
            times = {"tpot_ms": point.tpot_s, "ttft_ms": point.ttft_s}
            found.append(row | {k: f"{1e3 * (v or 0):.8g}" for k, v in times.items()})
    return found


ROWS = rows()


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(change: Change = lambda rows: None) -> Path:
        some = [dict(row) for row in ROWS]
        change(some)
        text = io.StringIO()
        writer = csv.DictWriter(text, list(some[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(some)
        (tmp_path / "mine.csv").write_text(text.getvalue(), encoding="utf-8")
        return tmp_path / "mine.csv"

    return write


def test_writes_what_the_cost_model_reads(
    planner: Any, file: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "calibration.yaml"
    done = planner("calibrate", str(file()), "-o", str(out), "--name", "mine", "--json")
    assert done.code == 0
    document = done.document
    assert document["schema"] == "planner/calibrate/1"
    assert (document["rows"], document["fitted"]) == (len(ROWS), len(ROWS))
    assert document["tpot"]["mape"] < 0.1
    text = out.read_text(encoding="utf-8")
    assert text.startswith("# Written on ")
    assert "planner calibrate" in text.splitlines()[1]
    assert "--name mine" in text.splitlines()[1]
    found = CalibratedModel(str(out)).calibration
    assert (found.name, found.points, len(found.data)) == ("mine", len(ROWS), 12)
    assert found.sources == (str(tmp_path / "mine.csv"),)
    whole = Calibration.model_validate(document["calibration"])
    for name, term in whole.terms.items():
        assert found.terms[name].value == pytest.approx(term.value, rel=1e-3)
    assert found.covered[0].batch == whole.covered[0].batch
    assert not list(tmp_path.glob("*.part"))


def test_estimates_with_it_are_the_measured_times(
    planner: Any, file: Callable[..., Path], tmp_path: Path
) -> None:
    out = tmp_path / "fitted.yaml"
    assert planner("calibrate", str(file()), "-o", str(out), "--no-validation").code == 0
    judged = planner("accuracy", str(file()), "--cost-model", f"calibrated:{out}", "--json")
    assert judged.document["tpot"]["mape"] < 0.02


def test_prints_terms_in_plain_words(
    planner: Any, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    done = planner("calibrate", str(file()), "--kernels", str(KERNELS), "--no-validation")
    assert done.code == 0
    for words in (
        f"{len(ROWS)} points of",
        "decode: reads of KV and states",
        "% of peak",
        "95 % between",
        "H200 SXM 141GB",
        "Told by the prior",
        "start_up.alltoall",
    ):
        assert words in done.out, words


def test_kernels_leave_their_notice(planner: Any, file: Callable[..., Path]) -> None:
    words = ("--kernels", str(KERNELS), "--no-validation", "--json")
    found = planner("calibrate", str(file()), *words).document["calibration"]
    assert "NVIDIA AIConfigurator" in found["notice"]


@pytest.mark.parametrize("name", TERMS)
def test_every_term_has_words(name: str) -> None:
    assert report.words(name)
    assert report.written(name, TERMS[name].prior)
    assert " - " in report.span(name, (1.0, 2.0))


def test_short_numbers_keep_whole_ones(tmp_path: Path) -> None:
    known = calibration(random_terms(2))
    pair = known.covered[0].model_copy(update={"context": (1.0, 131072.0)})
    text = report.text(known.model_copy(update={"covered": (pair,)}), "planner\ncalibrate x")
    found = yaml.safe_load(text)
    assert found["covered"][0]["context"] == [1, 131072]
    assert text.splitlines()[1] == "#   planner calibrate x"
    for name, term in found["terms"].items():
        assert term["value"] == pytest.approx(known.terms[name].value, rel=5e-4)


def drop(count: int) -> Change:
    def change(some: list[Row]) -> None:
        del some[count:]

    return change


def only(**cells: str) -> Change:
    def change(some: list[Row]) -> None:
        some[:] = [row for row in some if all(row[k] == v for k, v in cells.items())]

    return change


def one_group(some: list[Row]) -> None:
    only(model="Qwen3-32B", isl="128")(some)
    some += [dict(row) for row in some]


def alike(some: list[Row]) -> None:
    some[:] = [dict(some[0]) for _ in range(12)]


def times(factor: float, line: int | None = None) -> Change:
    def change(some: list[Row]) -> None:
        for number, row in enumerate(some, start=2):
            if line in (None, number):
                row["tpot_ms"] = f"{float(row['tpot_ms']) * factor:.8g}"

    return change


def renamed(some: list[Row]) -> None:
    for row in some:
        row["concurency"] = row.pop("concurrency_or_global_batch")


WRONG: dict[str, tuple[Change, tuple[str, ...], str]] = {
    "too few": (drop(9), (), "9 points with a time per token that can be estimated"),
    "none": (drop(1), (), "at least 10"),
    "one group": (one_group, (), "--no-validation"),
    "all alike": (alike, ("--no-validation",), "all points are of one configuration"),
    "an unknown column": (renamed, (), "column concurency: is not known"),
    "seconds": (times(1e-3), (), "column tpot_ms: its values do not look like milliseconds"),
    "one row in us": (times(1e3, 5), (), "row 5, tpot_ms: looks like another unit"),
    "one row in s": (times(1e-3, 7), (), "row 7, tpot_ms: looks like another unit"),
    "an outlier": (times(130, 6), (), "row 6, tpot_ms: an outlier"),
    "no name": (drop(99), ("--name", " "), "--name: must have 1 to 120 characters"),
    "no folder": (drop(99), ("-o", "nowhere/calibration.yaml"), "no such folder"),
    "another ending": (drop(99), ("-o", "calibration.csv"), "must end in .yaml"),
    "no kernels": (drop(99), ("--kernels", "none.json"), "none.json: no such file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_refused_with_one_message(
    planner: Any,
    file: Callable[..., Path],
    case: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    change, words, message = WRONG[case]
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*.yaml"))
    done = planner("calibrate", str(file(change)), *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert set(tmp_path.rglob("*.yaml")) == before


def test_options_are_refused_before_any_work(
    planner: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def never(*words: object) -> None:
        raise AssertionError("worked first")

    monkeypatch.setattr(command, "calibrate", never)
    assert planner("calibrate", "x.csv", "-o", str(tmp_path / "no/c.yaml")).code == 2


def test_an_interrupt_writes_nothing(
    file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def stopped(*words: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "fit", stopped)
    out = tmp_path / "calibration.yaml"
    out.write_text("kept", encoding="utf-8")
    with pytest.raises(SystemExit) as stop:
        main(["calibrate", str(file()), "-o", str(out), "--no-validation"])
    assert stop.value.code == 130
    assert out.read_text(encoding="utf-8") == "kept"
    assert {f.name for f in tmp_path.iterdir()} == {"mine.csv", "calibration.yaml"}


def test_sources_are_gathered() -> None:
    some = [p for p in points() if few(p)]
    labels = ["a/b@1 run 1", "a/b@1 run 2", "A blog (of spring)", ""]
    named = [
        Point(**{**vars(p), "labels": {**p.labels, "source": text}})
        for p, text in zip(some, labels, strict=False)
    ]
    assert command.sources(named, "mine.csv") == ("a/b@1", "A blog", "mine.csv")
    many = [
        Point(**{**vars(some[0]), "labels": {**some[0].labels, "source": f"x{i}/y"}})
        for i in range(45)
    ]
    assert command.sources(many, "mine.csv")[-1] == "5 more"


def test_the_document_is_json(planner: Any, file: Callable[..., Path]) -> None:
    done = planner("calibrate", str(file(drop(24))), "--no-validation", "--json")
    assert json.loads(done.out)["tpot"] is None
    assert done.document["refused"] == []
