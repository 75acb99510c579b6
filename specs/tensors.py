"""What a layer consists of, in words that memory, operators and constraints share.

Kinds of attention and of feed-forward network (``specs.attention``, ``specs.ffn``) describe
themselves with these; nothing above asks which kind it has before it.
"""

from dataclasses import dataclass
from typing import Literal

Over = Literal["heads", "kv_heads", "own_heads", "width", "shared_width", "expert_width"]
"""What a cut deals out: query heads and widths over TP; KV heads over the ranks of a TP group that
hold different heads, or over all of them (``own_heads``) where no history is split; shared experts
over TP unless they are copied; experts over expert TP."""


@dataclass(frozen=True)
class Cut:
    """How a matrix is dealt to ranks: ``units`` equal parts of its rows or of its columns."""

    side: Literal["rows", "columns"]
    over: Over
    units: int


@dataclass(frozen=True)
class Matrix:
    """A matrix that multiplies every token; ``rows`` is its input dimension.

    ``tensor``   field of ``Formats`` that says how it is stored
    ``cut``      how TP deals it; ``None``: whole on every rank
    ``times``    equal matrices beside each other
    ``ratio``    tokens for which it is applied once, when the entry that they share is complete
    ``expands``  also applied to the tokens already held when a prefill follows a prefix
    ``keeps``    makes what is kept of the context, so that every token of a prompt passes it
    ``projects_output``  part of the output projection of attention, which batch shards may deal
    """

    tensor: str
    rows: int
    columns: int
    cut: Cut | None = None
    times: int = 1
    ratio: int = 1
    expands: bool = False
    projects_output: bool = False
    keeps: bool = False

    @property
    def numbers(self) -> int:
        """Numbers of the whole matrix, all copies."""
        return self.times * self.rows * self.columns

    @property
    def is_output(self) -> bool:
        """Whether its product is a partial sum on every rank, as its rows are dealt."""
        return self.cut is not None and self.cut.side == "rows"


@dataclass(frozen=True)
class Vectors:
    """Numbers that multiply or add elementwise, whole on every rank.

    ``tensor``  ``norms`` as that field of ``Formats``, or a format that they always have
    ``read``    whether every step reads them
    """

    numbers: int
    tensor: Literal["norms", "fp32", "int64"] = "norms"
    read: bool = True


@dataclass(frozen=True)
class Stream:
    """Entries kept of the context, one per ``ratio`` tokens, that later tokens attend to.

    ``tensor``       kv, window or index: format, and component of the breakdown
    ``width``        numbers of one vector, ``rope`` of them positional; ``vectors`` of them make
                     an entry of one head
    ``heads``        heads that keep entries of their own, dealt over ranks with different heads
    ``kept``         most entries that stay resident (a window); ``None``: all
    ``seen``         most entries that one token attends to (top-k); ``None``: all
    ``owned``        whether this layer keeps them; else it reads what another layer keeps
    ``query_heads``  heads that attend; ``flops`` each for one entry
    ``dealt``        whether TP deals the query heads; else every rank attends with all
    """

    tensor: Literal["kv", "window", "index"]
    width: int
    query_heads: int
    flops: int
    rope: int = 0
    vectors: int = 1
    heads: int = 1
    ratio: int = 1
    kept: int | None = None
    seen: int | None = None
    owned: bool = True
    dealt: bool = True

    @property
    def is_window(self) -> bool:
        """Whether only the last entries are kept: too few to split over ranks."""
        return self.kept is not None

    @property
    def most_seen(self) -> int | None:
        """Most entries that one token attends to, whatever the reason."""
        bounds = [bound for bound in (self.kept, self.seen) if bound is not None]
        return min(bounds, default=None)


@dataclass(frozen=True)
class State:
    """A state of fixed size that a session holds in a layer, whatever its context.

    ``tensor``   state or convolution
    ``numbers``  of one head; ``heads`` of them are dealt over TP
    ``flops``    of one head for every token
    ``passed``   whether every step reads and writes it whole
    """

    tensor: Literal["state", "convolution"]
    numbers: int
    heads: int
    flops: int = 0
    passed: bool = True


@dataclass(frozen=True)
class Parts:
    """All that a layer's attention or network consists of, experts excepted.

    ``query_width``, ``output_width``: numbers of one head's query and partial output, which the
    ranks that split a history exchange. ``attended_width``: numbers that all heads hand to the
    output projection.
    """

    matrices: tuple[Matrix, ...] = ()
    vectors: tuple[Vectors, ...] = ()
    streams: tuple[Stream, ...] = ()
    states: tuple[State, ...] = ()
    heads: int = 0
    query_width: int = 0
    output_width: int = 0
    attended_width: int = 0
