"""Slabs of compressed attention: pages of windows, entries and partial entries in one pool.

An engine gives each kind of cache pages of a block of its own: compressed entries, index keys,
windows, and what compressors gather for the next entry. Caches with the same block form a group,
and more layers than others have are dealt to several groups. A slab of the pool holds one page of
every layer of one group, so it is as large as the largest group needs, and whatever touches a page
takes a slab.

A session of T tokens holds ⌈T / block⌉ slabs of a group that keeps everything, and of one that
keeps a window of w tokens ⌈min(w - 1 + f, T) / block⌉ + 1, where f tokens are in flight. Sources:
``vllm/v1/core/kv_cache_utils.py`` and ``vllm/v1/kv_cache_interface.py``. Arrays have shape
``(plans,)``.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from costmodels import sharding
from costmodels.plans import FloatArray, PlanTable
from specs.attention import CompressedAttention
from specs.engine import CompressedPages
from specs.model import Layer, ModelSpec
from specs.tensors import Stream


@dataclass
class _Bucket:
    """Caches with the same block: layers and bytes of a page, by name.

    ``block``   tokens of a page
    ``window``  last tokens that are kept; ``None``: all
    ``share``   share of the tokens whose pages lie on one rank
    """

    block: FloatArray
    window: int | None
    share: FloatArray
    layers: dict[Hashable, int] = field(default_factory=dict)
    pages: dict[Hashable, FloatArray] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Layers of the most frequent cache."""
        return max(self.layers.values())

    def add(self, name: Hashable, layers: int, page: FloatArray) -> None:
        """Count the layers of a kind that have this cache."""
        self.layers[name] = self.layers.get(name, 0) + layers
        self.pages[name] = page

    def groups(self, size: int) -> int:
        """Groups that the layers are dealt to; what keeps everything stays in one."""
        return 1 if self.window is None else -(-self.depth // size)

    def slab(self, size: int) -> FloatArray:
        """Bytes of a page of each layer of the fullest group."""
        each = -(-np.array(list(self.layers.values())) // self.groups(size))
        total: FloatArray = each @ np.array(list(self.pages.values()))
        return total

    def touched(self, tokens: float, in_flight: float) -> FloatArray:
        """Slabs that a session holds of one group."""
        if self.window is None:
            return np.ceil(tokens * self.share / self.block)
        held: FloatArray = np.ceil(min(self.window - 1 + in_flight, tokens) / self.block) + 1
        return held


@dataclass(frozen=True)
class Slabs:
    """The pool of a model on an engine.

    ``size``   bytes of a slab
    ``start``  bytes of a slab as the check at start-up counts them: a page of every size for as
               many layers as the deepest group has
    ``owned``  share of a slab that one layer of each kind stands for
    """

    size: FloatArray
    start: FloatArray
    owned: list[FloatArray]
    buckets: tuple[tuple[_Bucket, int], ...]

    def held(self, tokens: float, in_flight: float) -> FloatArray:
        """Slabs that a session of ``tokens`` tokens holds."""
        total: FloatArray = np.zeros(len(self.size))
        for bucket, groups in self.buckets:
            total = total + groups * bucket.touched(tokens, in_flight)
        return total


def slabs(model: ModelSpec, rules: CompressedPages, plans: PlanTable) -> Slabs | None:
    """Return how caches of compressed layers and of windows beside them share a pool.

    ``None`` where no layer keeps anything for good.
    """
    full: dict[Hashable, _Bucket] = {}
    windows: dict[Hashable, _Bucket] = {}
    owned = []
    for kind, count in zip(model.kinds, model.kind_counts, strict=True):
        entries = _add_streams(model, rules, plans, kind, count, full, windows)
        _add_states(model, rules, plans, kind, count, windows)
        owned.append(np.asarray(sum(entries), dtype=np.float64) + np.zeros(len(plans)))
    if not full:
        return None
    buckets = [*full.values(), *windows.values()]
    deal = _group_size([bucket.depth for bucket in buckets])
    size = np.max([bucket.slab(deal) for bucket in buckets], axis=0)
    deepest = max(-(-bucket.depth // bucket.groups(deal)) for bucket in buckets)
    sizes = _distinct([page for bucket in full.values() for page in bucket.pages.values()])
    counts = np.array(model.kind_counts)
    whole = counts @ np.array(owned)
    return Slabs(
        size,
        np.maximum(deepest * sizes, size),
        [np.divide(part, whole, out=np.zeros_like(part), where=whole > 0) for part in owned],
        tuple((bucket, bucket.groups(deal)) for bucket in buckets),
    )


def _add_streams(
    model: ModelSpec,
    rules: CompressedPages,
    plans: PlanTable,
    kind: Layer,
    count: int,
    full: dict[Hashable, _Bucket],
    windows: dict[Hashable, _Bucket],
) -> list[FloatArray]:
    """Add entries, index keys and the window of a kind; return its pages that keep everything."""
    kept = []
    for stream in kind.attention.parts(model.hidden, "decode").streams:
        if not stream.owned:
            continue
        entry = sharding.entry_bytes(model, stream, plans)
        share = sharding.stream_share(stream, plans)
        if stream.is_window:
            page = _padded(rules.window_block * entry, rules.multiple)
            block = np.full(len(plans), float(rules.window_block))
            bucket = windows.setdefault(stream.kept, _Bucket(block, stream.kept, share))
            bucket.add(_alike(stream), count, page)
            continue
        whole = rules.counts == "entries"
        tokens = rules.block * (stream.ratio if whole else 1)
        page = _padded(tokens / stream.ratio * entry, rules.multiple)
        block = np.full(len(plans), float(tokens))
        bucket = full.setdefault(tokens, _Bucket(block, None, share))
        bucket.add(_alike(stream), count, page)
        kept.append(page)
    return kept


def _add_states(
    model: ModelSpec,
    rules: CompressedPages,
    plans: PlanTable,
    kind: Layer,
    count: int,
    windows: dict[Hashable, _Bucket],
) -> None:
    """Add what compressors gather: a row for each token of the entries that are not complete."""
    attention = kind.attention
    if not isinstance(attention, CompressedAttention):
        return
    window = attention.ratio * (2 if attention.overlap else 1)
    states = attention.parts(model.hidden, "decode").states
    rows = [sharding.state_bytes(model, state, plans) / window for state in states]
    for state, row in zip(states, rows, strict=True):
        block = np.maximum(np.floor(rules.state_page / rows[0]), 1.0)
        bucket = windows.setdefault(("state", window), _Bucket(block, window, np.ones(len(plans))))
        bucket.add(state.numbers, count, _padded(bucket.block * row, rules.multiple))


def _alike(stream: Stream) -> Hashable:
    """What tells the pages of one stream from those of another."""
    return stream.tensor, stream.ratio, stream.width, stream.rope, stream.vectors, stream.heads


def _padded(size: FloatArray, multiple: float) -> FloatArray:
    """Bytes of a page, up to a multiple."""
    found: FloatArray = np.ceil(size / multiple) * multiple
    return found


def _distinct(pages: list[FloatArray]) -> FloatArray:
    """Sum of the sizes that pages have, each once."""
    ordered = np.sort(pages, axis=0)
    first = np.diff(ordered, axis=0, prepend=0.0) > 0
    total: FloatArray = (ordered * first).sum(axis=0)
    return total


def _group_size(depths: list[int]) -> int:
    """Layers of a group, at least those of the first: the most even deal, larger groups first."""

    def padding(size: int) -> int:
        return sum(-depth % size for depth in depths)

    return min(range(depths[0], max(depths) + 1), key=lambda size: (padding(size), -size))
