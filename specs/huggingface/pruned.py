"""Pruned models whose layers differ one by one: Nemotron from neural architecture search."""

from typing import Any

from specs.attention import Attention, NoAttention
from specs.ffn import DenseFfn, Ffn, NoFfn
from specs.huggingface.architectures import Stack, architecture, group
from specs.huggingface.fields import Fields
from specs.huggingface.layers import gqa, queries, stack

_ROUND = 256
"""Widths of networks are rounded up to a multiple of this."""


@architecture("nemotron-nas", "DeciLMForCausalLM", "deci")
def nemotron_nas(c: Fields) -> Stack:
    """Layers whose attention or network may be left out, and whose widths differ."""
    layers = c.layer_count()
    blocks = c.values.get("block_configs")
    if not isinstance(blocks, list) or len(blocks) < layers:
        c.fault("block_configs", f"expected a list of {layers} mappings, one a layer")
        return stack(c, ())
    built = []
    for i, block in enumerate(blocks[:layers]):
        at = f"block_configs[{i}]"
        fields = Fields(block if isinstance(block, dict) else {}, at, c.asked, c.faults)
        built.append(group(_attention(c, fields), _network(c, fields)))
    return stack(c, built)


def _section(block: Fields, name: str) -> Fields:
    found = block.section(name)
    if found is None:
        block.fault(name, "missing, expected a mapping of fields to values")
        return Fields({"no_op": True}, name, block.asked, block.faults)
    return found


def _attention(c: Fields, block: Fields) -> Attention:
    fields = _section(block, "attention")
    if fields.switch("no_op"):
        return NoAttention()
    if fields.switch("replace_with_linear"):
        fields.fault("replace_with_linear", "attention replaced by one matrix is not read")
        return NoAttention()
    heads = queries(c)
    shared = fields.count("n_heads_in_group", default=1)
    return gqa(c, q_heads=heads, kv_heads=max(heads // shared, 1))


def _network(c: Fields, block: Fields) -> Ffn:
    fields = _section(block, "ffn")
    if fields.switch("no_op"):
        return NoFfn()
    if fields.switch("replace_with_linear"):
        fields.fault("replace_with_linear", "a network replaced by one matrix is not read")
        return NoFfn()
    times: Any = fields.values.get("ffn_mult")
    if type(times) not in (int, float) or not 0 < times < 1e6:
        fields.fault("ffn_mult", "missing or wrong, expected a number above 0")
        return NoFfn()
    width = int(2 * times * c.count("hidden_size") / 3)
    return DenseFfn(intermediate=max(-(-width // _ROUND), 1) * _ROUND)
