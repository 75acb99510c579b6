"""Recipes of number formats: what the ``precision`` and ``kv_dtype`` axes of a plan choose.

A recipe replaces the formats of the large matrices. Embedding, output head, router, norms and
compressors keep those of the checkpoint, as deployed quantisations leave them alone.
"""

from functools import lru_cache
from typing import Final, Literal

from specs.formats import Format, Formats, KvFormat
from specs.model import ModelSpec

Precision = Literal[
    "checkpoint",
    "bf16",
    "fp8",
    "fp8_block",
    "mxfp8",
    "mxfp8_mxfp4",
    "fp8_mxfp4",
    "mxfp4",
    "nvfp4",
    "int8",
    "int8_int4",
    "int4",
]
KvPrecision = Literal["checkpoint", "bf16", "fp8", "int8", "fp4"]

CHECKPOINT: Final = "checkpoint"
"""The formats that the model is published in."""

_BF16 = Format()
_FP8 = Format(dtype="fp8")
_FP8_BLOCK = Format(dtype="fp8", block=(128, 128))
_MXFP8 = Format(dtype="fp8", group=32, scale="e8m0")
_MXFP4 = Format(dtype="fp4", group=32, scale="e8m0", compute="fp8")
_NVFP4 = Format(dtype="fp4", group=16, scale="fp8")
_INT8 = Format(dtype="int8")
_INT4 = Format(dtype="int4", group=128, scale="bf16", compute="bf16")
_W4A8 = Format(dtype="int4", group=128, scale="bf16", compute="int8")


def _everywhere(dense: Format, experts: Format | None = None) -> dict[str, Format]:
    routed = experts or dense
    return {"attention": dense, "ffn": dense, "shared_experts": dense, "experts": routed}


RECIPES: dict[Precision, dict[str, Format]] = {
    CHECKPOINT: {},
    "bf16": _everywhere(_BF16),
    "fp8": _everywhere(_FP8),
    "fp8_block": _everywhere(_FP8_BLOCK),
    "mxfp8": _everywhere(_MXFP8),
    "mxfp8_mxfp4": _everywhere(_MXFP8, _MXFP4),
    "fp8_mxfp4": _everywhere(_FP8_BLOCK, _MXFP4),
    "mxfp4": _everywhere(_MXFP4),
    "nvfp4": _everywhere(_NVFP4),
    "int8": _everywhere(_INT8),
    "int8_int4": _everywhere(_INT8, _W4A8),
    "int4": _everywhere(_INT4),
}
"""Formats by tensor class that each recipe replaces. A name with two parts gives those of the
dense matrices and of the routed experts; ``fp8`` and ``int8`` have one scale a channel, which
counts as none, ``int4`` is weight-only and multiplies in BF16."""

KV_RECIPES: dict[KvPrecision, KvFormat | None] = {
    CHECKPOINT: None,
    "bf16": KvFormat(dtype="bf16"),
    "fp8": KvFormat(dtype="fp8"),
    "int8": KvFormat(dtype="int8"),
    "fp4": KvFormat(dtype="fp4", group=16, scale="fp8"),
}
"""Formats of keys and values that ``kv_dtype`` chooses from; those of an indexer stay."""


@lru_cache(maxsize=256)
def _formats(own: Formats, precision: Precision, kv_dtype: KvPrecision) -> Formats:
    changed: dict[str, Format | KvFormat | None] = dict(RECIPES[precision])
    kv = KV_RECIPES[kv_dtype]
    if kv is not None:
        changed |= {"kv": kv, "window": None}
    return own.model_copy(update=changed)


def in_precision(
    model: ModelSpec, precision: Precision, kv_dtype: KvPrecision = CHECKPOINT
) -> ModelSpec:
    """Return the model with the formats of a recipe."""
    formats = _formats(model.formats, precision, kv_dtype)
    return model if formats == model.formats else model.model_copy(update={"formats": formats})
