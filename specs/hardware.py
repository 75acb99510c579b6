"""What a user may say of a machine: cards, memory, servers, links and measured collectives."""

import math
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, Name, Spec
from specs.formats import Dtype
from specs.units import (
    Bytes,
    BytesPerSecond,
    FlopPerSecond,
    MoneyPerSecond,
    Seconds,
    SecondsOrZero,
    Watts,
)


class Card(Spec):
    """One accelerator."""

    name: str = ""
    """Name of the accelerator."""
    peak: Annotated[dict[Dtype, FlopPerSecond], Field(min_length=1)]
    """Dense matrix rate of each number format."""
    price: MoneyPerSecond | None = None
    """Price of one card for a time, e.g. ``2.5 USD/h``."""


class MemoryTier(Spec):
    """One kind of memory beside each card."""

    capacity: Bytes
    """Bytes that one card may use."""
    bandwidth: BytesPerSecond
    """Peak read rate of one card."""


class Memory(Spec):
    """The memory of one card."""

    hbm: MemoryTier
    """The memory that compute reads directly."""


class Server(Spec):
    """The unit of installation and of power supply."""

    cards: Count
    """Cards in one server."""
    power: Watts | None = None
    """Most power that one server draws, cards and everything else."""


class Level(Spec):
    """One level of the fabric: ``size`` cards reach each other at this bandwidth and latency."""

    name: Name
    """Name of the fabric level."""
    size: Count
    """Cards in one domain of this level."""
    bandwidth: BytesPerSecond | None = None
    """Bytes per second that one card sends, per direction. A plan whose cards must exchange over
    a level that states none is refused."""
    latency: SecondsOrZero | None = None
    """Start-up time of one message, i.e. α of one round; needed like the bandwidth."""
    source: str = ""
    """Where the latency was measured: published values differ by path."""

    @property
    def alpha(self) -> float:
        """Start-up time of one message; NaN where none is stated."""
        return math.nan if self.latency is None else self.latency

    @property
    def beta(self) -> float:
        """Bytes per second of one card; NaN where none is stated."""
        return math.nan if self.bandwidth is None else self.bandwidth


class MeasuredCollective(Spec):
    """One measured collective, which stands in for the formula at this size and placement."""

    operation: Literal["allreduce", "reduce_scatter", "all_gather", "all_to_all"]
    """The collective."""
    ranks: Count
    """Ranks that took part."""
    span: Count
    """Servers over which the ranks are spread."""
    bytes: Bytes
    """Bytes of the input of one rank."""
    seconds: Seconds
    """Time it took."""
    source: str = ""
    """Where it was measured."""


class HardwareSpec(Spec):
    """A machine of equal cards: what is there to deploy on."""

    name: Name
    """Name of the machine."""
    title: str = ""
    """One line for people."""
    sources: tuple[str, ...] = ()
    """Where the figures come from."""
    cards: Annotated[Count, Field(le=100_000)]
    """Cards in the whole machine."""
    card: Card
    """The accelerator."""
    memory: Memory
    """Memory beside each card."""
    server: Server
    """The server that holds the cards."""
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    """Fabric from the inside out; the last level joins all cards that may work together."""
    collectives: tuple[MeasuredCollective, ...] = ()
    """Measured collectives, used in place of the formulas where they apply."""

    @model_validator(mode="after")
    def _nested(self) -> Self:
        names = [level.name for level in self.levels]
        if len(set(names)) != len(names):
            raise ValueError(f"level names must differ, got {names}")
        sizes = [level.size for level in self.levels]
        if any(outer <= inner or outer % inner for inner, outer in pairwise(sizes)):
            raise ValueError(
                f"each level must hold a whole number (2 or more) of the level inside, "
                f"got sizes {sizes}"
            )
        if self.cards % self.server.cards:
            raise ValueError(
                f"cards must be a whole number of servers of {self.server.cards}, got {self.cards}"
            )
        return self
