"""Laws of collectives on machines of any levels: what makes a machine no slower."""

import math
from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels.collectives.crossing import ALGORITHMS
from costmodels.collectives.domains import joined
from costmodels.plans import WORDS, PlanTable
from specs.problem import Problem
from tests.costmodels.test_crossing import NVLINK, Raw, machine, seconds
from tests.strategies import logarithmic, placement

SWITCH: Raw = {"kind": "switch"}
NETWORKS: list[Raw] = [
    SWITCH,
    {**SWITCH, "radix": 4},
    {**SWITCH, "radix": 4, "oversubscription": 3},
    {**SWITCH, "reduces": True},
    {"kind": "ring"},
    {"kind": "full_mesh"},
]
WIDE = 64
"""Cards of the outermost level in the laws."""


@st.composite
def fabrics(draw: Any, plain: bool = False) -> list[Raw]:
    """One to three nested levels of any network, each slower than the one inside."""
    sizes = draw(st.sampled_from([(64,), (8, 64), (4, 16, 64), (2, 64), (16, 64), (6, 12, 48)]))
    alpha, beta = draw(logarithmic(1e-8, 1e-6)), draw(logarithmic(1e9, 1e12))
    found = []
    for i, size in enumerate(sizes):
        network = SWITCH if plain else draw(st.sampled_from([*NETWORKS, grid(size)]))
        hop = 0.0 if plain else draw(st.sampled_from([0.0, 1e-7]))
        shape = {"name": f"level {i}", "size": size, "topology": network, "hop": hop}
        found.append({**shape, "bandwidth": beta, "latency": alpha})
        alpha, beta = alpha * draw(st.floats(1, 8)), beta / draw(st.floats(1, 8))
    return found


def grid(size: int) -> Raw:
    return {"kind": "torus" if size % 8 else "mesh", "dims": [2, size // 2] if size > 2 else [2]}


operations = st.sampled_from(
    [(operation, name) for operation, names in ALGORITHMS.items() for name in ("auto", *names)]
)
groups = st.sampled_from(
    [(1, 1), (2, 1), (2, 16), (4, 3), (8, 1), (8, 4), (12, 2), (16, 3), (48, 1)]
)


def by_name(
    problem: Problem, operation: str, name: str, group: tuple[int, int], size: float, **axes: int
) -> float:
    """Seconds by a named algorithm of an operation that has a choice, else by the fastest."""
    axis = {"allreduce": "allreduce", "all_to_all": "alltoall"}.get(operation)
    words = {axis: name} if axis and name in WORDS[axis] else {}
    n, stride = group
    return seconds(problem, operation, n, size, stride=stride, **words, **axes)


@settings(max_examples=300)
@given(fabrics(), operations, groups, logarithmic(1, 1e9))
def test_times_are_numbers_and_one_rank_takes_none(
    levels: list[Raw], chosen: tuple[str, str], group: tuple[int, int], size: float
) -> None:
    found = by_name(machine(*levels), *chosen, group, size)
    if group[0] == 1:
        assert found == 0
    elif chosen[1] == "in_network":
        assert found > 0
    else:
        assert 0 < found < math.inf


@settings(max_examples=300)
@given(fabrics(), operations, groups, logarithmic(1, 1e9), st.data())
def test_a_slower_level_never_speeds_a_collective(
    levels: list[Raw], chosen: tuple[str, str], group: tuple[int, int], size: float, data: Any
) -> None:
    before = by_name(machine(*levels), *chosen, group, size)
    where = data.draw(st.integers(0, len(levels) - 1))
    level = levels[where]
    slower = data.draw(
        st.sampled_from(
            [
                {"bandwidth": level["bandwidth"] / 2},
                {"latency": level["latency"] * 2},
                {"hop": level["hop"] + 1e-7},
            ]
        )
    )
    after = by_name(
        machine(*levels[:where], {**level, **slower}, *levels[where + 1 :]), *chosen, group, size
    )
    assert after >= before * (1 - 1e-12)


@settings(max_examples=300)
@given(fabrics(plain=True), operations, groups, logarithmic(1, 1e9), st.data())
def test_a_larger_domain_never_slows_a_collective(
    levels: list[Raw], chosen: tuple[str, str], group: tuple[int, int], size: float, data: Any
) -> None:
    """Equal traffic of the same group; the domain that grows holds the former one."""
    # Pairs waste a round on a number of ranks that is no power of two, and less so in small parts.
    assume(chosen[1] not in ("recursive", "swing") or group[0] & (group[0] - 1) == 0)
    innermost, *outer = levels
    most = outer[0]["size"] if outer else WIDE
    sizes = [d for d in range(1, most + 1) if most % d == 0]
    small = data.draw(st.sampled_from(sizes[:-1]))
    large = data.draw(st.sampled_from([d for d in sizes if d % small == 0]))
    built = {**innermost, "size": large, "sizes": sorted({small, large})}
    if not outer:
        outer = [{**innermost, "name": "all", "size": 2 * most}]
    problem = machine(built, *outer)
    near, far = (by_name(problem, *chosen, group, size, domain=d) for d in (large, small))
    assert near <= far * (1 + 1e-12)


@settings(max_examples=200)
@given(
    st.sampled_from([2, 4, 6, 8, 12, 16]), st.integers(1, 16), st.integers(1, 12), st.integers(1, 4)
)
def test_joined_are_the_largest_parts_that_all_domains_hold(
    size: int, n: int, stride: int, copies: int
) -> None:
    cards = n * stride * copies
    assume(cards <= 96)
    plans = PlanTable.from_columns({"tp": [cards]})
    found = int(joined(plans, np.array([n]), np.array([stride]), size)[0])
    hardware = machine({**NVLINK, "size": 96}).hardware
    start = placement(hardware, cards, 96)[0]
    domains_of = [
        [(start + block * n * stride + offset + rank * stride) // size for rank in range(n)]
        for block in range(copies)
        for offset in range(stride)
    ]
    if cards <= size:
        assert found == n
        return

    def whole(part: int) -> bool:
        return all(
            len({*ranks[first : first + part]}) == 1
            for ranks in domains_of
            for first in range(0, n, part)
        )

    assert n % found == 0
    assert whole(found)
