"""Real fleets: what one instance does is what ``planner rank`` says, and large ones are proved."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from planner.fleets import deploy
from planner.studies import rank
from results.fleet import fleet_document, fleet_headline
from searches.executors import executor
from searches.fleet.columns import Column, Task, offer
from searches.fleet.search import search_fleet
from specs.load import load_problem
from tests.conftest import Printed

EXAMPLES = Path(__file__).parents[2] / "examples" / "fleet"
MIXED = EXAMPLES / "chat-and-code.yaml"
BURST = EXAMPLES / "burst-on-three-machines.yaml"

CHAT = "{name: chat, context: 4096, prompt: 1024, generate: 512, tpot: 40 ms, rate: 6}"
ONE_SERVER = f"""
model: qwen3-32b
hardware: hgx-h100
space: {{tp: [2], batch: [32]}}
fleet: {{pools: [{{}}], demands: [{CHAT}]}}
"""
APART = """
model: qwen3-32b
hardware: hgx-h100
workload:
  kind: steady
  classes: [{name: chat, context: 4096, prompt: 1024, generate: 512, tpot: 40 ms}]
space: {tp: [2], batch: [32]}
"""


def column(role: str) -> Column:
    (found,) = offer(load_problem(ONE_SERVER), Task(0, 0, role)).columns  # type: ignore[arg-type]
    return found


def ranked(replicas: int, prefill: int) -> Any:
    sets = [f"space.replicas=[{replicas}]", f"space.prefill_replicas=[{prefill}]"]
    return rank(APART, sets).document(1)["plans"][0]["outcome"]


def test_an_instance_serves_what_its_ranking_says() -> None:
    assert column("both").serves == pytest.approx(ranked(1, 0)["sessions_per_s"], rel=1e-12)


def test_roles_serve_what_the_ranking_of_equal_shapes_says() -> None:
    prefill, decode = column("prefill"), column("decode")
    assert decode.serves < 3 * prefill.serves
    assert decode.serves == pytest.approx(ranked(1, 3)["sessions_per_s"], rel=1e-12)
    starved = min(prefill.serves, 3 * decode.serves)
    assert starved == pytest.approx(ranked(3, 1)["sessions_per_s"], rel=1e-12)


WHOLE = "fleet.roles=[both]"
"""Whole sessions alone: a third of the shapes to look at."""


@cache
def mixed(*sets: str) -> Any:
    return fleet_document(deploy(MIXED, [WHOLE, *sets]))


def test_demands_are_served_at_the_stated_cost() -> None:
    document = mixed()
    assert document["certificate"]["kind"] == "optimal"
    cards = sum(entry["count"] * entry["cards"] for entry in document["deployment"])
    rates = sum(demand["wanted"] for demand in document["demands"])
    assert document["cost"]["total_per_s"] == cards
    assert document["cost"]["cost_per_on_time_session"] == pytest.approx(cards / rates)
    assert all(demand["spare"] >= -3e-4 for demand in document["demands"])
    assert sum(pool["cards_used"] for pool in document["pools"]) == cards
    assert fleet_headline(document).startswith("Run chat on ")


def test_any_server_may_fail() -> None:
    survivor = mixed("fleet.survive.server=1")
    assert all(d["share_after_failed_server"] >= 1 - 3e-4 for d in survivor["demands"])
    assert any(d["share_after_failed_server"] < 1 for d in mixed()["demands"])


def test_prompts_on_instances_of_their_own_need_a_network() -> None:
    """Machines of one server each, and two demands of the same model."""
    roles = "fleet.roles=[both, prefill, decode]"
    few = "fleet.demands.code={name: code, generate: 8, rate: 1}"
    network = "fleet.network={bandwidth: 400 Gb/s, latency: 5 us}"
    apart, joined = mixed(few, roles), mixed(few, roles, network)
    assert {entry["role"] for entry in apart["deployment"]} == {"both"}
    assert {entry["role"] for entry in joined["deployment"]} >= {"prefill", "decode"}
    assert joined["cost"]["total_per_s"] < apart["cost"]["total_per_s"]


def test_limits_that_cannot_hold_are_named_with_what_would_do() -> None:
    tight = mixed("limits.cards=60")
    assert "limits.cards" in tight["conflict"]["core"]
    (change,) = tight["conflict"]["relaxations"]
    assert change["to"] == mixed()["cost"]["total_per_s"]
    enough = f"limits.cards={change['to']:.0f}"
    assert mixed(enough)["cost"] == mixed()["cost"]
    share = tight["conflict"]["share_of_rates"]
    assert 0.5 < share < 1
    rates = {"chat": 60, "documents": 8, "code": 20}
    fewer = [f"fleet.demands.{name}.rate={rate * share}" for name, rate in rates.items()]
    assert mixed("limits.cards=60", *fewer)["deployment"]


def test_a_demand_that_nobody_can_serve_is_named_with_the_rules() -> None:
    document = mixed("fleet.demands.chat.tpot=1 us")
    (unserved,) = document["conflict"]["unserved"]
    assert unserved["demand"] == "chat"
    assert all(["on_time"] in pool["cores"] for pool in unserved["pools"])


def test_executors_agree() -> None:
    there = fleet_document(deploy(MIXED, [WHOLE], executor_name="processes:2"))
    assert there == mixed()


def test_a_burst_is_dealt_to_unlike_instances() -> None:
    document = fleet_document(deploy(BURST))
    dealt = sum(entry["count"] * entry["sessions"] for entry in document["deployment"])
    assert dealt == 64
    assert len({entry["hardware"] for entry in document["deployment"]}) == 3
    last = max(entry["completion_s"] for entry in document["deployment"])
    cards = sum(entry["count"] * entry["cards"] for entry in document["deployment"])
    assert document["cost"]["makespan_s"] == last <= 0.2
    assert document["cost"]["total"] == pytest.approx(cards * last, rel=1e-4)


def test_a_burst_on_equal_instances_costs_what_its_ranking_says() -> None:
    sets = ["space.tp=[4]", "fleet.demands.continue.sessions=8"]
    pools = "fleet.pools=[{hardware: hgx-h100}]"
    fleet = fleet_document(deploy(BURST, [*sets, pools]))
    best = rank(BURST, [pools, *sets]).document(1)["plans"][0]["outcome"]
    assert fleet["cost"]["cost_per_on_time_session"] <= best["cost_per_on_time_session"] * (
        1 + 1e-4
    )


def test_a_thousand_cards_are_proved_to_a_percent() -> None:
    rates = ("chat.rate=500", "documents.rate=60", "code.rate=160")
    sets = [f"fleet.demands.{rate}" for rate in rates]
    problem = load_problem(MIXED, [*sets, WHOLE, "fleet.survive.server=1"])
    found = search_fleet(problem, executor("local"), seconds=60.0, gap=0.01)
    assert sum(yard.cards for yard in found.question.yards) == 1024
    assert found.answer is not None
    assert found.answer.gap <= 0.01


def test_the_command(planner: Any, tmp_path: Path) -> None:
    words = ("fleet", str(MIXED), "--set", WHOLE)
    printed: Printed = planner(*words, "--out", str(tmp_path))
    assert printed.code == 0
    assert "proved optimal" in printed.out.replace("\n", " ")
    page = (tmp_path / "fleet.html").read_text()
    assert "77 of 512 cards in use" in page
    assert planner(*words, "--json").document == mixed()
    nothing: Printed = planner(*words, "--set", "limits.cards=60")
    assert nothing.code == 3
    assert "would do" in nothing.out


def test_prices_of_pools_are_counted() -> None:
    prices = ("fleet.pools.h100.price=1 USD/h", "fleet.pools.h200.price=4 USD/h")
    document = mixed(*prices, "objective.currency=money")
    cards = {pool["name"]: pool["cards_used"] for pool in document["pools"]}
    hour = cards["h100"] + 4 * cards["h200"]
    assert document["cost"]["total_per_s"] * 3600 == pytest.approx(hour)
    assert cards["h100"] > cards["h200"]
    assert np.isclose(document["limits"][0]["taken"], sum(cards.values()))
