"""Every machine of the catalogue: its sources, its figures against published ones, and a plan."""

import json
import math
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from planner.studies import check, rank
from specs import catalog
from specs.errors import SpecError
from specs.hardware import HardwareSpec, Level
from specs.units import parse_quantity

NAMES = catalog.names("hardware")
FILES = Path(catalog.__file__).parent / "hardware"
PUBLISHED: dict[str, Any] = json.loads(
    Path(__file__).with_name("hardware-figures.json").read_text("utf-8")
)
ROWS: list[dict[str, Any]] = PUBLISHED["rows"]

every_machine = pytest.mark.parametrize("name", NAMES)

# Where the catalogue says otherwise, and why: row, figure.
OTHERWISE = {
    ("tpu-v5e", "bandwidth"): "a later edition of the same documentation: 819 GB/s, not 800 GiB/s",
}

# Narrow formats in which a card is no faster, or slower, than in the wider one.
NO_FASTER = {
    ("gaudi-3-8", "fp8"): "one matrix engine rate for both",
    ("tpu-v4-64", "int8"): "one rate for both",
    ("tpu-v5p-64", "fp8"): "widened to BF16",
    ("tpu-v5p-8960", "fp8"): "widened to BF16",
    ("tpu-v6e-256", "fp8"): "widened to BF16",
    ("gb300-nvl72", "int8"): "Blackwell Ultra has next to none",
}


@cache
def machine_of(name: str) -> HardwareSpec:
    return HardwareSpec.model_validate(catalog.entry("hardware", name))


def joined(machine: HardwareSpec) -> int:
    """Cards that the levels with both figures join, from the inside out."""
    cards = 1
    for level in machine.levels:
        if level.bandwidth is None or level.latency is None:
            break
        cards = level.size
    return min(cards, machine.cards)


def problem(name: str, cards: int) -> dict[str, Any]:
    return {
        "model": "qwen3-8b",
        "hardware": name,
        "workload": {
            "kind": "steady",
            "classes": [{"name": "chat", "context": 1024, "generate": 1}],
        },
        "limits": {"cards": cards},
        "space": {"tp": [1, 4, 8], "batch": [1, 8], "replicas": [1]},
    }


def test_there_are_machines() -> None:
    assert len(NAMES) >= 50


@every_machine
def test_entries_say_what_they_are(name: str) -> None:
    machine = machine_of(name)
    assert machine.name == name == (FILES / f"{name}.yaml").stem
    assert machine.title
    assert machine.card.name
    assert len(machine.sources) >= 2
    said = [*machine.sources, *(level.source for level in machine.levels)]
    assert all(text[:1].isupper() and text[-1] not in ".;," for text in said)
    assert not any(re.search(r"(^|\s)/\w+/", text) for text in said), "no path of one machine"


@every_machine
def test_levels_say_where_they_come_from(name: str) -> None:
    machine = machine_of(name)
    for level in machine.levels:
        assert level.source
        if level.latency is None and level.size > 1:
            assert re.search(r"none is given here|is at hand", level.source)
    assert machine.levels[-1].size == machine.cards
    assert any(level.size % machine.server.cards == 0 for level in machine.levels)
    bandwidths = [level.bandwidth for level in machine.levels if level.bandwidth]
    assert all(outer < inner for inner, outer in pairwise(bandwidths))


@every_machine
def test_power_is_that_of_a_whole_server(name: str) -> None:
    machine = machine_of(name)
    if machine.server.power is None:
        said = " ".join(machine.sources)
        assert machine.cards == 1 or re.search(r"none is given here", said)
    else:
        assert 500 < machine.server.power / machine.server.cards < 2500


@every_machine
def test_peaks_are_dense_and_of_one_card(name: str) -> None:
    peak = {str(dtype): rate for dtype, rate in machine_of(name).card.peak.items()}
    wide = peak["bf16"]
    assert peak.get("fp16", wide) == wide
    for dtype, least, most in (("fp8", 1.8, 2.1), ("int8", 1.8, 4.1), ("fp4", 3.5, 8.1)):
        if dtype not in peak or (name, dtype) in NO_FASTER:
            continue
        assert least <= peak[dtype] / wide <= most, dtype
    assert all(peak[dtype] <= wide for machine, dtype in NO_FASTER if machine == name)


def figures(row: dict[str, Any], machine: HardwareSpec) -> dict[str, tuple[float, float | None]]:
    """Each figure that the row states for one card: published, and of the catalogue."""
    cards, memory = row.get("cards", 1), machine.memory.hbm
    inner, outer = machine.levels[0], machine.levels[-1]
    found: dict[str, tuple[float, float | None]] = {}
    for figure, dimension, ours, whole in (
        ("capacity", "bytes", memory.capacity, cards),
        ("bandwidth", "bytes/s", memory.bandwidth, cards),
        ("link", "bytes/s", inner.bandwidth, 1),
        ("power", "watts", machine.server.power, 1),
    ):
        if figure in row:
            found[figure] = parse_quantity(row[figure], dimension) / whole, ours
    if "network" in row and len(machine.levels) > 1:
        found["network"] = parse_quantity(row["network"], "bytes/s"), outer.bandwidth
    for dtype, rate in row.get("peak", {}).items():
        ours = machine.card.peak.get(dtype)
        found[dtype] = parse_quantity(rate, "flop/s") / cards, ours
    return found


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["row"])
def test_figures_are_those_published(row: dict[str, Any]) -> None:
    assert row["source"] in PUBLISHED["sources"]
    assert row["machines"]
    for name in row["machines"]:
        for figure, (published, ours) in figures(row, machine_of(name)).items():
            close = ours == pytest.approx(published, rel=0.01)
            assert close != ((row["row"], figure) in OTHERWISE), (name, figure, published, ours)


def test_every_row_is_used_or_left_out_with_a_reason() -> None:
    rows = [row["row"] for row in ROWS]
    assert len(set(rows)) == len(rows) >= 40
    assert not set(rows) & set(PUBLISHED["left_out"])
    assert all(PUBLISHED["left_out"].values())
    assert {row for row, _ in OTHERWISE} <= set(rows)


def measured(level: Level) -> bool:
    return "MSCCL++" in level.source


@every_machine
def test_measured_latencies_are_those_of_their_path(name: str) -> None:
    for level in filter(measured, machine_of(name).levels):
        stated = parse_quantity(PUBLISHED["latency"][level.name], "seconds")
        assert level.latency == pytest.approx(stated)


@every_machine
def test_machines_can_be_planned(name: str) -> None:
    cards = min(joined(machine_of(name)), 8)
    plans = rank(problem(name, cards)).document()["plans"]
    costs = [plan["outcome"]["cost_per_on_time_session"] for plan in plans]
    assert costs
    assert all(math.isfinite(cost) and cost > 0 for cost in costs)


@every_machine
def test_a_plan_over_links_without_figures_is_refused(name: str) -> None:
    machine = machine_of(name)
    cards = joined(machine)
    if cards == machine.cards:
        check(problem(name, cards))
        return
    with pytest.raises(SpecError, match=r"hardware\.levels\[\d\]\.(bandwidth|latency) is needed"):
        check(problem(name, cards + 1))
