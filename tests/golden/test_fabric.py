"""Sections 6.4.3 and 6.5 of the theory text: topologies, link loads, connections and bandwidths.

Inputs of these records are bare messages, networks and endpoints, so no plan is ranked: the tests
call the closed forms that ``planner machine`` and the cost of collectives are made of.
"""

import numpy as np
import pytest

from costmodels.collectives import connections, link_loads, measures, staging, switches, topology
from costmodels.collectives.algorithms import ring_allreduce
from specs.fabric import Connections, Level, Staging, Switch
from specs.memory import MemoryTier
from tests.golden.records import RECORDS, covers, near, recomputed

MIB = 2**20
LINK = 50e9
"""Bytes per second of one ICI link of a TPU v4, per direction."""


def torus(k: int, hop: float = 0.0) -> Level:
    """k³ chips of six links."""
    return Level(
        name="ici",
        size=k**3,
        bandwidth=LINK,
        links=6,
        hop=hop,
        topology={"kind": "torus", "dims": [k, k, k]},
    )


def nvswitch(oversubscription: float) -> Switch:
    return Switch(radix=64, oversubscription=oversubscription)


# 6.4.3: bandwidths as tests of collectives print them, and what overlap saves


@covers("6.4.3/nccl-bandwidth")
def test_algorithm_and_bus_bandwidth() -> None:
    inputs, expected = RECORDS["6.4.3/nccl-bandwidth"]["inputs"], recomputed("6.4.3/nccl-bandwidth")
    seconds = inputs["T_us"] * 1e-6
    found = measures.algorithm_bandwidth(inputs["M"], seconds)
    assert found / 1e9 == near(expected["algbw"])
    bus = measures.bus_bandwidth("allreduce", inputs["ranks"], inputs["M"], seconds)
    assert bus / 1e9 == near(expected["busbw"])


@covers("6.4.3/overlap-measured")
def test_calls_after_which_overlap_has_paid_for_its_preparation() -> None:
    record = RECORDS["6.4.3/overlap-measured"]
    expected = record["recomputed"]
    measured = [record["book_output"][f"ms_{size}MiB"] for size in (4, 64)]
    joint = [max(m["comm_joint"], m["comp_joint"]) for m in measured]
    assert joint == near(expected["group_joint_ms"])
    saved = [m["comm"] + m["comp"] - both for m, both in zip(measured, joint, strict=True)]
    assert saved == near([m["saved"] for m in measured], rel=1e-6)
    assert measures.payback_calls(1.0, saved[1] * 1e-3) == expected["calls_S1s"]


# 6.5.1: ports, link loads, staging through host memory


@covers("6.5.1/nvswitch-ports")
def test_uplinks_of_a_leaf() -> None:
    inputs = RECORDS["6.5.1/nvswitch-ports"]["inputs"]
    expected = recomputed("6.5.1/nvswitch-ports")
    port = inputs["GBps_per_port"]
    for (down, up), uplink, share in zip(
        inputs["splits"], expected["uplink"], expected["per_link"], strict=True
    ):
        assert switches.leaf_ports(inputs["ports"], down / up) == (down, up)
        assert up * port == uplink
        switch = nvswitch(down / up)
        level = Level(name="nvlink", size=128, bandwidth=port * 1e9, topology=switch)
        assert topology.bisection(level) / 1e9 == near(share)


@covers("6.5.1/swing-vs-recursive")
def test_swing_loads_links_less_than_recursive_halving() -> None:
    record = RECORDS["6.5.1/swing-vs-recursive"]
    inputs, expected = record["inputs"], record["recomputed"]
    times = []
    for name, algorithm in (("rec", "recursive"), ("swing", "swing")):
        found = link_loads.rounds(algorithm, inputs["ranks"], line=False)[: inputs["rounds"]]
        assert [r.busiest * inputs["M_MiB"] for r in found] == expected[f"{name}_max"]
        assert [r.total * inputs["M_MiB"] for r in found] == expected[f"{name}_total"]
        # An AllReduce runs the same rounds twice.
        both = link_loads.allreduce_seconds(found, inputs["M_MiB"] * MIB, 0.0, 0.0, LINK)
        times.append(float(both) / 2 * 1e6)
    assert times == near(expected["us"])
    third = [link_loads.rounds(a, 16, line=False)[2] for a in ("recursive", "swing")]
    assert [r.hops for r in third] == [4, 3]


@covers("6.5.1/numa")
def test_bytes_between_processors() -> None:
    record = RECORDS["6.5.1/numa"]
    ranks, sent = 4, record["inputs"]["sizes"]["per_card_send_MiB"]
    assert ranks * sent == record["recomputed"]["total"]
    crossing = [
        staging.crossing_share(Staging(bandwidth=1.0, buffers=buffers, order=order), ranks) * sent
        for buffers, order in (
            ("one_node", "adjacent"),
            ("sender", "adjacent"),
            ("sender", "alternating"),
        )
    ]
    assert crossing == record["book_output"]["MiB"]


# 6.5.1 and 6.5.4: torus or switches


@covers("6.5.1/torus-64")
@covers("6.5.1/torus-512")
@pytest.mark.parametrize("k", [4, 8])
def test_torus(k: int) -> None:
    """The text counts 3 and 6 mean hops, a card's way to itself among them: 335.5 and 671.1 µs.

    A card sends nothing to itself, so its messages take 64/21 and 3072/511 hops, 340.87 and
    672.40 µs. The numbers are followed; the text's are those times (n-1)/n.
    """
    expected = recomputed(f"6.5.1/torus-{k**3}")
    size = RECORDS[f"6.5.1/torus-{k**3}"]["inputs"]["M_bytes"]
    level, n = torus(k), k**3
    assert topology.diameter(level) == expected["diameter"]
    assert topology.links(level) == expected["links"]
    assert 2 * topology.links(level) == expected["directed"]
    assert topology.cut_links(level) == expected["bisection"]
    assert topology.cut_links(level) * LINK / 1e9 == expected["bisect_GBps"]
    assert topology.bisection(level) / 1e9 == near(expected["per_sender_GBps"])
    share = float(topology.alltoall_share(level, n, 1))
    assert 1 / share == near(expected["mean_hops_exact"])
    exact = size / (level.beta * share) * 1e6
    assert exact == near(expected["torus_us_exact"])
    assert exact * (n - 1) / n == near(expected["torus_us_prose"])
    assert size / level.beta * 1e6 == near(expected["switch_us"])
    # Reductions along the dimensions use all six links, as a switch would.
    assert topology.ring_share(level, n, 1) == 1.0


@covers("6.5.1/torus-vs-switch-latency")
def test_chips_between_the_farthest_cards() -> None:
    inputs = RECORDS["6.5.1/torus-vs-switch-latency"]["inputs"]
    expected = recomputed("6.5.1/torus-vs-switch-latency")
    one_chip = Level(name="nvlink", size=64, topology=nvswitch(1.0))
    on_torus = int(topology.chips_passed(torus(4), 64, 64, 1))
    on_switch = 1 + int(topology.chips_passed(one_chip, 64, 64, 1))
    assert (on_torus, on_switch) == (inputs["chips_torus"], inputs["chips_switch"])
    further = (on_torus - on_switch) * inputs["hop_ns"] * 1e-9
    assert further * 1e6 == near(expected["us"])
    assert further * inputs["allreduces"] * 1e3 == near(expected["per_step_ms"])


@covers("6.5.1/switch-counts")
def test_switch_chips_and_links() -> None:
    inputs, expected = RECORDS["6.5.1/switch-counts"]["inputs"], recomputed("6.5.1/switch-counts")
    switch = Switch(radix=inputs["ports"], planes=inputs["planes"])
    cards = np.array(inputs["cards"])
    assert switches.chips(switch, cards).tolist() == expected["chips"]
    assert switches.links(switch, cards).tolist() == expected["links"]
    # Up to 64 cards the way is two links and one chip, up to 512 four links and three chips.
    assert switches.tiers(switch, cards).tolist() == [1, 2]


@covers("6.5.5/cloudmatrix384")
def test_cloudmatrix384_switch_chips() -> None:
    """The leaves stand in the nodes, with one link to each of the 16 second-tier chips a plane."""
    inputs, expected = RECORDS["6.5.5/cloudmatrix384"]["inputs"], recomputed("6.5.5/cloudmatrix384")
    leaves, tops = inputs["nodes"], inputs["l2_per_plane"]
    plane = switches.clos_chips(leaves, leaves * tops, radix=leaves)
    assert inputs["planes"] * plane == expected["chips"]
    mesh = Level(name="mesh", size=inputs["npus"], topology={"kind": "full_mesh"})
    assert topology.links(mesh) == expected["mesh"]


@covers("6.5.4/morphlux")
def test_calls_after_which_rewiring_has_paid() -> None:
    inputs, expected = RECORDS["6.5.4/morphlux"]["inputs"], recomputed("6.5.4/morphlux")
    n, size = inputs["ranks"], inputs["M_MiB"] * MIB
    before, after = (
        float(ring_allreduce(n, size, 0.0, links * inputs["GBps"] * 1e9))
        for links in inputs["links"]
    )
    assert before * inputs["GBps"] * 1e9 / MIB == near(expected["send_MiB"])
    assert [before * 1e6, after * 1e6] == near(expected["us"])
    saved = before - after
    assert saved * 1e6 == near(expected["saved"])
    calls = [measures.payback_calls(once, saved) for once in inputs["reconfig_s"]]
    assert calls == expected["calls"]


# 6.5.5: state of connections, their set-up, and what UB reaches


def pairwise(endpoints: int, **more: float) -> Connections:
    return Connections(kind="pairwise", endpoints=endpoints, **{"cache": 2**18, **more})


def channel(endpoints: int, **more: float) -> Connections:
    return Connections(kind="channel", endpoints=endpoints, **{"cache": 2**18, **more})


@covers("6.5.5/ub-state")
def test_state_of_connections() -> None:
    inputs, expected = RECORDS["6.5.5/ub-state"]["inputs"], recomputed("6.5.5/ub-state")
    pair, shared = pairwise(inputs["A"]), channel(inputs["A"])
    assert [connections.most_hosts(c) for c in (pair, shared)] == expected["max_hosts"]
    assert connections.state_bytes(pair, 192) == expected["pair_192"]
    assert connections.state_bytes(shared, 192) == expected["ub_192"]
    directory = Connections(kind="directory", endpoints=inputs["A"], cache=inputs["cache"])
    assert connections.state_bytes(directory, 2) == expected["directory_2"]
    assert connections.state_bytes(directory, 1024) == expected["directory_1024"]
    assert connections.most_hosts(directory) == 0
    # So many endpoints here, connected to as many elsewhere: on one host, or one on each of many.
    there = [
        float(connections.state_bytes(pairwise(1024), 2)),
        float(connections.state_bytes(channel(1024), 1025)),
    ]
    assert there == expected["endpoint_1024"]
    assert there[0] / there[1] == near(expected["ratio"])
    spill = [
        next(a for a in range(1, 5000) if connections.most_hosts(pairwise(a)) < 2),
        next(a for a in range(1, 5000) if connections.most_hosts(channel(a)) < a + 1),
    ]
    assert spill == expected["spill_endpoints"]


@covers("6.5.5/exp6-8d")
def test_state_of_more_endpoints() -> None:
    expected = recomputed("6.5.5/exp6-8d")
    pair, shared = pairwise(64), channel(64)
    assert connections.most_hosts(pair) == expected["pair_256k"]
    assert connections.most_hosts(pairwise(64, cache=MIB)) == 1
    assert connections.most_hosts(shared) == expected["ub_256k"]
    assert connections.most_hosts(channel(64, cache=MIB)) == expected["ub_1m"]
    assert connections.state_bytes(pair, 2) == expected["pair_2hosts"]
    assert connections.state_bytes(pair, 192) == expected["pair_192"]
    assert connections.state_bytes(shared, 192) == expected["ub_192"]


@covers("6.5.5/ub-setup")
def test_set_up_of_connections() -> None:
    inputs, expected = RECORDS["6.5.5/ub-setup"]["inputs"], recomputed("6.5.5/ub-setup")
    n, m = inputs["N"], inputs["M"]
    for exchange, name in zip(inputs["oob_s"], ("s500", "s50"), strict=True):
        found = [
            float(connections.setup_seconds(kind(8, round_trip=exchange, cores=cores), n, m))
            for kind in (pairwise, channel)
            for cores in (1, inputs["cores"])
        ]
        assert found == near(expected[name])


@covers("6.5.5/ub-latency")
def test_reads_over_unified_bus() -> None:
    """A card that waits for each line reads at the rate of the latency, 5.3 times as fast.

    The latencies are published sums of stages, whose quotient the text rounds. Requests a
    microsecond are data of section 7.3.4: two against six clock periods each.
    """
    stages, expected = RECORDS["6.5.5/ub-latency"]["book_output"], recomputed("6.5.5/ub-latency")
    by_bus, by_adapter = (
        MemoryTier(
            capacity="1 TB",
            bandwidth="100 GB/s",
            latency=stages[f"{way}_ns"] * 1e-9,
            in_flight=1,
            transaction=64,
        )
        for way in ("ub_load", "roce_dma")
    )
    assert round(by_bus.rate / by_adapter.rate, 1) == expected["ratio"]
    assert expected["req_per_us"][0] / expected["req_per_us"][1] == near(6 / 2)


@covers("6.5.5/ascend950-ub")
def test_bandwidth_of_lanes() -> None:
    inputs, expected = RECORDS["6.5.5/ascend950-ub"]["inputs"], recomputed("6.5.5/ascend950-ub")
    level = Level(name="ub", size=8, bandwidth=f"{inputs['Gbps']} Gbit/s", links=inputs["lanes"])
    assert level.beta / 1e9 == near(expected["per_dir"])
    assert 2 * level.beta / 1e9 == near(expected["bidir"])
