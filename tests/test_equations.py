"""The page of equations names code that exists."""

import importlib
import re
from functools import reduce
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[1] / "docs/equations.md").read_text(encoding="utf-8")


def named() -> list[str]:
    """``module:name`` in code spans; a span without a module means that of the one before it."""
    found, module = list[str](), ""
    for before, name in re.findall(r"`([a-z_]+(?:\.[a-z_]+)+)?:([A-Za-z_.]+)`", PAGE):
        module = before or module
        found.append(f"{module}:{name}")
    return list(dict.fromkeys(found))


def test_the_page_names_code() -> None:
    assert len(named()) > 30


@pytest.mark.parametrize("place", named())
def test_it_is_there(place: str) -> None:
    module, name = place.split(":")
    assert callable(reduce(getattr, name.split("."), importlib.import_module(module)))
