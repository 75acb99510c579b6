"""Specs that several golden tests ask, and the answers to them."""

from functools import cache
from pathlib import Path
from typing import Any

from planner import rank

Document = dict[str, Any]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

SUPERNODES = str(EXAMPLES / "chapter6/6-11-supernodes.yaml")
"""256 cards in supernodes of several sizes, under the assumptions of section 6.7.4."""


def holding(model: str, context: int, cards: int, space: str) -> str:
    """Return a spec whose one session ends with ``context`` tokens held."""
    return f"""
name: one session
model: {model}
hardware: hgx-h100
workload:
  kind: burst
  serving: one_at_a_time
  classes:
    - {{name: chat, sessions: 1, context: {context - 1}, prompt: 0, generate: 1}}
objective: {{minimise: cost_per_on_time_session, currency: gpu_seconds}}
limits: {{cards: {cards}}}
space: {{{space}, allreduce: [ring]}}
assumptions:
  {{billing: allocated, overlap: per_operator, routing: uniform_without_replacement,
    activations: in_workspace, workspace: 2 GiB, read_shards: even, count_norms: true}}
cost_model: roofline
"""


def steady(
    model: str,
    context: int = 8192,
    batch: int = 1,
    routing: str = "uniform_without_replacement",
) -> str:
    """Return a spec of steady batches on one card; a step starts with ``context`` tokens held."""
    return f"""
name: steady batches
model: {model}
hardware: hgx-h100
workload:
  kind: steady
  classes:
    - {{name: chat, context: {context}, prompt: 0, generate: 1}}
objective: {{minimise: cost_per_on_time_session, currency: gpu_seconds}}
limits: {{cards: 1}}
space: {{tp: [1], ep: [1], expert_tp: [1], batch: [{batch}]}}
assumptions:
  {{billing: allocated, overlap: per_operator, routing: {routing},
    activations: in_workspace, workspace: 2 GiB, count_norms: true, steady_context: start}}
cost_model: roofline
"""


@cache
def ranking(source: str, *sets: str) -> Document:
    """Return the document of a ranking."""
    return rank(source, sets).document()


def only(source: str, *sets: str) -> Document:
    """Return the one plan of a spec that allows one."""
    document = ranking(source, *sets)
    assert len(document["plans"]) == 1, document["excluded"]
    plan: Document = document["plans"][0]
    return plan
