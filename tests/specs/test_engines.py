"""Where the inputs of an engine come from."""

from typing import Any

import pytest

from specs.engine import Engine
from specs.engines import sources, written_out
from specs.errors import SpecError
from specs.load import load_problem


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


def test_sets_change_one_thing_of_an_engine() -> None:
    spec = "examples/engine/minimax-m2.5-hgx-h100-vllm.yaml"
    stated = "engine.options.gpu_memory_utilization=0.8"
    older = load_problem(spec, [stated, 'engine.version="0.6"']).engine
    other = load_problem(spec, [stated, "engine.name=sglang"]).engine
    default = load_problem(spec, ["engine={name: vllm, version: '0.6'}"]).engine
    assert older and other and default
    assert (older.version, older.memory.share) == ("0.6", 0.8)
    assert older.memory.max_batched_tokens == default.memory.max_batched_tokens
    assert (other.name, other.memory.share) == ("sglang", 0.8)


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("engine.name=vlm", "Did you mean 'vllm'?"),
        ("engine.options.gpu_memory=0.5", "no such input"),
        ("engine.options.share=2", "at most 1"),
    ],
)
def test_wrong_sets_of_an_engine(setting: str, says: str) -> None:
    with pytest.raises(SpecError) as refused:
        load_problem("examples/engine/minimax-m2.5-hgx-h100-vllm.yaml", [setting])
    assert says in str(refused.value)


def test_there_must_be_an_engine_to_change() -> None:
    with pytest.raises(SpecError, match="names no engine"):
        load_problem("examples/qwen3-32b-128k-hgx-h100.yaml", ['engine.version="0.6"'])
