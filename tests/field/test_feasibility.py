"""Deployments that were refused in the field: the planner says so, and names the cause."""

import pytest

from planner.studies import rank
from tests.field.support import CASES, Raw, broken, dense, imported, machine, problem, quantity

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
    return dense(CASES[case]["model"], CASES[case]["link"], SHAPES[case])


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
    assert rank(raw).feasible is quantity(case, "feasible")["expected"] is False
    assert broken(raw, f"tp={tp}")["query_heads"] == (
        f"{heads} query heads do not divide by TP {tp}"
    )


@pytest.mark.parametrize(("case", "tp", "capacity"), HEADS, ids=[case for case, *_ in HEADS])
def test_no_choice_of_ours_breaks_the_rule(case: str, tp: int, capacity: str) -> None:
    frame = rank(problem(model(case), machine(tp, capacity), tp="open")).frame()
    assert (SHAPES[case][2] % frame["tp"] == 0).all()


def test_f05_runs_on_four_cards() -> None:
    raw = problem(model("F05"), machine(8), tp=[4, 8])
    assert quantity("F05", "feasible_tp4")["expected"] is True
    assert set(rank(raw).frame()["tp"]) == {4}
    assert broken(raw, "tp=4") == {}


def test_f06_head_divisors() -> None:
    degrees = list(range(1, 29))
    raw = problem(model("F06"), machine(28), tp=degrees)
    refused = {tp for tp in degrees if "query_heads" in broken(raw, f"tp={tp}")}
    expected = quantity("F06", "head_divisors")["expected"]
    assert [tp for tp in degrees if tp not in refused] == expected


def test_f09_two_cards_are_too_small() -> None:
    # The engine of the report leaves a tenth of each card free by default; 71 of 80 GB are weights.
    raw = problem(model("F09"), machine(2, "72 GB"), tp=[1, 2])
    assert not rank(raw).feasible
    assert set(broken(raw, "tp=2")) == {"memory"}
    assert "72.00 GB there" in broken(raw, "tp=2")["memory"]
    assert rank(problem(model("F09"), machine(4), tp=[4])).feasible


def test_f11_experts_must_hold_whole_blocks() -> None:
    space: Raw = {"tp": [4], "attention_dp": [1], "expert_tp": [1, 2, 4]}
    raw = problem(imported("Qwen--Qwen3-30B-A3B-FP8"), machine(4), **space)
    assert 4 not in set(rank(raw).frame()["expert_tp"])
    assert broken(raw, "tp=4,expert_tp=4") == {
        "quantisation_blocks": (
            "a card's share of an expert is 192 wide, not a multiple of the quantisation block of "
            "128"
        )
    }
    # 768 / 2 = 384 is three blocks, and EP cuts no expert at all.
    assert set(rank(raw).frame()["expert_tp"]) == {1, 2}


def test_f13_dense_layers_must_hold_whole_blocks() -> None:
    # Experts are dealt whole, so that only the three dense layers are in the way.
    space: Raw = {"tp": [16, 32], "attention_dp": [1], "expert_tp": [1], "pp": [1]}
    raw = problem(imported("deepseek-ai--DeepSeek-R1"), machine(32), **space)
    assert 32 not in set(rank(raw).frame()["tp"])
    assert broken(raw, "tp=32") == {
        "quantisation_blocks": (
            "a card's share of the dense network is 576 wide, not a multiple of the quantisation "
            "block of 128"
        )
    }
    assert broken(raw, "tp=16") == {}


def test_f14_shared_experts_must_hold_whole_blocks() -> None:
    space: Raw = {"tp": [8], "attention_dp": [1], "expert_tp": [1], "pp": [1]}
    fp8 = {"dtype": "fp8", "block": [128, 128]}
    moe = {"base": "qwen3.6-35b-a3b", "overrides": {"formats.shared_experts": fp8}}
    raw = problem(moe, machine(8), shared_experts=["dealt", "copied"], **space)
    assert broken(raw, "tp=8,shared_experts=dealt") == {
        "quantisation_blocks": (
            "a card's share of the shared experts is 64 wide, not a multiple of the quantisation "
            "block of 128"
        )
    }
    # A copy on every card holds four blocks, and so do shards of two cards.
    assert set(rank(raw).frame()["shared_experts"]) == {"copied"}


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


def test_f18_eight_cards_do_not_hold_kimi_k3() -> None:
    space: Raw = {"tp": [8], "pp": [1, 2], "attention_dp": "open"}
    raw = problem("kimi-k3", "gb200-nvl72", context=8192, **space) | {"limits": {"cards": 8}}
    ranking = rank(raw)
    assert ranking.feasible is quantity("F18", "feasible")["expected"] is False
    relaxations = ranking.document()["conflict"]["relaxations"]
    changes = [change for r in relaxations for change in r["changes"] if len(r["changes"]) == 1]
    (cards,) = [change["to"] for change in changes if change["path"] == "limits.cards"]
    assert cards == quantity("F18", "min_gpus_gb200")["expected"]


def test_f19_more_cards_than_there_are() -> None:
    space: Raw = {"tp": [2], "attention_dp": [16], "expert_tp": [1], "pp": [1]}
    raw = problem("deepseek-v4-pro", machine(8), precision=["int8_int4"], **space)
    ranking = rank(raw)
    assert not ranking.feasible
    assert (
        broken(raw, "tp=2,attention_dp=16")["cards"] == "needs 32 cards (1 × 32 cards), 8 allowed"
    )
    # Fewer shards fit the cards, which then are too small for this model.
    (repair,) = ranking.document()["conflict"]["relaxations"]
    assert [change["path"] for change in repair["changes"]] == [
        "hardware.memory.hbm.capacity",
        "space.attention_dp",
    ]


CHECKED = {
    *((case, "feasible") for case in (*SHAPES, "F11", "F13", "F14", "F18", "F19")),
    ("F18", "min_gpus_gb200"),
    ("F05", "feasible_tp4"),
    ("F06", "head_divisors"),
    ("F17", "num_redundant_experts"),
}
"""Quantities of the reports that this module checks."""
