"""Multi-head latent attention, with or without an indexer."""

from typing import Literal, Self

from pydantic import model_validator

from specs.attention.parts import Indexer, Phase, output_matrix
from specs.base import Count, CountOrZero, Spec
from specs.tensors import Cut, Matrix, Parts, Stream, Vectors


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
        output = output_matrix(heads * self.v_dim, hidden, heads)
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
