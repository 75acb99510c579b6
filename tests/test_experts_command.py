"""``planner experts``: busiest groups in order and placed, the placement, and what it refuses."""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
MIXTURE = str(ROOT / "examples/qwen3-235b-a22b-8k-hgx-h100.yaml")
DENSE = str(ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml")

TRACED = (
    *("--set", "model=deepseek-v4-flash"),
    *("--set", "assumptions.routing={kind: histogram, name: deepseek-v4-flash}"),
)


def test_order_against_placement(planner: Any) -> None:
    document = planner("experts", MIXTURE, *TRACED, "--ep", "32", "--json").document
    assert document["schema"] == "planner/experts/1"
    assert (document["experts"], document["top_k"], document["observed_layers"]) == (256, 6, 8)
    (row,) = document["degrees"]
    assert (row["ep"], row["redundant_experts"], row["slots_per_group"]) == (32, 0, 8)
    assert row["contiguous"]["mean"] > row["balanced"]["mean"] >= row["balanced"]["bound"]["mean"]
    assert row["balanced"]["certificate"] == "optimal"
    assert len(row["placement"]) == 8
    for layer in row["placement"]:
        assert sorted(expert for card in layer for expert in card) == list(range(256))
        assert [len(card) for card in layer] == [8] * 32
    one, *_, many = document["active_experts"]
    assert one["observed"] == pytest.approx(6)
    assert many["observed"] < many["uniform"] <= 256


def test_copies_of_hot_experts_even_out(planner: Any) -> None:
    spread = [
        planner("experts", MIXTURE, *TRACED, "--ep", "32", "--copies", copies, "--json").document
        for copies in ("0", "32")
    ]
    alone, copied = (document["degrees"][0]["balanced"]["mean"] for document in spread)
    assert 1 <= copied < 1.01 < 1.6 < alone


def test_degrees_are_those_of_the_space(planner: Any) -> None:
    document = planner("experts", MIXTURE, *TRACED, "--json").document
    assert [row["ep"] for row in document["degrees"]] == [1, 2, 4, 8]
    stated = planner("experts", MIXTURE, *TRACED, "--set", "space.ep=[16, 64]", "--json").document
    assert [row["ep"] for row in stated["degrees"]] == [16, 64]


def test_in_words(planner: Any) -> None:
    said = planner("experts", MIXTURE, *TRACED, "--ep", "64").out
    assert "4.1054" in said
    assert "proved best" in said


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((DENSE,), "has no experts to place"),
        ((MIXTURE,), "this must be a histogram (got uniform_without_replacement)"),
        (
            (MIXTURE, "--set", "assumptions.routing={kind: skew, factor: 2}"),
            "must be a histogram (got skew: the busiest group does 2 times the mean)",
        ),
        ((MIXTURE, *TRACED, "--ep", "48", "--copies", "5"), "do not divide by EP 48 (got 5)"),
        ((MIXTURE, *TRACED, "--ep", "0"), "Invalid value for '--ep'"),
        ((MIXTURE, *TRACED[2:]), "must count each of the 128 experts of qwen3-235b-a22b, got 256"),
        (
            (MIXTURE, "--set", "assumptions.routing={kind: histogram, name: deepseek-v4-flsh}"),
            "no routing of that name in the catalogue (got deepseek-v4-flsh). Did you mean",
        ),
        (
            (MIXTURE, "--set", "assumptions.routing={kind: histogram, counts: [[1, 2], [3]]}"),
            "all layers must count the same experts, got 2 in layer 0 and 1 in layer 1",
        ),
        (
            (MIXTURE, "--set", "assumptions.routing={kind: skew, factor: 0.5}"),
            "assumptions.routing.factor: must be at least 1 (got 0.5)",
        ),
        (
            (MIXTURE, "--set", "assumptions.routing={kind: skw}"),
            "assumptions.routing.kind: expected skew or histogram (got skw)",
        ),
    ],
)
def test_wrong_input_ends_with_2_and_one_message(
    planner: Any, words: tuple[str, ...], says: str
) -> None:
    done = planner("experts", *words)
    assert done.code == 2
    assert not done.out
    assert says in done.err
    assert done.err.count("error:") == 1


def test_a_report_states_routing_in_a_few_words(planner: Any) -> None:
    sets = (*TRACED, "--set", "workload.classes[0].tpot=1 s")
    document = planner("rank", MIXTURE, *sets, "--json", "--top", "1").document
    values = {item["name"]: item["value"] for item in document["assumptions"]}
    said = "histogram deepseek-v4-flash: 8 layers of 256 experts, contiguous placement"
    assert values["routing"] == said
