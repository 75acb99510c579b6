"""The deployments of the start-up logs: model, plan and formats, in the words of a spec."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from planner.studies import rank
from tests.field.support import CASES, Raw, dense, imported, machine, problem

GIB = 2.0**30

ROOM = "4000 TB"
"""Memory of a card that holds anything, so that its need can be read off."""

MOE: Raw = {"attention_dp": [1], "ep": [1]}
"""Experts cut like everything else, as an engine does without expert parallelism."""

LLAMA_8B = "meta-llama--Meta-Llama-3.1-8B"
QWEN_30B, QWEN_235B = "Qwen--Qwen3-30B-A3B", "Qwen--Qwen3-235B-A22B"
GPT_OSS = "openai--gpt-oss-120b"
QWEN_14B, V3_2 = "Qwen--Qwen3-14B", "deepseek-ai--DeepSeek-V3.2"
V4_FLASH, V4_1_FLASH = "deepseek-ai--DeepSeek-V4-Flash", "deepseek-ai--DeepSeek-V4.1-Flash"

# hidden, layers, query heads, KV heads, head width, intermediate width, vocabulary
INLINE: dict[str, tuple[tuple[int, ...], Raw]] = {
    # DeepSeek-R1-Distill-Qwen-14B: Qwen2.5-14B with its biases
    "M03": ((5120, 48, 40, 8, 128, 13824, 152064), {"qkv_bias": True}),
    # granite-4.0-micro, whose embedding is its head
    "M37": ((2560, 40, 40, 8, 64, 8192, 100352), {}),
}


def draft_layer() -> Raw:
    """EAGLE: one more layer of Llama-3.1-8B, which drafts."""
    (group,) = imported(LLAMA_8B)["layers"]
    return {"layers": [{**group, "count": 1}]}


def index_in_fp8(folder: str) -> Raw:
    """Index keys as vLLM keeps them unless it is told otherwise: FP8 with one FP32 scale."""
    index = {"dtype": "fp8", "group": 128, "scale": "fp32"}
    return {"formats": {**imported(folder)["formats"], "index": index}}


def awq() -> Raw:
    """Matrices of AWQ: four bits in groups of 128, each with a scale and a zero point."""
    stored = {"dtype": "int4", "group": 128, "scale": "fp16", "zero": "int4", "compute": "bf16"}
    return {"formats": {"attention": stored, "ffn": stored}}


def ascend_v4_1() -> Raw:
    """DeepSeek-V4.1-Flash in W8A8, as vLLM on Ascend holds it: BF16 entries, tables in INT8."""
    own = imported(V4_1_FLASH)
    int8 = {"dtype": "int8"}
    weights = dict.fromkeys(("attention", "experts", "shared_experts"), int8)
    index = {"dtype": "int8", "group": 128, "scale": "fp16"}
    return {
        "formats": {**own["formats"], **weights, "kv": {}, "window": {}, "index": index},
        # A row has 256 numbers and an FP32 scale for each 32 of them.
        "layers": [
            {**group, "engram": {**group["engram"], "row_bytes": 288}}
            if group.get("engram")
            else group
            for group in own["layers"]
        ],
    }


@dataclass(frozen=True)
class Report:
    """One deployment.

    ``folder``  published configuration of its model, or of one of the same shape
    ``cards``   of one instance; ``space`` its plan beside one pipeline stage and batch 1
    ``changes`` of the model, by its own keys
    """

    case: str
    folder: str = ""
    cards: int = 1
    space: Mapping[str, Any] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def model(self) -> Raw:
        """The model as a spec writes it."""
        if self.folder:
            return {**imported(self.folder), **self.changes}
        shape, attention = INLINE[self.case]
        made = dense("inline", CASES[self.case]["link"], shape, 131072, **attention)
        return {**made, **self.changes}

    def spec(self, capacity: str | float, tokens: int) -> Raw:
        """Return the spec of one session that ends with ``tokens`` tokens."""
        space = {"tp": [1], "pp": [1], "batch": [1], "replicas": [1]} | dict(self.space)
        hardware = machine(self.cards, capacity)
        raw = problem(self.model, hardware, context=tokens - 1, generate=1, **space)
        return {**raw, "assumptions": {"activations": "in_workspace", "workspace": 0}}


REPORTS = {
    report.case: report
    for report in (
        Report("M01", LLAMA_8B),
        Report("M02", LLAMA_8B),
        Report("M03", cards=2, space={"tp": [2]}),
        Report("M05", LLAMA_8B),  # Llama 3 has the shape of 3.1
        Report("M06", LLAMA_8B, 2, {"tp": [2]}),
        Report("M11", "Qwen--Qwen3-235B-A22B-FP8", 4, {"tp": [4], "attention_dp": [1], "ep": [4]}),
        Report("M12", "deepseek-ai--DeepSeek-R1", 16, MOE | {"tp": [8], "pp": [2]}),
        Report("M13", GPT_OSS, 1, MOE),
        Report("M14", GPT_OSS, 1, MOE),
        Report("M15", GPT_OSS, 1, MOE),
        Report("M16", QWEN_30B, 4, MOE | {"tp": [4]}),
        Report("M17", QWEN_235B, 1, MOE),
        Report("M19", "meta-llama--Llama-4-Scout-17B-16E-Instruct", 2, MOE | {"tp": [2]}),
        Report("M20", V4_FLASH, 2, MOE | {"tp": [2], "ep": [2]}, index_in_fp8(V4_FLASH)),
        Report("M21", V4_FLASH, 4, MOE | {"tp": [4]}, index_in_fp8(V4_FLASH)),
        Report(
            "M24",
            V4_1_FLASH,
            32,
            {"tp": [8], "attention_dp": [4], "ep": [32], "expert_tp": [1]},
            ascend_v4_1(),
        ),
        # Qwen3.8-27B as the report describes it: 16 of 64 layers with 4 KV heads of 256.
        Report(
            "M25", "Qwen--Qwen3.5-27B", 2, {"tp": [2], "kv_dtype": ["fp8"], "precision": ["fp8"]}
        ),
        Report("M26", "nvidia--Qwen3.6-35B-A3B-NVFP4", 1, MOE | {"kv_dtype": ["fp8"]}),
        Report("M27", "nvidia--Qwen3.6-27B-NVFP4", space={"kv_dtype": ["fp4"]}),
        Report("M30", LLAMA_8B),
        Report("M32", "meta-llama--Meta-Llama-3.1-70B"),
        Report("M33", "Qwen--Qwen2.5-7B", space={"precision": ["int4"]}),
        Report("M34", "Qwen--Qwen3-4B"),
        Report("M35", "Qwen--Qwen2.5-7B", changes=awq()),
        Report("M36", QWEN_14B),
        Report("M37", space={"precision": ["fp8"]}, changes={"tied_embeddings": True}),
        Report("M38", LLAMA_8B, space={"mtp": [1]}, changes={"draft": draft_layer()}),
        Report("M39", "Qwen--Qwen3-VL-30B-A3B-Instruct", 1, MOE | {"precision": ["fp8"]}),
        Report(
            "M40",
            "Qwen--Qwen3-235B-A22B-FP8",
            8,
            {"tp": [4], "attention_dp": [2], "ep": [8], "expert_tp": [1]},
        ),
        Report("M41", QWEN_14B),
        Report("M42", LLAMA_8B),
        Report("M46", QWEN_30B, 2, MOE | {"tp": [2]}),
        Report("F20", "Qwen--Qwen3-Next-80B-A3B-Thinking", 4, MOE | {"tp": [4]}),
        Report("M48", V3_2, 32, MOE | {"tp": [8], "pp": [4]}, {"max_context": 2**21}),
    )
}
"""Every log of which a quantity is checked, by its case."""


@cache
def held(case: str, tokens: int) -> Mapping[str, float]:
    """Bytes on the fullest card with one session of ``tokens`` tokens, by component."""
    (plan,) = rank(REPORTS[case].spec(ROOM, tokens)).document()["plans"]
    found: Mapping[str, float] = plan["memory"]["breakdown"]
    return found


def weights_gib(case: str) -> float:
    """GiB of weights on the fullest card."""
    return held(case, 1024)["weights"] / GIB


def kv_gib(case: str, tokens: int) -> float:
    """GiB of KV on a card, one session of ``tokens`` tokens."""
    return held(case, tokens)["kv"] / GIB


def bytes_per_token(case: str, tokens: int = 8192) -> float:
    """Bytes on a card for each token, beside what a session holds whatever its length."""
    return (held(case, 2 * tokens)["kv"] - held(case, tokens)["kv"]) / tokens


def tokens_in(case: str, gib: float) -> float:
    """Tokens of one session that so many GiB of a card hold."""
    each = bytes_per_token(case)
    fixed = held(case, 8192)["kv"] - 8192 * each
    return (gib * GIB - fixed) // each


def sessions_in(case: str, gib: float, tokens: int) -> float:
    """Sessions of ``tokens`` tokens that so many GiB of a card hold."""
    return gib / kv_gib(case, tokens)
