"""Section 6.5.2: how many cards power, cooling, switches and whole units allow, from ``rank``.

The machine is made up of HGX H100 servers: more of them than any budget here feeds.
"""

from typing import Any

import pytest

from tests.golden.records import RECORDS, covers, near, recomputed
from tests.golden.specs import Document, only, ranking

SERVERS = """
name: servers within a power budget
model: qwen3-32b
hardware:
  base: hgx-h100
  overrides:
    cards: 128
    levels.nvlink.size: 8
workload:
  kind: burst
  serving: one_at_a_time
  classes:
    - {name: continue, sessions: 40, context: 131064, prompt: 0, generate: 8}
objective: {minimise: cost_per_on_time_session, currency: joules}
space: {tp: [8], allreduce: [ring]}
assumptions:
  {billing: used, overlap: per_operator, activations: in_workspace, workspace: 2 GiB,
    read_shards: even, count_norms: false}
cost_model: roofline
"""

SECOND_TIER = "hardware.facility={switch_ports: 64, second_tier_power: 10.2 kW}"
UNITS_OF_FOUR = "hardware.facility={unit: 4, switch_ports: 64, second_tier_power: 10.2 kW}"


def budget(kilowatts: float) -> str:
    return f"limits.power={kilowatts} kW"


def of(plan: Document) -> tuple[int, float]:
    """Cards of the plan, and kilowatts that it draws."""
    return plan["outcome"]["cards"], plan["facility"]["power_w"] / 1e3


@covers("6.5.2/rack-power")
def test_cards_within_a_power_budget() -> None:
    expected = recomputed("6.5.2/rack-power")
    small, _, large = RECORDS["6.5.2/rack-power"]["inputs"]["budgets_kW"]
    assert of(only(SERVERS, budget(small)))[0] == expected["cards_120"]
    assert of(only(SERVERS, budget(large)))[0] == expected["cards_150"]
    assert of(only(SERVERS, budget(small), SECOND_TIER))[0] == expected["second_tier_120"]
    assert of(only(SERVERS, budget(small), UNITS_OF_FOUR))[0] == expected["groups_of_4"]


def test_power_of_64_72_and_96_cards() -> None:
    expected = recomputed("6.5.2/rack-power")
    for servers, kilowatts in zip((8, 9, 12), expected["kW"], strict=True):
        cards, drawn = of(only(SERVERS, f"space.replicas=[{servers}]"))
        assert drawn == near(kilowatts)
        assert drawn / cards == near(expected["per_card_kW"])
    budgeted = ranking(SERVERS, budget(120), "space.replicas=[12]")
    assert not budgeted["plans"]
    (miss,) = (row for row in budgeted["funnel"] if row["constraint"] == "power")
    assert miss["nearest_miss"]["reason"] == "draws 122.4 kW, 120.0 kW allowed"


@pytest.mark.parametrize(("held", "cooling"), [(3, "air"), (4, "liquid")])
def test_air_cools_three_servers_of_a_rack(held: int, cooling: str) -> None:
    expected = recomputed("6.5.2/rack-power")
    rack = f"hardware.facility.rack={{servers: {held}, air: 40 kW}}"
    racks = only(SERVERS, rack, "space.replicas=[8]")["facility"]["racks"]
    assert racks["servers"] == held and racks["cooling"] == cooling
    assert racks["power_w"] / 1e3 == near(expected[f"kW_{held}"])
    assert racks["on_air"]["servers"] == expected["servers_40"]
    assert racks["on_air"]["power_w"] / 1e3 == near(expected["kW_3"])
    assert racks["on_air"]["count"] == 3


@covers("6.5.2/exp6-7d-capacity")
def test_what_64_and_80_cards_serve() -> None:
    expected = recomputed("6.5.2/exp6-7d-capacity")
    for i, cards in enumerate(RECORDS["6.5.2/exp6-7d-capacity"]["inputs"]["cards"]):
        outcome = only(SERVERS, f"limits.cards={cards}")["outcome"]
        assert outcome["cards"] == cards
        assert outcome["sessions_per_s"] == near(expected["sess_s"][i])
        assert outcome["tokens_per_s"] == near(expected["tok_s"][i])


def test_the_energy_of_a_session_counts_what_stands_beside_the_servers() -> None:
    """More servers serve in less time and draw as much more: only what is beside them differs."""
    alone = only(SERVERS, "limits.cards=64")["outcome"]
    beside: Any = only(SERVERS, "limits.cards=64", "hardware.facility.power=8.16 kW")["outcome"]
    assert beside["energy_j"] == near(1.1 * alone["energy_j"])
