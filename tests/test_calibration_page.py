"""The page of calibration names every term, with its unit and its prior."""

from pathlib import Path

import pytest

from costmodels.calibration.terms import TERMS

PAGE = (Path(__file__).parents[1] / "docs/calibration.md").read_text(encoding="utf-8")
ROWS = {
    cells[0].strip("`"): cells
    for line in PAGE.splitlines()
    if line.startswith("| `")
    if (cells := [cell.strip() for cell in line.strip("|").split("|")])
}
UNITS = {"loss": "loss", "factor": "factor", "seconds": "s", "share": "share"}


def test_every_term_has_a_row() -> None:
    assert list(ROWS) == list(TERMS)


@pytest.mark.parametrize("name", TERMS)
def test_a_row_has_unit_and_prior(name: str) -> None:
    term = TERMS[name]
    assert ROWS[name][2] == UNITS[term.kind]
    assert float(ROWS[name][3]) == term.prior, "write the new prior into docs/calibration.md"
