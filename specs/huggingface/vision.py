"""Vision towers beside the language model, counted from ``vision_config`` where it suffices."""

from collections.abc import Callable
from dataclasses import dataclass

from specs.errors import SpecError
from specs.huggingface.fields import Fields


@dataclass(frozen=True)
class Tower:
    """Numbers of a vision tower, and of what projects its output to the language model."""

    vision: int
    projector: int = 0


Counter = Callable[[Fields, Fields, int], Tower]

_KNOWN: dict[str, Counter] = {}


def _tower(*names: str) -> Callable[[Counter], Counter]:
    def register(count: Counter) -> Counter:
        _KNOWN.update(dict.fromkeys(names, count))
        return count

    return register


def count(top: Fields, hidden: int) -> tuple[Tower | None, str]:
    """Return the tower of a configuration, or ``None`` and a note why it is left out.

    ``hidden``: width of the language model. Both are empty where there is no tower.
    """
    values = top.values.get("vision_config")
    if not isinstance(values, dict):
        return None, ""
    # Faults of the tower are no faults of the language model.
    config = Fields(values, "vision_config")
    whole = Fields(top.values)
    names = (config.word("model_type"), whole.word("model_type"))
    counter = next((_KNOWN[name] for name in names if name in _KNOWN), None)
    if counter is None:
        return None, f"The vision tower is left out: {names[0] or names[1] or 'it'} is not known."
    tower = counter(config, whole, hidden)
    try:
        config.check()
        whole.check()
    except SpecError as error:
        return None, f"The vision tower is left out: {error.faults[0]}."
    return tower, ""


def _linear(inputs: int, outputs: int, bias: bool = True) -> int:
    return inputs * outputs + (outputs if bias else 0)


def _block(hidden: int, width: int, *, gated: bool = False, bias: bool = True) -> int:
    """Return the numbers of attention and network of one block, without its norms."""
    up = (1 + gated) * _linear(hidden, width, bias)
    return 4 * _linear(hidden, hidden, bias) + up + _linear(width, hidden, bias)


def _patch(v: Fields, hidden: int, *, frames: int = 1, bias: bool = True) -> int:
    side = v.count("patch_size")
    colours = v.count("in_channels", "num_channels", default=3)
    return _linear(colours * frames * side * side, hidden, bias)


@_tower("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe")
def _qwen3(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    blocks = v.count("depth") * (_block(width, v.count("intermediate_size")) + 4 * width)
    patch = _patch(v, width, frames=v.count("temporal_patch_size", default=2))
    places = v.count("num_position_embeddings", default=0, least=0) * width
    wide = v.count("spatial_merge_size", default=2) ** 2 * width
    merger = _linear(wide, wide) + _linear(wide, v.count("out_hidden_size"))
    # Further mergers normalise what they have merged, the last one what it is about to.
    deep = len(v.numbers("deepstack_visual_indexes") or []) * (merger + 2 * wide)
    return Tower(blocks + patch + places + merger + 2 * width + deep)


@_tower("qwen2_5_vl")
def _qwen2_5(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size"), gated=True) + 2 * width
    patch = _patch(v, width, frames=v.count("temporal_patch_size", default=2), bias=False)
    wide = v.count("spatial_merge_size", default=2) ** 2 * width
    merger = width + _linear(wide, wide) + _linear(wide, v.count("out_hidden_size"))
    return Tower(v.count("depth") * block + patch + merger)


@_tower("kimi_k25", "kimi_k3")
def _moon(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("vt_hidden_size")
    inner = v.count("qkv_hidden_size", default=width)
    middle = v.count("vt_intermediate_size")
    bias, plain = v.switch("linear_bias", default=True), v.word("norm_type") == "rmsnorm"
    attention_bias = v.switch("attn_bias", default=bias)
    norm = width if plain else 2 * width
    block = _linear(width, 3 * inner, attention_bias) + _linear(inner, width, attention_bias)
    block += _linear(width, middle, bias) + _linear(middle, width, bias) + 2 * norm
    places = v.count("init_pos_emb_height") * v.count("init_pos_emb_width") * width
    patch = _patch(v, width, bias=v.switch("patch_embed_proj_bias", default=True))
    vision = v.count("vt_num_hidden_layers") * block + norm + places + patch
    merged = v.numbers("merge_kernel_size") or [2, 2]
    wide = max(merged[0], 1) * max(merged[-1], 1) * width
    second = v.word("mm_projector_type") == "patchmergerv2"
    projector = _linear(wide, wide, not second) + _linear(wide, hidden, not second)
    return Tower(vision, projector + (hidden if second else 2 * width))


@_tower("siglip_vision_model", "gemma3")
def _siglip(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size")) + 4 * width
    places = (v.count("image_size") // v.count("patch_size")) ** 2 * width
    vision = v.count("num_hidden_layers") * block + places + _patch(v, width) + 2 * width
    return Tower(vision, width + _linear(width, hidden, False))


@_tower("gemma4_vision")
def _gemma4(v: Fields, top: Fields, hidden: int) -> Tower:
    width, dim = v.count("hidden_size"), v.count("head_dim")
    block = _block(width, v.count("intermediate_size"), gated=True, bias=False)
    places = 2 * v.count("position_embedding_size") * width
    vision = v.count("num_hidden_layers") * (block + 4 * width + 2 * dim) + places
    return Tower(vision + _patch(v, width, bias=False), _linear(width, hidden, False))


@_tower("pixtral")
def _pixtral(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size"), gated=True, bias=False) + 2 * width
    vision = v.count("num_hidden_layers") * block + _patch(v, width, bias=False) + width
    merged = top.count("spatial_merge_size", default=2) ** 2 * width
    bias = top.switch("multimodal_projector_bias")
    projector = width + _linear(merged, width, False)
    return Tower(vision, projector + _linear(width, hidden, bias) + _linear(hidden, hidden, bias))


@_tower("llama4_vision_model", "llama4")
def _llama4(v: Fields, top: Fields, hidden: int) -> Tower:
    width, middle = v.count("hidden_size"), v.count("intermediate_size")
    block = _block(width, middle) + 4 * width
    places = ((v.count("image_size") // v.count("patch_size")) ** 2 + 2) * width
    inner, outer = v.count("projector_input_dim"), v.count("projector_output_dim")
    adapter = _linear(middle, inner, False) + _linear(inner, outer, False)
    vision = v.count("num_hidden_layers") * block + places + _patch(v, width, bias=False)
    projector = _linear(v.count("vision_output_dim"), hidden, False)
    return Tower(vision + 4 * width + adapter, projector)


@_tower("glm5_next_vision")
def _glm5(v: Fields, top: Fields, hidden: int) -> Tower:
    width, out = v.count("hidden_size"), v.count("out_hidden_size")
    heads = v.count("num_heads")
    block = _block(width, v.count("intermediate_size"), gated=True)
    block += 2 * width + 2 * (width // heads)
    patch = _patch(v, width, frames=v.count("temporal_patch_size", default=2))
    merged = v.count("spatial_merge_size", default=2) ** 2 * width
    middle = v.count("projection_intermediate_size")
    projector = _linear(merged, out) + out * out + 2 * out + 3 * out * middle
    return Tower(v.count("depth") * block + patch + width, projector)


@_tower("minimax_m3_vl")
def _minimax(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size")) + 4 * width
    packed = v.section("img_token_compression_config") or v
    patch = _patch(v, width, frames=packed.count("temporal_patch_size", default=2), bias=False)
    vision = v.count("num_hidden_layers") * block + patch + 2 * width
    out = top.count("projector_hidden_size", default=hidden)
    merged = packed.count("spatial_merge_size", default=2) ** 2 * out
    projector = _linear(width, out) + _linear(out, out)
    return Tower(vision, projector + _linear(merged, out) + _linear(out, hidden))


@_tower("muse_glimmer_vision")
def _muse(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size")) + 4 * width
    places = v.count("pos_emb_height") * v.count("pos_emb_width") * width
    patch = _patch(v, width, frames=v.count("patch_temporal", default=2), bias=False)
    vision = v.count("num_hidden_layers") * block + places + patch + 4 * width
    merged = v.count("merge_size", default=2) ** 2 * width
    middle = top.count("projector_hidden_size")
    projector = merged * middle + middle * middle + middle * hidden
    return Tower(vision, projector)


@_tower("deepseek_v41_vision")
def _deepseek(v: Fields, top: Fields, hidden: int) -> Tower:
    width = v.count("hidden_size")
    block = _block(width, v.count("intermediate_size"), gated=True, bias=False) + 6 * width
    merged = v.count("downsample_ratio", default=1) ** 2 * width
    vision = v.count("num_hidden_layers") * block + _patch(v, width, bias=False)
    return Tower(vision, merged * hidden + hidden * hidden)
