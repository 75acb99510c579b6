"""The page on doubts and trade-offs shows what the commands print."""

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path("docs/uncertainty.md").read_text(encoding="utf-8")

SHOWN = re.findall(r"```console\n\$ planner (.+?)\n(.*?)```", PAGE, re.DOTALL)


def in_one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize(("command", "expected"), SHOWN, ids=[command for command, _ in SHOWN])
def test_what_is_shown_is_what_is_printed(planner: Any, command: str, expected: str) -> None:
    printed = in_one_line(planner(*command.split()).out)
    parts = [in_one_line(part) for part in expected.split("…")]
    for part in parts:
        assert part in printed
