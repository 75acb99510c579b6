"""AllReduce in pairs: who ends with what, and what each link carries, walked message by message."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodels.collectives import link_loads
from costmodels.collectives.algorithms import ring_allreduce

ALGORITHMS = sorted(link_loads.ALGORITHMS)
powers = st.integers(1, 7).map(lambda exponent: 2**exponent)


def pairs(algorithm: str, n: int) -> list[list[int]]:
    """Peers of all ranks, round by round."""
    ranks = np.arange(n)
    peers = link_loads.ALGORITHMS[algorithm]
    return [peers(ranks, turn, n).tolist() for turn in range(n.bit_length() - 1)]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(n=powers)
def test_every_vector_reaches_every_rank(algorithm: str, n: int) -> None:
    held = [{rank} for rank in range(n)]
    for peers in pairs(algorithm, n):
        assert all(peers[peers[rank]] == rank for rank in range(n))
        assert all(held[rank].isdisjoint(held[peers[rank]]) for rank in range(n))
        held = [held[rank] | held[peers[rank]] for rank in range(n)]
    assert all(len(vectors) == n for vectors in held)


@pytest.mark.parametrize("line", [False, True])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(n=powers)
def test_loads_are_those_of_messages_on_their_way(algorithm: str, line: bool, n: int) -> None:
    found = link_loads.rounds(algorithm, n, line)
    assert len(found) == n.bit_length() - 1
    for turn, (peers, counted) in enumerate(zip(pairs(algorithm, n), found, strict=True)):
        loads: Counter[Any] = Counter()
        for source, target in enumerate(peers):
            ways = {1: (target - source) % n, -1: (source - target) % n}
            if line:
                ways = {np.sign(target - source): abs(target - source)}
            hops = min(ways.values())
            shortest = [way for way, length in ways.items() if length == hops]
            for way in shortest:
                for step in range(hops):
                    loads[(source + way * step) % n, way] += 0.5 ** (turn + 1) / len(shortest)
        assert counted.share == 0.5 ** (turn + 1)
        assert counted.busiest == pytest.approx(max(loads.values()))
        assert counted.total == pytest.approx(sum(loads.values()))


@given(powers)
def test_swing_never_loads_a_ring_more(n: int) -> None:
    swing, recursive = (
        sum(r.busiest for r in link_loads.rounds(a, n, line=False)) for a in ("swing", "recursive")
    )
    assert swing <= recursive


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(n=st.integers(2, 130))
def test_a_line_is_never_faster_than_a_ring(algorithm: str, n: int) -> None:
    ring, line = (link_loads.rounds(algorithm, n, line) for line in (False, True))
    for closed, opened in zip(ring, line, strict=True):
        assert closed.busiest <= opened.busiest + 1e-12
        assert closed.hops <= opened.hops


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_ranks_beyond_a_power_of_two_add_one_round(algorithm: str) -> None:
    first, *rest = link_loads.rounds(algorithm, 6, line=False)
    assert (first.share, first.busiest, first.hops) == (1.0, 1.0, 1)
    assert [r.share for r in rest] == [0.5, 0.25]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_two_cards_exchange_halves(algorithm: str) -> None:
    found = link_loads.rounds(algorithm, 2, line=True)
    seconds = link_loads.allreduce_seconds(found, 8.0, 1.0, 100.0, 2.0)
    assert seconds == pytest.approx(ring_allreduce(np.array(2), np.array(8.0), 1.0, 2.0))


def test_one_card_exchanges_nothing() -> None:
    assert link_loads.rounds("swing", 1, line=False) == ()
    assert link_loads.allreduce_seconds((), 8.0, 1.0, 1.0, 2.0) == 0
