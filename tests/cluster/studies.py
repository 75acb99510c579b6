"""The study that clusters compute in tests, and its answer as bytes."""

import json
from pathlib import Path

from results.ranking import Ranking
from results.store.codec import to_bytes
from specs.load import load_problem
from specs.problem import Problem

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/qwen3-235b-a22b-8k-hgx-h100.yaml"
LARGE = ROOT / "benchmarks/large-space.yaml"
OPEN = [f"space.{axis}=open" for axis in ("tp", "pp", "cp", "sp", "attention_dp", "expert_tp")]


def several_ways() -> Problem:
    """A small problem with some hundred plans."""
    return load_problem(EXAMPLE, OPEN)


def answer(ranking: Ranking) -> tuple[str, bytes]:
    """Return the document of a ranking and its digest, as text and bytes."""
    document = {k: v for k, v in ranking.document().items() if k != "study"}
    return json.dumps(document), to_bytes(ranking.found.digest)
