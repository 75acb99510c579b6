"""Names that the modules of a layer may have in a checkpoint, with the numbers they hold.

A quantisation names modules; formats are said by class of tensor. What is listed here joins the
two: for each layer its large matrices, under every name that is in use.
"""

from dataclasses import dataclass
from itertools import product

from specs.attention import HeadedAttention, LinearAttention, MlaAttention
from specs.ffn import DenseFfn, MoeFfn
from specs.model import LayerGroup

PREFIXES = (
    "model.language_model.layers",
    "language_model.model.layers",
    "backbone.layers",
    "model.layers",
    "layers",
)
"""What may stand before the number of a layer, longest first."""

_ATTENTION = ("self_attn", "attn", "attention", "linear_attn", "mixer")
_NETWORK = ("mlp", "ffn", "block_sparse_moe", "feed_forward", "mixer", "moe")


@dataclass(frozen=True)
class Module:
    """A module, or several that are treated alike: class, names under the layer, numbers."""

    tensor: str
    names: tuple[str, ...]
    numbers: int


def prefix(text: str) -> str:
    """Return the prefix that the patterns in ``text`` use."""
    return next((p for p in PREFIXES if f"{p}." in text or f"{p}*" in text), "model.layers")


def _module(tensor: str, blocks: tuple[str, ...], leaves: str, numbers: int) -> Module:
    names = tuple(f"{block}.{leaf}" for block, leaf in product(blocks, leaves.split()))
    return Module(tensor, names, numbers)


def of_layer(
    group: LayerGroup, hidden: int, blocks: tuple[tuple[str, str], ...] = ()
) -> list[Module]:
    """Return the modules of one layer.

    ``blocks``: classes of tensor whose modules have another name in front than is usual.
    """
    named = dict(blocks)
    found = []
    attention = group.attention
    if isinstance(attention, MlaAttention):
        found += _latent(attention, hidden)
    elif isinstance(attention, LinearAttention):
        found += _linear(attention, hidden)
    elif isinstance(attention, HeadedAttention):
        found += _headed(attention, hidden)
    if isinstance(group.ffn, MoeFfn):
        found += _experts(group.ffn, hidden, named)
    elif isinstance(group.ffn, DenseFfn):
        found += _network("ffn", _NETWORK, hidden * group.ffn.intermediate)
    if group.engram:
        found.append(Module("engram", ("engram.wkv", "engram"), group.engram.matrix.numbers))
    return found


def _headed(a: HeadedAttention, hidden: int) -> list[Module]:
    queries = a.q_heads * a.head_dim
    keys, values = a.kv_heads * a.head_dim, a.kv_heads * a.value_dim
    output = a.q_heads * a.value_dim

    def module(leaves: str, numbers: int) -> Module:
        return _module("attention", _ATTENTION, leaves, numbers)

    found = []
    if a.q_lora:
        found.append(module("wq_a q_a_proj", hidden * a.q_lora))
        found.append(module("wq_b q_b_proj", a.q_lora * queries))
    else:
        found.append(module("q_proj", hidden * queries * (1 + a.output_gate)))
    if not a.shared_kv:
        found.append(module("k_proj wkv", hidden * keys))
        if not a.single_kv:
            found.append(module("v_proj", hidden * values))
    if a.o_lora:
        found.append(module("wo_a", output // a.o_groups * a.o_groups * a.o_lora))
        found.append(module("wo_b", a.o_groups * a.o_lora * hidden))
    else:
        found.append(module("o_proj", output * hidden))
    return found


def _latent(a: MlaAttention, hidden: int) -> list[Module]:
    width = a.q_heads * (a.nope_dim + a.rope_dim)

    def module(leaves: str, numbers: int) -> Module:
        return _module("attention", _ATTENTION, leaves, numbers)

    found = []
    if a.q_lora:
        found.append(module("q_a_proj fused_qkv_a_proj_with_mqa", hidden * a.q_lora))
        found.append(module("q_b_proj", a.q_lora * width))
    else:
        found.append(module("q_proj", hidden * width))
    found.append(module("kv_a_proj_with_mqa", hidden * (a.kv_lora + a.rope_dim)))
    found.append(module("kv_b_proj", a.kv_lora * a.q_heads * (a.nope_dim + a.v_dim)))
    found.append(module("o_proj", a.q_heads * a.v_dim * hidden))
    if a.output_gate:
        found.append(module("g_proj", hidden * a.q_heads * a.v_dim))
    if a.indexer and a.q_lora:
        found.append(module("indexer.wq_b", a.q_lora * a.indexer.heads * a.indexer.dim))
        found.append(module("indexer.wk", hidden * a.indexer.dim))
    return found


def _linear(a: LinearAttention, hidden: int) -> list[Module]:
    keys, values = a.k_heads * a.k_dim, a.v_heads * a.v_dim

    def module(leaves: str, numbers: int) -> Module:
        return _module("attention", _ATTENTION, leaves, numbers)

    gate = 0 if a.gate_rank else hidden * values
    return [
        module("in_proj in_proj_qkv in_proj_qkvz q_proj qkv_proj", hidden * (2 * keys + values)),
        *([module("in_proj in_proj_z in_proj_qkvz g_proj", gate)] if gate else []),
        module("out_proj o_proj", values * hidden),
    ]


def _network(tensor: str, blocks: tuple[str, ...], numbers: int) -> list[Module]:
    return [
        _module(tensor, blocks, "up_proj gate_proj gate_up_proj fc1 w1 w3", 2 * numbers),
        _module(tensor, blocks, "down_proj fc2 w2", numbers),
    ]


def _experts(f: MoeFfn, hidden: int, named: dict[str, str]) -> list[Module]:
    width = f.width(hidden)
    routed = tuple(f"{block}.experts.0" for block in _NETWORK)
    if "experts" in named:
        routed = (named["experts"],)
    found = _network("experts", routed, f.experts * f.intermediate * width)
    if f.shared_intermediate:
        shared = tuple(
            f"{block}.{name}"
            for block in _NETWORK
            for name in ("shared_experts", "shared_expert", "share_expert")
        )
        if "shared_experts" in named:
            shared = (named["shared_experts"],)
        found += _network("shared_experts", shared, f.shared_intermediate * hidden)
    if f.latent:
        # Exporters differ in whether they count these among the layers that a list names, so
        # they decide only where the model has no other matrix of the class.
        leaves = "fc1_latent_proj fc2_latent_proj routed_expert_down_proj routed_expert_up_proj"
        found.append(_module("ffn", _NETWORK, leaves, 1))
    return found
