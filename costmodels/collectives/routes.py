"""The levels that a group of ranks crosses, and start-up time and bandwidth on each.

A group larger than a domain meets in parts: cards of one domain on its level, one rank of every
part on the level around it, and so on. Each of these meetings is a *leg*. All arrays have shape
``(plans,)``; a level that no plan crosses has no leg, so it may state no figures.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from costmodels.collectives import connections, staging, topology
from costmodels.collectives.domains import Cards, domain_sizes, joined
from costmodels.collectives.switches import uplink_share
from costmodels.plans import BoolArray, FloatArray, IntArray, PlanTable
from specs.assumptions import STATED, ByPath
from specs.fabric import Level, Staging, Switch
from specs.hardware import HardwareSpec

Links = tuple[FloatArray, FloatArray]
"""Start-up seconds α of a message, and bytes per second β of one card per direction."""


@dataclass(frozen=True)
class Leg:
    """What a group does on one level.

    ``domain``   cards of one domain of the level
    ``ranks``    ranks of the group that one domain joins
    ``inner``    those of them that a domain further inside joins already
    ``stride``   distance between neighbouring ranks
    ``cards``    cards that work together, for the state of connections between their servers
    ``server``   cards of one server
    ``efficiency``  share of the bandwidth that is reached
    ``start_up``  start-up times over those that the machine states
    """

    level: Level
    domain: Cards
    ranks: IntArray
    inner: IntArray
    stride: IntArray
    cards: IntArray
    server: int
    efficiency: float
    start_up: float = 1.0

    @property
    def parts(self) -> IntArray:
        """Ranks that meet on this level, one of each part that is joined further inside."""
        return self.ranks // self.inner

    @property
    def apart(self) -> IntArray:
        """Distance between the ranks that meet."""
        return self.stride * self.inner

    @property
    def crossed(self) -> BoolArray:
        """Whether the group of each plan has something to exchange on this level."""
        return self.ranks > self.inner

    def ring(self) -> Links:
        """Links of a ring over all ranks, each of which sends to the next one."""
        rate = self._ring_rate(self.ranks, self.stride, rings=self.stride)
        return self._start_up(2, self.stride), rate

    def ring_of_parts(self) -> Links:
        """Links of a ring over the ranks that meet, while all other such rings do the same."""
        rate = self._ring_rate(self.parts, self.apart, rings=self.apart)
        return self._start_up(2, self.apart), rate

    def pairs(self) -> Links:
        """Links of two ranks that exchange with each other, as far apart as any.

        All cards count as sending up from their switch chip, though in a tree only some do.
        """
        return self._start_up(self.ranks, self.stride), self._ring_rate(2, self.stride)

    def everybody(self) -> Links:
        """Links of ranks that each exchange with all others.

        All that a card sends counts as sent up from its switch chip, what stays below it too.
        """
        beta = self._rate(
            lambda: topology.alltoall_share(self.level, self.ranks, self.stride),
            staging.alltoall_bandwidth,
        )
        return self._start_up(self.ranks, self.stride), beta

    def neighbours(self) -> Links:
        """Links of two cards that stand beside each other, one link of each."""
        dimensions = max(len(topology.grid(self.level)[0]), 1)
        beta = self.level.beta * self.efficiency / (topology.LINKS_OF_LINE * dimensions)
        return self._start_up(1, self.stride), np.asarray(beta)

    def _start_up(self, ranks: Cards, stride: IntArray) -> FloatArray:
        """α between the farthest two of some ranks; a network of switches is that of the group."""
        level = self.level
        found: FloatArray = np.asarray(level.alpha)
        if level.hop:
            if isinstance(level.topology, Switch):
                ranks, stride = self.ranks, self.stride
            passed = topology.chips_passed(level, self.domain, ranks, stride)
            found = found + passed * level.hop
        if level.connections:
            hosts = -(-self.cards // self.server)
            found = found + connections.wait(level.connections, hosts)
        return found * self.start_up

    def _ring_rate(
        self, ranks: Cards, stride: IntArray, rings: IntArray | None = None
    ) -> FloatArray:
        return self._rate(
            lambda: topology.ring_share(self.level, ranks, stride), staging.ring_bandwidth, rings
        )

    def _rate(
        self,
        share: Callable[[], FloatArray],
        staged: Callable[[Staging, IntArray], FloatArray],
        rings: IntArray | None = None,
    ) -> FloatArray:
        """β, of which a switch gives less between its chips, and another network a ``share``.

        Only one card of each of ``rings`` interleaved rings sends up from a chip; without rings
        all cards do. Transfers through the memory of hosts are no faster than ``staged`` for the
        whole group.
        """
        level = self.level
        found: FloatArray = np.asarray(level.beta)
        if not isinstance(level.topology, Switch):
            found = found * share()
        elif level.topology.oversubscription > 1:
            group = self.domain, self.ranks, self.stride
            found = found * uplink_share(level.topology, *group, rings)
        if level.staging:
            found = np.minimum(found, staged(level.staging, self.ranks))
        return found * self.efficiency


def reached_on(
    hardware: HardwareSpec, level: Level, efficiency: ByPath, start_up: ByPath
) -> tuple[float, float]:
    """Share of the bandwidth of a level that is reached, and factor on its start-up times."""
    if level is hardware.levels[0]:
        return efficiency.inside, start_up.inside
    return efficiency.across, start_up.across


@dataclass(frozen=True)
class Route:
    """Groups of ranks, one for each plan, and the levels that they cross."""

    hardware: HardwareSpec
    plans: PlanTable
    ranks: IntArray
    stride: IntArray
    efficiency: ByPath = STATED
    alltoall_levels: Literal["added", "overlapped", "outermost"] = "added"
    start_up: ByPath = STATED

    @cached_property
    def legs(self) -> list[Leg]:
        """What the groups do on each level that any of them crosses, inside first."""
        return self._legs([])

    @cached_property
    def cuts(self) -> list[Leg]:
        """The legs, and before them those inside innermost domains as if built smaller.

        What runs on small domains also runs on a large one that holds them.
        """
        found, domain = list[IntArray](), domain_sizes(self.hardware, self.plans)[0]
        inner = np.ones_like(self.ranks)
        for size in self.hardware.levels[0].sizes[:-1]:
            parts = joined(self.plans, self.ranks, self.stride, size)
            # Sizes that the parts further inside or the domain do not fit cut nothing.
            fits = (parts % inner == 0) & (domain % size == 0)
            inner = np.where(fits, parts, inner)
            found.append(inner)
        return self._legs(found) if found else self.legs

    def _legs(self, parts: list[IntArray]) -> list[Leg]:
        """Legs of all levels, after those that meet in some ``parts`` of innermost domains."""
        levels, sizes = self.hardware.levels, domain_sizes(self.hardware, self.plans)
        steps = [(levels[0], sizes[0], part) for part in parts]
        for level, size in zip(levels[:-1], sizes[:-1], strict=True):
            steps.append((level, size, joined(self.plans, self.ranks, self.stride, size)))
        # The outermost level joins whatever no other one does.
        steps.append((levels[-1], sizes[-1], self.ranks))
        cards, server = self.plans.cards, self.hardware.server.cards
        found, inner = list[Leg](), np.ones_like(self.ranks)
        for level, size, ranks in steps:
            if (ranks > inner).any():
                reached = reached_on(self.hardware, level, self.efficiency, self.start_up)
                found.append(Leg(level, size, ranks, inner, self.stride, cards, server, *reached))
            inner = ranks
        return found
