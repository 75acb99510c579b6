"""Every model of the catalogue: its published count, its checkpoint, its import, and a plan."""

import math
import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodels import sharding
from costmodels.plans import PlanTable
from planner.studies import rank
from specs import catalog, census
from specs.assumptions import Assumptions
from specs.huggingface import import_model
from specs.model import LayerGroup, ModelSpec

NAMES = catalog.names("models")
FILES = Path(catalog.__file__).parent / "models"
DATA = Path(__file__).parents[1] / "data" / "hf"

every_model = pytest.mark.parametrize("name", NAMES)

WHOLE = PlanTable.from_columns({"tp": [1]})
ASSUMED = Assumptions()

GIB = 2.0**30

# Bytes of all tensors of the published checkpoints, from their tensor tables and indexes.
CHECKPOINTS: dict[str, float] = {
    "deepseek-r1": 688_574_839_360,
    "deepseek-v3": 688_574_839_360,
    "deepseek-v3.2": 642.12 * GIB,
    "deepseek-v4-flash": 148.65 * GIB,
    "deepseek-v4-pro": 805.32 * GIB,
    "gemma-4-31b": 58.25 * GIB,
    "glm-4.7-flash": 58.15 * GIB,
    "glm-5": 1404.18 * GIB,
    "gpt-oss-20b": 13_761_264_768,
    "gpt-oss-120b": 65_248_815_744,
    "kimi-k2": 958.49 * GIB,
    "kimi-k2.5": 554.27 * GIB,
    "kimi-k3": 1453.66 * GIB,
    "kimi-linear-48b-a3b": 91.50 * GIB,
    "minimax-m2.5": 214.32 * GIB,
    "minimax-m3": 854_172_958_720,
    "qwen3-30b-a3b": 56.87 * GIB,
    "qwen3-30b-a3b-fp8": 29.03 * GIB,
    "qwen3-235b-a22b-fp8": 220.18 * GIB,
    "qwen3.5-35b-a3b": 66.97 * GIB,
    "qwen3.5-122b-a10b": 250_173_007_840,
    "qwen3.6-35b-a3b": 66.97 * GIB,
    "qwen3.8-2.4t-a95b": 4_892_365_451_008,
}
# Checkpoints whose draft module holds embedding and head a second time.
COPIED = {"deepseek-r1", "deepseek-v3", "deepseek-v3.2", "glm-4.7-flash"}

# Where an entry comes from; those of tests/specs/test_huggingface.py are compared there.
IMPORTED = {
    "deepseek-r1": "deepseek-ai--DeepSeek-R1",
    "deepseek-v3.2": "deepseek-ai--DeepSeek-V3.2",
    "devstral-2-123b": "mistralai--Devstral-2-123B-Instruct-2512",
    "gemma-2-9b": "google--gemma-2-9b",
    "gemma-3-4b": "google--gemma-3-4b-it",
    "gemma-4-26b-a4b": "google--gemma-4-26B-A4B",
    "gemma-4-31b": "nvidia--Gemma-4-31B-IT-NVFP4",
    "glm-4.5-air": "zai-org--GLM-4.5-Air",
    "glm-4.7-flash": "zai-org--GLM-4.7-Flash",
    "glm-5": "zai-org--GLM-5",
    "glm-5.2": "zai-org--GLM-5.2",
    "gpt-oss-120b": "openai--gpt-oss-120b",
    "gpt-oss-20b": "openai--gpt-oss-20b",
    "kimi-k2": "moonshotai--Kimi-K2-Instruct",
    "kimi-k2.5": "moonshotai--Kimi-K2.5",
    "kimi-linear-48b-a3b": "moonshotai--Kimi-Linear-48B-A3B-Instruct",
    "llama-3.1-405b": "meta-llama--Meta-Llama-3.1-405B",
    "llama-3.1-8b": "meta-llama--Meta-Llama-3.1-8B",
    "llama-3.2-1b": "meta-llama--Llama-3.2-1B-Instruct",
    "llama-3.3-70b": "meta-llama--Meta-Llama-3.1-70B",
    "llama-4-maverick": "meta-llama--Llama-4-Maverick-17B-128E-Instruct",
    "llama-4-scout": "meta-llama--Llama-4-Scout-17B-16E-Instruct",
    "mimo-v2-flash": "XiaomiMiMo--MiMo-V2-Flash",
    "minimax-m1": "MiniMaxAI--MiniMax-M1-80k",
    "minimax-m2.5": "MiniMaxAI--MiniMax-M2.5",
    "minimax-m3": "MiniMaxAI--MiniMax-M3-VL",
    "mistral-7b": "mistralai--Mistral-7B-Instruct-v0.3",
    "mistral-small-3.2": "mistralai--Mistral-Small-3.2-24B-Instruct-2506",
    "mixtral-8x22b": "mistralai--Mixtral-8x22B-v0.1",
    "mixtral-8x7b": "mistralai--Mixtral-8x7B-v0.1",
    "nemotron-3-nano-30b-a3b": "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    "nemotron-3-super-120b-a12b": "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8",
    "nemotron-3-ultra-550b-a55b": "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16",
    "nemotron-h-56b": "nvidia--Nemotron-H-56B-Base-8K",
    "phi-4": "microsoft--phi-4",
    "phi-4-mini": "microsoft--Phi-4-mini-instruct",
    "qwen2.5-72b": "Qwen--Qwen2.5-72B",
    "qwen2.5-7b": "Qwen--Qwen2.5-7B",
    "qwen3-0.6b": "Qwen--Qwen3-0.6B",
    "qwen3-1.7b": "Qwen--Qwen3-1.7B",
    "qwen3-14b": "Qwen--Qwen3-14B",
    "qwen3-235b-a22b-fp8": "Qwen--Qwen3-235B-A22B-FP8",
    "qwen3-30b-a3b-fp8": "Qwen--Qwen3-30B-A3B-FP8",
    "qwen3-32b-fp8": "Qwen--Qwen3-32B-FP8",
    "qwen3-4b": "Qwen--Qwen3-4B",
    "qwen3-coder-480b-a35b": "Qwen--Qwen3-Coder-480B-A35B-Instruct",
    "qwen3-next-80b-a3b": "Qwen--Qwen3-Next-80B-A3B-Thinking",
    "qwen3.5-122b-a10b": "Qwen--Qwen3.5-122B-A10B",
    "qwen3.5-27b": "Qwen--Qwen3.5-27B",
    "qwen3.5-35b-a3b": "Qwen--Qwen3.5-35B-A3B",
    "qwen3.5-397b-a17b": "Qwen--Qwen3.5-397B-A17B",
    "qwen3.6-27b": "nvidia--Qwen3.6-27B-NVFP4",
    "qwen3.8-2.4t-a95b": "Qwen--Qwen3.8-2.4T-A95B",
}
# What an entry says otherwise than the files that are imported, with the reason in its sources:
# the tensor table has other formats, or the file is that of a quantised copy.
OTHER_FORMATS = {
    "deepseek-v3.2",
    "gemma-4-31b",
    "minimax-m2.5",
    "minimax-m3",
    "qwen3-235b-a22b-fp8",
    "qwen3-30b-a3b-fp8",
    "qwen3-32b-fp8",
    "qwen3.6-27b",
}

MACHINE: dict[str, Any] = {
    "name": "yard",
    "cards": 64,
    "card": {
        "name": "wide",
        "peak": {
            "fp32": "0.1 PFLOP/s",
            "bf16": "1 PFLOP/s",
            "fp16": "1 PFLOP/s",
            "fp8": "2 PFLOP/s",
            "fp4": "4 PFLOP/s",
        },
    },
    "memory": {"hbm": {"capacity": "1 TB", "bandwidth": "4 TB/s"}},
    "server": {"cards": 8},
    "levels": [
        {"name": "server", "size": 8, "bandwidth": "400 GB/s", "latency": "1 us"},
        {"name": "yard", "size": 64, "bandwidth": "50 GB/s", "latency": "5 us"},
    ],
}


@cache
def model_of(name: str) -> ModelSpec:
    return ModelSpec.model_validate(catalog.entry("models", name))


def what_counts(name: str) -> str:
    """What the comment beside the published count says that it holds beyond the stack."""
    text = (FILES / f"{name}.yaml").read_text("utf-8")
    found = re.search(r"^parameters: \d+(?: +#(.*))?$", text, re.MULTILINE)
    assert found, "one line with the published count"
    said = re.search(r"\bwith ([a-z, ]+)", found[1] or "")
    return said[1] if said else ""


def counted(name: str) -> int:
    """Numbers of the model, with the parts that its published count holds."""
    model, said = model_of(name), what_counts(name)
    counts = census.parameters(model, draft="draft" in said)
    counts.pop("engram", 0)
    if "vision" not in said:
        counts.pop("modules", 0)
    return sum(counts.values())


def stored(model: ModelSpec) -> float:
    """Bytes of the whole checkpoint: what one card holds of the neutral plan."""
    placed = sharding.stack_weights(model, WHOLE, ASSUMED, WHOLE.stage_cards)
    size = sum(
        n * float(one[0])
        for layers in placed.values()
        for n, one in zip(model.kind_counts, layers, strict=True)
    )
    size += float(sharding.embedding_bytes(model, WHOLE)[0])
    if not model.tied_embeddings:
        size += float(sharding.head_bytes(model, WHOLE)[0])
    size += model.hidden * model.formats.norms.bytes_per_number
    last = sharding.matrix_shares(model, model.last_mixer.matrices, WHOLE, ASSUMED)
    size += sum(float(one[0]) for _, one in last.values())
    size += sum(module.bytes for module in model.modules)
    if model.draft:
        size += float(sum(sharding.draft_weights(model, model.draft, WHOLE, ASSUMED).values())[0])
    return size


def one_by_one(layers: tuple[LayerGroup, ...]) -> list[LayerGroup]:
    """Layers however they are grouped."""
    return [g.model_copy(update={"count": 1}) for g in layers for _ in range(g.count)]


def test_there_are_models() -> None:
    assert len(NAMES) >= 45


@every_model
def test_entries_say_what_they_are(name: str) -> None:
    model = model_of(name)
    assert model.name == name == (FILES / f"{name}.yaml").stem
    assert model.title
    assert model.sources and all(source[:1].isupper() for source in model.sources)
    if name.removesuffix("-fp8") != name:
        assert "fp8" in {one.dtype for one in (model.formats.attention, model.formats.ffn)}


@every_model
def test_parameters_are_those_published(name: str) -> None:
    assert counted(name) == pytest.approx(model_of(name).parameters, rel=0.005)


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoints_have_their_published_size(name: str) -> None:
    model = model_of(name)
    size = stored(model)
    if name in COPIED:
        size += float(sharding.embedding_bytes(model, WHOLE)[0])
        size += float(sharding.head_bytes(model, WHOLE)[0])
    assert size == pytest.approx(CHECKPOINTS[name], rel=0.005)


@pytest.mark.parametrize(("name", "folder"), IMPORTED.items())
def test_entries_are_as_imported(name: str, folder: str) -> None:
    entry, model = model_of(name), import_model(DATA / folder).model
    assert one_by_one(entry.groups) == one_by_one(model.groups)
    fields = ["hidden", "vocab", "tied_embeddings", "draft", "modules", "formats"]
    if name in OTHER_FORMATS:
        fields.remove("formats")
        assert entry.formats != model.formats
    for field in fields:
        assert getattr(entry, field) == getattr(model, field), field


@every_model
def test_models_can_be_planned(name: str) -> None:
    space: dict[str, Any] = {"tp": [1, 8], "batch": [8], "replicas": [1]}
    if model_of(name).is_moe:
        space["attention_dp"] = [1, 8]
    spec = {
        "model": name,
        "hardware": MACHINE,
        "workload": {
            "kind": "steady",
            "classes": [{"name": "chat", "context": 4096, "generate": 1}],
        },
        "limits": {"cards": 64},
        "space": space,
    }
    plans = rank(spec).document()["plans"]
    assert plans
    costs = [plan["outcome"]["cost_per_on_time_session"] for plan in plans]
    assert all(math.isfinite(cost) and cost > 0 for cost in costs)
    assert np.all(np.diff(costs) >= 0)
