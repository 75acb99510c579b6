"""What a user may say of the memories that a card reaches."""

import math
from typing import Literal, Self, get_args

from pydantic import model_validator

from specs.base import Count, Name, Spec
from specs.units import Bytes, BytesPerSecond, PerSecond, Seconds

Tier = Literal["hbm", "sram", "rom", "host", "pool"]

TIERS: tuple[Tier, ...] = get_args(Tier)
"""Kinds of memory in the order in which an estimate prefers them for what compute reads."""

ON_CARD: tuple[Tier, ...] = ("hbm", "sram", "rom")
"""Memories that belong to one card; the others are shared by all cards that reach them."""


class MemoryTier(Spec):
    """One kind of memory that a card reaches, by itself or together with others."""

    capacity: Bytes
    """Bytes of the memory."""
    reported: Bytes | None = None
    """Bytes of one card's memory that its driver reports, of which a serving engine takes its
    share; one card's part of the capacity if not given, and without an engine not used."""
    bandwidth: BytesPerSecond
    """Peak read rate of the memory."""
    cards: Count = 1
    """Cards that share the memory, its capacity and its read rate, evenly."""
    path: BytesPerSecond | None = None
    """Most that one card reads over its way there, per direction; the read rate if not given."""
    latency: Seconds | None = None
    """Time from the start of one read until its data are there."""
    in_flight: Count | None = None
    """Reads that one card keeps under way at once; no bound if not given."""
    transaction: Bytes | None = None
    """Bytes of each of those reads."""
    random_reads: PerSecond | None = None
    """Reads of scattered rows that one card completes each second; no bound if not given."""
    port: Name | None = None
    """Where reads enter the card: reads on one port add their times, reads on different ports
    overlap. A port of its own if not given."""
    writable: bool = True
    """Whether a running service may write it, as keys and values need."""
    source: str = ""
    """Where the figures come from."""

    @model_validator(mode="after")
    def _window(self) -> Self:
        if self.in_flight is not None and (self.latency is None or self.transaction is None):
            raise ValueError("in_flight needs the latency and the transaction of a read")
        return self

    @property
    def share(self) -> float:
        """Bytes that one card may use."""
        return self.capacity / self.cards

    @property
    def bounds(self) -> dict[str, float]:
        """Bytes per second of one card's share of the memory, of its path, and of its window."""
        found = {"own": self.bandwidth / self.cards}
        if self.path is not None:
            found["path"] = self.path
        if self.in_flight and self.latency and self.transaction:
            found["window"] = self.in_flight * self.transaction / self.latency
        return found

    @property
    def rate(self) -> float:
        """Bytes per second that one card reads: min(B_path, u·q / L) of (6-12), and its share."""
        return min(self.bounds.values())

    @property
    def reads_in_flight_needed(self) -> int | None:
        """Reads under way that are enough to keep the path busy; ``None`` if not stated."""
        if not (self.latency and self.transaction):
            return None
        fastest = min(rate for name, rate in self.bounds.items() if name != "window")
        return math.ceil(fastest * self.latency / self.transaction)


class Memory(Spec):
    """The memories of a machine; at least one of them can be written."""

    hbm: MemoryTier | None = None
    """Memory on the package, or soldered beside the chip."""
    sram: MemoryTier | None = None
    """Memory on the chip."""
    rom: MemoryTier | None = None
    """Memory that is written when the chip is made."""
    host: MemoryTier | None = None
    """Memory of the host."""
    pool: MemoryTier | None = None
    """Memory of other machines, over a network."""

    @model_validator(mode="after")
    def _can_work(self) -> Self:
        if not any(tier.writable for tier in self.tiers.values()):
            raise ValueError("needs a memory that can be written, e.g. hbm")
        if self.pool is not None and "cards" not in self.pool.model_fields_set:
            raise ValueError("pool needs cards, the number of cards that share it")
        return self

    @property
    def tiers(self) -> dict[Tier, MemoryTier]:
        """The memories that are there."""
        found = {tier: getattr(self, tier) for tier in TIERS}
        return {tier: memory for tier, memory in found.items() if memory is not None}

    @property
    def working(self) -> Tier:
        """Where activations live: the first memory that can be written."""
        return next(tier for tier, memory in self.tiers.items() if memory.writable)

    @property
    def weights(self) -> Tier:
        """Where weights lie unless a plan says otherwise: in ROM where the machine has one."""
        return "rom" if self.rom is not None else self.working
