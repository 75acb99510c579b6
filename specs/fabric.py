"""What a user may say of how cards are joined: levels, their topology, and connection state."""

import math
from itertools import pairwise
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from specs.base import Count, Name, Spec
from specs.units import Bytes, BytesPerSecond, Seconds, SecondsOrZero

Ratio = Annotated[float, Field(ge=1, le=1000)]
Dims = Annotated[tuple[Annotated[int, Field(ge=2, le=100_000)], ...], Field(max_length=3)]


class Switch(Spec):
    """Cards joined by switch chips: any two are equally far apart."""

    kind: Literal["switch"] = "switch"
    """Switch chips between the cards."""
    radix: Annotated[Count, Field(ge=4)] | None = None
    """Ports of one switch chip; as many as needed if not given."""
    planes: Count = 1
    """Equal switch networks beside each other, on each of which a card has one port."""
    oversubscription: Ratio = 1.0
    """Bandwidth of the ports down to the cards over that of the ports up, where one chip cannot
    join all cards: the cards below a chip have together that much less between chips. Needs
    ``radix``."""
    reduces: bool = False
    """Whether the switches add up what the cards send (in-network reduction)."""

    @model_validator(mode="after")
    def _has_uplinks(self) -> Self:
        if self.oversubscription > 1 and self.radix is None:
            raise ValueError(
                "oversubscription needs the radix of a chip: one chip that joins all cards has no "
                "ports up"
            )
        return self


class Torus(Spec):
    """Cards in a grid of one to three dimensions, each joined to its neighbours, ends joined."""

    kind: Literal["torus"] = "torus"
    """Neighbours of a grid, both ends of every line joined."""
    dims: Annotated[Dims, Field(min_length=1)]
    """Cards along each dimension, in the order in which cards are numbered, innermost first."""
    rewiring: Seconds | None = None
    """Time in which optical switches give all links of a card to one group (6.5.4)."""


class Ring(Spec):
    """Cards in one ring, each joined to two neighbours."""

    kind: Literal["ring"] = "ring"
    """Two neighbours in a ring."""


class Mesh(Spec):
    """Cards in a grid of one to three dimensions, each joined to its neighbours, ends open."""

    kind: Literal["mesh"] = "mesh"
    """Neighbours of a grid, the ends of every line open."""
    dims: Annotated[Dims, Field(min_length=1)]
    """Cards along each dimension, in the order in which cards are numbered, innermost first."""


class FullMesh(Spec):
    """Each card joined to every other one by a link of its own."""

    kind: Literal["full_mesh"] = "full_mesh"
    """A link between any two cards."""


Topology = Annotated[Switch | Torus | Ring | Mesh | FullMesh, Field(discriminator="kind")]


class Staging(Spec):
    """Transfers that pass through the memory of hosts with several processors (6.5.1)."""

    nodes: Annotated[int, Field(ge=2, le=64)] = 2
    """Processors (NUMA nodes) of a host, each with an equal share of its cards."""
    bandwidth: BytesPerSecond
    """Bytes per second between two of them, per direction."""
    buffers: Literal["sender", "one_node"] = "sender"
    """Whether a transfer is buffered beside the card that sends, or all beside one processor."""
    order: Literal["adjacent", "alternating"] = "adjacent"
    """Whether cards of one processor are neighbours in a ring, or the ring changes sides at each
    step."""


class Connections(Spec):
    """State that a network adapter keeps for what it is connected to (6.5.5)."""

    kind: Literal["pairwise", "channel", "directory"]
    """A connection for every pair of endpoints; a record for every endpoint and a channel for
    every host; or a directory of cache lines with a bit for every host."""
    endpoints: Count
    """Endpoints of the applications on one host."""
    cache: Bytes
    """Bytes of state that the adapter holds on its chip."""
    miss: SecondsOrZero | None = None
    """Time that a message waits for state that is not on the chip; it does not wait if not
    given."""
    pair_bytes: Bytes = 512.0
    """State of one connection between two endpoints (``pairwise``)."""
    queue_bytes: Bytes = 32.0
    """State of one endpoint beside its connections (``pairwise``)."""
    endpoint_bytes: Bytes = 52.0
    """State of one endpoint (``channel``)."""
    channel_bytes: Bytes = 56.0
    """State of the channel to one host (``channel``)."""
    lines: Count = 2**20
    """Cache lines that are tracked (``directory``)."""
    tag_bytes: Bytes = 8.0
    """State of one line beside its bits (``directory``)."""
    call: SecondsOrZero = 5e-6
    """Time of one call of the operating system."""
    calls: Count = 4
    """Calls that one connection between two endpoints takes (``pairwise``)."""
    round_trip: SecondsOrZero = 500e-6
    """Time to exchange names with the other side."""
    cores: Count = 32
    """Connections that are set up at once."""


class Level(Spec):
    """One level of the fabric: ``size`` cards reach each other at this bandwidth and latency."""

    name: Name
    """Name of the fabric level."""
    size: Count
    """Cards in one domain of this level; the largest of ``sizes`` where those are given."""
    sizes: Annotated[tuple[Count, ...], Field(max_length=64)] = ()
    """Sizes that a domain of the innermost level may be built with: values of the axis
    ``domain``. Only ``size`` if not given."""
    bandwidth: BytesPerSecond | None = None
    """Bytes per second that one card sends over one of its ``links``, per direction. A plan whose
    cards must exchange over a level that states none is refused."""
    links: Count = 1
    """Equal links, or network adapters, of one card, over which it spreads what it sends."""
    latency: SecondsOrZero | None = None
    """Start-up time of one message to the nearest card, i.e. α of one round; needed like the
    bandwidth."""
    hop: SecondsOrZero = 0.0
    """Time that every further chip on the way adds."""
    topology: Topology = Switch()
    """How the cards of a domain are joined."""
    staging: Staging | None = None
    """Processors that transfers pass on their way through host memory; none if not given."""
    connections: Connections | None = None
    """State of connections. Messages wait for what the chip does not hold, and setting connections
    up adds to the restart after a failure; neither if not given."""
    source: str = ""
    """Where the latency was measured: published values differ by path."""

    @model_validator(mode="before")
    @classmethod
    def _largest(cls, raw: Any) -> Any:
        """Take the largest of ``sizes`` for the size."""
        if isinstance(raw, dict) and raw.get("sizes") and "size" not in raw:
            sizes = [size for size in raw["sizes"] if isinstance(size, int)]
            return {**raw, "size": max(sizes, default=None)}
        return raw

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        if self.sizes and (
            list(self.sizes) != sorted(set(self.sizes)) or self.size != self.sizes[-1]
        ):
            raise ValueError(f"sizes must rise and end with size {self.size}, got {self.sizes}")
        if self.sizes and not isinstance(self.topology, Switch):
            raise ValueError(
                f"only a switch may be built in several sizes, got a {self.topology.kind}"
            )
        if isinstance(self.topology, Torus | Mesh) and math.prod(self.topology.dims) != self.size:
            raise ValueError(
                f"topology.dims must multiply to size {self.size}, got {self.topology.dims}"
            )
        return self

    @property
    def alpha(self) -> float:
        """Start-up time of one message to the nearest card; NaN where none is stated."""
        return math.nan if self.latency is None else self.latency

    @property
    def beta(self) -> float:
        """Bytes per second of one card over all its links; NaN where none is stated."""
        return math.nan if self.bandwidth is None else self.bandwidth * self.links


def nested(levels: tuple[Level, ...]) -> str | None:
    """Say what is wrong with the order of levels; ``None`` if each holds the ones inside."""
    names = [level.name for level in levels]
    if len(set(names)) != len(names):
        return f"level names must differ, got {names}"
    if any(level.sizes for level in levels[1:]):
        return "only the innermost level may list several sizes"
    for inside, outer in pairwise(levels):
        sizes = inside.sizes or (inside.size,)
        # A domain built as large as the level around it leaves that level nothing to do.
        if sizes[0] >= outer.size or any(outer.size % size for size in sizes):
            return (
                "each level must hold a whole number (2 or more) of the level inside, "
                f"got sizes {[level.size for level in levels]}"
            )
    return None
