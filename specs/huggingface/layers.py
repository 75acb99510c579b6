"""Attention and networks from the fields that most families share."""

from collections.abc import Iterable
from typing import Any

from specs.attention import Attention, GqaAttention, MlaAttention, SwaAttention
from specs.ffn import DenseFfn, Ffn, MoeFfn
from specs.huggingface.architectures import Stack
from specs.huggingface.fields import Fields
from specs.model import Draft, LayerGroup

EXPERTS = ("n_routed_experts", "num_experts", "num_local_experts")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "top_k_experts")
WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size")
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")


def stack(
    c: Fields,
    layers: Iterable[LayerGroup],
    *,
    draft: Draft | None = None,
    hyper: int = 0,
    notes: Iterable[str] = (),
    vocab: int | None = None,
    **more: Any,
) -> Stack:
    """Return the stack of ``layers`` with what every configuration says of the whole.

    ``more``: further fields of :class:`Stack`.
    """
    return Stack(
        tuple(layers),
        hidden=c.count("hidden_size", "n_embd", "d_model"),
        vocab=c.count("vocab_size", default=vocab),
        max_context=c.count(
            "max_position_embeddings", "model_max_length", "max_seq_len", "n_positions"
        ),
        draft=draft,
        hyper=hyper,
        notes=tuple(notes),
        **more,
    )


def queries(c: Fields, default: int | None = None) -> int:
    """Return the number of query heads."""
    return c.count("num_attention_heads", "n_head", default=default)


def head_dim(c: Fields, heads: int) -> int:
    """Return the width of a head: stated, or the hidden width shared out."""
    shared = c.count("hidden_size", "n_embd", "d_model") // heads
    return c.count("head_dim", "attention_head_dim", "kv_channels", default=max(shared, 1))


def gqa(c: Fields, window: int | None = None, **flags: Any) -> Attention:
    """Return attention with queries over shared keys and values, in a window if one is given.

    ``flags`` are fields of the attention that the configuration does not spell out; they may
    replace what it does.
    """
    heads = flags.pop("q_heads", None) or queries(c)
    shape = {
        "q_heads": heads,
        "kv_heads": flags.pop("kv_heads", None) or c.count("num_key_value_heads", default=heads),
        "head_dim": flags.pop("head_dim", None) or head_dim(c, heads),
        **flags,
    }
    return GqaAttention(**shape) if window is None else SwaAttention(window=window, **shape)


def window(c: Fields, *names: str) -> int | None:
    """Return the width of the sliding window; ``None`` where it holds the whole context."""
    found = c.optional(*(names or ("sliding_window",)))
    longest = c.count("max_position_embeddings", default=10**9)
    return found if found and found < longest else None


def slides(c: Fields, layers: int, every: int | None = None) -> list[bool]:
    """Tell for each layer whether it attends to a window only.

    ``layer_types`` says so, or each ``every``-th layer attends to all; without both, none slides.
    """
    kinds = c.words("layer_types", length=layers)
    if kinds is not None:
        return ["sliding" in kind or "chunked" in kind for kind in kinds[:layers]]
    return [every is not None and (i + 1) % every != 0 for i in range(layers)]


def mla(c: Fields, **flags: Any) -> MlaAttention:
    """Return latent attention; ``head_dim`` means nothing where ``kv_lora_rank`` is there."""
    return MlaAttention(
        q_heads=queries(c),
        q_lora=c.optional("q_lora_rank"),
        kv_lora=c.count("kv_lora_rank"),
        nope_dim=c.count("qk_nope_head_dim"),
        rope_dim=c.count("qk_rope_head_dim", least=0),
        v_dim=c.count("v_head_dim"),
        qkv_bias=c.switch("attention_bias"),
        **flags,
    )


def dense(c: Fields, *names: str, **flags: Any) -> DenseFfn:
    """Return a dense network whose width stands under one of ``names``."""
    width = c.count(*(names or ("intermediate_size", "n_inner", "ffn_hidden_size")))
    return DenseFfn(intermediate=width, **flags)


def moe(
    c: Fields,
    *,
    width: int | None = None,
    shared: int | None = None,
    **flags: Any,
) -> MoeFfn:
    """Return a mixture of experts.

    ``width``: of one expert, where it stands under another name. ``shared``: width of the shared
    experts together; else their number times the width.
    """
    own = width or c.count(*WIDTH)
    experts = c.count(*EXPERTS)
    top_k = c.count(*TOP_K)
    if top_k > experts and not c.faults:
        c.fault(
            next(n for n in TOP_K if c.has(n)), f"more experts a token than there are: {experts}"
        )
    return MoeFfn(
        experts=experts,
        top_k=min(top_k, experts),
        intermediate=own,
        shared_intermediate=own * c.count(*SHARED, default=0, least=0)
        if shared is None
        else shared,
        **flags,
    )


def sparse(c: Fields, layers: int) -> list[bool]:
    """Tell for each layer whether it routes tokens to experts, by whichever field says so."""
    kinds = c.words("mlp_layer_types", length=layers)
    if kinds is not None:
        return [kind in ("sparse", "moe") for kind in kinds[:layers]]
    if isinstance(c.values.get("moe_layer_freq"), list):
        listed = c.numbers("moe_layer_freq", length=layers)
        return [bool(n) for n in (listed or [0] * layers)[:layers]]
    first = c.count("first_k_dense_replace", default=0, least=0)
    every = c.count("moe_layer_freq", "decoder_sparse_step", default=1)
    only_dense = set(c.numbers("mlp_only_layers") or [])
    # ``decoder_sparse_step`` counts layers from one, ``moe_layer_freq`` from zero.
    offset = 1 if c.has("decoder_sparse_step") else 0
    return [i >= first and i not in only_dense and (i + offset) % every == 0 for i in range(layers)]


def networks(c: Fields, layers: int, routed: Ffn) -> list[Ffn]:
    """Return the network of each layer: ``routed``, or dense where the fields say so."""
    kinds = sparse(c, layers)
    plain: Ffn = dense(c) if not all(kinds) else routed
    return [routed if kind else plain for kind in kinds]


def draft_of(c: Fields, layer: LayerGroup, *names: str, own_head: bool = False) -> Draft | None:
    """Return a draft module of as many layers like ``layer`` as a field says; none for zero."""
    count = c.count(*(names or ("num_nextn_predict_layers",)), default=0, least=0)
    if not count:
        return None
    group = layer.model_copy(update={"count": count})
    return Draft(layers=(group,), projections=2 * count, own_head=own_head)
