"""Index and headers of a checkpoint against the spec, on small files made here."""

import json
import struct
from math import prod
from pathlib import Path
from typing import Any

import pytest

from specs.census import parameters
from specs.errors import SpecError
from specs.huggingface import Imported, import_model, reading
from specs.huggingface.checkpoint import class_of

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
WIDTHS = {"BF16": 2, "F32": 4, "I32": 4, "U8": 1, "F8_E4M3": 1}

Shapes = dict[str, tuple[str, list[int]]]


def qwen() -> Shapes:
    """Every tensor of the configuration, as its class stores it."""
    shapes: dict[str, list[int]] = {
        "model.embed_tokens.weight": [1000, 64],
        "lm_head.weight": [1000, 64],
        "model.norm.weight": [64],
    }
    for i in range(2):
        at = f"model.layers.{i}"
        shapes |= {
            f"{at}.input_layernorm.weight": [64],
            f"{at}.post_attention_layernorm.weight": [64],
            f"{at}.self_attn.q_proj.weight": [64, 64],
            f"{at}.self_attn.k_proj.weight": [32, 64],
            f"{at}.self_attn.v_proj.weight": [32, 64],
            f"{at}.self_attn.o_proj.weight": [64, 64],
            f"{at}.self_attn.q_norm.weight": [16],
            f"{at}.self_attn.k_norm.weight": [16],
            f"{at}.mlp.gate_proj.weight": [128, 64],
            f"{at}.mlp.up_proj.weight": [128, 64],
            f"{at}.mlp.down_proj.weight": [64, 128],
        }
    return {name: ("BF16", shape) for name, shape in shapes.items()}


def header(shapes: Shapes) -> dict[str, Any]:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape) in shapes.items():
        size = WIDTHS[dtype] * prod(shape)
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return entries


def write_tensors(file: Path, shapes: Shapes) -> None:
    data = json.dumps(header(shapes)).encode()
    file.write_bytes(struct.pack("<Q", len(data)) + data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def index(folder: Path, metadata: Any, names: Any = None) -> Imported:
    weights = dict.fromkeys(names or qwen(), "model-1.safetensors")
    text = json.dumps({"metadata": metadata, "weight_map": weights})
    (folder / "model.safetensors.index.json").write_text(text)
    return import_model(folder)


def test_shapes_are_equal_to_the_last_number(folder: Path) -> None:
    write_tensors(folder / "model.safetensors", qwen())
    found = import_model(folder)
    assert found.check
    assert found.check.checkpoint == found.check.spec == sum(parameters(found.model).values())
    assert found.model.parameters == found.check.checkpoint
    assert not found.warnings
    assert any("equal" in note for note in found.notes)
    assert any("safetensors" in source for source in found.model.sources)


def test_shards_are_added_up(folder: Path) -> None:
    shapes = list(qwen().items())
    write_tensors(folder / "model-1.safetensors", dict(shapes[:9]))
    write_tensors(folder / "model-2.safetensors", dict(shapes[9:]))
    weights = {name: f"model-{1 if i < 9 else 2}.safetensors" for i, (name, _) in enumerate(shapes)}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weights}))
    found = import_model(folder)
    assert found.check and found.check.off == 0
    assert found.check.source == "2 safetensors headers"


def test_a_shard_that_is_not_there_leaves_the_index(folder: Path) -> None:
    write_tensors(folder / "model-2.safetensors", qwen())
    found = index(folder, {"total_size": 2 * 300_000})
    assert found.check and found.check.unit == "bytes"


def test_a_difference_is_a_warning_with_the_class(folder: Path) -> None:
    shapes = qwen()
    shapes["model.layers.0.mlp.experts.0.up_proj.weight"] = ("BF16", [64, 1000])
    write_tensors(folder / "model.safetensors", shapes)
    found = import_model(folder)
    (warning,) = found.warnings
    assert "-24." in warning and "Furthest apart: experts, 64,000 against 0" in warning
    assert warning in " ".join(found.yaml().replace("\n# ", " ").split())


def test_packed_numbers_and_scales(folder: Path) -> None:
    config = CONFIG | {"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 32}}
    (folder / "config.json").write_text(json.dumps(config))
    shapes: Shapes = {}
    for name, (dtype, shape) in qwen().items():
        if "_proj.weight" not in name:
            shapes[name] = (dtype, shape)
            continue
        stem, (outputs, inputs) = name.removesuffix(".weight"), shape
        shapes[f"{stem}.qweight"] = ("I32", [inputs // 8, outputs])
        shapes[f"{stem}.qzeros"] = ("I32", [inputs // 32, outputs // 8])
        shapes[f"{stem}.scales"] = ("BF16", [inputs // 32, outputs])
        shapes[f"{stem}.g_idx"] = ("I32", [inputs])
    write_tensors(folder / "model.safetensors", shapes)
    found = import_model(folder)
    assert found.check and found.check.off == 0


def test_fp8_scales_are_no_numbers(folder: Path) -> None:
    quantisation = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps(CONFIG | {"quantization_config": quantisation}))
    shapes = qwen()
    for name in list(shapes):
        if "_proj.weight" in name:
            shapes[name] = ("F8_E4M3", shapes[name][1])
            shapes[f"{name}_scale_inv"] = ("F32", [1, 1])
    write_tensors(folder / "model.safetensors", shapes)
    found = import_model(folder)
    assert found.check and found.check.off == 0


def test_bytes_of_the_index(folder: Path) -> None:
    exact = 2 * sum(parameters(import_model(folder).model).values())
    found = index(folder, {"total_size": exact})
    assert found.check and (found.check.unit, found.check.off) == ("bytes", 0)
    assert found.model.parameters is None
    assert not found.warnings
    off = index(folder, {"total_size": 1.0 * exact // 2})
    assert "+100.0" in off.warnings[0]


def test_parameters_of_the_index(folder: Path) -> None:
    exact = sum(parameters(import_model(folder).model).values())
    found = index(folder, {"total_parameters": exact, "total_size": 5})
    assert found.check and (found.check.unit, found.check.off) == ("numbers", 0)
    assert found.model.parameters == exact


def test_a_tied_head_that_is_written_all_the_same(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps(CONFIG | {"tie_word_embeddings": True}))
    write_tensors(folder / "model.safetensors", qwen())
    found = import_model(folder)
    assert found.model.tied_embeddings
    assert found.check and found.check.off == 0
    (folder / "model.safetensors").unlink()
    stored = 2 * (sum(parameters(found.model).values()) + 1000 * 64)
    with_head = index(folder, {"total_size": stored})
    assert with_head.check and with_head.check.off == 0


def test_an_index_without_totals(folder: Path) -> None:
    assert index(folder, {}).check is None
    assert index(folder, None).check is None


@pytest.mark.parametrize("total", ["5", -1, 1.5, True, [1]])
def test_totals_that_are_no_numbers(folder: Path, total: object) -> None:
    with pytest.raises(SpecError, match=r"metadata\.total_size: expected a whole number") as wrong:
        index(folder, {"total_size": total})
    assert wrong.value.source.endswith("index.json")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "shorter than its eight-byte length"),
        (b"abc", "shorter than its eight-byte length"),
        (struct.pack("<Q", 2**62), "header is too long"),
        (struct.pack("<Q", 5000) + b"{}", "cut off: a header of 5000 bytes"),
        (struct.pack("<Q", 2) + b"xx", "not valid JSON"),
        (struct.pack("<Q", 2) + b"[]", "found a list"),
        (struct.pack("<Q", 7) + b'{"a":1}', "a: expected dtype, shape and data_offsets"),
        (
            struct.pack("<Q", 54) + b'{"a":{"dtype":"F8","shape":[-1],"data_offsets":[0,1]}}',
            "a: expected dtype, shape and data_offsets",
        ),
    ],
)
def test_broken_tensors(folder: Path, data: bytes, says: str) -> None:
    (folder / "model.safetensors").write_bytes(data)
    with pytest.raises(SpecError, match=says) as wrong:
        import_model(folder)
    assert wrong.value.source.endswith("model.safetensors")


def test_too_many_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_FILES", 1)
    for i in range(2):
        write_tensors(folder / f"model-{i}.safetensors", qwen())
    with pytest.raises(SpecError, match="more than 1 safetensors files"):
        import_model(folder)


def test_an_index_that_leads_out_of_the_folder(folder: Path, tmp_path: Path) -> None:
    outside = tmp_path.parent / "outside.safetensors"
    write_tensors(outside, qwen())
    text = json.dumps({"metadata": {}, "weight_map": {"a": "../outside.safetensors"}})
    (folder / "model.safetensors.index.json").write_text(text)
    assert import_model(folder).check is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("model.layers.0.self_attn.q_proj.weight", "attention"),
        ("model.layers.1.mlp.experts.7.up_proj.weight", "experts"),
        ("model.layers.1.mlp.shared_experts.up_proj.weight", "shared_experts"),
        ("model.layers.1.mlp.gate.weight", "router"),
        ("model.layers.1.mlp.gate_proj.weight", "ffn"),
        ("model.layers.2.eh_proj.weight", "draft"),
        ("mtp.fc.weight", "draft"),
        ("model.visual.blocks.9.attn.qkv.weight", "modules"),
        ("lm_head.weight", "head"),
        ("model.norm.weight", "norms"),
    ],
)
def test_classes_by_name(folder: Path, name: str, kind: str) -> None:
    assert class_of(name, import_model(folder).model) == kind
