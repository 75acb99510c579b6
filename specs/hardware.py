"""What a user may say of a machine of equal cards, and of what was measured on it."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, Name, Spec
from specs.fabric import Level, nested
from specs.facility import Facility, FailureDomain, Server
from specs.formats import Dtype
from specs.memory import Memory
from specs.units import Bytes, FlopPerSecond, MoneyPerSecond, Seconds


class Card(Spec):
    """One accelerator."""

    name: str = ""
    """Name of the accelerator."""
    peak: Annotated[dict[Dtype, FlopPerSecond], Field(min_length=1)]
    """Dense matrix rate of each number format."""
    price: MoneyPerSecond | None = None
    """Price of one card for a time, e.g. ``2.5 USD/h``."""


class MeasuredCollective(Spec):
    """One measured collective, which stands in for the formula at this size and placement."""

    operation: Literal["allreduce", "reduce_scatter", "all_gather", "all_to_all"]
    """The collective."""
    ranks: Count
    """Ranks that took part."""
    span: Count
    """Servers over which the ranks are spread."""
    bytes: Bytes
    """Bytes as the formulas count them: the input of one rank (AllReduce), the whole vector
    (ReduceScatter, AllGather), or what one rank sends to others (All-to-All), without the part
    that it keeps."""
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
    """The memories that each card reaches."""
    server: Server
    """The server that holds the cards."""
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    """Fabric from the inside out; the last level joins all cards that may work together."""
    collectives: tuple[MeasuredCollective, ...] = ()
    """Measured collectives, used in place of the formulas where they apply."""

    facility: Facility = Facility()
    """How servers are installed, and what stands beside them."""
    failure_domains: Annotated[tuple[FailureDomain, ...], Field(max_length=16)] = ()
    """What fails together beside single cards and whole servers."""

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        wrong = nested(self.levels)
        if wrong:
            raise ValueError(wrong)
        if self.cards % self.server.cards:
            raise ValueError(
                f"cards must be a whole number of servers of {self.server.cards}, got {self.cards}"
            )
        for tier, memory in self.memory.tiers.items():
            if memory.cards > self.cards:
                raise ValueError(
                    f"memory.{tier}.cards must not exceed the {self.cards} cards of {self.name}, "
                    f"got {memory.cards}"
                )
        names = [domain.name for domain in self.failures]
        if len(set(names)) != len(names):
            raise ValueError(f"failure domains must have names that differ, got {names}")
        self._check_facility()
        return self

    def _check_facility(self) -> None:
        servers, rack = self.cards // self.server.cards, self.facility.rack
        if servers % self.facility.unit:
            raise ValueError(
                f"facility.unit must divide the {servers} servers, got {self.facility.unit}"
            )
        if (rack.power or rack.air) and self.server.power is None:
            raise ValueError("facility.rack: power and air need server.power, e.g. 10.2 kW")
        if rack.power and self.server.power and rack.power < self.server.power:
            raise ValueError(
                f"facility.rack.power must carry a server of {self.server.power:g} W, "
                f"got {rack.power:g}"
            )

    @property
    def failures(self) -> tuple[FailureDomain, ...]:
        """All that may fail: a card, a server, and what the machine states beside them."""
        own = (
            FailureDomain(name="card", cards=1),
            FailureDomain(name="server", cards=self.server.cards),
        )
        return (*own, *self.failure_domains)
