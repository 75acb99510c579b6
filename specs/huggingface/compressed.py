"""Compressed sparse attention with hyper-connections: DeepSeek V4 and V4.1."""

from typing import Any

from specs.attention import Attention, CsaAttention, HcaAttention, Indexer, SwaAttention
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.latent import indexer
from specs.huggingface.layers import draft_of, moe, queries, stack
from specs.model import Engram

_SPARSE_RATIO = 4
"""Tokens of an entry up to which entries overlap and an indexer chooses among them (V4)."""
_V4_CONTEXT: dict[str, Any] = {
    "kv": {"dtype": "fp8", "rope": "bf16", "group": 64, "scale": "e8m0", "padding": 1},
    "index": {"dtype": "fp4", "group": 32, "scale": "e8m0"},
}
_V41_CONTEXT: dict[str, Any] = {
    "kv": {"dtype": "fp4", "group": 16, "scale": "fp8"},
    "window": {"dtype": "fp8", "group": 32, "scale": "e8m0"},
    "index": {"dtype": "fp4", "group": 32, "scale": "e8m0"},
}
_SCALE_GROUP = 32
"""Numbers of an Engram row that share one scale of a byte."""


def _heads(c: Fields) -> dict[str, Any]:
    """Return the fields that the attention of all layers shares."""
    return {
        "q_heads": queries(c),
        "kv_heads": c.count("num_key_value_heads", default=1),
        "head_dim": c.count("head_dim"),
        "rope_dim": c.count("qk_rope_head_dim", least=0),
        "q_lora": c.count("q_lora_rank"),
        "o_lora": c.count("o_lora_rank"),
        "o_groups": c.count("o_groups"),
        "single_kv": True,
        "sinks": True,
        "window": c.count("sliding_window"),
    }


@architecture("deepseek_v4", "DeepseekV4ForCausalLM")
def deepseek_v4(c: Fields) -> Stack:
    """DeepSeek-V4: layers differ in how many tokens one entry of their context stands for."""
    layers = c.layer_count()
    ratios = c.required_numbers("compress_ratios", layers)
    shape, index = _heads(c), indexer(c)
    routed = moe(c, correction=True)
    hashed = moe(c, hash_tokens=c.count("vocab_size"))
    first = c.count("num_hash_layers", default=0, least=0)
    built = [
        group(_attention(ratios[i], shape, index), hashed if i < first else routed)
        for i in range(layers)
    ]
    draft = draft_of(c, group(SwaAttention(**shape), routed))
    hyper = c.count("hc_mult", default=0, least=0)
    return stack(c, built, hyper=hyper, draft=draft, formats=_V4_CONTEXT)


def _attention(ratio: int, shape: dict[str, Any], index: Indexer) -> Attention:
    if ratio <= 0:
        return SwaAttention(**shape)
    if ratio <= _SPARSE_RATIO:
        return CsaAttention(**shape, ratio=ratio, overlap=True, top_k=index.top_k, indexer=index)
    return HcaAttention(**shape, ratio=ratio)


@architecture("deepseek_v41_text", "deepseek_v41", "DeepseekV41ForCausalLM")
def deepseek_v41(c: Fields) -> Stack:
    """DeepSeek-V4.1: few layers compress the context and choose from it, the others follow."""
    layers = c.layer_count()
    ratios = c.required_numbers("compress_ratios", layers)
    sources = set(c.numbers("kv_source_layer_ids") or [])
    choosing = set(c.numbers("index_source_layer_ids") or [])
    shape, index = _heads(c), indexer(c)
    decoder = c.count("candidate_source_layer_id", default=layers, least=0)
    # The published weights have a second correction of the router, for tokens of images.
    routed = moe(c, correction=True, image_correction=True)
    tables = _engrams(c)
    built = []
    for i in range(layers):
        attention: Attention = SwaAttention(**shape)
        if ratios[i] > 0:
            attention = _shared(c, i, ratios[i], shape, index, i in sources, i in choosing)
        # A prompt passes these layers only as far back as their window reaches.
        last = shape["window"] if i >= decoder else None
        built.append(group(attention, routed, engram=tables.get(i), prefill_last=last))
    experts = c.count("dspark_n_routed_experts", "n_routed_experts")
    top_k = c.count("dspark_num_experts_per_tok", "num_experts_per_tok")
    few = routed.model_copy(update={"experts": experts, "top_k": min(top_k, experts)})
    draft = draft_of(c, group(SwaAttention(**shape), few))
    if draft and c.has("dspark_target_layer_ids"):
        # One projection takes in the layers that the draft follows, side by side.
        joined = len(c.numbers("dspark_target_layer_ids") or [])
        rank = c.count("dspark_markov_rank", default=0, least=0)
        draft = draft.model_copy(update={"projections": joined, "markov_rank": rank})
    return stack(
        c,
        built,
        hyper=c.count("hc_mult", default=0, least=0),
        draft=draft,
        formats=_V41_CONTEXT,
        more={"joined_streams": False},
    )


def _shared(
    c: Fields,
    layer: int,
    ratio: int,
    shape: dict[str, Any],
    index: Indexer,
    owner: bool,
    chooses: bool,
) -> CsaAttention:
    """Return the attention of a layer that may use the entries, or the choice, of another."""
    if not owner and layer > c.count("candidate_source_layer_id", default=10**6, least=0):
        blocks = c.count("candidate_topk_blocks", default=1)
        scans = blocks * c.count("candidate_block_size", default=1)
        index = index.model_copy(update={"scans": scans})
    keys = "projected" if owner else "shared"
    extra: dict[str, Any] = {"indexer": index, "index_keys": keys} if chooses else {}
    return CsaAttention(
        **shape, ratio=ratio, positions=False, top_k=index.top_k, owner=owner, **extra
    )


def _engrams(c: Fields) -> dict[int, Engram]:
    """Return the Engram tables by layer."""
    where = c.numbers("engram_layer_ids")
    if not where:
        return {}
    rows = c.required_numbers("engram_num_embeddings", len(where))
    width = c.count("engram_head_dim")
    # One row for each order of n-grams from two up, and for each head.
    lookups = max(c.count("engram_max_ngram_size", least=2) - 1, 1) * c.count("engram_n_heads")
    streams = c.count("hc_mult", default=0, least=0)
    hidden = c.count("hidden_size")
    outputs = (streams + 1) * hidden
    return {
        layer: Engram(
            rows=max(rows[i], 1),
            row_bytes=width + -(-width // _SCALE_GROUP),
            lookups=lookups,
            inputs=lookups * width,
            outputs=outputs,
            weights=2 * streams * hidden,
        )
        for i, layer in enumerate(where)
    }
