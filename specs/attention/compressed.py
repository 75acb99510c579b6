"""Compressed attention: a window of tokens, and entries that stand for several of them."""

from typing import Literal, Self

from pydantic import model_validator

from specs.attention.headed import HeadedAttention
from specs.attention.parts import Indexer, Phase
from specs.base import Count
from specs.tensors import Matrix, Parts, State, Stream, Vectors


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
    weighed: bool = True
    """Whether a projected gate weighs the tokens of an entry of several."""
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

    def _compressor(self, hidden: int, width: int, weighed: bool) -> tuple[Matrix, ...]:
        """Values, and gates that weigh the tokens of an entry; one token needs no weighing."""
        times = 2 if weighed and self.ratio > 1 else 1
        return (Matrix("compressor", hidden, self._spread * width, times=times, keeps=True),)

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
            self._compressor(hidden, self.head_dim, self.weighed) if own else (),
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
    index_keys: Literal["compressed", "projected", "shared"] = "compressed"
    """Where the keys of the indexer come from: a compressor of their own, a projection of the
    entries, or an earlier layer that keeps them."""

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
            matrices += self._compressor(hidden, self.head_dim, self.weighed)
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
                matrices += self._compressor(hidden, self.indexer.dim, True)
                vectors += self._compressor_vectors(self.indexer.dim)
                states += self._gathered(self.indexer.dim)
            elif self.index_keys == "projected":
                width, ratio = self.indexer.dim, self.ratio
                matrices += (Matrix("compressor", self.head_dim, width, ratio=ratio, keeps=True),)
                vectors += (Vectors(width),)
        return self._parts(hidden, streams, matrices, vectors, states)
