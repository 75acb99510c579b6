"""Dialects of quantisation: each ends in number formats by class of tensor."""

import json
from pathlib import Path
from typing import Any

import pytest

from specs.formats import Format
from specs.huggingface import import_model

DATA = Path(__file__).parents[1] / "data" / "hf"

DEEPSEEK: dict[str, Any] = {
    "architectures": ["DeepseekV3ForCausalLM"],
    "model_type": "deepseek_v3",
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "q_lora_rank": 128,
    "kv_lora_rank": 64,
    "qk_nope_head_dim": 32,
    "qk_rope_head_dim": 16,
    "v_head_dim": 32,
    "first_k_dense_replace": 1,
    "intermediate_size": 1024,
    "moe_intermediate_size": 256,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}

BF16 = Format()
FP8 = Format(dtype="fp8")
BLOCKS = Format(dtype="fp8", block=(128, 128))
NVFP4 = Format(dtype="fp4", group=16, scale="fp8")
MXFP4 = Format(dtype="fp4", group=32, scale="e8m0")


def weights(bits: int, kind: str = "int", **more: Any) -> dict[str, Any]:
    return {"num_bits": bits, "type": kind, **more}


def group(weights: dict[str, Any], inputs: dict[str, Any] | None = None, **more: Any) -> Any:
    return {"targets": ["Linear"], "weights": weights, "input_activations": inputs, **more}


def compressed(one: Any, *ignore: str) -> dict[str, Any]:
    ignored = ["lm_head", *ignore]
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": one},
        "ignore": ignored,
    }


def modelopt(algorithm: str, **more: Any) -> dict[str, Any]:
    return {"quant_method": "modelopt", "quant_algo": algorithm, **more}


@pytest.mark.parametrize(
    ("quantisation", "experts", "attention"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, BLOCKS, BLOCKS),
        ({"quant_method": "fp8"}, FP8, FP8),
        (
            {"quant_method": "fp8", "weight_block_size": [32, 32], "scale_fmt": "ue8m0"},
            Format(dtype="fp8", block=(32, 32), scale="e8m0"),
            Format(dtype="fp8", block=(32, 32), scale="e8m0"),
        ),
        (
            {"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["self_attn"]},
            FP8,
            BF16,
        ),
        (
            compressed(group(weights(4, group_size=32)), "re:.*self_attn.*"),
            Format(dtype="int4", group=32, scale="bf16", compute="bf16"),
            BF16,
        ),
        (compressed(group(weights(8), weights(8))), Format(dtype="int8"), Format(dtype="int8")),
        (
            compressed(group(weights(4, group_size=128), weights(8))),
            Format(dtype="int4", group=128, scale="bf16", compute="int8"),
            Format(dtype="int4", group=128, scale="bf16", compute="int8"),
        ),
        (
            compressed(group(weights(8, "float"), weights(8, "float", dynamic=True))),
            FP8,
            FP8,
        ),
        (
            compressed(
                group(weights(8, "float", block_structure=[128, 128]), weights(8, "float")),
                r"re:.*\.self_attn\..*",
            ),
            BLOCKS,
            BF16,
        ),
        (
            compressed(
                group(weights(4, "float", group_size=16), weights(4, "float", group_size=16))
            ),
            NVFP4,
            NVFP4,
        ),
        (
            compressed(
                group(
                    weights(4, "float", group_size=32, scale_dtype="torch.uint8"),
                    format="mxfp4-pack-quantized",
                ),
                "re:.*self_attn.*",
            ),
            MXFP4.model_copy(update={"compute": "bf16"}),
            BF16,
        ),
        (modelopt("FP8"), FP8, FP8),
        (modelopt("NVFP4", group_size=16, ignore=["*self_attn*"]), NVFP4, BF16),
        (
            modelopt("W4A8_AWQ"),
            Format(dtype="int4", group=128, scale="bf16", compute="fp8"),
            Format(dtype="int4", group=128, scale="bf16", compute="fp8"),
        ),
        (
            modelopt(
                "MIXED_PRECISION",
                quantized_layers={
                    f"model.layers.{i}.mlp.experts": {"quant_algo": "NVFP4", "group_size": 16}
                    for i in range(4)
                },
            ),
            NVFP4,
            BF16,
        ),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True},
            Format(dtype="int4", group=128, scale="fp16", compute="bf16"),
            Format(dtype="int4", group=128, scale="fp16", compute="bf16"),
        ),
        (
            {"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True},
            Format(dtype="int4", group=64, scale="fp16", compute="bf16"),
            Format(dtype="int4", group=64, scale="fp16", compute="bf16"),
        ),
        (
            {"quant_method": "gptq", "bits": 8, "group_size": -1},
            Format(dtype="int8", compute="bf16"),
            Format(dtype="int8", compute="bf16"),
        ),
        (
            {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
            MXFP4.model_copy(update={"compute": "bf16"}),
            BF16,
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True},
            Format(dtype="int4", group=64, scale="fp32", compute="bf16"),
            Format(dtype="int4", group=64, scale="fp32", compute="bf16"),
        ),
        (
            {"quant_method": "bitsandbytes", "load_in_8bit": True},
            Format(dtype="int8"),
            Format(dtype="int8"),
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_dialects(
    tmp_path: Path, quantisation: dict[str, Any], experts: Format, attention: Format
) -> None:
    config = DEEPSEEK | {"quantization_config": quantisation}
    (tmp_path / "config.json").write_text(json.dumps(config))
    formats = import_model(tmp_path).model.formats
    assert formats.experts == experts
    assert formats.attention == attention
    assert formats.head == BF16
    assert formats.router == BF16
    assert formats.embedding.dtype == "bf16"


def test_a_file_beside_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK))
    quantisation = {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ["lm_head", "model.layers.0*", "*.shared_experts*"],
    }
    beside = {"producer": {"name": "modelopt"}, "quantization": quantisation}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside))
    found = import_model(tmp_path)
    formats = found.model.formats
    assert formats.experts == NVFP4
    assert formats.shared_experts == BF16
    # The only dense layer is the first, which is left out.
    assert formats.ffn == BF16
    assert formats.kv.dtype == "fp8"
    assert any("hf_quant_config.json" in source for source in found.model.sources)
    # Three of four layers of attention are quantised: the note says what that hides.
    assert formats.attention == NVFP4
    assert any(note.startswith("25.0% of attention has another format") for note in found.notes)


def test_plain_formats_follow_the_dtype(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(DEEPSEEK | {"torch_dtype": "float16"}))
    formats = import_model(tmp_path).model.formats
    assert {formats.attention.dtype, formats.experts.dtype, formats.kv.dtype} == {"fp16"}


def formats_of(folder: str) -> Any:
    return import_model(DATA / folder).model.formats


def test_published_quantisations() -> None:
    kimi = formats_of("moonshotai--Kimi-K2.5")
    assert kimi.experts == Format(dtype="int4", group=32, scale="bf16", compute="bf16")
    assert {kimi.attention, kimi.shared_experts, kimi.ffn} == {BF16}
    oss = formats_of("openai--gpt-oss-120b")
    assert oss.experts == MXFP4.model_copy(update={"compute": "bf16"})
    assert oss.attention == BF16
    mixed = formats_of("nvidia--Qwen3.6-27B-NVFP4")
    assert mixed.attention == FP8
    assert mixed.ffn.dtype == mixed.head.dtype == "fp4"
    # FP8 in blocks, with the experts quantised further by another tool.
    both = formats_of("nvidia--DeepSeek-V4-Flash-NVFP4")
    assert both.experts == NVFP4
    assert both.attention == Format(dtype="fp8", block=(128, 128), scale="e8m0")
    # Experts whose modules stand outside the block that is left out.
    gemma = formats_of("nvidia--Gemma-4-26B-A4B-NVFP4")
    assert (gemma.experts, gemma.shared_experts, gemma.attention) == (NVFP4, BF16, BF16)
