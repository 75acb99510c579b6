"""Published files that cannot be read: one message that names the file, the field and the rule."""

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specs.errors import SpecError
from specs.huggingface import Imported, import_model, reading
from specs.huggingface.matching import Modules, Pattern

Config = dict[str, Any]

QWEN: Config = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "intermediate_size": 128,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
MOE: Config = {
    **QWEN,
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
}


@pytest.fixture
def model(tmp_path: Path) -> Callable[..., Imported]:
    """Import a configuration with some fields changed; ``...`` removes."""

    def run(base: Config = QWEN, **changes: Any) -> Imported:
        config = copy.deepcopy(base) | changes
        config = {name: value for name, value in config.items() if value is not ...}
        (tmp_path / "config.json").write_text(json.dumps(config))
        return import_model(tmp_path)

    return run


@pytest.mark.parametrize(
    ("changes", "path", "says"),
    [
        ({"hidden_size": ...}, "hidden_size", "missing, expected a whole number"),
        ({"hidden_size": None}, "hidden_size", "missing, expected a whole number"),
        ({"hidden_size": "64"}, "hidden_size", "expected a whole number of at least 1"),
        ({"hidden_size": 64.5}, "hidden_size", "expected a whole number of at least 1"),
        ({"hidden_size": True}, "hidden_size", "expected a whole number of at least 1"),
        ({"hidden_size": -1}, "hidden_size", "expected a whole number of at least 1"),
        ({"hidden_size": 10**12}, "hidden_size", "too large"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers", "at most 2000 layers"),
        ({"num_hidden_layers": 0}, "num_hidden_layers", "at least 1"),
        ({"num_key_value_heads": 3}, "", "q_heads must be a multiple of kv_heads"),
        ({"architectures": "Qwen3ForCausalLM"}, "architectures", "expected a list of texts"),
        ({"text_config": []}, "text_config", "expected a mapping"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings", "expected true or false"),
        ({"attention_bias": 7}, "attention_bias", "expected true or false"),
        ({"torch_dtype": "bf17"}, "torch_dtype", "expected bfloat16"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_fields(
    model: Callable[..., Imported], changes: Config, path: str, says: str
) -> None:
    with pytest.raises(SpecError) as wrong:
        model(**changes)
    (fault,) = wrong.value.faults
    assert fault.path == path
    assert says in fault.message
    assert wrong.value.source.endswith("config.json")


def test_everything_missing_is_named_at_once(model: Callable[..., Imported]) -> None:
    with pytest.raises(SpecError) as wrong:
        model(hidden_size=..., vocab_size=..., intermediate_size="x")
    assert {f.path for f in wrong.value.faults} == {
        "hidden_size",
        "vocab_size",
        "intermediate_size",
    }


def test_more_experts_a_token_than_there_are(model: Callable[..., Imported]) -> None:
    with pytest.raises(SpecError, match="num_experts_per_tok: more experts a token"):
        model(MOE, num_experts_per_tok=9)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"layer_types": ["full_attention"]}, "layer_types: expected 4, one a layer"),
        ({"layer_types": [1, 2, 3, 4]}, "layer_types: expected a list of texts"),
        ({"layer_types": "full"}, "layer_types: expected a list of texts"),
    ],
)
def test_lists_of_layers(model: Callable[..., Imported], changes: Config, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        model(architectures=["GemmaForCausalLM"], sliding_window=16, **changes)


def test_unknown_architecture_names_the_nearest_and_what_it_needs(
    model: Callable[..., Imported],
) -> None:
    with pytest.raises(SpecError) as wrong:
        model(architectures=["Qwen3MoreForCausalLM"], model_type="qwen3_more", vocab_size=...)
    text = str(wrong.value)
    assert "architectures: this architecture is not known (got Qwen3MoreForCausalLM)" in text
    assert "nearest known one is 'Qwen3MoeForCausalLM'" in text
    assert "It looks for " in text
    assert "missing are" in text and "vocab_size" in text.split("missing are")[1]
    assert "hidden_size" not in text.split("missing are")[1]


def test_unknown_architecture_far_from_all(model: Callable[..., Imported]) -> None:
    with pytest.raises(SpecError, match="Any model needs at least hidden_size") as wrong:
        model(architectures=["Zzz"], model_type="z", vocab_size=...)
    assert str(wrong.value).endswith("missing are vocab_size")


def test_no_architecture_at_all(model: Callable[..., Imported]) -> None:
    with pytest.raises(SpecError, match="architectures: missing, and so is model_type"):
        model(architectures=..., model_type=...)


@pytest.mark.parametrize(
    ("quantisation", "says"),
    [
        ({"quant_method": "gtpq"}, r"quant_method: this quantisation is not known.*'gptq'"),
        ({"quant_method": 3}, "quantization_config.quant_method: expected text"),
        ({}, "quant_method: this quantisation is not known.*One of fp8"),
        ([], "quantization_config: expected a mapping"),
        ({"quant_method": "gptq", "bits": 3}, "quantization_config.bits: expected 4 or 8"),
        ({"quant_method": "awq", "group_size": 0}, "group_size: expected a whole number"),
        ({"quant_method": "compressed-tensors"}, "config_groups: missing"),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {}}},
            "config_groups.a.weights: missing",
        ),
        (
            {"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {}}}},
            "config_groups.a.weights.num_bits: missing",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVPF4"}, "quant_algo: .*'NVFP4'"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        (
            {"quant_method": "fp8", "modules_to_not_convert": ["re:(a+)+$"]},
            "modules_to_not_convert: a regular expression with repeated groups",
        ),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP7"},
            "kv_cache_quant_algo",
        ),
    ],
    ids=lambda value: str(value)[:50],
)
def test_wrong_quantisations(
    model: Callable[..., Imported], quantisation: object, says: str
) -> None:
    with pytest.raises(SpecError, match=says):
        model(quantization_config=quantisation)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not valid JSON on line 1"),
        (b'{"a": 1', "not valid JSON"),
        (b"[1, 2]", "expected a mapping of fields to values, found a list"),
        (b"3", "found a single value"),
        (b"\xff\xfe{}", "not UTF-8 text"),
        (b'{"a":' * 60 + b"1" + b"}" * 60, "nested more than 40 deep"),
        (b"[" * 100_000, "nested more than 40 deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "too long to read"),
        (b'{"a": "' + b"x" * (reading.MAX_CONFIG_BYTES + 1) + b'"}', "larger than 8 MB"),
        (b'{"metadata": {}, "weight_map": {}}', "this is the index of a checkpoint"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_wrong_files(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(data)
    with pytest.raises(SpecError, match=says) as wrong:
        import_model(file)
    assert wrong.value.source == str(file)
    assert len(wrong.value.faults) == 1


def test_folders_and_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no config\.json in this folder"):
        import_model(tmp_path)
    with pytest.raises(SpecError, match="no such file or folder"):
        import_model(tmp_path / "nothing")
    with pytest.raises(SpecError, match="no such file or folder"):
        import_model("a\0b")
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"")
    with pytest.raises(SpecError, match="these are weights"):
        import_model(weights)


def test_wrong_names(model: Callable[..., Imported], tmp_path: Path) -> None:
    model()
    with pytest.raises(SpecError, match="--name"):
        import_model(tmp_path, name="../x")


def test_a_nan_is_no_number_of_layers(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(QWEN | {"hidden_size": float("nan")}))
    with pytest.raises(SpecError, match="hidden_size: expected a whole number"):
        import_model(tmp_path)


@pytest.mark.parametrize(
    ("pattern", "held", "not_held"),
    [
        ("lm_head", "lm_head", "lm_head2"),
        ("gate", "model.layers.0.mlp.gate", "model.layers.0.mlp.gate_proj"),
        ("model.layers.0.mlp", "model.layers.0.mlp.up_proj", "model.layers.0.mlp2.up_proj"),
        ("model.layers.*.self_attn", "model.layers.3.self_attn.q_proj", "model.layers.3.mlp"),
        ("model.layers.61*", "model.layers.61.mlp.gate", "model.layers.6.mlp.gate"),
        ("*.attn.*", "layers.0.attn.wq_a", "layers.0.ffn.w1"),
        ("re:.*self_attn.*", "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"),
        (
            r"re:.*mlp\.(gate|up)_proj",
            "model.layers.0.mlp.up_proj",
            "model.layers.0.mlp.experts.0.up_proj",
        ),
    ],
)
def test_patterns(pattern: str, held: str, not_held: str) -> None:
    modules = Modules([pattern])
    assert modules.holds(held)
    assert not modules.holds(not_held)


@pytest.mark.parametrize("pattern", ["re:(a*)*b", "re:a*b*c*d*e*f", "re:(", "x" * 301])
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(Pattern):
        Modules([pattern])
