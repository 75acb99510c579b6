"""The checkpoint against the spec: shapes of every tensor where headers are there, else totals."""

import re
from collections import Counter
from dataclasses import dataclass
from math import prod
from typing import Any

from specs.census import parameters
from specs.errors import SpecError
from specs.formats import BITS
from specs.huggingface.reading import INDEX, Published, Tensor
from specs.huggingface.sizes import checkpoint_bytes
from specs.model import ModelSpec

WORTH_A_WARNING = 0.005
"""Share by which spec and checkpoint may differ without a warning."""


@dataclass(frozen=True)
class Check:
    """A total of the checkpoint beside the same total of the spec.

    ``unit``     numbers or bytes
    ``source``   where the total of the checkpoint stands
    ``classes``  for each class of tensor (checkpoint, spec), where both are known
    """

    unit: str
    source: str
    checkpoint: int
    spec: int
    with_draft: bool
    classes: dict[str, tuple[int, int]]

    @property
    def off(self) -> float:
        """How much more the spec has than the checkpoint, as a share."""
        return self.spec / self.checkpoint - 1

    @property
    def differs(self) -> bool:
        """Whether the two are further apart than rounding and small vectors explain."""
        return abs(self.off) > WORTH_A_WARNING

    def __str__(self) -> str:
        draft = ", draft module included" if self.with_draft else ""
        text = f"{self.source}: {self.checkpoint:,} {self.unit}; the spec has {self.spec:,}{draft}"
        if self.checkpoint == self.spec:
            return f"{text}: equal."
        text += f": {self.off:+.4%}."
        if self.differs and self.classes:
            name = max(self.classes, key=lambda c: abs(self.classes[c][0] - self.classes[c][1]))
            stored, counted = self.classes[name]
            text += f" Furthest apart: {name}, {stored:,} against {counted:,}."
        return text


def check(published: Published, model: ModelSpec) -> Check | None:
    """Return the comparison that the files allow: shapes, else a total of the index, else none.

    Raises ``SpecError`` if a total of the index is no number.
    """
    if published.tensors:
        return _by_shapes(published.tensors, model, len(published.files))
    if published.index is None:
        return None
    return _by_index(published.index, model, str(published.config_file.with_name(INDEX)))


def _by_shapes(tensors: tuple[Tensor, ...], model: ModelSpec, files: int) -> Check:
    names = {tensor.name for tensor in tensors}
    stored: Counter[str] = Counter()
    for tensor in tensors:
        if tensor.dtype not in ("I64", "BOOL") and not _is_scale(tensor.name, names):
            kind = class_of(tensor.name, model)
            stored[kind] += _numbers(tensor, kind, model)
    draft = bool(stored["draft"] and model.draft)
    counted: Counter[str] = Counter(parameters(model, draft=draft))
    if not model.draft:
        stored.pop("draft", None)
    if model.tied_embeddings:
        stored.pop("head", None)  # written twice
    if not model.modules:
        stored.pop("modules", None)
    # Names do not tell finer classes apart.
    for counts in (stored, counted):
        for fine in ("compressor", "hyper", "engram", "norms"):
            counts["attention"] += counts.pop(fine, 0)
        counts["other"] += counts.pop("attention", 0) + counts.pop("ffn", 0)
        counts["other"] += counts.pop("router", 0)
    classes = {name: (stored[name], counted[name]) for name in {*stored, *counted}}
    where = "safetensors header" if files == 1 else f"{files} safetensors headers"
    return Check("numbers", where, stored.total(), counted.total(), draft, classes)


_SCALES = (
    "_scale_inv",
    "_scale_2",
    "_scale",
    "_scales",
    ".scale",
    ".scales",
    ".qzeros",
    ".g_idx",
    ".input_scale",
    ".weight_scale",
    ".weight_shape",
    ".weight_zero_point",
    ".weight_global_scale",
    ".input_global_scale",
    ".absmax",
    ".quant_map",
    ".nested_absmax",
    ".nested_quant_map",
)
_PACKED = ("", ".weight", ".weight_packed", ".qweight", "_blocks", "_packed")


def _is_scale(name: str, names: set[str]) -> bool:
    """Tell whether a tensor belongs to the quantisation of another one."""
    for end in _SCALES:
        if name.endswith(end):
            stem = name.removesuffix(end)
            if any(stem + rest in names for rest in _PACKED):
                return True
    return ".quant_state." in name or name.endswith((".k_scale", ".v_scale"))


def _numbers(tensor: Tensor, kind: str, model: ModelSpec) -> int:
    """Return how many numbers a tensor holds, those packed into one element counted singly."""
    count = prod(tensor.shape)
    stored = getattr(model.formats, kind, None)
    bits = BITS[stored.dtype] if stored is not None and hasattr(stored, "dtype") else 16
    if tensor.dtype == "I32" and tensor.name.endswith(("qweight", "weight_packed")):
        return count * (32 // bits if bits in (4, 8) else 8)
    if tensor.dtype in ("U8", "I8") and bits == 4:
        return count * 2
    return count


_CLASSES = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (
            r"(^|\.)(visual|vision|mm_projector|multi_modal|embed_vision|audio|patch_merge)",
            "modules",
        ),
        (r"(^|\.)(embed_tokens|embed|wte|embeddings?)\.", "embedding"),
        (r"(^|\.)(lm_head|head|output)\.(weight|qweight|bias)$", "head"),
        (r"\.(norm|layernorm|[a-z_]*norm)\.", "norms"),
        (r"shared_expert_gate|\.router\.|\.gate\.(weight|bias|e_score)", "router"),
        (r"\.(shared_experts?|share_expert)\.", "shared_experts"),
        (r"\.experts\.", "experts"),
        (r"\.(indexer|compressor)\.", "compressor"),
        (r"\.(self_attn|attn|attention|linear_attn|mixer)\.", "attention"),
        (r"\.(mlp|ffn|feed_forward|block_sparse_moe)\.", "ffn"),
    )
)
_LAYER = re.compile(r"(?:^|\.)layers\.(\d{1,6})\.")


def class_of(name: str, model: ModelSpec) -> str:
    """Return the class of the tensor ``name``: a field of ``Formats``, modules, draft or other."""
    layer = _LAYER.search(name)
    first = _CLASSES[0]
    if not first[0].search(name) and (
        re.search(r"(^|\.)mtp[._]", name) or (layer and int(layer[1]) >= model.layer_count)
    ):
        return "draft"
    return next((kind for pattern, kind in _CLASSES if pattern.search(name)), "other")


def _by_index(index: dict[str, Any], model: ModelSpec, path: str) -> Check | None:
    metadata = index.get("metadata")
    weights = index.get("weight_map")
    if not isinstance(metadata, dict):
        metadata = {}
    names = list(weights) if isinstance(weights, dict) else []
    kinds = Counter(class_of(name, model) for name in names)
    draft = bool(kinds["draft"] and model.draft)
    total = _whole(metadata, "total_parameters", path)
    if total:
        counted = sum(parameters(model, draft=draft).values())
        return Check("numbers", "total_parameters of the index", total, counted, draft, {})
    size = _whole(metadata, "total_size", path)
    if not size:
        return None
    by_class = checkpoint_bytes(model, draft=draft)
    if names and not kinds["modules"]:
        by_class.pop("modules", None)
    if model.tied_embeddings and kinds["head"]:
        by_class["head"] = by_class["embedding"]
    counted = round(sum(by_class.values()))
    return Check("bytes", "total_size of the index", size, counted, draft, {})


def _whole(metadata: dict[str, Any], name: str, path: str) -> int | None:
    value = metadata.get(name)
    if value is None:
        return None
    # Some exporters write a whole number with a point.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if type(value) is not int or value < 0:
        error = SpecError.single(f"metadata.{name}", value, "expected a whole number of at least 0")
        raise SpecError(error.faults, source=path)
    return value
