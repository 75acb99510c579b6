"""The published records of chapter 6, and which tests cover them.

``chapter6.json`` holds the records: ``book_output`` is what the text states, ``recomputed`` the
same at full precision.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Document = dict[str, Any]

RECORDS: dict[str, Document] = {
    r["id"]: r
    for r in json.loads(Path(__file__).with_name("chapter6.json").read_text("utf-8"))["records"]
}

FORMULA_ONLY = {
    "6.2.2/ffn-tp4": "one matrix triple of one layer, without a plan",
    "6.2.2/meshslice": "shards on a two-dimensional mesh, which is no axis of a plan",
    "6.2.4/cp-causal-balance": "eight positions, without a model",
    "6.2.5/pp": "bare stage times",
    "6.4.2/ring-tree": "messages of given sizes, except the TP8 step with the tree",
    "6.4.3/nccl-bandwidth": "a measured collective",
    "6.4.3/overlap-measured": "measured times",
    "6.5.1/nvswitch-ports": "ports of one chip",
    "6.5.1/swing-vs-recursive": "rounds of one message on a ring",
    "6.5.1/numa": "bytes of a ring through host memory",
    "6.5.1/torus-64": "a topology and one message",
    "6.5.1/torus-512": "a topology and one message",
    "6.5.1/torus-vs-switch-latency": "hops of a topology",
    "6.5.1/switch-counts": "ports of a network",
    "6.5.4/morphlux": "one collective before and after rewiring",
    "6.5.5/cloudmatrix384": "chips of a network",
    "6.5.5/ub-state": "bytes of connections",
    "6.5.5/ub-setup": "calls of an operating system",
    "6.5.5/exp6-8d": "bytes of connections",
    "6.5.5/ub-latency": "stages of one read",
    "6.5.5/ascend950-ub": "lanes of a port",
    "6.6/memory-pool": "one block of data and its path",
    "6.7.4/exp6-11b-attn-tp8": "a layout that no plan has: TP of attention alone",
    "6.7.4/rom-hbm-2wafers": "seconds of components, except the sessions that fit",
    "6.7.4/b200-58-tp": "seconds of components",
    "6.7.4/rom-engram-host-1wafer": "seconds of components, except the sessions that fit",
    "6.7.4/exp6-11d-half-hop": "seconds of components",
    "6.7.4/sram-weight-wafers": "one division",
}
"""Records without a plan, tested by the formulas that the cost model is made of."""

PARTLY = {
    "6.3.1/tp2xep4": "prefill8192_send is the bytes of a decode step times 8192",
    "6.3.2/route-cases": "FLOP of the busiest group are computed from its tasks",
    "6.5.1/tp16-two-servers": "flat and NVLink-domain rings over 16 cards are closed forms only",
    "6.5.5/ub-latency": "latencies of the stages and requests a microsecond are data of chapter 7",
    "9.4.1/ep-scale-skew": "means and percentiles of random routing are a Monte Carlo",
}
"""Records that are covered but for the values named here."""

covered: set[str] = set()


def covers(identity: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note that a test checks a record."""

    def note(test: Callable[..., None]) -> Callable[..., None]:
        covered.add(identity)
        return test

    return note


def recomputed(identity: str) -> Document:
    return RECORDS[identity]["recomputed"]


def near(expected: Any, rel: float = 1e-9) -> Any:
    return pytest.approx(expected, rel=rel, abs=0)
