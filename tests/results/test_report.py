"""The report: complete files, pictures that the bundle draws, and nothing from outside."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest

from planner.studies import rank
from results.plots import figures
from results.report import write_report

FOUR = "examples/qwen3-32b-128k-hgx-h100.yaml"
STEADY = "examples/own-hardware-inline.yaml"


@pytest.mark.parametrize(("source", "sets"), [(FOUR, []), (STEADY, []), (FOUR, ["space.tp=[1]"])])
def test_files_are_complete(source: str, sets: list[str], tmp_path: Path) -> None:
    ranking = rank(source, sets)
    document = ranking.document()
    written = [path.name for path in write_report(ranking, document, tmp_path)]
    assert written == ["result.json", "plans.parquet", "report.html"]
    assert json.loads((tmp_path / "result.json").read_text()) == json.loads(json.dumps(document))
    assert len(pd.read_parquet(tmp_path / "plans.parquet")) == len(ranking)
    page = (tmp_path / "report.html").read_text()
    assert ("No plan is feasible" in page) == (not ranking.feasible)
    markup = re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", markup)
    assert len(page) < 1.5e6


def test_pictures_use_what_the_bundle_draws() -> None:
    for source in (FOUR, STEADY):
        for figure in figures(rank(source).document()).values():
            assert {trace.type for trace in figure.data} <= {"bar", "scatter"}


def test_names_cannot_break_out_of_the_page(tmp_path: Path) -> None:
    ranking = rank(FOUR, ["name='<script>alert(1)</script>'"])
    list(write_report(ranking, ranking.document(), tmp_path))
    assert "<script>alert" not in (tmp_path / "report.html").read_text()
