"""Numbers and bytes that a model has in its checkpoint, by class of tensor."""

from collections import defaultdict
from collections.abc import Iterator

from specs.ffn import MoeFfn
from specs.formats import BITS, StoredFormat
from specs.model import LayerGroup, ModelSpec
from specs.tensors import Matrix, Parts

Sizes = dict[str, float]

_INT64_BYTES = 8


def matrix_bytes(stored: StoredFormat, rows: int, columns: int) -> float:
    """Return the bytes of one matrix with its scales; ``rows`` is its input dimension."""
    size = rows * columns * stored.bytes_per_number
    if stored.block:
        high, wide = stored.block
        size += -(-rows // high) * -(-columns // wide) * stored.scale_bytes
    elif stored.group:
        size += -(-rows // stored.group) * columns * stored.scale_bytes
    return size


def checkpoint_bytes(model: ModelSpec, *, draft: bool = False) -> dict[str, float]:
    """Return the bytes of the checkpoint by class of tensor.

    ``draft``: whether the module that drafts tokens is part of it.
    """
    sizes: Sizes = defaultdict(float)
    for group in model.groups:
        _add(sizes, model, group)
    matrix = Matrix("embedding", model.hidden, model.vocab)
    _matrix(sizes, model, matrix, 1)
    if not model.tied_embeddings:
        _matrix(sizes, model, Matrix("head", model.hidden, model.vocab), 1)
    sizes["norms"] += model.hidden * model.formats.norms.bytes_per_number
    _parts(sizes, model, model.last_mixer, 1)
    for module in model.modules:
        sizes["modules"] += module.bytes
    if draft and model.draft:
        sizes["draft"] += _draft_bytes(model)
    return {name: float(size) for name, size in sizes.items() if size}


def _draft_bytes(model: ModelSpec) -> float:
    assert model.draft
    sizes: Sizes = defaultdict(float)
    for group in model.draft.layers:
        _add(sizes, model, group)
    joins = Matrix("attention", model.hidden, model.hidden)
    _matrix(sizes, model, joins, model.draft.projections)
    sizes["norms"] += 3 * model.hidden * model.formats.norms.bytes_per_number
    if model.draft.own_head:
        _matrix(sizes, model, Matrix("embedding", model.hidden, model.vocab), 1)
        _matrix(sizes, model, Matrix("head", model.hidden, model.vocab), 1)
    return float(sum(sizes.values()))


def _add(sizes: Sizes, model: ModelSpec, group: LayerGroup) -> None:
    norm = model.hidden * model.formats.norms.bytes_per_number
    for half in _halves(model, group):
        _parts(sizes, model, half, group.count)
        if half.matrices:
            _parts(sizes, model, model.mixer, group.count)
            sizes["norms"] += group.count * norm
    if isinstance(group.ffn, MoeFfn):
        times = group.count * group.ffn.experts
        for matrix in group.ffn.expert(model.hidden):
            _matrix(sizes, model, matrix, times)
        biases = group.ffn.expert_vectors(model.hidden)
        sizes["norms"] += times * biases * model.formats.norms.bytes_per_number
    if group.engram:
        sizes["engram"] += group.count * group.engram.table_bytes
        _matrix(sizes, model, group.engram.matrix, group.count)


def _halves(model: ModelSpec, group: LayerGroup) -> Iterator[Parts]:
    yield group.attention.parts(model.hidden, "decode")
    yield group.ffn.parts(model.hidden)


def _parts(sizes: Sizes, model: ModelSpec, parts: Parts, times: int) -> None:
    for matrix in parts.matrices:
        _matrix(sizes, model, matrix, times)
    for vectors in parts.vectors:
        if vectors.tensor == "int64":
            one: float = _INT64_BYTES
        elif vectors.tensor == "fp32":
            one = BITS["fp32"] / 8
        else:
            one = model.formats.norms.bytes_per_number
        sizes["norms"] += times * vectors.numbers * one


def _matrix(sizes: Sizes, model: ModelSpec, matrix: Matrix, times: int) -> None:
    stored: StoredFormat = getattr(model.formats, matrix.tensor)
    size = matrix_bytes(stored, matrix.rows, matrix.columns)
    sizes[matrix.tensor] += times * matrix.times * size
