"""Deployments that failed, or were refused, in the field: the planner says so, and names the cause.

Each line of ``feasibility.jsonl`` is one public report with its link. Three of the reports wait for
what is not modelled yet:

F14  a shared expert of its own width, which a mixture here cannot have
F18  native 4-bit weights of a model with latent attention, and a minimum declared by its recipe
F20  the memory that a serving engine takes for graphs and buffers, with linear attention
"""

import json
from pathlib import Path
from typing import Any

import pytest

import planner
from planner.studies import rank

CASES = {
    case["id"]: case
    for case in map(json.loads, (Path(__file__).parent / "feasibility.jsonl").open())
}

Raw = dict[str, Any]

# Shapes as published in each model's config.json: hidden, layers, query heads, KV heads, head
# width, intermediate width, vocabulary.
SHAPES = {
    "F01": (6656, 60, 52, 52, 128, 17920, 32000),  # LLaMA, arXiv 2302.13971, table 2
    "F02": (6656, 60, 52, 52, 128, 17920, 32001),  # WizardLM-33B-V1.0: LLaMA 33B, one token more
    "F05": (1536, 28, 12, 2, 128, 8960, 151936),  # Qwen2-VL-2B-Instruct, its language model
    "F06": (3584, 28, 28, 4, 128, 18944, 152064),  # DeepSeek-R1-Distill-Qwen-7B
    "F07": (5376, 62, 32, 16, 128, 21504, 262208),  # gemma-3-27b-it, all layers taken as full
    "F08": (5120, 64, 40, 8, 128, 27392, 152064),  # Qwen1.5-32B
    "F09": (8192, 80, 64, 8, 128, 28672, 128256),  # Meta-Llama-3-70B
}


def model(case: str) -> Raw:
    hidden, layers, q_heads, kv_heads, head, width, vocab = SHAPES[case]
    return {
        "name": CASES[case]["model"],
        "sources": ["Published config.json", CASES[case]["link"]],
        "hidden": hidden,
        "vocab": vocab,
        "max_context": 4096,
        "layers": [
            {
                "count": layers,
                "attention": {"q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head},
                "ffn": {"kind": "dense", "intermediate": width},
            }
        ],
    }


def machine(cards: int, capacity: str = "80 GB") -> Raw:
    """Cards of one server; only their number and memory matter here."""
    return {
        "name": "one server",
        "cards": cards,
        "card": {"peak": {"bf16": "100 TFLOP/s", "fp8": "200 TFLOP/s"}},
        "memory": {"hbm": {"capacity": capacity, "bandwidth": "1 TB/s"}},
        "server": {"cards": cards},
        "levels": [{"name": "link", "size": cards, "bandwidth": "100 GB/s", "latency": "2 us"}],
    }


def problem(model: str | Raw, hardware: str | Raw, **space: Any) -> Raw:
    return {
        "model": model,
        "hardware": hardware,
        "workload": {
            "kind": "steady",
            "classes": [{"name": "chat", "context": 1024, "generate": 128}],
        },
        "space": space,
    }


def broken(raw: Raw, plan: str) -> dict[str, str]:
    """Constraints that a plan breaks, with their reasons."""
    document = planner.explain(raw, plan)
    assert (document["verdict"] == "excluded") is bool(document["violations"])
    return {v["constraint"]: v["reason"] for v in document["violations"]}


# Number and memory of the cards as reported; 80 GB where the report says nothing.
HEADS = [
    ("F01", 3, "32 GB"),
    ("F02", 8, "80 GB"),
    ("F05", 8, "80 GB"),
    ("F06", 8, "80 GB"),
    ("F07", 3, "80 GB"),
    ("F08", 6, "16 GB"),
    ("F09", 3, "80 GB"),
]


@pytest.mark.parametrize(("case", "tp", "capacity"), HEADS, ids=[case for case, *_ in HEADS])
def test_heads_must_divide(case: str, tp: int, capacity: str) -> None:
    heads = SHAPES[case][2]
    raw = problem(model(case), machine(tp, capacity), tp=[tp])
    assert CASES[case]["settings"]["tp"] == tp
    assert not rank(raw).feasible
    assert broken(raw, f"tp={tp}")["query_heads"] == (
        f"{heads} query heads do not divide by TP {tp}"
    )


@pytest.mark.parametrize(("case", "tp", "capacity"), HEADS, ids=[case for case, *_ in HEADS])
def test_no_choice_of_ours_breaks_the_rule(case: str, tp: int, capacity: str) -> None:
    frame = rank(problem(model(case), machine(tp, capacity), tp="open")).frame()
    assert (SHAPES[case][2] % frame["tp"] == 0).all()


def test_f05_runs_on_four_cards() -> None:
    raw = problem(model("F05"), machine(8), tp=[4, 8])
    assert set(rank(raw).frame()["tp"]) == {4}
    assert broken(raw, "tp=4") == {}


def test_f06_head_divisors() -> None:
    (expected,) = (c["expected"] for c in CASES["F06"]["check"] if "divisors" in c["quantity"])
    degrees = list(range(1, 29))
    raw = problem(model("F06"), machine(28), tp=degrees)
    refused = {tp for tp in degrees if "query_heads" in broken(raw, f"tp={tp}")}
    assert [tp for tp in degrees if tp not in refused] == expected


def test_f09_two_cards_are_too_small() -> None:
    # The engine of the report leaves a tenth of each card free by default; 71 of 80 GB are weights.
    raw = problem(model("F09"), machine(2, "72 GB"), tp=[1, 2])
    assert not rank(raw).feasible
    assert set(broken(raw, "tp=2")) == {"memory"}
    assert "72.00 GB there" in broken(raw, "tp=2")["memory"]
    assert rank(problem(model("F09"), machine(4), tp=[4])).feasible


def in_blocks(name: str, tensor: str) -> Raw:
    fp8 = {"dtype": "fp8", "block": [128, 128]}
    return {"base": name, "overrides": {f"formats.{tensor}": fp8}}


def test_f11_experts_must_hold_whole_blocks() -> None:
    raw = problem(in_blocks("qwen3-30b-a3b", "experts"), machine(4), attention_dp=[1])
    raw["space"] |= {"tp": [4], "expert_tp": [1, 2, 4]}
    assert 4 not in set(rank(raw).frame()["expert_tp"])
    assert broken(raw, "tp=4,expert_tp=4")["quantisation_blocks"] == (
        "a card's share of an expert is 192 wide, not a multiple of the quantisation block of 128"
    )
    # 768 / 2 = 384 is three blocks, and EP cuts no expert at all.
    assert set(rank(raw).frame()["expert_tp"]) == {1, 2}


def test_f13_dense_layers_must_hold_whole_blocks() -> None:
    # The width of DeepSeek-R1's dense layers, with grouped-query attention in place of its own.
    raw = problem(in_blocks("qwen3-32b", "ffn"), machine(32), tp=[16, 32], kv_split=[4])
    raw["model"]["overrides"] |= {"layers[0].ffn.intermediate": 18432, "hidden": 7168}
    assert 32 not in set(rank(raw).frame()["tp"])
    assert broken(raw, "tp=32,kv_split=4") == {
        "quantisation_blocks": (
            "a card's share of the dense network is 576 wide, not a multiple of the quantisation "
            "block of 128"
        )
    }
    assert broken(raw, "tp=16,kv_split=4") == {}


(F17,) = CASES["F17"]["check"]


@pytest.mark.parametrize(
    ("experts", "ep", "copies"),
    [
        (experts, ep, copies)
        for (experts, ep), copies in zip(
            CASES["F17"]["settings"]["examples"], F17["expected"], strict=True
        )
    ],
)
def test_f17_fewest_redundant_experts(experts: int, ep: int, copies: int) -> None:
    # TP 4 with attention DP, so that EP = TP × DP as in the report.
    base = {"base": "qwen3-30b-a3b", "overrides": {"layers[0].ffn.experts": experts}}
    space: Raw = {"tp": [4], "attention_dp": [ep // 4], "expert_tp": [1], "pp": [1]}
    ranking = rank(problem(base, machine(ep), **space))
    assert set(ranking.frame()["ep"]) == {ep}
    assert set(ranking.frame()["redundant_experts"]) == {copies}
    raw = problem(base, machine(ep), **space, redundant_experts=[0, copies])
    assert set(rank(raw).frame()["redundant_experts"]) == {copies}
    assert broken(raw, "redundant_experts=0")["expert_groups"] == (
        f"{experts} experts and 0 copies do not divide by EP {ep}; {copies} copies would"
    )


def test_f19_more_cards_than_there_are() -> None:
    space: Raw = {"tp": [2], "attention_dp": [16], "expert_tp": [1], "pp": [1]}
    raw = problem("qwen3-30b-a3b", machine(8), **space)
    ranking = rank(raw)
    assert not ranking.feasible
    assert (
        broken(raw, "tp=2,attention_dp=16")["cards"] == "needs 32 cards (1 × 32 cards), 8 allowed"
    )
    assert ["space.attention_dp"] in [
        [change["path"] for change in repair["changes"]]
        for repair in ranking.document()["conflict"]["relaxations"]
    ]


def test_every_case_is_used() -> None:
    tested = {*SHAPES, "F11", "F13", "F17", "F19"}
    assert set(CASES) == tested
    assert all(case["link"].startswith("https://") for case in CASES.values())
