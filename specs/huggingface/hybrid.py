"""Recurrent states among layers of attention: Qwen3-Next and 3.5, Kimi Linear, Nemotron-H, …"""

from typing import Any

from specs.attention import Attention, LinearAttention, NoAttention
from specs.ffn import Ffn, MoeFfn, NoFfn
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.latent import indexer
from specs.huggingface.layers import (
    dense,
    draft_of,
    gqa,
    head_dim,
    mla,
    moe,
    networks,
    queries,
    stack,
)
from specs.model import Draft, LayerGroup


def _delta_net(c: Fields) -> LinearAttention:
    """Return gated DeltaNet: one decay and one step size a value head."""
    return LinearAttention(
        k_heads=c.count("linear_num_key_heads"),
        v_heads=c.count("linear_num_value_heads"),
        k_dim=c.count("linear_key_head_dim"),
        v_dim=c.count("linear_value_head_dim"),
        convolution=c.count("linear_conv_kernel_dim", default=4, least=0),
        fp32_vectors="none",
    )


def _full_layers(c: Fields, layers: int) -> list[bool]:
    """Tell for each layer whether it attends to the whole context."""
    kinds = c.words("layer_types", length=layers)
    if kinds is not None:
        return ["linear" not in kind for kind in kinds[:layers]]
    every = c.count("full_attention_interval", default=4)
    return [(i + 1) % every == 0 for i in range(layers)]


def _qwen_hybrid(c: Fields, routed: Ffn, drafts: int) -> Stack:
    layers = c.layer_count()
    both = c.switch("attention_bias")
    gate = c.switch("attn_output_gate", default=True)
    full = gqa(c, qk_norm=True, output_gate=gate, qkv_bias=both, o_bias=both)
    linear = _delta_net(c)
    ffns = networks(c, layers, routed) if isinstance(routed, MoeFfn) else [routed] * layers
    kinds = _full_layers(c, layers)
    layer = LayerGroup(count=drafts, attention=full, ffn=routed) if drafts else None
    return stack(
        c,
        (group(full if kinds[i] else linear, ffns[i]) for i in range(layers)),
        draft=Draft(layers=(layer,), projections=2 * drafts) if layer else None,
    )


def _gated_experts(c: Fields) -> MoeFfn:
    shared = c.count("shared_expert_intermediate_size", default=0, least=0)
    return moe(c, shared=shared, shared_gate=shared > 0)


@architecture("qwen3_next", "Qwen3NextForCausalLM")
def qwen3_next(c: Fields) -> Stack:
    """Qwen3-Next: three layers of four linear; it drafts although no field says so."""
    drafts = c.count("mtp_num_hidden_layers", "num_nextn_predict_layers", default=1, least=0)
    return _qwen_hybrid(c, _gated_experts(c), drafts)


@architecture(
    "qwen3_5_moe_text",
    "qwen3_5_moe",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
)
def qwen3_5_moe(c: Fields) -> Stack:
    """Qwen3.5 to 3.8 with experts."""
    drafts = c.count("mtp_num_hidden_layers", default=0, least=0)
    return _qwen_hybrid(c, _gated_experts(c), drafts)


@architecture("qwen3_5_text", "qwen3_5", "Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration")
def qwen3_5(c: Fields) -> Stack:
    """Qwen3.5 and 3.6 without experts."""
    drafts = c.count("mtp_num_hidden_layers", default=0, least=0)
    return _qwen_hybrid(c, dense(c), drafts)


def _delta_attention(c: Fields) -> LinearAttention:
    """Return delta attention (KDA): a decay for every number of a key, by a low-rank projection."""
    section = c.section("linear_attn_config")
    if section is None:
        c.fault("linear_attn_config", "missing, expected a mapping of fields to values")
        return LinearAttention(k_heads=1, v_heads=1, k_dim=1, v_dim=1)
    heads, dim = section.count("num_heads"), section.count("head_dim")
    return LinearAttention(
        k_heads=heads,
        v_heads=heads,
        k_dim=dim,
        v_dim=dim,
        convolution=section.count("short_conv_kernel_size", default=4, least=0),
        gate_rank=0 if section.switch("use_full_rank_gate") else dim,
        decay_rank=dim,
        scalars=1,
        head_vectors=1,
        fp32_vectors="all",
    )


@architecture("kimi_linear", "KimiLinearForCausalLM", "kimi_k3", "KimiK3ForConditionalGeneration")
def kimi_linear(c: Fields) -> Stack:
    """Kimi Linear and K3: delta attention but for the layers listed (counted from one)."""
    layers = c.layer_count()
    section = c.section("linear_attn_config")
    full = set(section.numbers("full_attn_layers") or []) if section else set()
    if section and not section.has("full_attn_layers"):
        section.required_numbers("full_attn_layers", 1)
    latent = c.optional("routed_expert_hidden_size")
    routed = moe(
        c,
        correction=True,
        latent=latent,
        latent_norm=bool(latent) and c.switch("latent_moe_use_norm"),
    )
    attention = mla(c, output_gate=c.switch("mla_use_output_gate"))
    linear = _delta_attention(c)
    ffns = networks(c, layers, routed)
    return stack(
        c,
        (group(attention if i + 1 in full else linear, ffns[i]) for i in range(layers)),
        draft=draft_of(c, group(attention, routed)),
        more={"attention_residuals": bool(c.optional("attn_res_block_size"))},
    )


@architecture("glm5_next_text", "glm5_next", "Glm5NextForConditionalGeneration")
def glm5_next(c: Fields) -> Stack:
    """GLM-5.3-Flash: delta attention, sparse latent attention and hyper-connections."""
    layers = c.layer_count()
    kinds = c.required_words("layer_types", layers)
    routed = moe(c, correction=True)
    ffns = networks(c, layers, routed)
    attention = mla(c, indexer=indexer(c))
    linear = _delta_attention(c)
    pooled = c.count("index_kpool", default=1)
    notes = [f"The indexer pools {pooled} keys into one; every key is kept and scored here."]
    return stack(
        c,
        (group(linear if "linear" in kinds[i] else attention, ffns[i]) for i in range(layers)),
        hyper=c.count("hc_mult", default=0, least=0) if c.switch("mhc", default=True) else 0,
        draft=draft_of(c, group(attention, routed)),
        notes=notes if pooled > 1 else (),
        more={"joined_streams": False},
    )


_BLOCKS = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def _blocks(c: Fields, pattern: str, listed: str) -> list[str]:
    """Return what each layer is, from a list of words or from one letter a layer."""
    words = c.words(listed)
    letters = c.word(pattern)
    if words is None and not letters:
        return []
    found = words if words is not None else [_BLOCKS.get(letter, letter) for letter in letters]
    for word in found:
        if word not in _BLOCKS.values():
            c.fault(
                listed if words is not None else pattern,
                f"expected layers of {', '.join(_BLOCKS.values())}, found {word!r}",
            )
            return ["mlp"]
    return found


def _mamba(c: Fields) -> LinearAttention:
    """Return Mamba-2: groups of B and C are keys, the state is as wide as they are."""
    return LinearAttention(
        k_heads=c.count("n_groups"),
        v_heads=c.count("mamba_num_heads"),
        k_dim=c.count("ssm_state_size"),
        v_dim=c.count("mamba_head_dim"),
        convolution=c.count("conv_kernel", default=4, least=0),
        convolution_bias=c.switch("use_conv_bias", default=True),
        update="additive",
        scalars=1,
        head_vectors=3,
        wide_norm=True,
    )


def _nemotron_experts(c: Fields) -> MoeFfn:
    return moe(
        c,
        shared=c.count("moe_shared_expert_intermediate_size", default=0, least=0),
        gated=False,
        correction=True,
        latent=c.optional("moe_latent_size"),
    )


@architecture("nemotron_h", "NemotronHForCausalLM")
def nemotron_h(c: Fields) -> Stack:
    """Nemotron-H and Nemotron 3: every layer is one of Mamba-2, attention, network or experts."""
    blocks = _blocks(c, "hybrid_override_pattern", "layers_block_type")
    if not blocks:
        c.required_words("layers_block_type", c.layer_count())
    made: dict[str, LayerGroup] = {}
    for kind in dict.fromkeys(blocks):
        made[kind] = _block(c, kind)
    drafts = c.count("num_nextn_predict_layers", default=0, least=0)
    draft = None
    if drafts:
        words = _blocks(c, "mtp_hybrid_override_pattern", "mtp_layers_block_type") or ["attention"]
        draft = Draft(layers=tuple(made.get(w) or _block(c, w) for w in words))
    return stack(c, (made[kind] for kind in blocks), draft=draft)


def _block(c: Fields, kind: str) -> LayerGroup:
    ffn: Any = NoFfn()
    attention: Attention = NoAttention()
    if kind == "mamba":
        attention = _mamba(c)
    elif kind == "attention":
        bias = c.switch("attention_bias")
        attention = gqa(c, qkv_bias=bias, o_bias=bias)
    elif kind == "moe":
        ffn = _nemotron_experts(c)
    else:
        ffn = dense(c, gated=False, bias=c.switch("mlp_bias"))
    return group(attention, ffn)


@architecture("minimax_m1", "MiniMaxM1ForCausalLM", "minimax_text_01", "MiniMaxText01ForCausalLM")
def minimax_m1(c: Fields) -> Stack:
    """MiniMax-Text-01 and M1: seven layers of eight with lightning attention."""
    layers = c.layer_count()
    kinds = c.required_numbers("attn_type_list", layers)
    heads = queries(c)
    full = gqa(c)
    dim = head_dim(c, heads)
    linear = LinearAttention(
        k_heads=heads,
        v_heads=heads,
        k_dim=dim,
        v_dim=dim,
        update="additive",
        scalars=0,
        head_vectors=0,
        wide_norm=True,
    )
    shared = c.count("shared_intermediate_size", default=0, least=0)
    routed = moe(c, width=c.count("intermediate_size"), shared=shared)
    return stack(c, (group(full if kinds[i] else linear, routed) for i in range(layers)))
