"""``planner machine``: what it prints of a machine, against the figures that the machine states."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from specs.catalog import entry, names

ROOT = Path(__file__).resolve().parents[1]
MACHINES = names("hardware")


def own(folder: Path, **more: Any) -> str:
    """A file that describes a machine of two servers, every figure round."""
    raw = {
        "name": "own",
        "cards": 16,
        "card": {"name": "card", "peak": {"bf16": 300e12, "fp8": 600e12}},
        "memory": {
            "hbm": {"capacity": 80e9, "bandwidth": 4e12},
            "host": {"capacity": 800e9, "bandwidth": 400e9, "cards": 8, "path": 40e9},
        },
        "server": {"cards": 8, "power": 10e3},
        "levels": [
            {"name": "bus", "size": 8, "bandwidth": 100e9, "latency": 1e-6},
            {"name": "net", "size": 16, "bandwidth": 10e9, "latency": 4e-6},
        ],
    }
    file = folder / "own.yaml"
    file.write_text(yaml.safe_dump(raw | more), encoding="utf-8")
    return str(file)


def asked(planner: Any, *words: str) -> dict[str, Any]:
    done = planner("machine", *words, "--json")
    assert done.code == 0, done.out
    assert done.document["schema"] == "planner/machine/1"
    return done.document


def rows(document: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(r["operation"], r["algorithm"]): r for r in document["collectives"]["rows"]}


@pytest.mark.parametrize("name", MACHINES)
def test_every_machine_of_the_catalogue(planner: Any, name: str) -> None:
    document = asked(planner, name)
    assert document["cards"] == entry("hardware", name)["cards"]
    assert document["levels"]
    assert planner("machine", name).code == 0


def test_memories_and_what_bounds_them(planner: Any, tmp_path: Path) -> None:
    hbm, host = asked(planner, own(tmp_path))["memories"]
    assert (hbm["bytes_per_card"], hbm["bytes_per_s"], hbm["bound_by"]) == (80e9, 4e12, "own")
    assert hbm["read_all_s"] == pytest.approx(80e9 / 4e12)
    assert hbm["flop_per_byte"] == {"bf16": 75.0, "fp8": 150.0}
    assert (host["bytes_per_card"], host["bytes_per_s"], host["bound_by"]) == (100e9, 40e9, "path")
    window = {"capacity": 1e12, "bandwidth": 50e9, "cards": 1, "latency": 7.52e-6, "in_flight": 128}
    pool = {"hbm": {"capacity": 80e9, "bandwidth": 4e12}, "pool": window | {"transaction": 256}}
    far = asked(planner, own(tmp_path, memory=pool))["memories"][1]
    assert far["bound_by"] == "window"
    assert far["bytes_per_s"] == pytest.approx(128 * 256 / 7.52e-6)


def test_a_torus(planner: Any) -> None:
    (level,) = asked(planner, "tpu-v4-64")["levels"]
    assert (level["links"], level["farthest_links"], level["switch_chips"]) == (192, 6, 0)
    assert level["bytes_per_s_per_card"] == 300e9
    assert level["bisection_bytes_per_s_per_card"] == pytest.approx(50e9)
    assert level["alltoall_bytes_per_s_per_card"] == pytest.approx(300e9 * 21 / 64)


def test_switches_in_several_sizes(planner: Any, tmp_path: Path) -> None:
    network = {"kind": "switch", "radix": 64, "planes": 6}
    level = {"name": "bus", "sizes": [64, 512], "bandwidth": 50e9, "links": 6, "topology": network}
    document = asked(planner, own(tmp_path, cards=512, levels=[level | {"latency": 1e-6}]))
    found = [(d["cards"], d["switch_chips"], d["links"]) for d in document["levels"]]
    assert found == [(64, 6, 384), (512, 144, 6144)]


def test_collectives_over_one_level_and_over_two(planner: Any, tmp_path: Path) -> None:
    near = asked(planner, own(tmp_path), "--bytes", "8 MB")
    assert near["collectives"]["levels"] == ["bus"]
    ring = rows(near)["allreduce", "ring"]
    assert ring["seconds"] == pytest.approx(14 * (1e-6 + 1e6 / 100e9))
    assert ring["busbw_bytes_per_s"] == pytest.approx(1.75 * ring["algbw_bytes_per_s"])
    assert not any("hierarchical" in key for key in rows(near))
    far = asked(planner, own(tmp_path), "--bytes", "8 MB", "--ranks", "16")
    assert far["collectives"]["levels"] == ["bus", "net"]
    in_steps, around = (rows(far)["allreduce", name] for name in ("hierarchical", "ring"))
    expected = 14 * (1e-6 + 1e6 / 100e9) + 2 * (4e-6 + 0.5e6 / 10e9)
    assert in_steps["seconds"] == pytest.approx(expected)
    assert around["seconds"] == pytest.approx(30 * (4e-6 + 0.5e6 / 10e9))


def test_a_card_alone_exchanges_nothing(planner: Any, tmp_path: Path) -> None:
    assert asked(planner, own(tmp_path), "--ranks", "1")["collectives"]["rows"] == []


def test_experts_that_hide_their_messages(planner: Any, tmp_path: Path) -> None:
    """C/B ≤ 2·d_ff for FP8 out and BF16 back."""
    level = asked(planner, own(tmp_path))["levels"][0]
    assert level["flop_per_byte"]["fp8"] == pytest.approx(6000)
    assert level["expert_width_that_hides"]["fp8"] == pytest.approx(3000)


def test_rewiring_pays_after_some_calls(planner: Any, tmp_path: Path) -> None:
    """Eight chips in a line of one link each, out of three dimensions (6.5.4)."""
    network = {"kind": "torus", "dims": [16, 4, 4], "rewiring": 1e-3}
    level = {"name": "ici", "size": 256, "bandwidth": 50e9, "links": 6, "latency": 0.0}
    file = own(tmp_path, cards=256, levels=[level | {"topology": network}])
    document = asked(planner, file, "--ranks", "8", "--bytes", "8 MiB")
    rewiring = document["levels"][0]["rewiring"]
    sent = 2 * 7 / 8 * 8 * 2**20
    saved = sent / 50e9 - sent / 300e9
    assert rewiring["saved_s"] == pytest.approx(saved)
    assert rewiring["pays_after_calls"] == -(-1e-3 // saved)
    assert (
        "pays after 5 AllReduces"
        in planner("machine", file, "--ranks", "8", "--bytes", "8 MiB").out
    )


def test_connections_by_hosts(planner: Any, tmp_path: Path) -> None:
    kept = {"kind": "pairwise", "endpoints": 8, "cache": 2**18, "miss": 1e-6}
    level = {"name": "net", "size": 1536, "bandwidth": 10e9, "latency": 4e-6, "connections": kept}
    file = own(tmp_path, cards=1536, levels=[level])
    (found,) = asked(planner, file)["connections"]
    assert found["hosts_held"] == 8
    last = found["by_hosts"][-1]
    assert (last["hosts"], last["state_bytes"]) == (192, 6258944)
    assert last["wait_s"] == pytest.approx((1 - 2**18 / 6258944) * 1e-6)
    assert last["setup_s"] == pytest.approx(8 * 8 * 191 * (4 * 5e-6 + 500e-6) / 32)
    assert [row["wait_s"] for row in found["by_hosts"] if row["hosts"] <= 8] == [0.0] * 3
    assert "8 hosts" in planner("machine", file).out


def test_power_and_racks_as_cards_grow(planner: Any, tmp_path: Path) -> None:
    site = {
        "power": 5e3,
        "switch_ports": 64,
        "second_tier_power": 10e3,
        "rack": {"power": 40e3, "air": 20e3},
    }
    file = own(tmp_path, cards=128, levels=[{"name": "net", "size": 128}], facility=site)
    found = asked(planner, file, "--cards", "96")["facility"]
    steps = {row["cards"]: row for row in found["steps"]}
    assert list(steps) == [8, 16, 32, 64, 72, 96]
    assert [steps[n]["power_w"] for n in (64, 72, 96)] == [85e3, 105e3, 135e3]
    assert [steps[n]["switch_tiers"] for n in (64, 72)] == [1, 2]
    assert [steps[n]["racks"] for n in (32, 64, 96)] == [1, 2, 3]
    assert (found["servers_per_rack"], found["servers_on_air"]) == (4, 2)


def test_a_missing_figure_stays_missing(planner: Any, tmp_path: Path) -> None:
    level = {"name": "bus", "size": 16, "bandwidth": 100e9}
    file = own(tmp_path, levels=[level], server={"cards": 8})
    document = asked(planner, file)
    assert document["missing"] == ["levels.bus.latency", "server.power"]
    assert document["levels"][0]["farthest_s"] is None
    assert {row["seconds"] for row in document["collectives"]["rows"]} == {None}
    assert {row["power_w"] for row in document["facility"]["steps"]} == {None}
    shown = planner("machine", file).out
    assert "Not stated: levels.bus.latency, server.power" in shown
    assert "16 cards over bus\nneeds levels.bus.latency\n" in shown
    assert "allreduce" not in shown


def test_a_level_without_a_bandwidth_hides_nothing_that_is_known(
    planner: Any, tmp_path: Path
) -> None:
    levels = [
        {"name": "bus", "size": 8, "bandwidth": 100e9, "latency": 1e-6},
        {"name": "net", "size": 16, "latency": 4e-6},
    ]
    shown = planner("machine", own(tmp_path, levels=levels)).out
    assert "bus, fp8" in shown
    assert "net, fp8" not in shown
    assert "\nneeds levels.net.bandwidth\n" in shown


@pytest.mark.parametrize(
    "more",
    [
        {"topology": {"kind": "switch", "radix": 64, "oversubscription": 3}},
        {"staging": {"bandwidth": 20e9, "buffers": "one_node"}},
        {"staging": {"bandwidth": 20e9}},
        {"topology": {"kind": "torus", "dims": [8, 16]}},
    ],
)
def test_the_rate_of_a_level_is_that_of_its_collective(
    planner: Any, tmp_path: Path, more: dict[str, Any]
) -> None:
    level = {"name": "bus", "size": 128, "bandwidth": 50e9, "latency": 0.0, **more}
    document = asked(planner, own(tmp_path, cards=128, levels=[level]))
    (found,) = document["levels"]
    everybody = rows(document)["all_to_all", "direct"]
    assert found["alltoall_bytes_per_s_per_card"] == pytest.approx(everybody["busbw_bytes_per_s"])
    assert found["alltoall_bytes_per_s_per_card"] < 50e9
    work = 600e12 / everybody["busbw_bytes_per_s"]
    assert found["flop_per_byte"]["fp8"] == pytest.approx(work)
    assert found["expert_width_that_hides"]["fp8"] == pytest.approx(work / 2)


def test_one_is_not_many(planner: Any, tmp_path: Path) -> None:
    kept = {"kind": "pairwise", "endpoints": 8, "cache": 256}
    level = {"name": "net", "size": 16, "bandwidth": 10e9, "latency": 0, "connections": kept}
    memory = {"hbm": {"capacity": 80e9, "bandwidth": 4e12}}
    file = own(tmp_path, levels=[level], memory=memory, server={"cards": 1})
    shown = planner("machine", file, "--ranks", "2").out
    assert "Servers of 1 card\n" in shown
    assert "hold those of 1 host\n" in shown
    (found,) = asked(planner, file)["connections"]
    assert {row["wait_s"] for row in found["by_hosts"]} == {None}, "no miss is stated"


def test_a_spec_and_a_file_that_builds_on_another(planner: Any, tmp_path: Path) -> None:
    example = str(ROOT / "examples/qwen3-32b-128k-hgx-h100.yaml")
    assert asked(planner, example)["name"] == "hgx-h100"
    changed = {"base": "hgx-h100", "overrides": {"memory.hbm.bandwidth": "4.8 TB/s"}}
    file = tmp_path / "faster.json"
    file.write_text(json.dumps(changed), encoding="utf-8")
    assert asked(planner, str(file))["memories"][0]["bytes_per_s"] == 4.8e12


def test_a_changed_machine(planner: Any, tmp_path: Path) -> None:
    sets = ("--set", "hardware.memory.host.path=80 GB/s", "--set", "hardware.levels.bus.latency=0")
    document = asked(planner, own(tmp_path), *sets)
    assert document["memories"][1]["bytes_per_s"] == 400e9 / 8
    assert document["levels"][0]["nearest_s"] == 0
    assert asked(planner, "hgx-h100", "--set", "hardware=gb200-nvl72")["name"] == "gb200-nvl72"


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        (("hgx-h10",), "hardware", "no hardware of that name"),
        (("no-such.yaml",), "", "no such file"),
        ((str(ROOT / "README.md"),), "", "a file must end in .yaml, .yml, .json"),
        (("9" * 300,), "hardware", "no hardware of that name"),
        (("hgx-h100", "--cards", "9"), "--cards", "the machine has 8"),
        (("hgx-h100", "--ranks", "9"), "--ranks", "only 8 cards are installed"),
        (("hgx-h100", "--bytes", "3 parsecs"), "--bytes", "no known unit"),
        (("hgx-h100", "--bytes", "0"), "--bytes", "must be greater than 0"),
        (("hgx-h100", "--ranks", "0"), "", "greater than or equal to 1"),
        (("hgx-h100", "--set", "hardware.cores=9"), "hardware.cores", "unknown key"),
        (("hgx-h100", "--set", "model.layers=9"), "model", "unknown key"),
        ((), "", "Missing argument"),
    ],
)
def test_wrong_input(planner: Any, words: tuple[str, ...], path: str, message: str) -> None:
    done = planner("machine", *words, "--json")
    assert done.code == 2
    (fault,) = done.document["errors"]
    assert fault["path"] == path
    assert message in fault["message"]
    said = planner("machine", *words)
    assert said.code == 2
    assert not said.out
    assert said.err.startswith("error: ")


def test_a_wrong_machine_names_its_leaf_and_its_file(planner: Any, tmp_path: Path) -> None:
    done = planner("machine", own(tmp_path, server={"cards": 0}), "--json")
    assert done.code == 2
    assert done.document["source"].endswith("own.yaml")
    assert done.document["errors"][0]["path"] == "hardware.server.cards"


def test_the_help_names_what_it_needs(planner: Any) -> None:
    done = planner("machine", "--help")
    assert done.code == 0
    assert all(
        word in done.out
        for word in ("HARDWARE", "--cards", "--ranks", "--bytes", "--set", "--json")
    )
