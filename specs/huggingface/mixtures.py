"""Mixtures of experts over grouped-query attention: Qwen3-MoE, Mixtral, GLM-4.5, gpt-oss, …"""

from typing import Any

from specs.attention import Attention, Indexer
from specs.ffn import Ffn
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.layers import dense, draft_of, gqa, moe, networks, slides, stack, window
from specs.model import LayerGroup


def _mixed(
    c: Fields, attention: Attention, routed: Ffn, layers: int | None = None
) -> list[LayerGroup]:
    """Return layers of one attention, with experts where the fields say so."""
    count = layers or c.layer_count()
    return [group(attention, ffn) for ffn in networks(c, count, routed)]


@architecture(
    "qwen3_moe",
    "Qwen3MoeForCausalLM",
    "qwen3_vl_moe",
    "qwen3_vl_moe_text",
    "Qwen3VLMoeForConditionalGeneration",
)
def qwen3_moe(c: Fields) -> Stack:
    """Qwen3 with experts and none shared."""
    both = c.switch("attention_bias")
    attention = gqa(c, qk_norm=True, qkv_bias=both, o_bias=both)
    return stack(c, _mixed(c, attention, moe(c, shared=0)))


@architecture("qwen2_moe", "Qwen2MoeForCausalLM")
def qwen2_moe(c: Fields) -> Stack:
    """Qwen2 with experts and a gated shared one."""
    shared = c.count("shared_expert_intermediate_size")
    return stack(c, _mixed(c, gqa(c, qkv_bias=True), moe(c, shared=shared, shared_gate=True)))


@architecture("mixtral", "MixtralForCausalLM")
def mixtral(c: Fields) -> Stack:
    """Mixtral: the attention of Mistral, experts in every layer."""
    routed = moe(c, width=c.count("intermediate_size"), shared=0)
    return stack(c, _mixed(c, gqa(c, window(c)), routed))


@architecture("olmoe", "OlmoeForCausalLM")
def olmoe(c: Fields) -> Stack:
    """OLMoE: experts in every layer."""
    routed = moe(c, width=c.count("intermediate_size"), shared=0)
    return stack(c, _mixed(c, gqa(c, qk_norm=True), routed))


@architecture("gpt_oss", "GptOssForCausalLM")
def gpt_oss(c: Fields) -> Stack:
    """gpt-oss: every second layer in a window, sinks, and biases everywhere."""
    layers = c.layer_count()
    flags: dict[str, Any] = {"qkv_bias": True, "o_bias": True, "sinks": True}
    routed = moe(c, width=c.count("intermediate_size"), shared=0, bias=True)
    full = group(gqa(c, **flags), routed)
    sliding = group(gqa(c, c.count("sliding_window", default=128), **flags), routed)
    return stack(c, (sliding if yes else full for yes in slides(c, layers, 2)))


@architecture("llama4_text", "llama4", "Llama4ForConditionalGeneration", "Llama4ForCausalLM")
def llama4(c: Fields) -> Stack:
    """Llama 4: experts in every n-th layer, attention in chunks but for every fourth layer."""
    layers = c.layer_count()
    step = c.count("interleave_moe_layer_step", default=1)
    width = c.count("intermediate_size")
    routed = moe(c, width=width, shared=width)
    plain: Ffn = dense(c, "intermediate_size_mlp") if step > 1 else routed
    listed = c.numbers("moe_layers")
    sparse = set(listed) if listed else set(range(step - 1, layers, step))
    both = c.switch("attention_bias")
    flags = {"qkv_bias": both, "o_bias": both}
    chunk = window(c, "attention_chunk_size")
    full, chunked = gqa(c, **flags), gqa(c, chunk, **flags)
    positional = c.numbers("no_rope_layers") or []
    if len(positional) < layers:
        positional = [int((i + 1) % 4 != 0) for i in range(layers)]
    notes = ["Chunked attention counts as a window of one chunk, the most that a token sees."]
    return stack(
        c,
        (
            group(chunked if positional[i] else full, routed if i in sparse else plain)
            for i in range(layers)
        ),
        notes=notes if chunk else (),
    )


@architecture("glm4_moe", "Glm4MoeForCausalLM", "glm4v_moe_text")
def glm4_moe(c: Fields) -> Stack:
    """GLM-4.5 to 4.7: first layers dense, biases on queries, keys and values."""
    attention = gqa(c, qkv_bias=c.switch("attention_bias"), qk_norm=c.switch("use_qk_norm"))
    routed = moe(c, correction=True)
    draft = draft_of(c, group(attention, routed))
    return stack(c, _mixed(c, attention, routed), draft=draft)


_NO_DRAFT = "The draft modules that the configuration declares are not published, and left out."


@architecture("minimax_m2", "MiniMaxM2ForCausalLM")
def minimax_m2(c: Fields) -> Stack:
    """MiniMax-M2: experts in every layer, norms over all heads (counted per head)."""
    routed = moe(c, width=c.count("intermediate_size"), shared=0, correction=True)
    attention = gqa(c, qk_norm=c.switch("use_qk_norm", default=True))
    notes = [_NO_DRAFT] if c.switch("use_mtp") else ()
    return stack(c, _mixed(c, attention, routed), notes=notes)


@architecture(
    "minimax_m3",
    "minimax_m3_vl",
    "MiniMaxM3ForCausalLM",
    "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration",
)
def minimax_m3(c: Fields) -> Stack:
    """MiniMax-M3: an indexer chooses blocks of the context in all but the first layers."""
    layers = c.layer_count()
    routed = moe(
        c,
        width=c.count("intermediate_size"),
        shared=c.count("shared_intermediate_size", default=0, least=0),
        correction=c.switch("use_routing_bias"),
    )
    first = dense(c, "dense_intermediate_size")
    norm = c.switch("use_qk_norm", default=True)
    full = gqa(c, qk_norm=norm)
    section = c.section("sparse_attention_config")
    chosen, chooses = [0] * layers, full
    if section and section.switch("use_sparse_attention", default=True):
        chosen = section.required_numbers("sparse_attention_freq", layers)
        blocks, size = section.count("sparse_topk_blocks"), section.count("sparse_block_size")
        indexer = Indexer(
            heads=section.count("sparse_num_index_heads"),
            dim=section.count("sparse_index_dim"),
            top_k=blocks * size,
        )
        chooses = gqa(c, qk_norm=norm, indexer=indexer)
    kinds = c.required_numbers("moe_layer_freq", layers)
    notes = [_NO_DRAFT] if c.optional("num_nextn_predict_layers", "num_mtp_modules") else ()
    return stack(
        c,
        (
            group(chooses if chosen[i] else full, routed if kinds[i] else first)
            for i in range(layers)
        ),
        notes=notes,
    )


@architecture("mimo_v2_flash", "MiMoV2FlashForCausalLM")
def mimo_v2(c: Fields) -> Stack:
    """MiMo-V2: values narrower than keys, most layers in a window with sinks."""
    layers = c.layer_count()
    full = gqa(c, v_dim=c.count("v_head_dim"), sinks=c.switch("add_full_attention_sink_bias"))
    sliding = gqa(
        c,
        c.count("sliding_window", "sliding_window_size"),
        q_heads=c.count("swa_num_attention_heads", "num_attention_heads"),
        kv_heads=c.count("swa_num_key_value_heads", "num_key_value_heads"),
        head_dim=c.count("swa_head_dim", "head_dim"),
        v_dim=c.count("swa_v_head_dim", "v_head_dim"),
        sinks=c.switch("add_swa_attention_sink_bias"),
    )
    kinds = c.required_numbers("hybrid_layer_pattern", layers)
    ffns = networks(c, layers, moe(c, correction=True))
    return stack(
        c,
        (group(sliding if kinds[i] else full, ffns[i]) for i in range(layers)),
        notes=["Draft layers, which the configuration does not mention, are left out."],
    )


_HEAD_GATE = "The gate of each head (one number) is not counted."


@architecture("laguna", "LagunaForCausalLM")
def laguna(c: Fields) -> Stack:
    """Laguna: layers differ in their query heads; most attend to a window."""
    layers = c.layer_count()
    heads = c.numbers("num_attention_heads_per_layer", length=layers)
    width = window(c)
    shared = c.count("shared_expert_intermediate_size", default=0, least=0)
    ffns = networks(c, layers, moe(c, shared=shared, correction=True))
    built = []
    for i, yes in enumerate(slides(c, layers)):
        own = max(heads[i], 1) if heads else None
        attention = gqa(c, width if yes else None, q_heads=own, qk_norm=True)
        built.append(group(attention, ffns[i]))
    return stack(c, built, notes=[_HEAD_GATE] if c.switch("gating") else ())


@architecture("step3p7", "Step3p7FlashForCausalLM", "step3p5", "Step3p5ForCausalLM")
def step(c: Fields) -> Stack:
    """Step-3.5 and 3.7 Flash: three layers of four in a window, a shared expert."""
    layers = c.layer_count()
    width = window(c)
    routed = moe(
        c,
        shared=c.count("share_expert_dim", default=0, least=0),
        correction=c.switch("use_moe_router_bias"),
    )
    ffns = networks(c, layers, routed)
    full, sliding = gqa(c, qk_norm=True), gqa(c, width, qk_norm=True)
    draft = draft_of(c, group(sliding, dense(c)))
    return stack(
        c,
        (group(sliding if yes else full, ffns[i]) for i, yes in enumerate(slides(c, layers, 4))),
        draft=draft,
        notes=[_HEAD_GATE],
    )
