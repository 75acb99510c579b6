"""Dense decoders: Llama, Qwen, Mistral, Phi, Gemma and their kin."""

from typing import Any

from specs.attention import Attention
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.layers import dense, draft_of, gqa, moe, slides, stack, window
from specs.model import LayerGroup


def _plain(c: Fields, *, every: int | None = None, **flags: Any) -> list[LayerGroup]:
    """Return equal layers, some of them with a window where the fields or ``every`` say so."""
    layers = c.layer_count()
    ffn_flags = {name: flags.pop(name) for name in ("gated", "bias") if name in flags}
    ffn = dense(c, **ffn_flags)
    full = group(gqa(c, **flags), ffn)
    width = window(c)
    if width is None:
        return [full] * layers
    sliding = group(gqa(c, width, **flags), ffn)
    return [sliding if yes else full for yes in slides(c, layers, every)]


def _bias(c: Fields) -> dict[str, bool]:
    """Return the flags of a family whose one field gives all projections a bias."""
    both = c.switch("attention_bias")
    return {"qkv_bias": both, "o_bias": both, "bias": c.switch("mlp_bias")}


@architecture(
    "llama",
    "LlamaForCausalLM",
    "ministral3",
    "Ministral3ForCausalLM",
    "smollm3",
    "SmolLM3ForCausalLM",
)
def llama(c: Fields) -> Stack:
    """Llama and what shares its layers."""
    return stack(c, _plain(c, **_bias(c)))


@architecture(
    "mistral", "MistralForCausalLM", "mistral3", "Mistral3ForConditionalGeneration", "ministral"
)
def mistral(c: Fields) -> Stack:
    """Mistral: every layer slides where a window is given."""
    return stack(c, _plain(c, every=10**6 if not c.has("layer_types") else None))


@architecture("qwen2", "Qwen2ForCausalLM", "qwen2_5_vl_text", "qwen2_vl", "qwen2_5_vl")
def qwen2(c: Fields) -> Stack:
    """Qwen2: biases on queries, keys and values, which no field mentions."""
    layers = c.layer_count()
    flags = {"qkv_bias": True}
    full: Attention = gqa(c, **flags)
    width = window(c) if c.switch("use_sliding_window") else None
    first = c.count("max_window_layers", default=layers, least=0)
    ffn = dense(c)
    sliding = gqa(c, width, **flags) if width else full
    return stack(c, (group(sliding if i >= first else full, ffn) for i in range(layers)))


@architecture("qwen3", "Qwen3ForCausalLM", "qwen3_vl_text", "qwen3_vl")
def qwen3(c: Fields) -> Stack:
    """Qwen3: queries and keys normalised per head."""
    layers = c.layer_count()
    both = c.switch("attention_bias")
    layer = group(gqa(c, qk_norm=True, qkv_bias=both, o_bias=both), dense(c))
    return stack(c, [layer] * layers)


@architecture("mimo", "MiMoForCausalLM")
def mimo(c: Fields) -> Stack:
    """MiMo: layers of Qwen2 and a module that drafts."""
    layer = group(gqa(c, qkv_bias=True), dense(c))
    return stack(c, [layer] * c.layer_count(), draft=draft_of(c, layer))


@architecture("phi3", "Phi3ForCausalLM", "phi4", "Phi4ForCausalLM")
def phi3(c: Fields) -> Stack:
    """Phi-3 and Phi-4: projections stored fused, which changes no count."""
    return stack(c, _plain(c, every=10**6))


_GEMMA_NOTE = "The two further norms of each layer, and scalars of the layer, are not counted."


@architecture("gemma", "GemmaForCausalLM", tied=True)
def gemma(c: Fields) -> Stack:
    """First Gemma: Llama with wider heads and the embedding as head."""
    return stack(c, _plain(c))


@architecture("gemma2", "Gemma2ForCausalLM", tied=True)
def gemma2(c: Fields) -> Stack:
    """Gemma 2: every second layer attends to all."""
    return stack(c, _plain(c, every=2), notes=[_GEMMA_NOTE])


@architecture(
    "gemma3_text", "Gemma3ForCausalLM", "gemma3", "Gemma3ForConditionalGeneration", tied=True
)
def gemma3(c: Fields) -> Stack:
    """Gemma 3: every sixth layer attends to all; small files leave out what the class defaults."""
    layers = c.layer_count()
    every = c.count("sliding_window_pattern", "_sliding_window_pattern", default=6)
    width = window(c) or c.count("sliding_window", default=4096)
    heads = c.count("num_attention_heads", default=8)
    flags = {
        "q_heads": heads,
        "kv_heads": c.count("num_key_value_heads", default=4),
        "head_dim": c.count("head_dim", default=256),
        "qk_norm": True,
    }
    ffn = dense(c)
    full, sliding = group(gqa(c, **flags), ffn), group(gqa(c, width, **flags), ffn)
    kinds = slides(c, layers, every)
    return stack(c, (sliding if yes else full for yes in kinds), notes=[_GEMMA_NOTE], vocab=262_208)


@architecture(
    "gemma4_text", "Gemma4ForCausalLM", "gemma4", "Gemma4ForConditionalGeneration", tied=True
)
def gemma4(c: Fields) -> Stack:
    """Gemma 4: full layers have wider heads; a network and experts side by side where stated."""
    layers = c.layer_count()
    width = c.count("sliding_window", default=1024)
    kv_heads = c.count("num_global_key_value_heads", "num_key_value_heads")
    full = gqa(c, kv_heads=kv_heads, head_dim=c.count("global_head_dim", "head_dim"), qk_norm=True)
    sliding = gqa(c, width, qk_norm=True)
    notes = [_GEMMA_NOTE]
    if c.switch("attention_k_eq_v"):
        notes.append(
            "Layers that attend to all share one projection for keys and values; it counts twice."
        )
    if c.count("num_kv_shared_layers", default=0, least=0):
        c.fault("num_kv_shared_layers", "layers that share keys and values are not read")
    if c.count("hidden_size_per_layer_input", default=0, least=0):
        c.fault("hidden_size_per_layer_input", "embeddings of each layer are not read")
    if c.switch("enable_moe_block"):
        ffn: Any = moe(c, shared=c.count("intermediate_size"))
    else:
        ffn = dense(c)
    kinds = slides(c, layers, 6)
    return stack(
        c,
        (group(sliding if yes else full, ffn) for yes in kinds),
        notes=notes,
        blocks=(("experts", "experts.0"), ("shared_experts", "mlp")),
    )


@architecture("glm4", "Glm4ForCausalLM", "glm", "GlmForCausalLM")
def glm4(c: Fields) -> Stack:
    """Dense GLM-4: biases on queries, keys and values where the field says so."""
    return stack(c, _plain(c, qkv_bias=c.switch("attention_bias")))


@architecture("seed_oss", "SeedOssForCausalLM")
def seed_oss(c: Fields) -> Stack:
    """Seed-OSS: one field for the bias of the inputs, one for that of the output."""
    flags = {"qkv_bias": c.switch("attention_bias"), "o_bias": c.switch("attention_out_bias")}
    return stack(c, _plain(c, **flags))


@architecture("muse_glimmer_text", "muse_glimmer", "MuseGlimmerForConditionalGeneration")
def muse_glimmer(c: Fields) -> Stack:
    """Muse Glimmer: gated attention output, three layers of four in a window."""
    return stack(c, _plain(c, every=4, output_gate=True), notes=[_GEMMA_NOTE])
