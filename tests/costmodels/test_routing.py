"""Skewed and observed routing, and where experts are placed: laws, and brute force."""

from itertools import pairwise, product
from math import ceil

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from costmodels.operators.expert_placement import Counts, balanced, contiguous
from costmodels.operators.routing import (
    Routed,
    observed,
    skewed,
    uniform_without_replacement,
)
from costmodels.plans import IntArray
from specs.ffn import MoeFfn
from specs.routing import HistogramRouting, SkewRouting

NEARLY = 1 + 5e-3
"""A placement this near to the lightest is taken."""

COLUMNS = ("active", "busiest_active", "busiest_tasks")

counts_of_experts = st.lists(st.integers(0, 40), min_size=2, max_size=24).filter(any).map(tuple)
some_tokens = st.lists(st.integers(1, 10_000), min_size=1, max_size=5)
some_groups = st.sampled_from([1, 2, 3, 4, 8, 16])


def mixture(experts: int, top_k: int) -> MoeFfn:
    return MoeFfn(experts=experts, top_k=top_k, intermediate=64)


@st.composite
def histograms(draw: st.DrawFn) -> tuple[HistogramRouting, MoeFfn]:
    """Counts that tokens can have made, each choosing as many experts as the layer runs."""
    layers = [draw(counts_of_experts)]
    for _ in range(draw(st.integers(0, 2))):
        layers.append(tuple(draw(st.permutations(layers[0]))))
    top_k = draw(st.integers(1, min(len(layers[0]), sum(layers[0]) // max(layers[0]))))
    placement = draw(st.sampled_from(["contiguous", "balanced"]))
    ffn = mixture(len(layers[0]), top_k)
    histogram = HistogramRouting.model_validate({"counts": layers, "placement": placement})
    histogram.check(ffn, "drawn")
    return histogram, ffn


def route(
    histogram: HistogramRouting, ffn: MoeFfn, tokens: list[int], groups: int, copies: int = 0
) -> Routed:
    m = np.array(tokens, dtype=np.float64)
    return observed(histogram, ffn, m, np.full(m.shape, groups), np.full(m.shape, copies))


def even_copies(experts: int, groups: int, rounds: int = 0) -> int:
    """Copies that let experts be dealt evenly, ``rounds`` more on every card."""
    return -experts % groups + rounds * groups


# Placement


def lightest(counts: Counts, groups: int, copies: int) -> float:
    """The busiest card of the best placement, copies made of the most loaded, by trying all."""
    best = np.inf
    slots = ceil((len(counts) + copies) / groups)
    for made in range(copies % groups if copies else 0, copies + 1, groups):
        numbers = [1] * len(counts)
        for _ in range(made):
            ready = [e for e in range(len(counts)) if numbers[e] < groups]
            if ready:
                numbers[max(ready, key=lambda e: counts[e] / numbers[e])] += 1
        items = [counts[e] / n for e, n in enumerate(numbers) for _ in range(n)]
        for cards in product(range(groups), repeat=len(items)):
            if max(map(cards.count, range(groups))) <= slots:
                best = min(best, np.bincount(cards, weights=items).max())
    return best


@settings(max_examples=60)
@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(any).map(tuple),
    st.integers(2, 3),
    st.integers(0, 1),
)
def test_no_placement_is_lighter(counts: Counts, groups: int, rounds: int) -> None:
    copies = even_copies(len(counts), groups, rounds)
    assume(len(counts) + copies <= 8)
    placed, best = balanced(counts, groups, copies), lightest(counts, groups, copies)
    assert placed.busiest <= best * NEARLY
    if not copies:
        assert placed.busiest == pytest.approx(best, rel=1e-12)
        assert placed.bound <= best


@settings(max_examples=60)
@given(counts_of_experts, some_groups, st.integers(0, 2))
def test_a_placement_holds_every_expert_in_equal_slots(
    counts: Counts, groups: int, rounds: int
) -> None:
    copies = even_copies(len(counts), groups, rounds)
    placed = balanced(counts, groups, copies)
    held = [expert for card in placed.cards for expert in card]
    assert set(held) == set(range(len(counts)))
    assert len(placed.cards) == groups
    assert max(map(len, placed.cards)) <= (len(counts) + copies) // groups
    numbers = np.bincount(held)
    busiest = max(sum(counts[e] / numbers[e] for e in card) for card in placed.cards)
    assert placed.busiest == pytest.approx(busiest, rel=1e-5)
    assert sum(counts) / groups <= placed.busiest * (1 + 1e-12)
    assert placed.bound <= placed.busiest


@settings(max_examples=60)
@given(counts_of_experts, some_groups, st.integers(0, 2))
def test_balanced_is_no_heavier_than_contiguous(counts: Counts, groups: int, rounds: int) -> None:
    copies = even_copies(len(counts), groups, rounds)
    heaviest = contiguous(len(counts), groups, copies).loads(counts).max()
    assert balanced(counts, groups, copies).busiest <= heaviest * NEARLY


@settings(max_examples=40)
@given(counts_of_experts, some_groups)
def test_more_copies_never_make_the_busiest_heavier(counts: Counts, groups: int) -> None:
    busiest = [
        balanced(counts, groups, even_copies(len(counts), groups, rounds)).busiest
        for rounds in range(4)
    ]
    assert all(more <= fewer * NEARLY for fewer, more in pairwise(busiest))


@given(st.integers(1, 40), st.integers(1, 64), st.integers(0, 30))
def test_experts_in_order_are_dealt_whole_and_even(experts: int, groups: int, copies: int) -> None:
    pieces = contiguous(experts, groups, copies)
    held = np.bincount(pieces.group, weights=pieces.part, minlength=groups)
    assert held == pytest.approx(np.full(groups, (experts + copies) / groups))
    if (experts + copies) % groups == 0:
        assert (pieces.part == 1).all()
    assert pieces.part.sum() == pytest.approx(experts + copies)


# Routing


@settings(max_examples=60)
@given(histograms(), some_tokens, some_groups, st.integers(0, 1))
def test_the_busiest_group_does_at_least_the_mean(
    drawn: tuple[HistogramRouting, MoeFfn], tokens: list[int], groups: int, rounds: int
) -> None:
    histogram, ffn = drawn
    found = route(histogram, ffn, tokens, groups, even_copies(ffn.experts, groups, rounds))
    m = np.array(tokens)
    assert (found.busiest_tasks >= m * ffn.top_k / groups * (1 - 1e-12)).all()
    assert (found.busiest_tasks <= m * ffn.top_k * (1 + 1e-12)).all()
    assert (found.active <= np.minimum(ffn.experts, m * ffn.top_k) * (1 + 1e-12)).all()
    assert (found.busiest_active <= found.busiest_tasks * (1 + 1e-9)).all()
    assert (found.busiest_active * groups >= found.active * (1 - 1e-9)).all()


@given(histograms(), some_tokens, some_groups)
def test_one_row_is_as_the_same_row_among_others(
    drawn: tuple[HistogramRouting, MoeFfn], tokens: list[int], groups: int
) -> None:
    histogram, ffn = drawn
    m = np.array([*tokens, 7.0])
    number = np.array([groups] * len(tokens) + [1])
    together = observed(histogram, ffn, m, number, np.zeros_like(number))
    alone = route(histogram, ffn, tokens[:1], groups)
    for name in COLUMNS:
        assert getattr(together, name)[0] == pytest.approx(getattr(alone, name)[0], rel=1e-12)


@given(st.integers(1, 100), st.integers(1, 64), some_tokens, some_groups, st.data())
def test_equal_counts_are_uniform(
    count: int, experts: int, tokens: list[int], groups: int, data: st.DataObject
) -> None:
    ffn = mixture(experts, data.draw(st.integers(1, experts)))
    m, number = np.array(tokens, dtype=np.float64), np.full(len(tokens), groups)
    histogram = HistogramRouting(counts=((count,) * experts,))
    equal(observed(histogram, ffn, m, number, 0 * number), ffn, m, number)


@given(st.integers(1, 64), some_tokens, some_groups, st.data())
def test_a_skew_of_one_is_uniform(
    experts: int, tokens: list[int], groups: int, data: st.DataObject
) -> None:
    ffn = mixture(experts, data.draw(st.integers(1, experts)))
    m, number = np.array(tokens, dtype=np.float64), np.full(len(tokens), groups)
    equal(skewed(SkewRouting(factor=1), ffn, m, number), ffn, m, number)


def equal(found: Routed, ffn: MoeFfn, tokens: np.ndarray, groups: IntArray) -> None:
    uniform = uniform_without_replacement(ffn, tokens, groups)
    for name in COLUMNS:
        assert getattr(found, name) == pytest.approx(getattr(uniform, name), rel=1e-9)


@given(st.integers(1, 64), some_tokens, some_groups, st.floats(1, 100), st.floats(1, 2), st.data())
def test_a_skew_stays_within_what_a_group_can_get(
    experts: int,
    tokens: list[int],
    groups: int,
    factor: float,
    more: float,
    data: st.DataObject,
) -> None:
    ffn = mixture(experts, data.draw(st.integers(1, experts)))
    m, number = np.array(tokens, dtype=np.float64), np.full(len(tokens), groups)
    found = skewed(SkewRouting(factor=factor), ffn, m, number).busiest_tasks
    mean = m * ffn.top_k / groups
    assert (found >= mean * (1 - 1e-12)).all()
    assert (found <= mean * factor * (1 + 1e-12)).all()
    assert (found <= m * min(ffn.top_k, ceil(experts / groups)) * (1 + 1e-12)).all()
    heavier = skewed(SkewRouting(factor=factor * more), ffn, m, number).busiest_tasks
    assert (heavier >= found).all()
