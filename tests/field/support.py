"""Reports from the field, and what a spec needs to say about them."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import planner
from planner.studies import rank
from specs.documents import read_text
from specs.huggingface import import_model

Raw = dict[str, Any]

CASES: dict[str, Raw] = {
    case["id"]: case
    for case in map(
        json.loads, (Path(__file__).parent / "cases.jsonl").read_text("utf-8").splitlines()
    )
}
"""Public reports by their id, each with its link, what was observed and what follows from it."""

HF = Path(__file__).parents[1] / "data" / "hf"


def quantity(case: str, name: str) -> Raw:
    """Return what a report says of one quantity."""
    (found,) = (check for check in CASES[case]["check"] if check["quantity"] == name)
    return found


@cache
def _imported(folder: str) -> str:
    return import_model(HF / folder).yaml()


def imported(folder: str) -> Raw:
    """Return the model of a published configuration, as a spec writes it."""
    model: Raw = read_text(_imported(folder))
    return model


def dense(
    name: str, source: str, shape: tuple[int, ...], context: int = 4096, **attention: Any
) -> Raw:
    """Return a dense model of the shape that ``shape`` lists; see ``test_feasibility.SHAPES``."""
    hidden, layers, q_heads, kv_heads, head, width, vocab = shape
    heads = {"q_heads": q_heads, "kv_heads": kv_heads, "head_dim": head, **attention}
    return {
        "name": name,
        "sources": ["Published config.json", source],
        "hidden": hidden,
        "vocab": vocab,
        "max_context": context,
        "layers": [
            {
                "count": layers,
                "attention": heads,
                "ffn": {"kind": "dense", "intermediate": width},
            }
        ],
    }


def machine(cards: int, capacity: str | float = "80 GB") -> Raw:
    """Cards of one server; only their number and memory matter here."""
    return {
        "name": "one server",
        "cards": cards,
        "card": {"peak": {"bf16": "100 TFLOP/s", "fp8": "200 TFLOP/s"}},
        "memory": {"hbm": {"capacity": capacity, "bandwidth": "1 TB/s"}},
        "server": {"cards": cards},
        "levels": [{"name": "link", "size": cards, "bandwidth": "100 GB/s", "latency": "2 us"}],
    }


def problem(
    model: str | Raw, hardware: str | Raw, *, context: int = 1024, generate: int = 128, **space: Any
) -> Raw:
    """Return the spec of a steady load."""
    return {
        "model": model,
        "hardware": hardware,
        "workload": {
            "kind": "steady",
            "classes": [{"name": "chat", "context": context, "generate": generate}],
        },
        "space": space,
    }


def broken(raw: Raw, plan: str) -> dict[str, str]:
    """Constraints that a plan breaks, with their reasons."""
    document = planner.explain(raw, plan)
    assert (document["verdict"] == "excluded") is bool(document["violations"])
    return {v["constraint"]: v["reason"] for v in document["violations"]}


def feasible(raw: Raw) -> bool:
    """Whether any plan keeps all constraints; where none does, memory alone is in the way."""
    ranking = rank(raw)
    if not ranking.feasible:
        document = ranking.document()
        assert document["excluded"]
        for item in document["excluded"]:
            assert {v["constraint"] for v in item["violations"]} == {"memory"}
    return ranking.feasible
