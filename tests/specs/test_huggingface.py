"""Every published configuration: it imports, is written and read again, and has its count."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from specs import catalog
from specs.census import parameters
from specs.documents import read_text
from specs.huggingface import Imported, architectures, import_model
from specs.model import LayerGroup, ModelSpec

DATA = Path(__file__).parents[1] / "data" / "hf"
FOLDERS = sorted(path.parent.name for path in DATA.glob("*/config.json"))
COUNTS: dict[str, Any] = (
    json.loads((DATA / "published.json").read_text("utf-8"))
    if (DATA / "published.json").is_file()
    else {}
)

# Published counts that include the module that drafts.
WITH_DRAFT = {"XiaomiMiMo--MiMo-7B-Base"}
# Published counts that leave the tables of n-grams out.
WITHOUT_TABLES = {"deepseek-ai--DeepSeek-V4.1-Flash"}

TOLERANCE = 0.005

IN_CATALOGUE = {
    "deepseek-v3": "deepseek-ai--DeepSeek-V3",
    "deepseek-v4-flash": "deepseek-ai--DeepSeek-V4-Flash",
    "deepseek-v4-pro": "deepseek-ai--DeepSeek-V4-Pro",
    "deepseek-v4.1-flash": "deepseek-ai--DeepSeek-V4.1-Flash",
    "kimi-k3": "moonshotai--Kimi-K3",
    "llama-3.1-70b": "meta-llama--Meta-Llama-3.1-70B",
    "qwen3-235b-a22b": "Qwen--Qwen3-235B-A22B",
    "qwen3-30b-a3b": "Qwen--Qwen3-30B-A3B",
    "qwen3-32b": "Qwen--Qwen3-32B",
    "qwen3-8b": "Qwen--Qwen3-8B",
    "qwen3.6-35b-a3b": "Qwen--Qwen3.5-35B-A3B",
}


@cache
def imported(folder: str) -> Imported:
    return import_model(DATA / folder)


def count(folder: str) -> int:
    counts = parameters(imported(folder).model, draft=folder in WITH_DRAFT)
    if folder in WITHOUT_TABLES:
        counts = {k: n for k, n in counts.items() if k not in ("engram", "modules")}
    return sum(counts.values())


def layers(model: ModelSpec) -> list[LayerGroup]:
    """The layers one by one, however they are grouped."""
    return [g.model_copy(update={"count": 1}) for g in model.groups for _ in range(g.count)]


def test_there_are_configurations() -> None:
    assert len(FOLDERS) > 100


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_is_written_is_read_again(folder: str) -> None:
    found = imported(folder)
    text = found.yaml()
    assert ModelSpec.model_validate(read_text(text)) == found.model
    assert catalog.NAME.fullmatch(found.model.name)
    assert any("config.json" in source for source in found.model.sources)
    assert not found.warnings


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f in COUNTS])
def test_parameters_are_those_published(folder: str) -> None:
    published = COUNTS[folder]
    if published["precision"] == "exact":
        assert count(folder) == pytest.approx(published["parameters"], rel=TOLERANCE)
        return
    # A card rounds to two digits; the note beside it has the sum over all tensors.
    assert count(folder) == pytest.approx(published["parameters"], rel=0.07)
    summed = re.search(r"sum by (?:class|formula) ([\d,]+)", published["tolerance_note"])
    if summed:
        exact = int(summed[1].replace(",", ""))
        assert count(folder) == pytest.approx(exact, rel=TOLERANCE)


@pytest.mark.parametrize("folder", [f for f in FOLDERS if COUNTS.get(f, {}).get("mtp")])
def test_draft_modules_are_those_published(folder: str) -> None:
    model = imported(folder).model
    draft = parameters(model, draft=True)["draft"]
    copies = 2 * model.vocab * model.hidden
    # Some checkpoints hold the embedding and the head a second time.
    assert min(
        abs(draft / COUNTS[folder]["mtp"] - 1), abs((draft + copies) / COUNTS[folder]["mtp"] - 1)
    ) == pytest.approx(0, abs=TOLERANCE)


@pytest.mark.parametrize("folder", [f for f in FOLDERS if COUNTS.get(f, {}).get("vision")])
def test_vision_towers_are_those_published(folder: str) -> None:
    assert parameters(imported(folder).model)["modules"] == COUNTS[folder]["vision"]


@pytest.mark.parametrize(("name", "folder"), IN_CATALOGUE.items())
def test_the_catalogue_says_the_same(name: str, folder: str) -> None:
    entry = ModelSpec.model_validate(catalog.entry("models", name))
    model = imported(folder).model
    assert layers(model) == layers(entry)
    for field in ("hidden", "vocab", "tied_embeddings", "hyper_connections", "draft", "formats"):
        assert getattr(model, field) == getattr(entry, field), field


def one(folder: str, **kind: Any) -> Any:
    """The first layer whose attention or network has the given kind."""
    ((name, value),) = kind.items()
    return next(
        getattr(g, name) for g in imported(folder).model.groups if getattr(g, name).kind == value
    )


def test_windows_are_windows() -> None:
    groups = imported("openai--gpt-oss-20b").model.groups
    assert [g.attention.kind for g in groups[:4]] == ["swa", "gqa", "swa", "gqa"]
    assert one("openai--gpt-oss-20b", attention="swa").window == 128
    assert one("google--gemma-3-4b-it", attention="swa").window == 1024
    kinds = [g.attention.kind for g in layers(imported("google--gemma-3-4b-it").model)]
    assert kinds[:6] == ["swa"] * 5 + ["gqa"]
    # A window as long as the context is none.
    assert one("microsoft--Phi-4-mini-instruct", attention="gqa")


def test_layers_that_share_a_choice() -> None:
    kinds = [
        (g.attention.indexer is not None, g.attention.top_k)
        for g in layers(imported("zai-org--GLM-5.2").model)
    ]
    assert (True, None) in kinds and (False, 2048) in kinds


def test_values_narrower_than_keys() -> None:
    attention = one("XiaomiMiMo--MiMo-V2-Flash", attention="gqa")
    assert (attention.head_dim, attention.v_dim) == (192, 128)


def test_block_sparse_attention_has_an_indexer() -> None:
    model = imported("MiniMaxAI--MiniMax-M3").model
    chosen = [g.attention.indexer for g in layers(model)]
    assert chosen[:3] == [None] * 3
    assert chosen[3] and chosen[3].top_k == 16 * 128


def test_tied_embeddings_follow_the_class() -> None:
    assert imported("google--gemma-2-9b").model.tied_embeddings
    assert imported("Qwen--Qwen3-0.6B").model.tied_embeddings
    assert not imported("mistralai--Mistral-Small-3.2-24B-Instruct-2506").model.tied_embeddings


def test_rows_of_layers_repeat() -> None:
    model = imported("Qwen--Qwen3-Next-80B-A3B-Thinking").model
    (pattern,) = model.layers
    assert (pattern.repeat, [g.count for g in pattern.layers]) == (12, [3, 1])  # type: ignore[union-attr]


def test_registry_has_no_dead_names() -> None:
    known = architectures.known()
    assert len({a.name for a in known.values()}) >= 30
    assert all(name for name in known)
