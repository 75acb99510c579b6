"""Connections, staging through host memory, and the figures that compare links."""

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels.collectives import connections, measures, staging
from costmodels.collectives.algorithms import direct_alltoall
from specs.fabric import Connections, Staging

kinds = st.sampled_from(["pairwise", "channel", "directory"])


@st.composite
def drawn(draw: st.DrawFn) -> Connections:
    return Connections(
        kind=draw(kinds),
        endpoints=draw(st.integers(1, 200)),
        cache=draw(st.floats(1e3, 1e9)),
        miss=1e-6,
        lines=draw(st.integers(1, 2**20)),
    )


@given(drawn(), st.integers(1, 100_000))
def test_more_hosts_never_wait_less(kept: Connections, hosts: int) -> None:
    fewer, more = connections.wait(kept, np.array([hosts, hosts + 1]))
    assert 0 <= fewer <= more < 1e-6
    assert (connections.state_bytes(kept, hosts) <= kept.cache) == (fewer == 0)


@given(drawn(), st.integers(1, 100_000))
def test_nothing_waits_where_no_miss_is_stated(kept: Connections, hosts: int) -> None:
    assert connections.wait(kept.model_copy(update={"miss": None}), hosts) == 0


@given(drawn())
def test_the_chip_holds_the_state_of_most_hosts_and_no_more(kept: Connections) -> None:
    most = connections.most_hosts(kept)
    assert connections.state_bytes(kept, most + 1) > kept.cache * (1 - 1e-12)
    if most:
        assert connections.state_bytes(kept, most) <= kept.cache * (1 + 1e-12)


@given(drawn(), st.integers(1, 5000), st.integers(1, 5000))
def test_more_endpoints_take_longer_to_set_up(kept: Connections, local: int, remote: int) -> None:
    seconds = connections.setup_seconds(kept, np.array([local, local + 1]), remote)
    assert seconds[0] <= seconds[1]
    assert (seconds[0] == 0) == (kept.kind == "directory")


def transfers(kept: Staging, ranks: int) -> Counter[Any]:
    """Crossings between processors of a ring in which each card sends one byte."""
    per_node = ranks // kept.nodes
    beside = [
        card // per_node if kept.order == "adjacent" else card % kept.nodes for card in range(ranks)
    ]
    found: Counter[Any] = Counter()
    for card in range(ranks):
        sender, receiver = beside[card], beside[(card + 1) % ranks]
        buffer = sender if kept.buffers == "sender" else 0
        found[sender, buffer] += sender != buffer
        found[buffer, receiver] += buffer != receiver
    return found


@given(
    st.integers(2, 8),
    st.integers(1, 8),
    st.sampled_from(["sender", "one_node"]),
    st.sampled_from(["adjacent", "alternating"]),
)
def test_what_crosses_is_counted_transfer_by_transfer(
    nodes: int, per_node: int, buffers: str, order: str
) -> None:
    kept = Staging(nodes=nodes, bandwidth=10.0, buffers=buffers, order=order)
    ranks = nodes * per_node
    share = float(staging.crossing_share(kept, ranks))
    assert share == max(transfers(kept, ranks).values())
    assert staging.ring_bandwidth(kept, ranks) == pytest.approx(10.0 / share)


def test_nothing_crosses_where_nothing_is_sent() -> None:
    kept = Staging(bandwidth=10.0)
    assert staging.ring_bandwidth(kept, 1) == math.inf


def test_bus_bandwidth_of_a_ring_is_that_of_its_links() -> None:
    n, size, beta = np.array([2, 8, 64]), 1e9, 450e9
    for operation, rounds in (("allreduce", 2), ("reduce_scatter", 1), ("all_gather", 1)):
        seconds = rounds * (n - 1) * size / (n * beta)
        assert measures.bus_bandwidth(operation, n, size, seconds) == pytest.approx([beta] * 3)


@given(st.integers(2, 100), st.floats(1, 1e9))
def test_bus_bandwidth_of_an_all_to_all_is_its_algorithm_bandwidth(n: int, size: float) -> None:
    """What a card sends to others leaves out its own part: all of it passes the links."""
    seconds = direct_alltoall(np.array(n), np.array(size), 0.0, 450e9)
    assert measures.bus_bandwidth("all_to_all", n, size, seconds) == pytest.approx(450e9)


def test_what_saves_nothing_never_pays() -> None:
    assert measures.payback_calls(1.0, 0.0) == math.inf
    assert measures.payback_calls(1.0, 0.3) == 4


def test_width_of_experts_that_hide_their_messages() -> None:
    """DeepSeek-V4: FP8 tokens out, BF16 back, C/B ≤ 2·d_ff; an H200 on NVLink needs about 1,100."""
    width = measures.hiding_width(1979e12, 900e9, 1, 2)
    assert 2 * width == pytest.approx(1979e12 / 900e9)
    assert width < 3072 < measures.hiding_width(1979e12, 50e9, 1, 2)
