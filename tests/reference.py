"""The equations of the theory text once more, one plan at a time, in plain Python.

Independent of the product's estimates: nothing of ``costmodels`` is used, and what a layer consists
of is read a second time in ``tests.shapes``. It covers stacks of every kind of attention and
network under the axes of a ``Plan``; every other degree is neutral. Equation and section numbers
are those of chapter 6. Plans and their collectives are in ``tests.reference_collectives``, and
what becomes of sessions in ``tests.reference_sessions``.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from specs.ffn import MoeFfn
from specs.formats import BITS, KvFormat, StoredFormat
from specs.memory import MemoryTier
from specs.model import LayerGroup
from tests.reference_collectives import Collectives, ceil
from tests.shapes import (
    Fixed,
    Half,
    Kept,
    Mat,
    attention,
    expert,
    groups,
    mixer,
    network,
)


@dataclass(frozen=True)
class Load:
    """One forward pass: ``rows`` sequences on the busiest rank, ``whole`` in the instance.

    Each feeds in ``new`` tokens, and holds ``held`` already.
    """

    prefill: bool
    rows: int
    whole: int
    new: int
    held: float


Ports = dict[str, float]
"""Seconds on every port of a card that memory is read through."""


def both(these: Ports, those: Ports) -> Ports:
    return {port: these.get(port, 0.0) + those.get(port, 0.0) for port in these | those}


@dataclass(frozen=True)
class Parts:
    """Seconds of a stretch of one pass: reading, computing, the longer of both, and collectives."""

    reads: Ports = field(default_factory=dict)
    computes: float = 0.0
    longer: Ports = field(default_factory=dict)
    network: float = 0.0

    def __add__(self, other: "Parts") -> "Parts":
        return Parts(
            both(self.reads, other.reads),
            self.computes + other.computes,
            both(self.longer, other.longer),
            self.network + other.network,
        )

    def __mul__(self, times: int) -> "Parts":
        reads, longer = ({p: s * times for p, s in x.items()} for x in (self.reads, self.longer))
        return Parts(reads, self.computes * times, longer, self.network * times)


PLACED = {"experts": "experts", "kv": "kv", "window": "kv", "index": "kv", "state": "kv"}
"""What of a plan says where a tensor class lies; the weights' place holds for all others."""


@dataclass(frozen=True)
class Reference(Collectives):
    """One plan of one problem."""

    # Shares of a card

    def ranks(self, matrix: Mat) -> int:
        if matrix.tensor == "experts":
            return self.plan.expert_tp
        return {"": 1, "kv": self.plan.shards}.get(matrix.dealt, self.plan.tp)

    def share(self, matrix: Mat) -> tuple[int, int]:
        """Rows and columns on one card: whole units, the last rank padded."""
        whole = matrix.rows if matrix.side == "rows" else matrix.columns
        mine = ceil(matrix.units, self.ranks(matrix)) * (whole // matrix.units)
        mine = mine if matrix.dealt else whole
        return (mine, matrix.columns) if matrix.side == "rows" else (matrix.rows, mine)

    def stored(self, fmt: StoredFormat, rows: int, columns: int) -> float:
        """Bytes of a matrix with its scales, one for each block or group that it touches."""
        scales = 0
        if fmt.block:
            scales = ceil(rows, fmt.block[0]) * ceil(columns, fmt.block[1])
        elif fmt.group:
            scales = ceil(rows, fmt.group) * columns
        return rows * columns * BITS[fmt.dtype] / 8 + scales * BITS[fmt.scale] / 8

    def number(self, tensor: str) -> float:
        """Bytes of a plain number of a tensor class."""
        return BITS[getattr(self.problem.model.formats, tensor).dtype] / 8

    def matrix_bytes(self, matrix: Mat) -> float:
        fmt = getattr(self.problem.model.formats, matrix.tensor)
        return self.stored(fmt, *self.share(matrix))

    @cached_property
    def known(self) -> dict[object, Any]:
        """What has been worked out already."""
        return {}

    def read(self, matrix: Mat) -> tuple[float, float]:
        """Numbers that a card multiplies, and bytes that it reads, by the idealisation of 6.2.2."""
        if matrix not in self.known:
            self.known[matrix] = self._read(matrix)
        numbers, size = self.known[matrix]
        return numbers, size

    def _read(self, matrix: Mat) -> tuple[float, float]:
        assumed = self.problem.assumptions.read_shards
        rows, columns = self.share(matrix)
        if assumed == "exact":
            return rows * columns, self.matrix_bytes(matrix)
        fmt = getattr(self.problem.model.formats, matrix.tensor)
        whole = self.stored(fmt, matrix.rows, matrix.columns)
        if assumed == "even":
            numbers = matrix.numbers / (self.plan.tp if matrix.dealt else 1)
            return numbers, whole / self.plan.tp
        return rows * columns, whole / self.plan.stage

    def held(self, matrix: Mat) -> float:
        """Bytes that a card holds: evenly where dealt, by the idealisation of 6.2.2."""
        if matrix.dealt and self.problem.assumptions.read_shards == "even":
            fmt = getattr(self.problem.model.formats, matrix.tensor)
            return self.stored(fmt, matrix.rows, matrix.columns) / self.plan.tp
        return self.matrix_bytes(matrix)

    def entry(self, kept: Kept) -> float:
        """Bytes of one kept entry on a rank that holds its heads (6.2.2)."""
        formats = self.problem.model.formats
        fmt: KvFormat = getattr(formats, kept.tensor) or formats.kv
        apart = kept.positional if fmt.rope else 0
        size = (kept.width - apart) * BITS[fmt.dtype] / 8 + fmt.padding
        if fmt.rope:
            size += apart * BITS[fmt.rope] / 8
        if fmt.group:
            size += ceil(kept.width - apart, fmt.group) * BITS[fmt.scale] / 8
        return kept.vectors * size * ceil(kept.heads, self.holders(kept))

    def holders(self, kept: Kept) -> int:
        """Ranks of a TP group with different heads; a window is too short to share."""
        return self.plan.shards if kept.window is None else self.plan.tp

    def state(self, state: Fixed) -> float:
        return ceil(state.heads, self.plan.tp) * state.numbers * self.number(state.tensor)

    def split(self, kept: Kept) -> int:
        """Ranks among which the entries of one sequence are split."""
        return 1 if kept.window is not None else self.plan.kv_split * self.plan.cp

    def slots(self, ffn: MoeFfn) -> int:
        return ceil(ffn.experts + self.plan.redundant_experts, self.plan.ep)

    def one_expert(self, ffn: MoeFfn) -> tuple[float, float]:
        """Numbers and bytes of one expert on one card."""
        matrices, biases = expert(ffn, self.problem.model.hidden)
        numbers = sum(math.prod(self.share(m)) for m in matrices)
        size = sum(self.matrix_bytes(m) for m in matrices)
        return numbers, size + biases / self.plan.expert_tp * self.number("norms")

    def vocabulary(self) -> int:
        return ceil(self.problem.model.vocab, self.plan.tp)

    def halves(self, group: LayerGroup, *, prefill: bool) -> list[Half]:
        hidden, key = self.problem.model.hidden, (id(group), prefill)
        if key not in self.known:
            mixing = attention(group.attention, hidden, prefill=prefill)
            self.known[key] = [mixing, network(group.ffn, hidden)]
        both: list[Half] = self.known[key]
        return both

    @cached_property
    def mixer(self) -> Half:
        return mixer(self.problem.model)

    # Memory (6-1)

    def learned(self, half: Half, *, idle: bool) -> float:
        """Norm before the half, and what multiplies elementwise in it and in its mixer."""
        if not half.there:
            return 0.0
        both = half.learned + self.mixer.learned
        size = (self.problem.model.hidden + both.norms) * self.number("norms") + 4 * both.fp32
        return size + (4 * both.idle_fp32 + 8 * both.idle_int64 if idle else 0)

    def layer_bytes(self, group: LayerGroup) -> dict[str, float]:
        """Bytes of a layer by what a plan places apart."""
        size = 0.0
        for half in self.halves(group, prefill=False):
            mixing = self.mixer.matrices if half.there else []
            size += sum(self.held(m) for m in (*half.matrices, *mixing))
            size += self.learned(half, idle=True)
        found = {"weights": size, "experts": 0.0, "engram": 0.0}
        if isinstance(group.ffn, MoeFfn):
            found["experts"] = self.slots(group.ffn) * self.one_expert(group.ffn)[1]
        if group.engram:
            table = group.engram
            fmt = self.problem.model.formats.engram
            # Memory beside the cards holds a table once for all that share it.
            apart = self.plan.engram_tier in ("host", "pool")
            cards = self.plan.stage
            cards = min(cards, self.memory_of("engram").cards) if apart else cards
            found["engram"] = table.rows * table.row_bytes / cards
            found["weights"] += self.stored(fmt, table.inputs, table.outputs)
            found["weights"] += table.weights * self.number("norms")
        return found

    def session_bytes(self, group: LayerGroup, tokens: int) -> float:
        """What one session keeps in one layer."""
        half = attention(group.attention, self.problem.model.hidden)
        size = sum(self.entry(k) * k.left(tokens) / self.split(k) for k in half.kept if k.owned)
        counted = self.problem.assumptions.compressor_state == "counted"
        return size + sum(self.state(s) for s in half.states if s.passed or counted)

    @cached_property
    def stages(self) -> list[list[tuple[LayerGroup, int]]]:
        """How many layers of which group every stage holds, in order.

        The first stages take the layers left over.
        """
        stack = groups(self.problem.model)
        layers = [i for i, group in enumerate(stack) for _ in range(group.count)]
        found, start = [], 0
        for stage in range(self.plan.pp):
            size = len(layers) // self.plan.pp + (stage < len(layers) % self.plan.pp)
            here = layers[start : start + size]
            found.append([(stack[i], here.count(i)) for i in sorted({*here})])
            start += size
        return found

    @cached_property
    def stage_weights(self) -> list[dict[str, float]]:
        """Bytes of the weights of every stage, by what a plan places apart."""
        model, plan = self.problem.model, self.plan
        found = []
        for stage in self.stages:
            layers = [(self.layer_bytes(group), n) for group, n in stage]
            names = ("weights", "experts", "engram")
            found.append({name: sum(n * size[name] for size, n in layers) for name in names})
        rows = self.vocabulary()
        found[0]["weights"] += self.stored(model.formats.embedding, rows, model.hidden)
        for module in model.modules:
            found[0]["weights"] += module.bytes / (plan.tp if module.spread else 1)
        if not (model.tied_embeddings and plan.pp == 1):
            found[-1]["weights"] += self.stored(model.formats.head, model.hidden, rows)
        last = mixer(model, last=True)
        found[-1]["weights"] += sum(self.held(m) for m in last.matrices)
        found[-1]["weights"] += (model.hidden + last.learned.norms) * self.number("norms")
        found[-1]["weights"] += 4 * last.learned.fp32
        return found

    @cached_property
    def stage_sessions(self) -> list[list[float]]:
        """Bytes that a session of each class keeps in every stage at its end."""
        peaks = [c.context + c.prompt + c.generate for c in self.problem.workload.classes]
        return [
            [sum(n * self.session_bytes(group, peak) for group, n in stage) for peak in peaks]
            for stage in self.stages
        ]

    def memory(self, held: list[float]) -> dict[str, float]:
        """Bytes on the fullest card, by memory, with ``held`` sessions of each class on a rank."""
        assert self.problem.assumptions.capacity == "per_card"
        working = self.problem.hardware.memory.working
        most: dict[str, float] = {working: 0.0}
        for weights, sessions in zip(self.stage_weights, self.stage_sessions, strict=True):
            kept = sum(n * size for n, size in zip(held, sessions, strict=True))
            here: dict[str, float] = {}
            for placed, size in {**weights, "kv": kept}.items():
                name = getattr(self.plan, f"{placed}_tier")
                here[name] = here.get(name, 0.0) + size
            most = {name: max(most.get(name, 0.0), here.get(name, 0.0)) for name in most | here}
        most[working] += self.activations(sum(held)) + self.problem.assumptions.workspace
        return most

    def fits(self, held: list[float]) -> bool:
        tiers = self.problem.hardware.memory.tiers
        share = {name: tier.capacity / tier.cards for name, tier in tiers.items()}
        return all(size <= share[name] for name, size in self.memory(held).items())

    def activations(self, sessions: float) -> float:
        """Residual stream, largest intermediate of any layer, and logits in FP32."""
        if self.problem.assumptions.activations == "in_workspace":
            return 0.0
        model, plan = self.problem.model, self.plan
        longest = max(c.prompt for c in self.problem.workload.classes)
        rows = max(sessions, longest / plan.cp)
        streams = max(model.hyper_connections, 1)
        numbers = rows * (streams * model.hidden + self.intermediate)
        return numbers * self.number("activations") + sessions * self.vocabulary() * 4

    @cached_property
    def intermediate(self) -> float:
        """Largest intermediate of any layer, in numbers for each row."""
        model, plan, largest = self.problem.model, self.plan, 0.0
        for group in groups(model):
            widths = [
                sum(self.share(m)[1] for m in half.matrices if m.side == "columns")
                for half in self.halves(group, prefill=True)
            ]
            largest = max(largest, model.hidden + widths[0])
            if isinstance(group.ffn, MoeFfn):
                middle = (2 if group.ffn.gated else 1) * ceil(
                    group.ffn.intermediate, plan.expert_tp
                )
                routed = group.ffn.top_k * plan.attention_dp / plan.ep
                largest = max(largest, routed * (middle + (group.ffn.latent or model.hidden)))
            else:
                largest = max(largest, widths[1])
        return largest

    # Operators (6-2)

    def memory_of(self, placed: str) -> MemoryTier:
        tiers = self.problem.hardware.memory
        found: MemoryTier = getattr(tiers, getattr(self.plan, f"{placed}_tier"))
        return found

    def port(self, placed: str) -> str:
        """Where reads from a memory enter the card."""
        return self.memory_of(placed).port or getattr(self.plan, f"{placed}_tier")

    @property
    def rows_share_a_port(self) -> bool:
        """Whether rows of Engram tables come in beside other data."""
        return self.port("engram") in {self.port(name) for name in ("weights", "experts", "kv")}

    def read_rate(self, memory: MemoryTier) -> float:
        """Bytes a second: what the memory, the path and the reads under way let a card have."""
        rate = min(memory.bandwidth / memory.cards, memory.path or math.inf)
        if memory.in_flight:
            assert memory.transaction and memory.latency
            rate = min(rate, memory.in_flight * memory.transaction / memory.latency)
        return rate

    def reading(self, placed: str) -> float:
        """Share of the rate of a memory that reads reach, of experts and of contexts apart."""
        apart = {"experts": self.reached.experts_memory, "kv": self.reached.context_memory}
        share = apart.get(placed)
        return self.reached.memory if share is None else share

    def operator(self, tensor: str, flops: float, size: float, placed: str = "") -> Parts:
        """Computing and reading overlap inside one operator (6-2); ports work beside each other."""
        computes = flops / self.peak(tensor)
        placed = placed or PLACED.get(tensor, "weights")
        rate = self.read_rate(self.memory_of(placed)) * self.reading(placed)
        here, taken = self.port(placed), size / rate
        if placed == "engram" and not self.rows_share_a_port:
            taken = 0.0  # a pass waits for them instead
        ports = {self.port(name) for name in ("weights", "experts", "engram", "kv")}
        reads = {port: taken if port == here else 0.0 for port in ports}
        return Parts(reads, computes, {p: max(t, computes) for p, t in reads.items()})

    def peak(self, tensor: str) -> float:
        """Rate of the format in which a class is multiplied; the machine must state it."""
        formats = self.problem.model.formats
        assert self.problem.assumptions.matmul_dtype == "own"
        dtype = formats.activations.dtype
        if tensor in ("kv", "index", "window"):
            dtype = (getattr(formats, tensor) or formats.kv).compute or dtype
        elif tensor != "state":
            dtype = getattr(formats, tensor).compute or getattr(formats, tensor).dtype
        return self.problem.hardware.card.peak[dtype]

    def products(self, matrices: Iterable[Mat], rows: float) -> Parts:
        """Products of ``rows`` vectors; the matrices of one class are one operator."""
        by_class: dict[str, list[Mat]] = {}
        for matrix in matrices:
            by_class.setdefault(matrix.tensor, []).append(matrix)
        found = Parts()
        for tensor, some in by_class.items():
            read = [self.read(m) for m in some]
            flops = sum(2 * rows * numbers for numbers, _ in read)
            found += self.operator(tensor, flops, sum(size for _, size in read))
        return found

    def elementwise(self, size: float) -> Parts:
        """Reads that multiply nothing."""
        if not self.problem.assumptions.count_norms:
            return Parts()
        ranks = {"exact": 1, "even": self.plan.tp, "pooled": self.plan.stage}
        return self.operator("head", 0, size / ranks[self.problem.assumptions.read_shards])

    def tokens(self, load: Load) -> float:
        """Vectors that a card multiplies; a prefill splits the sequence over CP."""
        return load.rows * load.new / (self.plan.cp if load.prefill else 1)

    def sum_bytes(self, rows: float, width: int) -> float:
        dtype = self.problem.assumptions.reduce_dtype
        return rows * width * (BITS[dtype] / 8 if dtype else self.number("activations"))
