"""Kinds of attention: the fields that a user states, and the tensors that follow from them.

A new kind is one class in a module here, with a ``kind`` of its own and a ``parts`` method; add
it to :data:`Attention`. ``parts`` gets the hidden width and the phase, because a kind may keep its
context in one shape and compute prefills in another.
"""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from specs.attention.compressed import CompressedAttention, CsaAttention, HcaAttention
from specs.attention.headed import GqaAttention, HeadedAttention, SwaAttention
from specs.attention.latent import MlaAttention
from specs.attention.linear import LinearAttention
from specs.attention.parts import Indexer, Phase
from specs.base import Spec
from specs.tensors import Parts


class NoAttention(Spec):
    """A layer without attention, only a feed-forward network."""

    kind: Literal["none"] = "none"
    """No attention."""

    def parts(self, hidden: int, phase: Phase) -> Parts:
        """Tensors of the layer: none."""
        return Parts()


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

__all__ = [
    "Attention",
    "CompressedAttention",
    "CsaAttention",
    "GqaAttention",
    "HcaAttention",
    "HeadedAttention",
    "Indexer",
    "LinearAttention",
    "MlaAttention",
    "NoAttention",
    "Phase",
    "SwaAttention",
]
