"""Problems in which leaves matter: every example, and small models of every kind of layer."""

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LONG = {"supernode-sizing"}
"""Examples that take seconds, too long to ask again for every leaf."""
EXAMPLES = sorted({file.stem for file in (ROOT / "examples").glob("*.yaml")} - LONG)

RACK = "own-hardware-inline"
BURST = "qwen3-32b-128k-hgx-h100"
MOE = "qwen3-235b-a22b-8k-hgx-h100"

SCALED = (
    *("attention", "ffn", "experts", "router", "head", "embedding"),
    *("compressor", "shared_experts", "hyper", "engram"),
)
"""Tensor classes that may have scales."""

_PEAKS = [f"hardware.card.peak.{d}=1 PFLOP/s" for d in ("fp32", "int8", "fp4", "int4")]
_SLOW = [
    f"hardware.card.peak.{dtype}={rate} TFLOP/s"
    for rate, dtype in enumerate(("fp32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"), start=1)
]
_PROMPTS = [
    "workload.classes.chat={name: chat, context: 1024, prompt: 2048, generate: 64, "
    "ttft: 60 s, tpot: 2 s, deadline: 300 s}",
]
_SPLIT = ["space.tp=[4]", "space.attention_dp=[2]", "space.ep=[8]", "space.expert_tp=[1]"]
_DENSE = ["model=qwen3-8b"]

Raw = dict[str, Any]

# Small layers of every kind

_GQA: Raw = {"kind": "gqa", "q_heads": 8, "kv_heads": 4, "head_dim": 32}
_DENSE_FFN: Raw = {"kind": "dense", "intermediate": 256}
_MIXTURE: Raw = {"kind": "moe", "experts": 8, "top_k": 2, "intermediate": 64}
_INDEXER: Raw = {"heads": 4, "dim": 16, "top_k": 128, "scans": 256}
_LOW_RANK: Raw = {**_GQA, "q_lora": 64, "o_lora": 32, "o_groups": 4}
_COMPRESSED: Raw = {**_LOW_RANK, "kind": "csa", "window": 64, "ratio": 4, "top_k": 128}

_LAYERS: dict[str, Raw] = {
    "low-rank queries and outputs": {"attention": _LOW_RANK},
    "keys wider than values": {"attention": {**_GQA, "v_dim": 16}},
    "rope apart": {"attention": {**_GQA, "rope_dim": 8}},
    "indexer over keys": {"attention": {**_GQA, "indexer": _INDEXER}},
    "window": {"attention": {**_GQA, "kind": "swa", "window": 512}},
    "latents": {
        "attention": {
            **{"kind": "mla", "q_heads": 8, "q_lora": 64, "kv_lora": 32},
            **{"nope_dim": 16, "rope_dim": 8, "v_dim": 16},
        }
    },
    "latents that an earlier layer chose, top_k": {
        "attention": {
            **{"kind": "mla", "q_heads": 8, "kv_lora": 32, "top_k": 128},
            **{"nope_dim": 16, "rope_dim": 8, "v_dim": 16},
        }
    },
    "entries chosen by an indexer": {"attention": {**_COMPRESSED, "indexer": _INDEXER}},
    "entries chosen by an earlier layer": {"attention": _COMPRESSED},
    "all entries": {
        "attention": {
            **{k: v for k, v in _COMPRESSED.items() if k != "top_k"},
            **{"kind": "hca", "ratio": 32},
        }
    },
    "linear": {
        "attention": {
            **{"kind": "linear", "k_heads": 4, "v_heads": 8, "k_dim": 16, "v_dim": 16},
            **{"convolution": 4, "gate_rank": 16, "decay_rank": 16},
        }
    },
    "no attention": {"attention": {"kind": "none"}},
    "no network": {"ffn": {"kind": "none"}},
    "mixture": {"ffn": {**_MIXTURE, "shared_intermediate": 64}},
    "latent mixture": {"ffn": {**_MIXTURE, "latent": 64, "hash_tokens": 100}},
    "engram": {
        "engram": {"rows": 1000, "row_bytes": 64, "lookups": 4, "inputs": 64, "outputs": 128}
    },
    "last tokens only, prefill_last": {
        "attention": {**_COMPRESSED, "indexer": _INDEXER},
        "prefill_last": 256,
    },
}


def layer(**parts: Any) -> Raw:
    return {"count": 2, "attention": _GQA, "ffn": _DENSE_FFN, **parts}


def small(*layers: Raw, **more: Any) -> list[str]:
    """Changes that put a small model into a spec, on a machine slow enough for work to show."""
    model = {
        **{"name": "small", "hidden": 128, "vocab": 1000, "max_context": 65536},
        **{"layers": layers or [layer()], **more},
    }
    return [f"model={json.dumps(model)}", *_PROMPTS, *_SLOW, "space.tp=[2]", "space.pp=[1]"]


_HOW = {
    "blocks": {"dtype": "fp8", "block": [16, 16]},
    "groups": {"dtype": "fp8", "group": 32, "zero": "int4"},
}


def _formatted(tensor: str, how: str) -> list[str]:
    """A small model that has every tensor class, with scales for one of them."""
    stored: Raw = {**_HOW[how], **({} if tensor == "embedding" else {"compute": "bf16"})}
    shared = {**_MIXTURE, "shared_intermediate": 64}
    layers = [
        layer(attention={**_COMPRESSED, "indexer": _INDEXER}, **_LAYERS["engram"]),
        layer(ffn=shared),
    ]
    more = {"hyper_connections": 2, "formats": {tensor: stored}}
    return [*small(*layers, **more), "assumptions.overlap=whole_step", "space.attention_dp=[1]"]


def _kept(tensor: str, stored: Raw) -> list[str]:
    """A small model that keeps a context of every kind, ``tensor`` of it in a format of its own."""
    indexed = {**_COMPRESSED, "rope_dim": 8, "indexer": _INDEXER}
    layers = [layer(attention=indexed), layer(attention=_LAYERS["linear"]["attention"])]
    return [*small(*layers, formats={tensor: stored}), "assumptions.overlap=whole_step"]


def _engine(**options: Any) -> str:
    """The engine whose inputs all matter to a small model with states and FP4 experts."""
    given = {
        "batch_defaults": [
            {"max_batched_tokens": 2048, "max_sequences": 256},
            {"least_memory": "40 GiB", "max_batched_tokens": 8192, "max_sequences": 512},
        ],
        "share": 0.4,
        "state_pools": 2,
        "group_buffer": "1 MiB",
        "expert_width_multiple": 48,
        "expert_hidden_multiple": 96,
        **options,
    }
    return f"engine={json.dumps({'name': 'vllm', 'version': '0.11', 'options': given})}"


_HYBRID = small(
    layer(attention=_LAYERS["linear"]["attention"], ffn=_MIXTURE),
    layer(),
    formats={"experts": {"dtype": "fp4", "group": 32, "scale": "fp8"}},
)


VARIANTS: dict[str, tuple[str, list[str]]] = {
    "engine, batch_defaults": (
        RACK,
        [*_HYBRID, "hardware.memory.hbm.reported=60 GiB", _engine()],
    ),
    "engine, max_batched_tokens, max_sequences, max_model_len": (
        RACK,
        [
            *_HYBRID,
            _engine(max_batched_tokens=4096, max_sequences=64, max_model_len=65536),
        ],
    ),
    "engine, whole_prompts": (
        RACK,
        [*_HYBRID, _engine(max_batched_tokens=64, max_sequences=1, whole_prompts=8192)],
    ),
    "engine, compressed, window_passes, tables_over, index_scores and index_sessions": (
        RACK,
        [
            *small(
                layer(
                    attention={**_COMPRESSED, "indexer": _INDEXER},
                    ffn=_MIXTURE,
                    **_LAYERS["engram"],
                ),
                layer(**_LAYERS["all entries"], ffn=_MIXTURE),
                layer(**_LAYERS["window"], ffn=_MIXTURE),
            ),
            "engine={name: vllm, options: {max_batched_tokens: 512, max_sequences: 8}}",
            "space={tp: [4], attention_dp: [4], ep: [8], expert_tp: [2], replicas: [1]}",
        ],
    ),
    "engine, hyper_pass": (
        RACK,
        [
            *small(
                layer(attention={**_COMPRESSED, "rope_dim": 8, "indexer": _INDEXER}),
                layer(**_LAYERS["window"]),
                hyper_connections=2,
            ),
            "engine={name: vllm, options: "
            "{max_batched_tokens: 512, max_sequences: 8, index_sessions: 1}}",
        ],
    ),
    "engine, share of the rest": (RACK, [*_HYBRID, "engine=tensorrt-llm"]),
    "mixture with dispatch": (RACK, _SPLIT),
    "skewed experts": (RACK, [*_SPLIT, "assumptions.routing={kind: skew, factor: 2}"]),
    "observed experts": (
        RACK,
        [*_SPLIT, f"assumptions.routing={{kind: histogram, counts: [{[9] * 16 + [1] * 112}]}}"],
    ),
    "prompts": (RACK, [*_PROMPTS, *_SPLIT]),
    "computing takes longest": (
        RACK,
        [*_PROMPTS, *_SPLIT, *_SLOW, "assumptions.overlap=whole_step"],
    ),
    "dense, computing takes longest": (
        RACK,
        [*_DENSE, *_PROMPTS, *_SLOW, "assumptions.overlap=whole_step", "space.tp=[4]"],
    ),
    "context parallel prefill": (
        RACK,
        [*_DENSE, *_PROMPTS, *_SLOW, "space.tp=[2]", "space.cp=[2]"],
    ),
    "measured table": (
        RACK,
        [
            *_DENSE,
            "space.tp=[4]",
            "hardware.collectives=["
            "{operation: allreduce, ranks: 4, span: 1, bytes: 1024, seconds: 10 us},"
            "{operation: allreduce, ranks: 4, span: 1, bytes: 16 MiB, seconds: 2 ms}]",
        ],
    ),
    "bands of overhead": (
        RACK,
        ["space.batch=[8]", "assumptions.overhead=[{up_to: 8, seconds: 100 us}, {seconds: 1 ms}]"],
    ),
    "closed loop": (RACK, [*_PROMPTS, "workload.concurrency=64"]),
    "two classes": (
        RACK,
        [
            "workload.classes=[{name: short, share: 0.25, context: 100, generate: 32, tpot: 40 ms},"
            "{name: long, share: 0.75, context: 9000, prompt: 100, generate: 64, tpot: 80 ms}]"
        ],
    ),
    "burst with a failure": (
        BURST,
        [
            "workload.serving=continuous_batching",
            "workload.classes.continue={name: continue, sessions: 6, context: 8000, prompt: 2000, "
            "generate: 8, deadline: 2 s, ttft: 1.5 s, tpot: 50 ms}",
            "workload.failures=[{card: 0, at: 100 ms, stall: 200 ms}]",
            "space.tp=[2, 4]",
        ],
    ),
    "experts_memory, context_memory and alltoall, step, sequence, layer, moe_layer, token_layer": (
        RACK,
        [
            *_PROMPTS,
            *_SPLIT,
            # Reads and computing add up, so that every read shows.
            "assumptions.overlap=added",
            "assumptions.efficiency={decode: {experts_memory: 0.8, context_memory: 0.7, "
            "alltoall: 0.6}, prefill: {experts_memory: 0.5, context_memory: 0.6, alltoall: 0.4}}",
            "assumptions.overheads={decode: {sequence: 2 us, layer: 4 us}, prefill: {step: 1 ms}}",
        ],
    ),
    "network_across, alltoall_across and reduce_across": (
        RACK,
        [
            *_PROMPTS,
            "space.tp=[8]",
            "space.attention_dp=[2]",
            "space.ep=[16]",
            "space.expert_tp=[1]",
            "assumptions.efficiency={decode: {network_across: 0.6, alltoall_across: 0.5}, "
            "prefill: {network_across: 0.4, alltoall_across: 0.3}}",
            "assumptions.start_up={reduce_across: 2, alltoall_across: 3}",
        ],
    ),
    "the whole machine": (RACK, [*_SPLIT, "limits={}"]),
    "part of the machine": (
        BURST,
        ["space.tp=[4]", "space.replicas=[1]", "workload.classes.continue.deadline=2 s"],
    ),
    "energy": (BURST, ["objective.currency=joules", "limits.power=11 kW", "limits.servers=1"]),
    "unit, switch_ports, second_tier_power, air, racks and blast_radius": (
        RACK,
        [
            *_SPLIT,
            "hardware.facility={unit: 2, power: 1 kW, switch_ports: 8, second_tier_power: 2 kW, "
            "rack: {power: 20 kW, air: 10 kW, servers: 3}}",
            "limits={racks: 1, blast_radius: 1}",
        ],
    ),
    **{
        f"failure of a server, {kind} connections": (
            RACK,
            [
                *_DENSE,
                "space.tp=[16]",
                "workload={kind: burst, classes: [{name: chat, sessions: 2, context: 1024, "
                "generate: 8}], failures: [{card: 3, domain: server, at: 1 ms, stall: 10 ms}]}",
                f"hardware.levels.rack.connections={{kind: {kind}, endpoints: 8, cache: 256 B, "
                "miss: 1 us}",
            ],
        )
        for kind in ("pairwise", "channel", "directory")
    },
    **{
        f"{placed} in host memory, {figures}": (
            RACK,
            [
                *small(layer(**_LAYERS["engram"])),
                f"hardware.memory.host={{capacity: 1 TB, bandwidth: 80 GB/s, cards: 8, {figures}}}",
                f"space.{placed}=[host]",
                "space.batch=[64]",
                "assumptions.overlap=whole_step",
            ],
        )
        for placed, figures in (
            ("kv_tier", "path: 5 GB/s, port: pcie"),
            ("kv_tier", "latency: 100 us, in_flight: 100, transaction: 256 B"),
            ("engram_tier", "random_reads: 1 M/s, latency: 100 us"),
            ("weights_tier", "port: pcie, writable: false"),
        )
    },
    "engram_reads, engram_projection, balance and count_embedding_rows": (
        RACK,
        [*small(layer(**_LAYERS["engram"])), "space.batch=[64]", "assumptions.count_norms=true"],
    ),
    **{
        f"topology, {kind}": (
            RACK,
            [
                *_SPLIT,
                "hardware.levels=[{name: ici, size: 32, bandwidth: 10 GB/s, links: 2, "
                f"latency: 1 us, hop: 1 us, topology: {{kind: {kind}}}}}]",
            ],
        )
        for kind in (
            "torus, dims: [4, 8], rewiring: 1 ms",
            "mesh, dims: [4, 8]",
            "ring",
            "full_mesh",
            "switch, radix: 8, planes: 2, oversubscription: 2, reduces: true",
        )
    },
    "staging": (
        RACK,
        [
            *_SPLIT,
            "hardware.levels[0].staging={nodes: 2, bandwidth: 1 GB/s, buffers: sender, "
            "order: adjacent}",
        ],
    ),
    "staging, order, of one node": (
        RACK,
        [
            *_SPLIT,
            "hardware.levels[0].staging={nodes: 4, bandwidth: 1 GB/s, buffers: one_node, "
            "order: alternating}",
        ],
    ),
    "pipeline": (RACK, [*_DENSE, *_PROMPTS, "space.tp=[2]", "space.pp=[2]"]),
    **{name: (RACK, small(layer(**parts))) for name, parts in _LAYERS.items()},
    "pattern, repeat": (RACK, small({"repeat": 2, "layers": [layer(), layer(ffn=_MIXTURE)]})),
    "several streams": (RACK, small(hyper_connections=2)),
    "residuals of attention": (RACK, small(attention_residuals=True)),
    "module": (RACK, small(modules=[{"name": "tower", "bytes": 10**6, "parameters": 500_000}])),
    "draft": (
        RACK,
        [
            *small(draft={"layers": [layer()], "markov_rank": 16}),
            "space.mtp=[2]",
            "assumptions.acceptance=[0.7, 0.5]",
        ],
    ),
    **{
        f"{how} of {tensor}": (RACK, _formatted(tensor, how))
        for tensor in SCALED
        for how in ("blocks", "groups")
    },
    **{
        f"vectors of {tensor}": (
            RACK,
            _kept(tensor, {"dtype": "fp8", "rope": "bf16", "group": 8, "compute": "bf16"}),
        )
        for tensor in ("kv", "window", "index")
    },
    **{
        f"numbers of {tensor}": (RACK, _kept(tensor, {"dtype": dtype}))
        for tensor, dtype in (
            *(("norms", "fp8"), ("activations", "fp8"), ("state", "bf16"), ("convolution", "fp32")),
        )
    },
    **{
        f"multiply in {dtype}": (
            RACK,
            [
                *_PROMPTS,
                *_PEAKS,
                f"hardware.card.peak.{dtype}=2 TFLOP/s",
                f"model.formats.attention.compute={dtype}",
            ],
        )
        for dtype in ("fp32", "fp16", "fp8", "int8", "fp4", "int4")
    },
    **{name: (name, []) for name in EXAMPLES},
}
"""By name: the example that the problem starts from, and what is changed."""
