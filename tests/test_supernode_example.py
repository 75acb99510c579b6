"""``examples/supernode-sizing.yaml``: sizes, placements, what binds them, and other machines."""

from pathlib import Path
from typing import Any

import pytest

from planner import rank
from results.plots import figures
from results.report import render
from results.words import best_sizes, binding
from specs.errors import SpecError
from tests.golden.specs import ranking

SPEC = str(Path(__file__).parents[1] / "examples/supernode-sizing.yaml")
SIZES = (8, 64, 128, 256)


def test_every_size_and_placement_is_ranked() -> None:
    document = ranking(SPEC)
    found = {(p["domain"], p["engram_tier"], p["kv_tier"]) for p in document["by_domain"]}
    assert found == {(s, e, k) for s in SIZES for e in ("hbm", "host") for k in ("hbm", "host")}
    for plan in document["plans"]:
        assert plan["plan"]["ep"] == plan["plan"]["attention_dp"] == plan["plan"]["domain"]


def test_memory_binds_every_size_and_not_the_time_per_token() -> None:
    """But for KV in host memory, which is read over PCIe for every token."""
    document = ranking(SPEC)
    for plan in document["by_domain"]:
        assert plan["bound_by"] == ("memory" if plan["kv_tier"] == "hbm" else "tpot")
    for plan in document["plans"]:
        kept_here = plan["plan"]["kv_tier"] == "hbm"
        assert kept_here == (plan["outcome"]["tpot_s"]["max"] < 0.04)
    assert binding(document) == "memory binds the best plan of every size"


def test_tables_in_host_memory_pay_in_small_supernodes() -> None:
    speed = {
        (p["domain"], p["engram_tier"]): p["tokens_per_s_per_card"]
        for p in ranking(SPEC)["by_domain"]
        if p["kv_tier"] == "hbm"
    }
    gain = {size: speed[size, "host"] / speed[size, "hbm"] for size in SIZES}
    assert gain[8] > 4
    assert all(1 < gain[size] < 1.05 for size in SIZES[1:])


def test_the_report_draws_throughput_against_size_and_says_what_binds() -> None:
    answer = rank(SPEC)
    document = answer.document()
    lines = figures(document)["supernodes"].data
    assert {line.name for line in lines} == {
        f"Engram in {engram}, KV in {kv}" for engram in ("hbm", "host") for kv in ("hbm", "host")
    }
    assert all(list(line.x) == [str(size) for size in SIZES] for line in lines)
    page = render(answer, document)
    assert "Throughput against supernode size" in page
    assert "memory binds the best plan of every size" in page
    for size in best_sizes(document):
        cells = f"<td>{size['domain']}</td><td>{size['tokens_per_s_per_card']:.1f}</td>"
        assert cells in page
    assert "supernodes" not in figures(ranking(SPEC, "space.domain=[64]"))


def test_the_terminal_says_what_each_size_reaches(planner: Any) -> None:
    lines = planner("rank", SPEC).out.splitlines()
    for size in best_sizes(ranking(SPEC)):
        reached = f"{size['tokens_per_s_per_card']:,.1f} tokens/s a card"
        assert f"  {size['domain']} cards: {reached}, bound by memory" in lines
    tiers = ranking(SPEC)["plans"][0]["memory"]["tiers"]
    assert [tier["tier"] for tier in tiers] == ["hbm", "host"]
    assert any(line.endswith(f"host {tiers[1]['per_card_bytes'] / 1e9:.2f}") for line in lines)


MACHINES = {
    "gb200-nvl72": 72,
    "cloudmatrix384": 768,
    "ascend-950dt-16": 16,
    "tpu7x-64": 64,
    "{base: mi355x-8, overrides: {levels.infinity-fabric.latency: 2 us}}": 8,
}
"""Other machines by the one line of the spec that changes, with the cards of an instance there."""


@pytest.mark.parametrize("hardware", MACHINES)
def test_another_machine_is_one_line(hardware: str) -> None:
    best = ranking(SPEC, f"hardware={hardware}")["plans"][0]
    assert best["plan"]["ep"] == MACHINES[hardware]
    assert best["outcome"]["bound_by"] == "memory"


def test_a_figure_that_nobody_published_is_asked_for() -> None:
    with pytest.raises(SpecError, match=r"hardware\.levels\.[\w-]+\.latency: needed"):
        rank(SPEC, ["hardware=mi355x-8"])
