"""Which cards hold which experts, so that the card with the most work has as little as possible.

Notation: ``E`` experts, each chosen ``counts[e]`` times; ``R`` redundant copies; ``G`` expert
groups, called cards here. The ``E + R`` *slots* hold one expert each, and copies of an expert share
its choices evenly. The load of a card is the sum over its slots; the mean is ``sum(counts) / G``.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, lcm

import numpy as np

from costmodels.plans import FloatArray, IntArray

Counts = tuple[int, ...]

_FINEST = 720_720
"""Parts of one choice that loads are rounded up to; exact for up to 16 copies of an expert."""

_EFFORT = 0.01
"""Deterministic time that the solver may take each time, a few times as many seconds."""

_ROUNDS = 40
"""Times that the solver is asked for one layer."""

_TOGETHER = 4
"""Cards whose experts the solver exchanges at once."""

_CLOSE = 1 + 5e-3
"""A busiest card this near to a bound is left as it is: routing changes more from hour to hour."""


@dataclass(frozen=True)
class Dealt:
    """Slots of one layer cut into pieces, each in one group; all shapes ``(pieces,)``.

    ``expert``  expert of the slot
    ``group``   expert group that holds the piece
    ``part``    share of the slot in this piece; 1 where groups hold whole experts
    """

    expert: IntArray
    group: IntArray
    part: FloatArray

    @property
    def copies(self) -> FloatArray:
        """Slots of the expert of each piece."""
        slots = np.bincount(self.expert, weights=self.part)
        return np.asarray(np.round(slots)[self.expert], dtype=np.float64)

    def loads(self, chosen: Sequence[float] | FloatArray) -> FloatArray:
        """Sum over each group of what falls on its pieces; ``chosen`` is how much on each expert.

        Groups after the last that holds any expert are left out.
        """
        on_slot = np.asarray(chosen)[self.expert] / self.copies
        return np.asarray(np.bincount(self.group, weights=on_slot * self.part))


@dataclass(frozen=True)
class Placement:
    """The cards of one layer, and how good they are.

    ``cards``    experts that each card holds; one that stands twice has two copies
    ``busiest``  choices that fall on the busiest card
    ``bound``    no placement of these copies has a busiest card below this
    """

    cards: tuple[tuple[int, ...], ...]
    busiest: float
    bound: float

    @property
    def optimal(self) -> bool:
        """Whether it is proved that no placement of these copies is lighter."""
        return self.busiest <= self.bound * (1 + 1e-12)

    @property
    def dealt(self) -> Dealt:
        """The pieces, which are whole slots."""
        held = [len(card) for card in self.cards]
        expert = np.array([e for card in self.cards for e in card], dtype=np.int64)
        return Dealt(expert, np.repeat(np.arange(len(held)), held), np.ones(len(expert)))


def contiguous(experts: int, groups: int, copies: int) -> Dealt:
    """Deal ``experts`` in their order, then the first of them again as copies.

    Where the slots do not divide evenly, the border of two groups cuts an expert, and each gets its
    share.
    """
    slots = experts + copies
    # In units of 1/G slot, all borders are whole.
    borders = np.union1d(np.arange(slots + 1) * groups, np.arange(groups + 1) * slots)
    starts = borders[:-1]
    return Dealt(starts // groups % experts, starts // slots, np.diff(borders) / groups)


@lru_cache(maxsize=4096)
def balanced(counts: Counts, groups: int, copies: int) -> Placement:
    """Place experts such that the busiest of ``groups`` cards is lightest.

    Every card has ``ceil((E + R) / G)`` slots. Copies go one by one to the expert whose copies have
    the most to do. The best is taken of all of them, of fewer, and of experts in their order, so
    that more copies do no harm.
    """
    all_made = _copied(counts, groups, copies)
    least = max(sum(counts) / groups, float((np.array(counts) / all_made).max()))
    found: list[Placement] = []
    for placement in _candidates(counts, groups, copies, all_made):
        found.append(placement)
        if placement.busiest <= least * _CLOSE:
            break
    return min(found, key=lambda placement: placement.busiest)


def _candidates(
    counts: Counts, groups: int, copies: int, all_made: IntArray
) -> Iterator[Placement]:
    slots = ceil((len(counts) + copies) / groups)
    yield _placed(counts, all_made, groups, slots)
    enough = _copied(counts, groups, copies, sum(counts) / groups)
    if (enough != all_made).any():
        yield _placed(counts, enough, groups, slots)
    if copies and (len(counts) + copies) % groups == 0:
        yield _in_order(counts, groups, copies)
    if copies >= groups:
        yield balanced(counts, groups, copies - groups)


def _in_order(counts: Counts, groups: int, copies: int) -> Placement:
    pieces = contiguous(len(counts), groups, copies)
    cards = pieces.expert.reshape(groups, -1).tolist()
    highest = float((np.array(counts)[pieces.expert] / pieces.copies).max())
    return Placement(
        tuple(map(tuple, cards)),
        float(pieces.loads(counts).max()),
        max(sum(counts) / groups, highest),
    )


def _copied(counts: Counts, groups: int, copies: int, enough: float = 0.0) -> IntArray:
    """Slots of each expert, none with more than there are cards, until no slot has over ``enough``.

    An expert that nobody chose gets no copy.
    """
    chosen, numbers = np.array(counts, dtype=np.float64), np.ones(len(counts), dtype=np.int64)
    for _ in range(copies):
        waiting = np.where(numbers < groups, chosen / numbers, 0.0)
        if waiting.max() <= enough:
            break
        numbers[np.argmax(waiting)] += 1
    return numbers


def _placed(counts: Counts, numbers: IntArray, groups: int, slots: int) -> Placement:
    """Place the copies: longest first, then by CP-SAT on the busiest card and the lightest ones.

    With few cards that is the whole problem at once, and the solver's bound holds for it.
    """
    scale = min(lcm(*map(int, numbers)), _FINEST)
    loads = [
        -(-count * scale // int(number)) for count, number in zip(counts, numbers, strict=True)
    ]
    items = [e for e in np.argsort(loads)[::-1].tolist() for _ in range(numbers[e])]
    cards = _longest_first(loads, items, groups, slots)
    bound = _least([loads[e] for e in items], groups, slots)
    busiest = _busiest(cards, loads)
    for _ in range(_ROUNDS):
        if busiest <= bound * _CLOSE:
            break
        cards.sort(key=lambda card: -sum(loads[e] for e in card))
        some = [*cards[:1], *cards[1:][-(_TOGETHER - 1) :]]
        found, proved = _solved(some, loads, slots)
        if groups == len(some):
            bound = max(bound, proved)
        cards = [*found, *cards[1 : 1 + groups - len(some)]]
        if _busiest(found, loads) == busiest:
            break
        busiest = _busiest(cards, loads)
    return Placement(tuple(tuple(sorted(card)) for card in cards), busiest / scale, bound / scale)


def _least(loads: list[int], groups: int, slots: int) -> int:
    """A load that the busiest card cannot go below; ``loads`` of all slots, in falling order.

    It is no less than the mean, and of the ``jG + 1`` largest slots some card holds ``j + 1``.
    """
    mean = -(-sum(loads) // groups)
    rounds = range(ceil(len(loads) / groups))
    several = (sum(loads[(groups - 1) * j : groups * j + 1]) for j in rounds)
    beside = _least_beside(loads, groups, slots) if len(loads) == groups * slots > groups else 0
    return max(mean, beside, *several)


def _least_beside(loads: list[int], groups: int, slots: int) -> int:
    """The same from what stands beside a large slot, where every card is full.

    Take the ``i + 1`` largest slots and the ``i`` smallest. Either two of the largest share a card,
    or one of them is on a card without any of the smallest.
    """
    least = 0
    for i, load in enumerate(loads[:groups]):
        end = len(loads) - i
        bound = load + sum(loads[end - slots + 1 : end])
        if i:
            bound = min(bound, load + loads[i - 1] + sum(loads[len(loads) - slots + 2 :]))
        least = max(least, bound)
    return least


def _busiest(cards: Sequence[Sequence[int]], loads: Sequence[int]) -> int:
    return max(sum(loads[e] for e in card) for card in cards)


def _longest_first(
    loads: Sequence[int], items: Sequence[int], groups: int, slots: int
) -> list[list[int]]:
    """Give each item, in falling order of load, to the lightest card that has a slot left."""
    cards: list[list[int]] = [[] for _ in range(groups)]
    lightest = [(0, card) for card in range(groups)]
    for expert in items:
        load, card = heapq.heappop(lightest)
        cards[card].append(expert)
        if len(cards[card]) < slots:
            heapq.heappush(lightest, (load + loads[expert], card))
    return cards


def _solved(
    start: list[list[int]], loads: Sequence[int], slots: int
) -> tuple[list[list[int]], int]:
    """Exchange what some cards hold, by CP-SAT; return the cards and the bound that it proved.

    Experts of equal load are one kind, and the model chooses how many of a kind a card holds. It
    runs on one worker for a bounded deterministic time, so that the same counts give the same
    cards.
    """
    from ortools.sat.python import cp_model

    kinds: dict[int, list[int]] = {}
    for expert in sorted(e for card in start for e in card):
        kinds.setdefault(loads[expert], []).append(expert)
    model, most = cp_model.CpModel(), _busiest(start, loads)
    busiest = model.new_int_var(0, most, "busiest")
    model.add_hint(busiest, most)
    held: list[list[cp_model.IntVar]] = []
    for card in start:
        here = [model.new_int_var(0, min(len(kinds[load]), slots), "") for load in kinds]
        for number, load in zip(here, kinds, strict=True):
            model.add_hint(number, sum(loads[e] == load for e in card))
        model.add(sum(here) <= slots)
        model.add(sum(load * number for number, load in zip(here, kinds, strict=True)) <= busiest)
        held.append(here)
    for numbers, experts in zip(zip(*held, strict=True), kinds.values(), strict=True):
        model.add(sum(numbers) == len(experts))
    model.minimize(busiest)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.max_deterministic_time = _EFFORT
    solver.parameters.relative_gap_limit = _CLOSE - 1
    if solver.solve(model) not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return start, 0
    found: list[list[int]] = [[] for _ in start]
    for numbers, experts in zip(zip(*held, strict=True), kinds.values(), strict=True):
        _hand_out(experts, [solver.value(number) for number in numbers], found)
    return found, ceil(solver.best_objective_bound)


def _hand_out(experts: list[int], wanted: list[int], cards: list[list[int]]) -> None:
    """Give each card as many of ``experts`` as it wants, in rotation: copies part ways."""
    left = iter(experts)
    for turn in range(max(wanted)):
        for card, number in enumerate(wanted):
            if turn < number:
                cards[card].append(next(left))
