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
from specs import catalog, paths
from specs.errors import SpecError
from specs.fabric import FullMesh, Level, Mesh, Torus
from specs.hardware import HardwareSpec
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
    ("opentallas-rom-n5-2", "fp8"): "worked out from the time of one model",
    ("opentallas-rom-n5-2", "fp4"): "worked out from the time of one model",
}
NO_FASTER |= {("tpu-v4-4096", "int8"): NO_FASTER["tpu-v4-64", "int8"]}

# A whole wafer is one card.
WAFERS = {"cerebras-cs-3-12", "opentallas-rom-n5-2"}

# Machines with one server, and with several or with one that a rack is, by what they are made of.
FAMILIES = {
    "A100": ({"dgx-a100-40gb", "dgx-a100-80gb"}, {"two-dgx-a100-80gb"}),
    "H100": ({"hgx-h100"}, {"dgx-h100-nvlink-256", "dgx-superpod-h100-256", "two-hgx-h100"}),
    "H200": ({"hgx-h200"}, {"dgx-superpod-h200-256", "two-hgx-h200"}),
    "H20": ({"hgx-h20-96gb", "hgx-h20-141gb"}, set()),
    "B200": ({"hgx-b200"}, {"dgx-superpod-b200-256", "two-hgx-b200"}),
    "B300": ({"hgx-b300"}, {"dgx-superpod-b300-576"}),
    "Blackwell of GB200": (set(), {"gb200-nvl72", "dgx-superpod-gb200-576"}),
    "Blackwell Ultra of GB300": (set(), {"gb300-nvl72"}),
    "L40S": ({"l40s-8"}, set()),
    "RTX": ({"rtx-4090-8", "rtx-5090-8", "rtx-pro-6000-server-8"}, set()),
    "Instinct MI300X": ({"mi300x-8"}, set()),
    "Instinct MI325X": ({"mi325x-8"}, set()),
    "Instinct MI350X": ({"mi350x-8"}, set()),
    "Instinct MI355X": ({"mi355x-8"}, {"mi355x-cluster-512"}),
    "TPU v4": (set(), {"tpu-v4-64", "tpu-v4-4096"}),
    "TPU v5e": (set(), {"tpu-v5e-256"}),
    "TPU v5p": (set(), {"tpu-v5p-64", "tpu-v5p-8960"}),
    "TPU v6e": (set(), {"tpu-v6e-256"}),
    "TPU7x": (set(), {"tpu7x-64", "tpu7x-9216"}),
    "Ascend 910B": ({"atlas-800t-a2"}, set()),
    "die of Ascend 910C": (
        {"atlas-800i-a3", "atlas-800t-a3"},
        {"atlas-a3-pod-64", "cloudmatrix384"},
    ),
    "Ascend 950PR": ({"ascend-950pr-8"}, set()),
    "Ascend 950DT": (set(), {"ascend-950dt-16", "atlas-950-superpod-8192"}),
    "Gaudi 3": ({"gaudi-3-8"}, set()),
    "OpenTallas ROM wafer": (set(), {"opentallas-rom-n5-2"}),
    "WSE-3": (set(), {"cerebras-cs-3-12"}),
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
    assert len(NAMES) >= 60


@pytest.mark.parametrize("card", FAMILIES)
def test_families_are_there(card: str) -> None:
    servers, larger = FAMILIES[card]
    made = {name for name in NAMES if card in machine_of(name).card.name}
    assert servers | larger <= made
    assert all(machine_of(name).cards == machine_of(name).server.cards for name in servers)
    racks = {name for name in larger if machine_of(name).server.cards >= 64}
    several = {name for name in larger if machine_of(name).cards > machine_of(name).server.cards}
    assert racks | several == larger


@every_machine
def test_entries_say_what_they_are(name: str) -> None:
    machine = machine_of(name)
    assert machine.name == name == (FILES / f"{name}.yaml").stem
    assert machine.title
    assert machine.card.name
    assert len(machine.sources) >= 2
    said = [*machine.sources, *(level.source for level in machine.levels)]
    said += [tier.source for tier in machine.memory.tiers.values() if tier.source]
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
    rates = [level.beta for level in machine.levels if level.bandwidth]
    assert all(outer < inner for inner, outer in pairwise(rates))


@every_machine
def test_links_are_those_of_the_topology(name: str) -> None:
    for level in machine_of(name).levels:
        if isinstance(level.topology, Torus):
            assert level.links == 2 * len(level.topology.dims)
            assert level.hop or level.latency is None
        if isinstance(level.topology, FullMesh):
            assert level.links == level.size - 1
        assert not isinstance(level.topology, Mesh) or level.links <= 2 * len(level.topology.dims)


@every_machine
def test_other_memories_say_where_they_come_from(name: str) -> None:
    memory = machine_of(name).memory
    for kind, tier in memory.tiers.items():
        if kind != "hbm":
            assert tier.source
        if kind in ("host", "pool"):
            assert tier.port
            assert tier.latency or re.search(r"is at hand", tier.source)
            assert tier.rate < memory.tiers[memory.working].rate
            assert tier.cards <= machine_of(name).server.cards
    assert memory.rom is None or not memory.rom.writable


@every_machine
def test_failure_domains_are_whole_parts(name: str) -> None:
    machine = machine_of(name)
    for domain in machine.failure_domains:
        server = machine.server.cards
        assert machine.cards % domain.cards == 0
        assert server % domain.cards == 0 or domain.cards % server == 0
        servers = machine.facility.rack.servers
        if servers and domain.name in ("rack", "cabinet"):
            assert domain.cards == servers * server


@pytest.mark.parametrize("figure", PUBLISHED["systems"], ids=lambda figure: figure["row"])
def test_figures_of_systems_are_those_published(figure: dict[str, Any]) -> None:
    for name in figure["machines"]:
        for path, stated in figure["figures"].items():
            raw = paths.put(catalog.entry("hardware", name), path, stated, HardwareSpec)
            published = paths.get(HardwareSpec.model_validate(raw), path)
            assert paths.get(machine_of(name), path) == pytest.approx(published), (name, path)


@every_machine
def test_power_is_that_of_a_whole_server(name: str) -> None:
    machine = machine_of(name)
    if machine.server.power is None:
        said = " ".join(machine.sources)
        assert machine.cards == 1 or re.search(r"none is given here", said)
    else:
        watts = machine.server.power / machine.server.cards
        assert 500 < watts < 2500 or name in WAFERS


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
    cards, memory = row.get("cards", 1), machine.memory.tiers[machine.memory.working]
    inner, outer = machine.levels[0], machine.levels[-1]
    found: dict[str, tuple[float, float | None]] = {}
    for figure, dimension, ours, whole in (
        ("capacity", "bytes", memory.capacity, cards),
        ("bandwidth", "bytes/s", memory.bandwidth, cards),
        ("link", "bytes/s", inner.beta, 1),
        ("power", "watts", machine.server.power, 1),
    ):
        if figure in row:
            found[figure] = parse_quantity(row[figure], dimension) / whole, ours
    if "network" in row and len(machine.levels) > 1:
        found["network"] = parse_quantity(row["network"], "bytes/s"), outer.beta
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
    with pytest.raises(SpecError, match=r"hardware\.levels\.[\w-]+\.(bandwidth|latency): needed"):
        check(problem(name, cards + 1))
