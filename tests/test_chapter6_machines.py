"""Questions 6-6 to 6-9 and 6-11 of the theory text: machines, their fabrics, memories and power."""

import re

import pytest

from specs.load import load_problem
from tests.golden.records import RECORDS, near, recomputed
from tests.questions import (
    FOLDER,
    TWO_SERVERS,
    Document,
    answers,
    asked,
    by,
    collective,
    only,
    says,
    script,
)

KIB, MIB = 2**10, 2**20


@answers("6-6a")
def test_tensor_parallel_over_two_servers() -> None:
    expected = recomputed("6.5.1/tp16-two-servers")
    sets = ("space.tp=[8, 16]", "workload.classes.continue.deadline=1 s")
    plans = by("tp", TWO_SERVERS, *sets)
    step = plans[16]["step"]
    assert 1e3 * step["seconds"] == near(expected["step_ms"])
    local = step["seconds"] - step["breakdown"]["allreduce"]
    equal = 1e6 * (plans[8]["step"]["seconds"] - local) / 128
    assert equal == near(expected["equality_us"])
    level = by("tp", TWO_SERVERS, *sets, f"hardware.collectives[0].seconds={equal!r} us")
    assert level[16]["step"]["seconds"] == near(level[8]["step"]["seconds"])
    says("6-6", f"{1e3 * step['seconds']:.4f} ms", f"{equal:.3f} µs")


@answers("6-6b")
def test_uplinks_of_a_leaf_switch() -> None:
    expected = recomputed("6.5.1/nvswitch-ports")
    split = "hardware.levels.nvlink.topology.oversubscription=3"
    for sets, share in zip(((), (split,)), expected["per_link"], strict=True):
        (level,) = asked("machine", "6-06-leaf-switch.yaml", *sets)["levels"]
        assert level["bisection_bytes_per_s_per_card"] / 1e9 == near(share)


@answers("6-6c")
def test_links_of_a_ring_of_sixteen() -> None:
    expected = recomputed("6.5.1/swing-vs-recursive")
    out = script("6-06-link-loads.py")
    for i, (name, short, hops) in enumerate((("recursive", "rec", 4), ("swing", "swing", 3))):
        loads = re.findall(rf"{name} \d: \d hops, (\d) MiB on the busiest link, (\d+) MiB", out)
        assert [float(busiest) for busiest, _ in loads] == expected[f"{short}_max"]
        assert [float(total) for _, total in loads] == expected[f"{short}_total"]
        assert f"{name} 3: {hops} hops" in out
        assert f"{name}: {expected['us'][i]:.2f} us" in out


@answers("6-6d")
def test_bytes_between_two_processors() -> None:
    place = "hardware.levels.pcie.staging"
    for sets, crossing in zip(
        (
            (),
            (f"{place}.buffers=sender",),
            (f"{place}.buffers=sender", f"{place}.order=alternating"),
        ),
        RECORDS["6.5.1/numa"]["book_output"]["MiB"],
        strict=True,
    ):
        document = asked("machine", "6-06-numa.yaml", *sets, bytes="8 MiB")
        ring = collective(document, "allreduce", "ring")
        assert ring["seconds"] * 20e9 / MIB == near(crossing)
        says("6-6", f"{crossing} MiB")


@answers("6-6e")
def test_a_torus_of_512_and_switches_in_its_place() -> None:
    expected = recomputed("6.5.1/torus-512")
    document = asked("machine", "6-06-torus-512.yaml", ranks="512")
    (level,) = document["levels"]
    assert level["farthest_links"] == expected["diameter"] == 12
    everybody = collective(document, "all_to_all", "direct")["seconds"]
    assert 1e6 * everybody == near(expected["torus_us_exact"])
    load = everybody * 50e9 / MIB
    assert load == near(32 * expected["mean_hops_exact"] / 6)
    says("6-6", f"{load:.3f} MiB", f"{1e6 * everybody:.3f} µs")
    switched = asked("machine", "6-06-switches.yaml")["levels"]
    chips = [built["switch_chips"] for built in switched]
    assert chips == recomputed("6.5.1/switch-counts")["chips"]
    assert chips[1] / chips[0] == 24


TIER = "switch_ports: 64, second_tier_power: 10.2 kW"


@answers("6-7a", "6-7b", "6-7c")
def test_cards_within_a_power_budget() -> None:
    expected = recomputed("6.5.2/rack-power")
    steps = {
        step["cards"]: step["power_w"] / 1e3
        for cards in ("72", "96")
        for step in asked("machine", "6-07-power.yaml", cards=cards)["facility"]["steps"]
    }
    assert [steps[cards] for cards in (64, 72, 96)] == near(expected["kW"])
    for sets, most in (
        ((), "cards_120"),
        (("limits.power=150 kW",), "cards_150"),
        ((f"hardware.facility={{{TIER}}}",), "second_tier_120"),
        ((f"hardware.facility={{{TIER}, unit: 4}}",), "groups_of_4"),
    ):
        assert only("6-07-power.yaml", *sets)["outcome"]["cards"] == expected[most]


@answers("6-7d")
def test_what_64_and_80_cards_serve() -> None:
    expected = recomputed("6.5.2/exp6-7d-capacity")
    for i, cards in enumerate((64, 80)):
        outcome = only("6-07-power.yaml", f"limits.cards={cards}")["outcome"]
        assert outcome["sessions_per_s"] == near(expected["sess_s"][i])
        assert outcome["tokens_per_s"] == near(expected["tok_s"][i])
        says("6-7", f"{outcome['sessions_per_s']:.3f}", f"{outcome['tokens_per_s']:,.1f} tokens/s")


@answers("6-8b")
@pytest.mark.parametrize(("machine", "k"), [("tpu-v4-64", 4), ("6-06-torus-512.yaml", 8)])
def test_halves_of_a_torus(machine: str, k: int) -> None:
    expected = recomputed(f"6.5.1/torus-{k**3}")
    (level,) = asked("machine", machine)["levels"]
    share = level["bisection_bytes_per_s_per_card"]
    assert level["cards"] == k**3
    assert share / 1e9 == near(expected["per_sender_GBps"])
    assert share * level["cards"] / 2 / 50e9 == near(expected["bisection"])


@answers("6-8c")
def test_what_crosses_between_two_hosts() -> None:
    once, twice = (
        asked("explain", "6-08-two-hosts.yaml", *sets, plan="tp=2")["step"]["seconds"]
        for sets in ((), ("hardware.levels.network.bandwidth=100 GB/s",))
    )
    ring = 2 * (once - twice) * 50e9
    assert ring / 94 / KIB == near(24, rel=1e-6)
    assert round(2 * ring / MIB, 2) == 4.41
    says("6-8", "24 KiB", "48 KiB", "4.41 MiB")


ADAPTER = "hardware.levels.network.connections"


@answers("6-8d")
def test_connections_that_an_adapter_holds() -> None:
    expected = recomputed("6.5.5/exp6-8d")
    large, shared = f"{ADAPTER}.cache=1 MiB", f"{ADAPTER}.kind=channel"

    def connections(*sets: str) -> Document:
        (found,) = asked("machine", "6-08-connections.yaml", *sets, cards="192")["connections"]
        return found

    def state(found: Document) -> dict[int, float]:
        return {row["hosts"]: row["state_bytes"] for row in found["by_hosts"]}

    pair, channel = connections(), connections(shared)
    assert pair["hosts_held"] == expected["pair_256k"] == connections(large)["hosts_held"]
    assert channel["hosts_held"] == expected["ub_256k"]
    assert connections(shared, large)["hosts_held"] == expected["ub_1m"]
    assert state(pair)[2] == expected["pair_2hosts"]
    assert state(pair)[192] == expected["pair_192"]
    assert state(channel)[192] == expected["ub_192"]
    says("6-8", *(f"{expected[key]:,}" for key in ("pair_2hosts", "pair_192", "ub_192")))


@answers("6-8e")
def test_set_up_of_connections() -> None:
    many = f"{ADAPTER}.endpoints=1024"
    found = [
        asked("machine", "6-08-connections.yaml", many, *kind, *cores)["connections"][0]["by_hosts"]
        for kind in ((), (f"{ADAPTER}.kind=channel",))
        for cores in ((f"{ADAPTER}.cores=1",), ())
    ]
    seconds = [rows[row]["setup_s"] for rows, row in zip(found, (0, 0, -1, -1), strict=True)]
    assert seconds == near(recomputed("6.5.5/ub-setup")["s50"])
    says("6-8", "73.400 s", "2.294 s", "61.44 ms", "1.92 ms")


@answers("6-9a")
def test_a_node_borrows_memory() -> None:
    out = script("6-09-borrowing.py")
    assert out.splitlines() == [
        "free before: 0 + 20 + 40 + 40 = 100 GB",
        "held after: 80 + 80 + 40 + 40 = 240 GB",
        "free after: 0 + 0 + 40 + 40 = 80 GB",
    ]


@answers("6-9b", "6-9c", "6-9d")
def test_memory_of_others() -> None:
    expected = recomputed("6.6/memory-pool")
    pool = "hardware.memory.pool"

    def memory(*sets: str) -> Document:
        memories = asked("machine", "6-09-pool.yaml", *sets)["memories"]
        return next(m for m in memories if m["tier"] == "pool")

    wide, slow, few = memory(), memory(f"{pool}.latency=15.04 us"), memory(f"{pool}.in_flight=128")
    needed = [m["reads_in_flight_needed"] for m in (wide, slow)]
    assert needed == expected["min_inflight"]
    assert [m["read_all_s"] for m in (few, wide)] == near(expected["read_s"])
    assert [m["bound_by"] for m in (few, wide)] == ["window", "path"]
    says("6-9", *(f"{n:,}" for n in needed), f"{few['read_all_s']:.5f} s", "0.2179", "2.5 a second")
    assert round(1 / few["read_all_s"], 4) == 0.2179
    plans = by("kv_tier", "6-09-pool.yaml")
    kept = next(t for t in plans["pool"]["memory"]["tiers"] if t["tier"] == "pool")
    assert kept["fetch_pays_after_reads"] == expected["crossover_reads"]
    assert plans["hbm"]["memory"]["breakdown"]["kv"] == near(20e9, rel=1e-5)


SIZES = (8, 64, 128, 256)

READ = 2e-6
"""Share of a step that the source reads more: corrections of routers for tokens of images."""


@answers("6-11a")
def test_memory_binds_supernodes_before_time() -> None:
    expected = recomputed("6.7.4/exp6-11a-20ms")
    plans = by("domain", "6-11-supernodes.yaml", "workload.classes.chat.tpot=20 ms")
    assert [plans[size]["outcome"]["batch"] / size for size in SIZES] == expected["sessions"]
    assert [plans[size]["step"]["seconds"] for size in SIZES] == near(expected["steps"], READ)
    assert {plan["outcome"]["bound_by"] for plan in plans.values()} == {"memory"}
    says("6-11", *(f"{1e3 * step:.2f}" for step in expected["steps"]))


@answers("6-11b")
def test_attention_over_eight_cards() -> None:
    expected = recomputed("6.7.4/exp6-11b-attn-tp8")
    out = script("6-11-attention-tp8.py")
    (found,) = re.findall(r"over 8: ([\d,.]+) us a token, ([\d.]+) tokens/s", out)
    microseconds, speed = (float(figure.replace(",", "")) for figure in found)
    assert microseconds == near(expected["total_us"], rel=1e-5)
    assert speed == near(expected["tok"], rel=1e-5)
    assert f"{expected['gain']:.3f} times as fast" in out
    says("6-11", f"{expected['total_us']:,.2f} µs")


@answers("6-11c")
def test_a_supernode_against_eight_servers() -> None:
    expected = recomputed("6.7.4/exp6-11c")
    across = only(
        "6-11-supernodes.yaml",
        "space.domain=[8]",
        "space.where=[ep == 64, attention_dp == 64]",
        "assumptions.alltoall_levels=outermost",
        "hardware.levels.network.links=2",
        "hardware.levels.network.latency=2 us",
    )["step"]["seconds"]
    assert across == near(expected["step"])
    inside = only("6-11-supernodes.yaml", "space.domain=[64]")["step"]["seconds"]
    assert across / inside == near(expected["ratio"])
    says("6-11", f"{1e3 * across:.3f} ms", f"{across / inside:.3f} times", f"{1e3 * inside:.3f} ms")


@answers("6-11d")
def test_half_of_the_time_of_a_hop() -> None:
    expected, whole = (
        recomputed(f"6.7.4/{name}") for name in ("exp6-11d-half-hop", "rom-hbm-2wafers")
    )
    out = script("6-11-half-hop.py")
    before, after = out.splitlines()
    assert f"{whole['tok_s']:,.1f} tokens/s" in before and f"{whole['share']:.1%}" in before
    for text in (
        f"{expected['token_us']:.2f} us a token, {expected['tok_s']:,.1f} tokens/s",
        f"collectives {expected['comm_us']:.2f} us, {expected['share']:.1%}",
    ):
        assert text in after


@answers("6-11e")
def test_sessions_of_a_million_tokens() -> None:
    record = RECORDS["6.7.4/exp6-11e-1m"]
    expected = record["recomputed"]
    for i, held in enumerate(((), ("workload.classes.chat.context=1048575",))):
        memory = only("6-11-rom.yaml", *held)["memory"]
        assert 2 * memory["breakdown"]["kv"] == expected["state"][i]
        assert memory["sessions_per_instance"] == expected["hbm"][i]
        none = asked("rank", "6-11-rom.yaml", "space.kv_tier=[sram]", *held)
        assert (len(none["plans"]), expected["sram"][i]) == (0, 0)
        says("6-11", f"{expected['state'][i]:,}", f"{expected['hbm'][i]:,}")


@answers("6-11f")
def test_rows_from_the_host_come_in_time_or_late() -> None:
    expected = recomputed("6.7.4/exp6-11f")
    layers = load_problem(str(FOLDER / "6-11-rom.yaml")).model.layer_count
    for trip, threshold, speed in ((2.0, "threshold_us", "tok_s"), (1.05, None, "tok_s_105")):
        limit = layers * trip
        assert limit == near(expected[threshold or "threshold_105_us"])
        assert 1e6 / limit == near(expected[speed])
        says("6-11", f"{limit:g} µs a token", f"{expected[speed]:,.0f} tokens/s")
        host = f"hardware.memory.host={{capacity: 1 TB, bandwidth: 400 GB/s, latency: {trip:g} us}}"
        sets = ("workload.classes.chat.context=199999", "space.engram_tier=[host]", host)
        step = asked("explain", "6-11-rom.yaml", *sets, plan="tp=1")["step"]
        late = step["breakdown"].get("engram_wait", 0.0)
        assert (late > 0) == (1e6 * (step["seconds"] - late) < limit)
    slow = only(
        "6-11-supernodes.yaml",
        "space.domain=[8]",
        "space.engram_tier=[host]",
        "space.batch=[1]",
        "hardware.memory.host.latency=2 us",
    )["step"]
    assert "engram_wait" not in slow["breakdown"]
