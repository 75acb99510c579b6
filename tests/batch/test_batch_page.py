"""``docs/batch.md`` names every key, option, state and column, and its grid is one."""

import re
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from costmodels.base import model_of
from planner.cli import app
from results.winners import ANSWER_COLUMNS, STATES
from specs.grid import BatchLimit, Grid, Override
from specs.problems import collect
from specs.space import AXES
from tests.batch.support import ROOT, written

PAGE = (ROOT / "docs/batch.md").read_text(encoding="utf-8")
COLUMNS = {*ANSWER_COLUMNS, "position", "state", "error", "seconds", "study"} - {*AXES}


@pytest.mark.parametrize("model", [Grid, Override, BatchLimit])
def test_keys_of_a_grid_are_on_the_page(model: type[Grid]) -> None:
    missing = [name for name in model.model_fields if f"`{name}`" not in PAGE and name != "name"]
    assert missing == []


@pytest.mark.parametrize("names", [STATES, sorted(COLUMNS)])
def test_states_and_columns_are_on_the_page(names: list[str]) -> None:
    assert [name for name in names if f"`{name}`" not in PAGE] == []


def test_options_are_on_the_page() -> None:
    command = get_command(app).commands["batch"]  # type: ignore[attr-defined]
    options = [option for p in command.params for option in p.opts if option.startswith("--")]
    assert len(options) > 8
    assert [option for option in options if f"`{option}" not in PAGE] == []


def test_the_grid_on_the_page_is_one(tmp_path: Path) -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = collect([written(tmp_path, yaml.safe_load(text))], [], model_of)
    assert len(found.items) == 2 * 2 * 2 * 2 * 2 - 8
    assert {item.priority for item in found.items} == {0, 10}
    assert found.limit == BatchLimit(seconds=300, plans=10_000_000)
