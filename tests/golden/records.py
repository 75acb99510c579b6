"""The published records of chapter 6, and which tests cover them.

``chapter6.json`` holds the records: ``book_output`` is what the text states, ``recomputed`` the
same at full precision.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Document = dict[str, Any]

RECORDS: dict[str, Document] = {
    r["id"]: r
    for r in json.loads(Path(__file__).with_name("chapter6.json").read_text("utf-8"))["records"]
}

covered: set[str] = set()


def covers(identity: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note that a test checks a record."""

    def note(test: Callable[..., None]) -> Callable[..., None]:
        covered.add(identity)
        return test

    return note


def recomputed(identity: str) -> Document:
    return RECORDS[identity]["recomputed"]


def near(expected: Any, rel: float = 1e-9) -> Any:
    return pytest.approx(expected, rel=rel, abs=0)
