"""Where the inputs of an engine come from."""

from typing import Any

import pytest

from specs.engine import Engine
from specs.engines import sources, written_out


def found(version: str | None, **options: Any) -> dict[str, str]:
    raw = written_out({"name": "vllm", "version": version, "options": options})
    return sources(Engine.model_validate(raw))


def test_every_default_has_its_source() -> None:
    named = found(None)
    raw = written_out("vllm")
    assert raw is not None and set(raw["memory"]) <= set(named)
    assert "spec" not in {named[name] for name in raw["memory"]}


@pytest.mark.parametrize(("version", "before"), [("0.20", "0.21"), ("0.6.3", "0.8")])
def test_an_older_version_names_what_differs(version: str, before: str) -> None:
    assert found(version)["covers"].startswith(f"before {before}: ")


def test_an_option_comes_from_the_spec() -> None:
    named = found("0.11", gpu_memory_utilization=0.5)
    assert named["share"] == "spec"
    assert named["context"] != "spec"


def test_an_engine_of_ones_own_comes_from_the_spec() -> None:
    raw = written_out("vllm")
    assert raw is not None
    assert set(sources(Engine.model_validate({**raw, "name": "mine"})).values()) == {"spec"}
