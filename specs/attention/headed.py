"""Query heads over keys and values of their own: grouped-query and sliding-window attention."""

from typing import Literal, Self

from pydantic import model_validator

from specs.attention.parts import Indexer, Phase, output_matrix
from specs.base import Count, CountOrZero, Spec
from specs.tensors import Cut, Matrix, Over, Parts, State, Stream, Vectors


class HeadedAttention(Spec):
    """What all kinds with query heads over keys and values of their own share."""

    q_heads: Count
    """Query heads."""
    kv_heads: Count
    """Heads of keys and values; as many as query heads for plain multi-head attention."""
    head_dim: Count
    """Width of one head."""
    v_dim: Count | None = None
    """Width of one head's value, where it is not that of its key."""
    rope_dim: CountOrZero = 0
    """Numbers of a head that carry the position, where a format keeps them apart."""
    q_lora: Count | None = None
    """Width of the low-rank step before the queries; projected directly if not given."""
    o_lora: Count | None = None
    """Width of the low-rank step after each of ``o_groups`` groups of heads, before the output."""
    o_groups: Count = 1
    """Groups of heads with an output step of their own; with ``o_lora`` only."""
    single_kv: bool = False
    """Whether one vector serves as key and as value."""
    shared_kv: bool = False
    """Whether the layer reads keys and values that an earlier layer keeps."""
    output_gate: bool = False
    """Whether the output of each head is gated by a projection as wide as the queries."""
    sinks: bool = False
    """Whether each head has a learned sink score."""
    qk_norm: bool = False
    """Whether queries and keys are normalised per head (one vector of ``head_dim`` each)."""
    qkv_bias: bool = False
    """Whether the projections of queries, keys and values carry a bias."""
    o_bias: bool = False
    """Whether the output projection carries a bias."""

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.q_heads % self.kv_heads:
            raise ValueError(
                f"q_heads must be a multiple of kv_heads, got {self.q_heads} and {self.kv_heads}"
            )
        if self.q_heads % self.o_groups:
            raise ValueError(
                f"q_heads must be a multiple of o_groups, got {self.q_heads} and {self.o_groups}"
            )
        if self.rope_dim > self.head_dim:
            raise ValueError(
                f"rope_dim must not exceed head_dim, got {self.rope_dim} of {self.head_dim}"
            )
        if self.single_kv and self.value_dim != self.head_dim:
            raise ValueError(
                f"one vector as key and value has one width, got {self.head_dim} and {self.v_dim}"
            )
        return self

    @property
    def value_dim(self) -> int:
        """Width of one head's value."""
        return self.v_dim or self.head_dim

    @property
    def _dealt_keys(self) -> Over:
        """Ranks that KV heads are dealt over: those that share no history of them."""
        return "kv_heads"

    def _matrices(self, hidden: int) -> tuple[Matrix, ...]:
        width, heads = self.q_heads * self.head_dim, self.q_heads
        values = heads * self.value_dim
        by_head = Cut("columns", "heads", heads)
        found = []
        if self.q_lora is None:
            found.append(Matrix("attention", hidden, width, by_head))
        else:
            found.append(Matrix("attention", hidden, self.q_lora))
            found.append(Matrix("attention", self.q_lora, width, by_head))
        if self.output_gate:
            found.append(Matrix("attention", hidden, values, by_head))
        if not self.shared_kv:
            alike = self.value_dim == self.head_dim and not self.single_kv
            cut = Cut("columns", self._dealt_keys, self.kv_heads)
            columns = self.kv_heads * self.head_dim
            found.append(Matrix("attention", hidden, columns, cut, 2 if alike else 1))
            if not alike and not self.single_kv:
                columns = self.kv_heads * self.value_dim
                found.append(Matrix("attention", hidden, columns, cut))
        if self.o_lora is None:
            found.append(output_matrix(values, hidden, heads))
        else:
            middle = self.o_groups * self.o_lora
            inner = values // self.o_groups
            found.append(Matrix("attention", inner, middle, Cut("columns", "heads", self.o_groups)))
            found.append(output_matrix(middle, hidden, self.o_groups))
        return tuple(found)

    def _vectors(self, hidden: int) -> tuple[Vectors, ...]:
        keys = 0 if self.shared_kv else self.kv_heads
        norms = self.q_lora or 0
        if self.qk_norm:
            norms += self.head_dim * (1 if self.shared_kv else 2)
        if self.single_kv and not self.shared_kv:
            norms += self.head_dim
        if self.qkv_bias:
            values = 0 if self.single_kv else keys * self.value_dim
            norms += (self.q_heads + keys) * self.head_dim + values
        if self.o_bias:
            norms += hidden
        sinks = (Vectors(self.q_heads, "fp32"),) if self.sinks else ()
        return (Vectors(norms), *sinks)

    def _stream(self, window: int | None = None, seen: int | None = None) -> Stream:
        """Uncompressed keys and values, all or those of a window."""
        alike = self.value_dim == self.head_dim
        return Stream(
            "kv" if window is None else "window",
            # A key and a value of different widths count as one vector side by side.
            width=self.head_dim if alike else self.head_dim + self.value_dim,
            rope=self.rope_dim,
            vectors=2 if alike and not self.single_kv else 1,
            heads=self.kv_heads,
            query_heads=self.q_heads,
            flops=2 * (self.head_dim + self.value_dim),
            kept=window,
            seen=seen,
            owned=not self.shared_kv,
        )

    def _parts(
        self,
        hidden: int,
        streams: tuple[Stream, ...],
        matrices: tuple[Matrix, ...] = (),
        vectors: tuple[Vectors, ...] = (),
        states: tuple[State, ...] = (),
    ) -> Parts:
        return Parts(
            matrices=(*self._matrices(hidden), *matrices),
            vectors=(*self._vectors(hidden), *vectors),
            streams=streams,
            states=states,
            heads=self.q_heads,
            query_width=self.head_dim,
            output_width=self.value_dim,
            attended_width=self.q_heads * self.value_dim,
        )


class GqaAttention(HeadedAttention):
    """Grouped-query attention: ``q_heads`` queries share ``kv_heads`` keys and values."""

    kind: Literal["gqa"] = "gqa"
    """Grouped-query attention."""
    indexer: Indexer | None = None
    """Chooses which tokens are attended to, from the hidden vector; all if not given."""

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, keys and values of the whole context, and the indexer's keys."""
        if self.indexer is None:
            return self._parts(hidden, (self._stream(),))
        index = self.indexer
        return self._parts(
            hidden,
            (self._stream(seen=index.top_k), index.stream(1, owned=True)),
            (
                Matrix("attention", hidden, index.heads * index.dim),
                Matrix("attention", hidden, index.dim),
            ),
            (Vectors(2 * index.dim),),
        )


class SwaAttention(HeadedAttention):
    """Sliding-window attention: a token sees the last ``window`` tokens only."""

    kind: Literal["swa"] = "swa"
    """Sliding-window attention."""
    window: Count
    """Tokens that one token sees, itself included."""

    @property
    def _dealt_keys(self) -> Over:
        return "own_heads"

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, and keys and values of the window."""
        return self._parts(hidden, (self._stream(self.window),))
