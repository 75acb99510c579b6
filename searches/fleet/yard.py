"""Where instances of a pool may stand: servers, and the domains that hold whole servers or lie in
them.

An instance lies in one block of the smallest kind that can hold it, and starts where the next
smaller kind of block starts; so does every plan of ``costmodels.collectives.domains``, which knows
no servers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from costmodels import facility
from specs.fleet import Pool, machine_of
from specs.hardware import HardwareSpec
from specs.problem import Problem

MOST_PATTERNS = 3000
"""Fillings of a server that one model takes, where they are all that there are."""

FEW_PATTERNS = 400
"""Fillings that it takes where there are more; servers then mix fewer kinds of instances."""

Pattern = tuple[int, ...]
"""Instances of each kind that stand in one server."""


@dataclass(frozen=True)
class Yard:
    """A pool of ``cards`` cards; ``blocks`` are the sizes of nested blocks, smallest first."""

    hardware: HardwareSpec
    cards: int
    blocks: tuple[int, ...]

    @classmethod
    def of(cls, problem: Problem, pool: Pool) -> "Yard":
        """Return the yard of a pool."""
        hardware = machine_of(problem, pool)
        innermost, *outer = hardware.levels
        domain = problem.space.domain
        inner = domain[0] if isinstance(domain, tuple) else innermost.size
        sizes = {inner, *(level.size for level in outer), hardware.server.cards}
        return cls(hardware, pool_cards(hardware, pool), tuple(sorted(sizes)))

    @property
    def server(self) -> int:
        """Cards of a server."""
        return self.hardware.server.cards

    @property
    def servers(self) -> int:
        """Servers in the pool."""
        return self.cards // self.server

    @cached_property
    def above(self) -> tuple[int, ...]:
        """Blocks that hold several servers."""
        return tuple(block for block in self.blocks if block > self.server)

    def block(self, cards: int) -> int:
        """Cards of the block that holds an instance of ``cards`` cards; the largest for wider."""
        return next((block for block in self.blocks if block >= cards), self.blocks[-1])

    def slot(self, cards: int) -> int:
        """Cards that an instance keeps others from using."""
        inner = max((block for block in self.blocks if block < cards), default=1)
        return -(-cards // inner) * inner

    def held(self, room: int, cards: int) -> int:
        """Instances of ``cards`` cards that ``room`` cards hold, which start where a block does."""
        block, slot = self.block(cards), self.slot(cards)
        if slot > block:  # wider than all blocks
            return room // slot
        return room // block * (block // slot) + room % block // slot

    def packs(self, cards: Sequence[int]) -> bool:
        """Whether a server holds instances of these cards together."""
        inside = tuple(block for block in self.blocks if block <= self.server)
        return _packs(tuple(sorted(cards, reverse=True)), inside)

    def patterns(self, kinds: Sequence[int], maximal: bool) -> tuple[list[Pattern], int]:
        """Return the fillings of a server by kinds of instances, given by their cards.

        With ``maximal``, only those that leave no room for any further instance. Returns also how
        many different kinds a server mixes at most: all, or as many as keep the number bounded.
        """
        for mixed in range(len(kinds), 0, -1):
            most = MOST_PATTERNS if mixed == len(kinds) else FEW_PATTERNS
            found = list(islice(self._fillings(kinds, mixed), most + 1))
            if len(found) <= most or mixed == 1:
                return (_maximal(found) if maximal else found), mixed
        return [], 0

    def _fillings(self, kinds: Sequence[int], mixed: int) -> Iterator[Pattern]:
        def more(pattern: Pattern, first: int) -> Iterator[Pattern]:
            for kind in range(first, len(kinds)):
                grown = (*pattern[:kind], pattern[kind] + 1, *pattern[kind + 1 :])
                if sum(1 for n in grown if n) > mixed:
                    continue
                if self.packs([c for c, n in zip(kinds, grown, strict=True) for _ in range(n)]):
                    yield grown
                    yield from more(grown, kind)

        return more((0,) * len(kinds), 0)


def _maximal(found: list[Pattern]) -> list[Pattern]:
    """Leave out each filling that another one exceeds by an instance."""
    every = set(found)
    kinds = range(len(found[0]) if found else 0)
    return [p for p in found if not any((*p[:k], p[k] + 1, *p[k + 1 :]) in every for k in kinds)]


def _packs(cards: tuple[int, ...], blocks: tuple[int, ...]) -> bool:
    """Whether the last of the blocks holds instances of these cards, given largest first."""
    *inside, room = blocks
    if not inside:
        return sum(cards) <= room
    inner = inside[-1]
    wide = sum(-(-c // inner) for c in cards if c > inner)
    free = room // inner - wide
    small = tuple(c for c in cards if c <= inner)
    return free >= 0 and (not small or _deal(small, [()] * free, tuple(inside)))


def _deal(cards: tuple[int, ...], bins: list[tuple[int, ...]], blocks: tuple[int, ...]) -> bool:
    """Whether each instance finds a bin, a block like the last of ``blocks``."""
    if not cards:
        return True
    first, rest = cards[0], cards[1:]
    for held in dict.fromkeys(bins):  # equal bins need one try
        grown = (*held, first)
        if _packs(grown, blocks):
            left = list(bins)
            left[left.index(held)] = grown
            if _deal(rest, left, blocks):
                return True
    return False


def pool_cards(hardware: HardwareSpec, pool: Pool) -> int:
    """Cards in a pool; those of the machine where it states no size."""
    if pool.racks is not None:
        per_rack = facility.servers_per_rack(hardware)
        assert per_rack is not None, "the spec has been checked"
        return pool.racks * per_rack * hardware.server.cards
    if pool.servers is not None:
        return pool.servers * hardware.server.cards
    return pool.cards or hardware.cards
