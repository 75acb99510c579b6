"""The page of thresholds and sweeps shows what its commands print."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs/questions.md").read_text(encoding="utf-8")

SHOWN = re.findall(r"^```console\n\$ ((?:[^\n]*\\\n)*[^\n]*)\n(.*?)^```", PAGE, re.M | re.S)


def test_the_page_has_commands() -> None:
    assert [shlex.split(command)[1] for command, _ in SHOWN].count("sweep") == 4


@pytest.mark.parametrize(("command", "printed"), SHOWN)
def test_the_page_shows_what_is_printed(
    command: str, printed: str, planner: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "106")
    done = planner(*shlex.split(command.replace("\\\n", " "))[1:])
    assert done.code == 0
    assert [line.rstrip() for line in done.out.splitlines()] == printed.splitlines()
