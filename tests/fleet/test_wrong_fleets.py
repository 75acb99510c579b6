"""Wrong fleets: exit code 2 and one message that names the place, before any work."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Printed

EXAMPLES = Path(__file__).parents[2] / "examples"
MIXED = EXAMPLES / "fleet" / "chat-and-code.yaml"
BURST = EXAMPLES / "fleet" / "burst-on-three-machines.yaml"

SPEC = EXAMPLES / "qwen3-32b-128k-hgx-h100.yaml"

WRONG = {
    "pool": ("fleet.pools=[]", "fleet.pools", "must not be empty"),
    "machine": ("fleet.pools[0].hardware=hgx-h10", "fleet.pools[0].hardware", "'hgx-h100'?"),
    "model": ("fleet.demands.chat.model=qwen3-32", "fleet.demands[0].model", "'qwen3-32b'?"),
    "key": ("fleet.pool=[]", "fleet.pool", "Did you mean 'pools'?"),
    "two sizes": ("fleet.pools.h100.cards=8", "fleet.pools[0]", "one of cards, servers and racks"),
    "part of a server": (
        "fleet.pools=[{hardware: hgx-h100, cards: 12}]",
        "fleet.pools.hgx-h100.cards",
        "whole servers of 8 cards, got 12",
    ),
    "racks": (
        "fleet.pools=[{hardware: hgx-h100, racks: 2}]",
        "fleet.pools.hgx-h100.racks",
        "states neither servers nor power of a rack",
    ),
    "equal pools": ("fleet.pools.h200.name=h100", "fleet", "pool names must differ"),
    "equal demands": ("fleet.demands.code.name=chat", "fleet", "demand names must differ"),
    "no rate": ("fleet.demands.chat.rate=null", "fleet.demands[0]", "takes either rate"),
    "rate of nothing": ("fleet.demands.chat.rate=0", "fleet.demands[0].rate", "greater than 0"),
    "rate in seconds": ("fleet.demands.chat.rate=5 s", "fleet.demands[0].rate", "unit of seconds"),
    "rate and sessions": ("fleet.demands.chat.sessions=4", "fleet.demands[0]", "takes either rate"),
    "share": ("fleet.demands.chat.share=0.5", "fleet.demands[0]", "and no share"),
    "mixed kinds": (
        "fleet.demands=[{name: a, generate: 8, rate: 5}, {name: b, generate: 8, sessions: 5}]",
        "fleet",
        "all rates or all bursts",
    ),
    "survive": ("fleet.survive.server=2", "fleet.survive.server", "must be at most 1"),
    "survive what": ("fleet.survive.rack=1", "fleet.survive.rack", "unknown key"),
    "role": ("fleet.roles=[decoder]", "fleet.roles[0]", "Did you mean 'decode'?"),
    "role alone": ("fleet.roles=[decode]", "fleet", "go together"),
    "network": ("fleet.network={bandwidth: 400 Gb/s}", "fleet.network.latency", "missing"),
    "replicas": ("space.replicas=[4]", "space.replicas", "chooses how many instances"),
    "variables": (
        "search.variables={fleet.demands.chat.rate: {low: 1, high: 2}}",
        "search.variables",
        "must be left out with a fleet",
    ),
    "domain": ("space.domain=open", "space.domain", "must be one value"),
    "price": ("limits.money_per_hour=100", "fleet.pools.h100.hardware.card.price", "needed to"),
    "power": (
        "objective.currency=joules",
        "fleet.pools.h200.hardware.server.power",
        "needed to count energy",
    ),
    "too long": (
        "fleet.demands.chat.context=1M",
        "fleet.demands.chat",
        "must not exceed the 131072 tokens",
    ),
}


@pytest.mark.parametrize(("setting", "path", "says"), WRONG.values(), ids=WRONG)
def test_wrong_fleet(planner: Any, setting: str, path: str, says: str) -> None:
    printed: Printed = planner("fleet", str(MIXED), "--set", setting, "--json")
    assert printed.code == 2
    faults = printed.document["errors"]
    assert path in [fault["path"] for fault in faults]
    (fault,) = [fault for fault in faults if fault["path"] == path]
    assert says in f"{fault['message']}. {fault['hint']}"


def test_a_burst_survives_nothing(planner: Any) -> None:
    printed: Printed = planner("fleet", str(BURST), "--set", "fleet.survive.server=1")
    assert printed.code == 2
    assert "survive belongs to rates" in printed.err


def test_a_class_that_the_workload_lacks(planner: Any) -> None:
    setting = "fleet={pools: [{}], demands: [{class: contnue, rate: 5}]}"
    printed: Printed = planner("fleet", str(SPEC), "--set", setting)
    assert printed.code == 2
    assert "fleet.demands[0].class: the workload has no class of that name" in printed.err
    assert "Did you mean 'continue'?" in printed.err


def test_a_spec_without_a_fleet(planner: Any) -> None:
    printed: Printed = planner("fleet", str(SPEC))
    assert printed.code == 2
    assert "fleet: missing" in printed.err


@pytest.mark.parametrize("words", [("--gap", "2"), ("--seconds", "0"), ("--seconds", "soon")])
def test_wrong_options(planner: Any, words: tuple[str, str]) -> None:
    printed: Printed = planner("fleet", str(MIXED), *words)
    assert printed.code == 2
    assert words[0] in printed.err
