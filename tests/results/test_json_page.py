"""``docs/json.md`` names every key of a ranking; the keys are a contract."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from planner import rank

ROOT = Path(__file__).resolve().parents[2]

NAMED = {
    word
    for span in re.findall(
        r"`([^`]+)`", (ROOT / "docs/json.md").read_text(encoding="utf-8").split("## Other")[0]
    )
    for word in re.findall(r"\w+", span)
}
"""Words of the page, up to other documents, that stand as code."""

NAMES_OF_THINGS = {"plan", "versions", "breakdown", "work", "value", "default"}
"""Keys of mappings whose own keys are axes, packages, components or values of a spec."""

SPECS = {
    "burst": ("examples/qwen3-32b-128k-hgx-h100.yaml", []),
    "infeasible": (
        "examples/qwen3-32b-128k-hgx-h100.yaml",
        ["workload.classes.continue.deadline=100 ms"],
    ),
    "steady": ("examples/qwen3-235b-a22b-8k-hgx-h100.yaml", []),
    "supernodes": ("examples/supernode-sizing.yaml", []),
    "rom": ("examples/chapter6/6-11-rom.yaml", []),
    "power": ("examples/chapter6/6-07-power.yaml", []),
}


def keys(value: Any) -> Iterator[str]:
    """Yield the keys of a document that are not names of things."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            if key not in NAMES_OF_THINGS:
                yield from keys(inner)
    elif isinstance(value, list):
        for item in value:
            yield from keys(item)


@pytest.mark.parametrize("spec", SPECS)
def test_every_key_is_on_the_page(spec: str) -> None:
    source, sets = SPECS[spec]
    found = set(keys(rank(str(ROOT / source), sets).document()))
    assert found - NAMED == set()


def test_the_specs_have_every_part() -> None:
    parts = {
        "by_domain": "supernodes",
        "conflict": "infeasible",
        "tiers": "rom",
        "with_default": "rom",
        "racks": "supernodes",
    }
    for key, spec in parts.items():
        source, sets = SPECS[spec]
        assert key in set(keys(rank(str(ROOT / source), sets).document())), key
