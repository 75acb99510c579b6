"""Small random models: stacks of every kind of attention and network, whole and in patterns."""

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from specs.model import ModelSpec

Raw = dict[str, Any]
Draw = Callable[..., Any]

HEADS = [(4, 4), (8, 2), (8, 1), (12, 4), (12, 3), (16, 8), (28, 4), (52, 4), (20, 5)]
"""Query and KV heads, odd counts among them."""

KINDS = ("gqa", "swa", "mla", "csa", "hca", "linear", "none")
"""Every kind of attention."""

SMOOTH_KINDS = ("gqa", "mla", "linear", "none")
"""Kinds that keep and see their context token by token, unless an indexer chooses of it."""

MATRICES = ("attention", "ffn", "experts", "shared_experts", "compressor", "router", "engram")
"""Tensor classes whose formats are drawn."""

switches = st.booleans()


def one_of(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


def model_of(raw: Raw) -> ModelSpec:
    return ModelSpec.model_validate(raw)


# Formats


@st.composite
def formats(draw: Draw) -> Raw:
    dtype = one_of("bf16", "fp8", "fp4")
    matrices = st.one_of(
        st.builds(lambda d: {"dtype": d}, dtype),
        st.builds(lambda d, r, c: {"dtype": d, "block": [r, c]}, dtype, one_of(4, 8), one_of(4, 8)),
        st.builds(lambda d, g: {"dtype": d, "group": g}, dtype, one_of(8, 16, 32)),
    )
    if draw(switches):
        return {}
    names = ("attention", "ffn", "experts")
    if draw(switches):
        names = MATRICES
    found: Raw = {name: draw(matrices) for name in names}
    found |= {"kv": draw(kept_formats()), "activations": {"dtype": draw(dtype)}}
    if draw(switches):
        found["window"] = draw(kept_formats())
    if draw(switches):
        found["index"] = draw(kept_formats())
        found["state"] = {"dtype": draw(one_of("fp32", "bf16"))}
        found["convolution"] = {"dtype": draw(one_of("fp32", "bf16"))}
        found["norms"] = {"dtype": draw(one_of("fp32", "bf16"))}
    return found


@st.composite
def kept_formats(draw: Draw) -> Raw:
    found: Raw = {"dtype": draw(one_of("bf16", "fp8", "fp4"))}
    if draw(st.integers(0, 3)) == 0:
        found |= {
            "rope": draw(one_of(None, "bf16")),
            "group": draw(one_of(None, 4, 16)),
            "scale": draw(one_of("fp32", "e8m0")),
            "padding": draw(one_of(0, 1)),
        }
    return found


# Attention


@st.composite
def headed(draw: Draw, kind: str = "gqa") -> Raw:
    """Grouped-query attention; at times with what newer models add."""
    q_heads, kv_heads = draw(st.sampled_from(HEADS))
    found = {
        "kind": kind,
        "q_heads": q_heads,
        "kv_heads": kv_heads,
        "head_dim": draw(one_of(8, 16, 32)),
        "qk_norm": draw(switches),
        "qkv_bias": draw(switches),
    }
    if draw(switches):
        return found
    found |= {
        name: draw(switches)
        for name in ("single_kv", "shared_kv", "output_gate", "sinks", "o_bias")
    }
    found |= {"rope_dim": draw(one_of(0, 4, 8)), "q_lora": draw(one_of(None, 24, 48))}
    if kind == "gqa" and draw(st.integers(0, 3)) == 0:
        found["indexer"] = draw(indexers())
    if kind in ("gqa", "swa") and not found["single_kv"]:
        found["v_dim"] = draw(one_of(None, 8, 24))
    if draw(switches):
        found |= {"o_lora": draw(one_of(8, 12)), "o_groups": draw(one_of(1, 2, 4))}
    return found


@st.composite
def indexers(draw: Draw, top_k: int | None = None) -> Raw:
    return {
        "heads": draw(one_of(2, 6)),
        "dim": draw(one_of(8, 12)),
        "top_k": top_k or draw(one_of(1, 16, 300)),
        "scans": draw(one_of(None, None, 40, 500)),
    }


@st.composite
def windowed(draw: Draw, kind: str) -> Raw:
    """Sliding windows, and both kinds of compressed attention."""
    found = {**draw(headed(kind)), "window": draw(one_of(1, 7, 128, 2000))}
    if kind == "swa":
        return found
    found |= {
        "ratio": draw(one_of(1, 2, 4, 13)),
        "overlap": draw(switches),
        "positions": draw(switches),
        "weighed": draw(switches),
        "owner": draw(one_of(True, True, False)),
    }
    if kind == "csa":
        found["top_k"] = draw(one_of(1, 16, 300))
        if draw(one_of(True, True, False)):
            found["q_lora"] = found.get("q_lora") or 24
            found["indexer"] = draw(indexers(found["top_k"]))
            found["index_keys"] = draw(one_of("compressed", "projected", "shared"))
    return found


@st.composite
def latent(draw: Draw) -> Raw:
    found = {
        "kind": "mla",
        "q_heads": draw(one_of(4, 8, 12, 20)),
        "q_lora": draw(one_of(None, 24, 48)),
        "kv_lora": draw(one_of(16, 32)),
        "nope_dim": draw(one_of(8, 16)),
        "rope_dim": draw(one_of(0, 4, 8)),
        "v_dim": draw(one_of(8, 16)),
        "output_gate": draw(switches),
        "qkv_bias": draw(switches),
        "cache": draw(one_of("latent", "latent", "expanded")),
    }
    if found["cache"] == "latent" and found["q_lora"] and draw(switches):
        found["indexer"] = draw(indexers())
    elif found["cache"] == "latent" and draw(st.integers(0, 3)) == 0:
        found["top_k"] = draw(one_of(1, 16, 300))
    return found


@st.composite
def linear(draw: Draw) -> Raw:
    k_heads, v_heads = draw(one_of((4, 4), (2, 4), (4, 8), (3, 12), (8, 16)))
    return {
        "kind": "linear",
        "k_heads": k_heads,
        "v_heads": v_heads,
        "k_dim": draw(one_of(8, 16)),
        "v_dim": draw(one_of(8, 16)),
        "convolution": draw(one_of(0, 4)),
        "convolution_bias": draw(switches),
        "update": draw(one_of("additive", "delta")),
        "gate_rank": draw(one_of(0, 8)),
        "decay_rank": draw(one_of(0, 8)),
        "scalars": draw(st.integers(0, 3)),
        "head_vectors": draw(st.integers(0, 3)),
        "wide_norm": draw(switches),
        "fp32_vectors": draw(one_of("none", "heads", "all")),
    }


def attentions(kinds: tuple[str, ...] = KINDS) -> st.SearchStrategy[Raw]:
    known: dict[str, st.SearchStrategy[Raw]] = {
        "gqa": headed(),
        "mla": latent(),
        "linear": linear(),
        "none": st.just({"kind": "none"}),
    }
    return st.one_of(*(known[k] if k in known else windowed(k) for k in kinds))


# Networks


_MIXTURE_SWITCHES = ("gated", "bias", "correction", "image_correction", "shared_gate")


@st.composite
def networks(draw: Draw, moe: bool) -> Raw:
    rich = draw(switches)
    if not moe:
        found: Raw = {"kind": "dense", "intermediate": draw(one_of(96, 256, 336, 416))}
        return found | ({"gated": draw(switches), "bias": draw(switches)} if rich else {})
    experts = draw(one_of(4, 6, 8, 16, 30))
    found = {
        "kind": "moe",
        "experts": experts,
        "top_k": draw(st.integers(1, min(4, experts))),
        "intermediate": draw(one_of(32, 48, 96)),
    }
    if rich:
        found |= {n: draw(switches) for n in _MIXTURE_SWITCHES}
        found |= {
            "latent": draw(one_of(None, 24)),
            "latent_norm": draw(switches),
            "shared_intermediate": draw(one_of(0, 48, 96)),
            "hash_tokens": draw(one_of(0, 0, 100)),
        }
    return found


# Stacks


@st.composite
def layer_groups(draw: Draw, moe: bool, kinds: tuple[str, ...] = KINDS) -> Raw:
    # Every other layer is grouped-query attention, which divides best.
    attention = draw(headed() if draw(switches) and "gqa" in kinds else attentions(kinds))
    ffn = draw(networks(moe))
    if not moe and attention["kind"] != "none" and draw(st.integers(0, 5)) == 0:
        ffn = {"kind": "none"}
    found = {"count": draw(st.integers(1, 5)), "attention": attention, "ffn": ffn}
    if draw(st.integers(0, 9)) == 0:
        found["engram"] = {
            "rows": draw(one_of(10, 333)),
            "row_bytes": 24.0,
            "lookups": draw(one_of(1, 6)),
            "inputs": draw(one_of(16, 48)),
            "outputs": draw(one_of(32, 64)),
            "weights": draw(one_of(0, 64)),
        }
    return found


@st.composite
def models(draw: Draw, moe: bool | None = None, kinds: tuple[str, ...] = KINDS) -> Raw:
    """Dense models and mixtures of experts; a mixture may hold dense layers, too."""
    is_moe = draw(switches) if moe is None else moe
    mixtures = [is_moe, *draw(st.lists(switches, max_size=2))]
    layers = [draw(layer_groups(kind and is_moe, kinds)) for kind in mixtures]
    if len(layers) > 1 and draw(st.integers(0, 3)) == 0:
        first = draw(st.integers(0, len(layers) - 1))
        layers[first:] = [{"repeat": draw(st.integers(1, 3)), "layers": layers[first:]}]
    found = {
        "name": "small",
        "hidden": draw(one_of(64, 96, 208)),
        "vocab": draw(one_of(500, 512, 1001)),
        "tied_embeddings": draw(switches),
        "max_context": 2**17,
        "layers": layers,
        "formats": draw(formats()),
    }
    if draw(st.integers(0, 3)) == 0:
        found["hyper_connections"] = draw(one_of(2, 4))
        found["joined_streams"] = draw(switches)
    elif draw(st.integers(0, 5)) == 0:
        found["attention_residuals"] = True
    if draw(st.integers(0, 5)) == 0:
        found["draft"] = {
            "layers": [draw(layer_groups(is_moe, kinds))],
            "projections": draw(st.integers(0, 2)),
            "own_head": draw(switches),
            "markov_rank": draw(one_of(0, 16)),
        }
    if draw(st.integers(0, 5)) == 0:
        found["modules"] = [{"name": "tower", "bytes": 5e4, "spread": draw(switches)}]
    return found
