"""Skewed routing: section 9.4.1, its effect on a supernode, and an observed trace.

Random routing of ``9.4.1/ep-scale-skew`` (mean and 99th percentile) is a Monte Carlo of the source
and is not recomputed.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from costmodels.operators.expert_placement import balanced, contiguous
from specs import catalog
from tests.golden.records import RECORDS, covers, near, recomputed
from tests.golden.specs import SUPERNODES, Document, only

TRACE: Document = json.loads(
    Path(__file__).with_name("router_trace.json").read_text(encoding="utf-8")
)
COUNTS = [tuple(layer) for layer in catalog.entry("routing", "deepseek-v4-flash")["counts"]]


def spread(model: str, groups: int, batch: int) -> str:
    """A spec of one decode step in which each card is an expert group and dispatches."""
    return f"""
model: {model}
hardware:
  name: one fast memory and a link without latency
  card: {{name: card, peak: {{bf16: 989.4 TFLOP/s}}}}
  memory: {{hbm: {{capacity: 1000 TB, bandwidth: 1000000 TB/s}}}}
  server: {{cards: {groups}}}
  cards: {groups}
  levels: [{{name: domain, size: {groups}, bandwidth: 50 GB/s, latency: 0 s}}]
workload:
  kind: steady
  classes: [{{name: chat, context: 1, prompt: 0, generate: 1}}]
space:
  {{tp: [1], attention_dp: [{groups}], ep: [{groups}], expert_tp: [1], replicas: [1],
    batch: [{batch}], alltoall: [direct]}}
assumptions:
  {{steady_context: start, matmul_dtype: bf16, efficiency: {{decode: {{experts: 0.5}}}}}}
"""


def routing(**described: Any) -> str:
    return f"assumptions.routing={json.dumps(described)}"


@covers("9.4.1/ep-skew")
def test_phases_wait_for_the_busiest_group() -> None:
    """Dispatch, computing and combine each last as long as for the busiest of four groups.

    The source sends what stays on its own card as well, where we leave that quarter out.
    """
    record = RECORDS["9.4.1/ep-skew"]
    given, layers = record["inputs"], 94
    groups, choices = given["groups"], given["tokens"] * given["top_k"]
    steps = []
    for skew, key in ((1.0, "bal_ms"), (2.5, "hot_ms")):
        *phases, total = record["recomputed"][key]
        spec = spread("qwen3-235b-a22b", groups, given["tokens"])
        step = only(spec, routing(kind="skew", factor=skew))["step"]
        steps.append(step)
        sent = {name: 1e3 * step["breakdown"][name] / layers for name in ("dispatch", "combine")}
        for name in sent:
            assert sent[name] * groups / (groups - 1) == near(phases[0])
        tasks = step["work"]["busiest_group_tasks"]
        assert tasks == near(skew * choices / groups)
        computing = 1e3 * tasks * given["flops_per"] / given["eff"]
        assert computing == near(phases[1])
        assert sum(sent.values()) * groups / (groups - 1) + computing == near(total)
    more = [record["recomputed"][key][1] for key in ("bal_ms", "hot_ms")]
    computed = [1e3 * step["breakdown"]["compute"] / layers for step in steps]
    assert computed[1] - computed[0] == near(more[1] - more[0])


@covers("9.4.1/ep-scale-skew")
def test_a_hot_expert_weighs_more_on_smaller_groups() -> None:
    record = RECORDS["9.4.1/ep-scale-skew"]
    given = record["inputs"]
    choices, experts = given["tokens"] * given["top_k"], given["experts"]
    others = experts - 1
    counts = [given["hot_rows"] * others] + [choices - given["hot_rows"]] * others
    for groups, ratio in zip(given["ep"], record["recomputed"]["hot_ratio"], strict=True):
        spec = spread("deepseek-v3", groups, given["tokens"])
        work = only(spec, routing(kind="histogram", counts=[counts]))["step"]["work"]
        assert work["busiest_group_tasks"] / (choices / groups) == near(ratio)


@covers("derived/route-skew-on-supernode")
def test_skew_on_a_supernode() -> None:
    """Skew adds to routed FLOP and to both All-to-Alls."""
    for skew, published in recomputed("derived/route-skew-on-supernode").items():
        sets = ("space.domain=[64]", routing(kind="skew", factor=float(skew)))
        assert only(SUPERNODES, *sets)["step"]["seconds"] == near(published["step"])


@pytest.mark.parametrize("groups", [int(groups) for groups in TRACE["aggregate"]])
def test_an_observed_trace_through_a_plan(groups: int) -> None:
    """The busiest group over the mean, averaged over the layers of the trace."""
    spec = spread("deepseek-v4-flash", groups, 1024)
    work = only(spec, routing(kind="histogram", name="deepseek-v4-flash"))["step"]["work"]
    ratio = work["busiest_group_tasks"] / (1024 * 6 / groups)
    assert ratio == near(TRACE["aggregate"][str(groups)]["mean"])
    placed = only(spec, routing(kind="histogram", name="deepseek-v4-flash", placement="balanced"))[
        "step"
    ]["work"]
    assert placed["busiest_group_tasks"] <= work["busiest_group_tasks"]
    assert placed["active_experts"] == near(work["active_experts"])


@pytest.mark.parametrize("position", range(len(COUNTS)))
def test_an_observed_layer(position: int) -> None:
    """Experts in their order, and placed: never worse than longest first, and proved best.

    The source of the longest first is free to give a card more experts than another, and gains
    nothing by it.
    """
    layer, counts = TRACE["layers"][position], COUNTS[position]
    assert sum(counts) == 6 * layer["tokens"]
    assert counts.count(0) == layer["idle"]
    for groups, ratio in layer["contiguous"].items():
        held = contiguous(len(counts), int(groups), 0).loads(counts)
        assert held.max() / held.mean() == near(ratio)
    for groups, ratio in layer["lpt"].items():
        placed = balanced(counts, int(groups), 0)
        assert placed.busiest / (sum(counts) / int(groups)) == near(ratio)
        assert placed.optimal
