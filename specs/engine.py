"""What a serving engine takes of a card's memory, and what it does at start-up.

An engine asks the driver how large a card is, takes a share of that, and gives to the KV pool what
is left of the share after weights and what else it counts. The inputs below are those that the
start-up logs of engines name; their defaults, by version, are data in ``specs/catalog/engines``.
"""

from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from specs.base import Count, CountOrZero, Name, Spec
from specs.units import (
    Bytes,
    BytesOrZero,
    Fraction,
    SecondsOrZero,
    Tokens,
    TokensAtLeastOne,
)

Overhead = Literal["activations", "context", "buffers", "graphs"]
"""What an engine takes beside weights and KV."""


class BatchDefault(Spec):
    """How large a batch an engine prepares for on cards of a size, unless told."""

    least_memory: BytesOrZero = 0.0
    """Smallest reported memory of the cards that this holds for."""
    excepted: tuple[Name, ...] = ()
    """Words in the name of a card that this does not hold for."""
    max_batched_tokens: TokensAtLeastOne
    """Most tokens of one pass."""
    max_sequences: Count
    """Most sequences of one pass."""


class CompressedPages(Spec):
    """How an engine lays out the caches of compressed attention."""

    block: Count
    """Tokens, or entries, of a page of compressed entries and of their index keys."""
    counts: Literal["tokens", "entries"]
    """What ``block`` counts. Of entries, each compression ratio has pages of its own."""
    window_block: Count
    """Tokens of a page of a window."""
    state_page: Bytes
    """Bytes of a page of what compressors gather, which holds as many tokens as fit."""
    multiple: Count
    """Multiple of bytes to which pages are padded."""


class HyperPass(Spec):
    """What a start-up takes for models with hyper-connections (DeepSeek-V4), whose pass is wider.

    Streams are the residual streams of one token, all of them together.
    """

    stream_copies: Count
    """Copies of the streams, each with a vector of one, that a layer holds while it attends."""
    kept_copies: CountOrZero
    """Copies of the streams of the largest pass that stay, for a draft to start from."""
    head_multiple: Count
    """Multiple to which kernels pad the query heads of a card, in queries and in outputs."""
    gathered_sessions: CountOrZero
    """Sessions whose compressed entries are gathered at a time, in the format of activations."""
    position_bytes: BytesOrZero
    """Bytes of a number in the tables of rotary positions: one of windows, one of entries."""
    graph_base: BytesOrZero
    """In place of ``graph_base``: graphs that pause at each attention need more."""
    graph_layer: BytesOrZero
    """In place of ``graph_layer``: each layer has more kernels."""
    whole_graphs: bool
    """Whether steps that only decode are captured once more, as a whole."""


class EngineMemory(Spec):
    """What an engine takes of the memory of a card."""

    share: Fraction
    """Share of the memory that the engine hands out."""
    share_of: Literal["card", "rest"]
    """Whether the share is of the reported memory, or of what all but KV leaves of it."""
    covers: tuple[Overhead, ...] = ()
    """What lies within a share of the card, beside weights and KV; the rest lies outside."""
    context: BytesOrZero
    """Memory of the device context and of loaded kernels, outside the engine's allocator."""
    group_buffer: BytesOrZero
    """Buffers of each group of cards that exchange data."""
    link_buffer: SecondsOrZero
    """Buffers of a card's innermost links, as time for which they keep the links busy."""
    graph_base: BytesOrZero
    """Memory of captured graphs, whatever their number."""
    graph_layer: BytesOrZero
    """Memory of each captured graph for each layer."""
    graph_batch: CountOrZero
    """Largest batch that is captured, at most twice the sequences of a pass; 0: no graphs.

    Captured are 1, 2, 4, multiples of 8 up to 256, and of 16 above."""
    logit_bytes: BytesOrZero
    """Bytes that sampling keeps at start-up for every sequence of a pass and vocabulary entry."""
    index_scores: BytesOrZero
    """Most bytes of scores that an indexer of sparse attention works on at a time."""
    index_sessions: CountOrZero
    """Sessions of the longest admitted whose index keys are gathered for a pass."""
    batch_defaults: Annotated[tuple[BatchDefault, ...], Field(min_length=1)]
    """Batches prepared for, by size of card; the last one that holds for a card counts."""
    max_batched_tokens: TokensAtLeastOne | None = None
    """Most tokens of one pass; by ``batch_defaults`` if not given."""
    max_sequences: Count | None = None
    """Most sequences of one pass; by ``batch_defaults`` if not given."""
    max_model_len: TokensAtLeastOne | None = None
    """Longest session that must fit at start-up; the longest of the load if not given."""
    whole_prompts: Tokens
    """Longest ``max_model_len`` up to which prompts are taken in whole: one pass then has as many
    tokens. Above it, and where this is 0, they are taken in by chunks of ``max_batched_tokens``."""
    block: Count
    """Tokens of a block of KV."""
    caches: Literal["exact", "pages"]
    """Whether caches of several kinds lie apart, each as large as needed, or in pages of one size
    that all kinds share."""
    window_passes: CountOrZero
    """Passes whose tokens windows hold beside their own, as long as they are in flight; one
    session must hold them at the start, and all sessions together later."""
    compressed: CompressedPages | None = None
    """How caches of compressed attention share a pool; ``None``: they lie apart."""
    hyper_pass: HyperPass | None = None
    """What start-up takes for models with hyper-connections; ``None``: as for any other."""
    state_pages: Count
    """Pages that a session holds for each layer with a recurrent state, where kinds share pages."""
    state_pools: Count
    """How many times over the pool is allocated for models with recurrent states."""
    tables_over: Literal["server", "stage"]
    """Cards that the rows of an Engram table are dealt over: of one server, or of a stage."""
    expert_width_multiple: Count
    """Multiple to which kernels pad the width of an FP4 expert on a card."""
    expert_hidden_multiple: Count
    """Multiple to which kernels pad the other side of the matrices of an FP4 expert."""


class Engine(Spec):
    """A serving engine, with its inputs resolved."""

    name: Name
    """Name of the engine."""
    version: Name | None = None
    """Its version; the newest that the catalogue knows if not given."""
    memory: EngineMemory
    """What it takes of the memory of a card."""


class Earlier(Spec):
    """What is different before a version."""

    before: Name
    """First version that it does not hold for."""
    memory: dict[str, Any]
    """Inputs that differ, by name."""
    source: str
    """Where that comes from."""


class EngineEntry(Spec):
    """An engine as the catalogue holds it."""

    name: Name
    """Name of the engine."""
    title: str
    """One line for people."""
    sources: tuple[str, ...]
    """Where the figures come from."""
    aliases: dict[str, str]
    """Input of :class:`EngineMemory` by the engine's own name for it."""
    memory: EngineMemory
    """Inputs of the newest version."""
    evidence: dict[str, str]
    """Source of each input."""
    versions: tuple[Earlier, ...] = ()
    """What is different in older versions, newest first."""

    @model_validator(mode="after")
    def _known(self) -> Self:
        inputs = EngineMemory.model_fields
        for place, named in {
            "aliases": self.aliases.values(),
            "evidence": self.evidence,
            **{f"versions.{earlier.before}": earlier.memory for earlier in self.versions},
        }.items():
            unknown = sorted(set(named) - set(inputs))
            if unknown:
                raise ValueError(f"{place} must name inputs, got {', '.join(unknown)}")
        return self


class BatchLimits(NamedTuple):
    """The largest pass that an engine prepares for on a card."""

    tokens: int
    sequences: int


def batch_limits(memory: EngineMemory, card: str, reported: float, longest: int) -> BatchLimits:
    """Return the largest pass that is prepared for.

    Parameters
    ----------
    card: name of the card; ``reported``: its memory in bytes.
    longest: tokens of the longest session that must fit.
    """
    fitting = [
        default
        for default in memory.batch_defaults
        if reported >= default.least_memory
        and not any(word.lower() in card.lower() for word in default.excepted)
    ]
    default = (fitting or memory.batch_defaults)[-1]
    tokens = memory.max_batched_tokens or default.max_batched_tokens
    if longest <= memory.whole_prompts:
        tokens = max(tokens, longest)
    return BatchLimits(tokens, memory.max_sequences or default.max_sequences)
