"""Kinds of attention: the fields that a user states, and the tensors that follow from them.

A new kind is one class here with a ``kind`` of its own and a ``parts`` method; add it to
:data:`Attention`. ``parts`` gets the hidden width and the phase, because a kind may keep its
context in one shape and compute prefills in another.
"""

from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from specs.base import Count, CountOrZero, Spec
from specs.tensors import Cut, Matrix, Parts, State, Stream, Vectors

Phase = Literal["decode", "prefill"]


def _output(rows: int, hidden: int, units: int) -> Matrix:
    """Matrix that joins the heads, or groups of them, into a hidden vector."""
    cut = Cut("rows", "heads", units)
    return Matrix("attention", rows, hidden, cut, projects_output=True)


class NoAttention(Spec):
    """A layer without attention, only a feed-forward network."""

    kind: Literal["none"] = "none"
    """No attention."""

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Tensors of the layer: none."""
        return Parts()


class Indexer(Spec):
    """Small attention that scores the context and chooses what the large one reads."""

    heads: Count
    """Heads that score."""
    dim: Count
    """Width of one head and of one key."""
    top_k: Count
    """Entries that are chosen for each token."""
    scans: Count | None = None
    """Most entries that are scored; all if not given."""

    def stream(self, ratio: int, *, owned: bool) -> Stream:
        """Keys that the indexer keeps and scores."""
        return Stream(
            "index",
            width=self.dim,
            query_heads=self.heads,
            flops=2 * self.dim,
            ratio=ratio,
            seen=self.scans,
            owned=owned,
            dealt=False,
        )


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
            cut = Cut("columns", "kv_heads", self.kv_heads)
            columns = self.kv_heads * self.head_dim
            found.append(Matrix("attention", hidden, columns, cut, 2 if alike else 1))
            if not alike and not self.single_kv:
                columns = self.kv_heads * self.value_dim
                found.append(Matrix("attention", hidden, columns, cut))
        if self.o_lora is None:
            found.append(_output(values, hidden, heads))
        else:
            middle = self.o_groups * self.o_lora
            inner = values // self.o_groups
            found.append(Matrix("attention", inner, middle, Cut("columns", "heads", self.o_groups)))
            found.append(_output(middle, hidden, self.o_groups))
        return tuple(found)

    def _vectors(self, hidden: int) -> tuple[Vectors, ...]:
        keys = 0 if self.shared_kv else self.kv_heads
        norms = self.q_lora or 0
        if self.qk_norm:
            norms += self.head_dim * (1 if self.shared_kv else 2)
        if self.single_kv and not self.shared_kv:
            norms += self.head_dim
        if self.qkv_bias:
            norms += (self.q_heads + keys) * self.head_dim + keys * self.value_dim
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

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, and keys and values of the window."""
        return self._parts(hidden, (self._stream(self.window),))


class MlaAttention(Spec):
    """Multi-head latent attention: keys and values are made from one latent vector a token."""

    kind: Literal["mla"] = "mla"
    """Multi-head latent attention."""
    q_heads: Count
    """Query heads."""
    q_lora: Count | None = None
    """Width of the low-rank step before the queries; projected directly if not given."""
    kv_lora: Count
    """Width of the latent vector."""
    nope_dim: Count
    """Width of a head's key that carries no position."""
    rope_dim: CountOrZero
    """Width of the key, one for all heads, that carries the position."""
    v_dim: Count
    """Width of a head's value."""
    output_gate: bool = False
    """Whether the output of each head is gated by a projection as wide as the values."""
    qkv_bias: bool = False
    """Whether the projections from the hidden vector carry a bias."""
    cache: Literal["latent", "expanded"] = "latent"
    """What is kept: the latent vector, whose expansion is absorbed into queries and outputs, or
    the keys and values of all heads."""
    indexer: Indexer | None = None
    """Chooses which tokens are attended to (DeepSeek sparse attention); all if not given."""
    top_k: Count | None = None
    """Tokens that are attended to where an earlier layer's indexer has chosen them."""

    @model_validator(mode="after")
    def _indexed_latent(self) -> Self:
        if (self.indexer or self.top_k) and self.cache == "expanded":
            raise ValueError("an indexer reads a latent cache, got cache expanded")
        if self.indexer and self.top_k:
            raise ValueError("give top_k of the layer only where it has no indexer of its own")
        if self.indexer and self.q_lora is None:
            raise ValueError("an indexer starts from the low-rank query: q_lora is needed")
        return self

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections and latents; the expansion of the latent counts once per query token.

        With a latent cache a decode step multiplies queries and outputs by the expansion instead
        of the context (absorption), which is as many operations per query token as expanding one
        token. A prefill expands its own tokens, and its prefix again.
        """
        heads, key = self.q_heads, self.nope_dim + self.rope_dim
        by_head = Cut("columns", "heads", heads)
        sparse = self.indexer is not None or self.top_k is not None
        absorbed = self.cache == "latent" and (phase == "decode" or sparse)
        queries = (
            (Matrix("attention", hidden, heads * key, by_head),)
            if self.q_lora is None
            else (
                Matrix("attention", hidden, self.q_lora),
                Matrix("attention", self.q_lora, heads * key, by_head),
            )
        )
        gate = (Matrix("attention", hidden, heads * self.v_dim, by_head),)
        expand = Matrix(
            "attention",
            self.kv_lora,
            heads * (self.nope_dim + self.v_dim),
            by_head,
            expands=self.cache == "latent" and not absorbed,
        )
        output = _output(heads * self.v_dim, hidden, heads)
        down = Matrix("attention", hidden, self.kv_lora + self.rope_dim)
        norms = (self.q_lora or 0) + self.kv_lora
        if self.qkv_bias:
            norms += self.kv_lora + self.rope_dim + (self.q_lora or heads * key)
        return Parts(
            matrices=(
                *queries,
                *(gate if self.output_gate else ()),
                down,
                expand,
                output,
                *self._index_matrices(hidden),
            ),
            vectors=(Vectors(norms + (2 * self.indexer.dim if self.indexer else 0)),),
            streams=self._streams(absorbed),
            heads=heads,
            query_width=self.kv_lora + self.rope_dim if absorbed else key,
            output_width=self.kv_lora if absorbed else self.v_dim,
            attended_width=heads * self.v_dim,
        )

    def _index_matrices(self, hidden: int) -> tuple[Matrix, ...]:
        if self.indexer is None or self.q_lora is None:
            return ()
        return (
            Matrix("attention", self.q_lora, self.indexer.heads * self.indexer.dim),
            Matrix("attention", hidden, self.indexer.dim),
            Matrix("compressor", hidden, self.indexer.heads),
        )

    def _streams(self, absorbed: bool) -> tuple[Stream, ...]:
        latent, key = self.kv_lora + self.rope_dim, self.nope_dim + self.rope_dim
        flops = 2 * (latent + self.kv_lora) if absorbed else 2 * (key + self.v_dim)
        if self.cache == "expanded":
            return (
                Stream(
                    "kv",
                    width=key + self.v_dim,
                    rope=self.rope_dim,
                    heads=self.q_heads,
                    query_heads=self.q_heads,
                    flops=flops,
                ),
            )
        seen = self.indexer.top_k if self.indexer else self.top_k
        kept = Stream(
            "kv",
            width=latent,
            rope=self.rope_dim,
            query_heads=self.q_heads,
            flops=flops,
            seen=seen,
        )
        return (kept, self.indexer.stream(1, owned=True)) if self.indexer else (kept,)


class CompressedAttention(HeadedAttention):
    """What both kinds of compressed attention share: a window, and entries of several tokens."""

    window: Count
    """Last tokens that are kept uncompressed as well."""
    ratio: Count
    """Tokens that one entry stands for."""
    overlap: bool = False
    """Whether neighbouring entries overlap, which doubles what the compressor computes."""
    positions: bool = True
    """Whether each position of an entry has a learned score."""
    owner: bool = True
    """Whether the layer compresses the context itself; else it reads an earlier layer's."""

    @property
    def _spread(self) -> int:
        return 2 if self.overlap else 1

    def _entries(self, seen: int | None = None) -> tuple[Stream, Stream]:
        """The window, and the compressed entries."""
        window = self._stream(self.window)
        entries = Stream(
            "kv",
            width=self.head_dim,
            rope=self.rope_dim,
            vectors=window.vectors,
            heads=self.kv_heads,
            query_heads=self.q_heads,
            flops=4 * self.head_dim,
            ratio=self.ratio,
            seen=seen,
            owned=self.owner,
        )
        return window, entries

    def _compressor(self, hidden: int, width: int) -> tuple[Matrix, ...]:
        """Values, and gates that weigh the tokens of an entry; one token needs no weighing."""
        columns = self._spread * width
        return (Matrix("compressor", hidden, columns, times=1 if self.ratio == 1 else 2),)

    def _compressor_vectors(self, width: int) -> tuple[Vectors, ...]:
        """Norm of the entries, and a learned score for each position of an entry."""
        positions = self.ratio * self._spread * width if self.positions else 0
        return Vectors(width), Vectors(positions, "fp32", read=False)

    def _gathered(self, width: int) -> tuple[State, ...]:
        """Values and scores of the tokens whose entry is not complete yet."""
        if self.ratio == 1:
            return ()
        numbers = 2 * (self._spread * self.ratio) * (self._spread * width)
        return (State("state", numbers, heads=1, passed=False),)


class HcaAttention(CompressedAttention):
    """Heavily compressed attention: a token sees a window and all compressed entries."""

    kind: Literal["hca"] = "hca"
    """Heavily compressed attention."""

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, compressor, window and all entries."""
        own = self.owner
        return self._parts(
            hidden,
            self._entries(),
            self._compressor(hidden, self.head_dim) if own else (),
            self._compressor_vectors(self.head_dim) if own else (),
            self._gathered(self.head_dim) if own else (),
        )


class CsaAttention(CompressedAttention):
    """Compressed sparse attention: of the compressed entries an indexer chooses the best."""

    kind: Literal["csa"] = "csa"
    """Compressed sparse attention."""
    top_k: Count
    """Entries that are chosen for each token."""
    indexer: Indexer | None = None
    """Scores the entries; without it the layer reads what an earlier layer has chosen."""
    index_keys: Literal["compressed", "projected", "given", "shared"] = "compressed"
    """Where the keys of the indexer come from: a compressor of their own, a projection of the
    entries, the compressor of the entries itself, or an earlier layer that keeps them."""

    @model_validator(mode="after")
    def _scored(self) -> Self:
        if self.indexer and self.q_lora is None:
            raise ValueError("an indexer starts from the low-rank query: q_lora is needed")
        if self.indexer and self.indexer.top_k != self.top_k:
            raise ValueError(
                f"top_k of the layer and of its indexer must agree, got {self.top_k} and "
                f"{self.indexer.top_k}"
            )
        return self

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, compressor, window, entries and the keys of the indexer."""
        matrices: tuple[Matrix, ...] = ()
        vectors: tuple[Vectors, ...] = ()
        states: tuple[State, ...] = ()
        streams: tuple[Stream, ...] = self._entries(self.top_k)
        if self.owner:
            matrices += self._compressor(hidden, self.head_dim)
            vectors += self._compressor_vectors(self.head_dim)
            states += self._gathered(self.head_dim)
        if self.indexer and self.q_lora:
            wide = self.indexer.heads * self.indexer.dim
            matrices += (
                Matrix("attention", self.q_lora, wide),
                Matrix("compressor", hidden, self.indexer.heads),
            )
            streams += (self.indexer.stream(self.ratio, owned=self.index_keys != "shared"),)
            if self.index_keys == "compressed":
                matrices += self._compressor(hidden, self.indexer.dim)
                vectors += self._compressor_vectors(self.indexer.dim)
                states += self._gathered(self.indexer.dim)
            elif self.index_keys == "projected":
                width = self.indexer.dim
                matrices += (Matrix("compressor", self.head_dim, width, ratio=self.ratio),)
                vectors += (Vectors(width),)
        return self._parts(hidden, streams, matrices, vectors, states)


class LinearAttention(Spec):
    """Linear attention with a recurrent state: gated DeltaNet, KDA, Mamba-2 and their kin.

    Every value head keeps a state of ``k_dim`` × ``v_dim`` numbers in place of a context.
    """

    kind: Literal["linear"] = "linear"
    """A recurrent state."""
    k_heads: Count
    """Heads of queries and keys (groups of B and C in Mamba-2)."""
    v_heads: Count
    """Heads of values, each with a state."""
    k_dim: Count
    """Width of a key (size of the state in Mamba-2)."""
    v_dim: Count
    """Width of a value."""
    convolution: CountOrZero = 0
    """Tokens that the short convolution of queries, keys and values spans; 0 for none."""
    convolution_bias: bool = False
    """Whether the convolution carries a bias."""
    update: Literal["additive", "delta"] = "delta"
    """Whether a token only adds to the state, or first takes out what its key finds there."""
    gate_rank: CountOrZero = 0
    """Width of a low-rank output gate; 0 for one projected directly."""
    decay_rank: CountOrZero = 0
    """Width of a low-rank projection of one decay per key number; 0 for one decay a head."""
    scalars: CountOrZero = 2
    """Projections to one number a head (decay, step size)."""
    head_vectors: CountOrZero = 2
    """Learned numbers of every head (decay, bias, skip)."""
    wide_norm: bool = False
    """Whether the output norm spans all heads; else one vector of ``v_dim``."""
    fp32_vectors: Literal["none", "heads", "all"] = "heads"
    """Which learned vectors are stored in FP32: none, those of heads, or convolution and output
    norm as well; the others are stored as norms are."""

    @model_validator(mode="after")
    def _grouped(self) -> Self:
        if self.v_heads % self.k_heads:
            raise ValueError(
                f"v_heads must be a multiple of k_heads, got {self.v_heads} and {self.k_heads}"
            )
        return self

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Projections, convolution and state."""
        keys, values = self.k_heads * self.k_dim, self.v_heads * self.v_dim
        by_head = Cut("columns", "heads", self.v_heads)
        matrices = [
            Matrix("attention", hidden, keys, Cut("columns", "kv_heads", self.k_heads), times=2),
            Matrix("attention", hidden, values, by_head),
        ]
        matrices += self._low_rank(hidden, self.gate_rank, values, by_head)
        if self.decay_rank:
            decays = self.v_heads * self.k_dim
            matrices += self._low_rank(hidden, self.decay_rank, decays, by_head)
        if self.scalars:
            matrices.append(Matrix("attention", hidden, self.v_heads, by_head, times=self.scalars))
        matrices.append(_output(values, hidden, self.v_heads))
        norm = values if self.wide_norm else self.v_dim
        taps = (self.convolution + self.convolution_bias) * (2 * keys + values)
        # Decay is elementwise; read and addition are two operations for each number of the state.
        passes = 3 if self.update == "delta" else 2
        cells = self.k_dim * self.v_dim
        learned = self.v_heads * (self.head_vectors + (self.k_dim if self.decay_rank else 0))
        states = [State("state", cells, self.v_heads, flops=2 * passes * cells)]
        if self.convolution:
            inputs = [(self.k_heads, 2 * self.k_dim), (self.v_heads, self.v_dim)]
            states += [
                State("convolution", self.convolution * n, h, flops=2 * self.convolution * n)
                for h, n in inputs
            ]
        return Parts(
            matrices=tuple(matrices),
            vectors=(
                Vectors(norm + taps, "fp32" if self.fp32_vectors == "all" else "norms"),
                Vectors(learned, "norms" if self.fp32_vectors == "none" else "fp32"),
            ),
            states=tuple(states),
            heads=self.v_heads,
            attended_width=values,
        )

    @staticmethod
    def _low_rank(hidden: int, rank: int, columns: int, cut: Cut) -> list[Matrix]:
        if not rank:
            return [Matrix("attention", hidden, columns, cut)]
        return [Matrix("attention", hidden, rank), Matrix("attention", rank, columns, cut)]


def _grouped_query(value: object) -> object:
    """Take attention whose kind is not stated as grouped-query attention."""
    return {"kind": "gqa", **value} if isinstance(value, dict) else value


Attention = Annotated[
    GqaAttention
    | SwaAttention
    | MlaAttention
    | CsaAttention
    | HcaAttention
    | LinearAttention
    | NoAttention,
    Field(discriminator="kind"),
    BeforeValidator(_grouped_query),
]
