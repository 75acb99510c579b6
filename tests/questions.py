"""The page of questions 6-1 to 6-11 and its commands, and documents that these print.

Tests ask only what the page asks, so that it cannot show anything else.
"""

import contextlib
import io
import json
import os
import re
import runpy
import shlex
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

from planner.cli import main

Document = dict[str, Any]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples/chapter6"
PAGE = (ROOT / "docs/chapter6-questions.md").read_text(encoding="utf-8")

_LETTERS = "abcd abcde abcde abcd abcd abcde abcd abcde abcd abcde abcdef"
PARTS = dict(enumerate(_LETTERS.split(), start=1))
"""Parts of each question that have a published answer; 6-8 (f) asks for an essay."""

IN_WORDS = {
    "6-2a": "shapes of shards, and why partial sums are added",
    "6-3a": "who sends, computes and adds for one token",
    "6-4a": "which card holds a block after each round",
    "6-8a": "a drawing of the way between two cards",
}
"""Parts whose answer is not a number."""

FOUR_128K = "examples/qwen3-32b-128k-hgx-h100.yaml"
TWO_SERVERS = "examples/qwen3-32b-128k-two-hgx-h100.yaml"

answered: set[str] = set()


def answers(*parts: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note that a test checks the answers of some parts."""

    def note(test: Callable[..., None]) -> Callable[..., None]:
        answered.update(parts)
        return test

    return note


def says(question: str, *figures: str) -> None:
    """Check that the page states figures where it answers a question."""
    (text,) = re.findall(rf"^## {question} (.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    text = " ".join(text.split())
    assert [figure for figure in figures if figure not in text] == []


# Commands


def _commands() -> Iterator[tuple[str, list[str]]]:
    """Yield the commands of the page, and the lines of their output that it shows."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for part in block.replace(" \\\n    ", " ").removeprefix("$ ").split("\n$ "):
            command, *shown = part.rstrip("\n").split("\n")
            yield command, shown


COMMANDS = dict(_commands())


def _parsed(command: str) -> tuple[str, str, frozenset[tuple[str, str]]]:
    """Return what a command does, to what, and its options, whose order does not matter."""
    _, verb, target, *options = shlex.split(command)
    return verb, target, frozenset(zip(options[::2], options[1::2], strict=True))


KNOWN = {_parsed(command) for command in COMMANDS if command.startswith("planner ")}


@cache
def printed(command: str) -> tuple[int, str]:
    """Return the exit code of a command and what it prints where there is no terminal."""
    program, *words = shlex.split(command)
    out = io.StringIO()
    with contextlib.chdir(ROOT), contextlib.redirect_stdout(out), patch.dict(os.environ):
        os.environ.pop("COLUMNS", None)
        if program == "python":
            runpy.run_path(words[0], run_name="__main__")
            return 0, out.getvalue()
        try:
            main(words)
        except SystemExit as stop:
            return int(stop.code or 0), out.getvalue()
    raise AssertionError(f"{command} did not end")


def asked(verb: str, target: str, *sets: str, **options: str) -> Document:
    """Return the document of a command of the page; ``target`` may lie in ``FOLDER``."""
    if (FOLDER / target).is_file():
        target = f"examples/chapter6/{target}"
    words = ["planner", verb, target]
    for name, value in [*options.items(), *(("set", text) for text in sets)]:
        words += [f"--{name}", value]
    command = shlex.join(words)
    assert _parsed(command) in KNOWN, f"not on the page: {command}"
    return json.loads(printed(f"{command} --json")[1])


def script(name: str) -> str:
    """Return what a script of the folder prints."""
    command = f"python examples/chapter6/{name}"
    assert command in COMMANDS
    return printed(command)[1]


# Documents


def only(target: str, *sets: str) -> Document:
    """Return the one plan of a spec that allows one."""
    (plan,) = asked("rank", target, *sets)["plans"]
    return plan


def by(axis: str, target: str, *sets: str) -> dict[Any, Document]:
    """Return the feasible plans by their value of an axis."""
    return {plan["plan"][axis]: plan for plan in asked("rank", target, *sets)["plans"]}


def collective(document: Document, operation: str, algorithm: str) -> Document:
    """Return the row of a collective of a machine."""
    rows = document["collectives"]["rows"]
    return next(r for r in rows if (r["operation"], r["algorithm"]) == (operation, algorithm))
