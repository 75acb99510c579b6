"""The roofline cost model: every operator takes the longer of computing and reading (6-2).

Operators of a layer follow each other, and so do layers; collectives overlap with nothing.
Sources of all formulas: ``docs/equations.md``. Valid for any model and machine that a spec can
describe; at data-sheet peaks it is a lower bound on time, which measured serving exceeds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from costmodels import memory, sharding
from costmodels.base import MemoryEstimate, StepEstimate
from costmodels.collectives.fabric import (
    Exchange,
    boundary_seconds,
    bytes_sent,
    exchange_seconds,
)
from costmodels.operators import attention, ffn
from costmodels.operators.sums import output_sum
from costmodels.operators.work import Operator, Pass, dense
from costmodels.pipeline import cycle
from costmodels.plans import WORDS, FloatArray, IntArray, PlanTable
from costmodels.precision import memory_by_format, step_by_format
from specs.attention import Attention
from specs.ffn import Ffn, MoeFfn
from specs.model import Draft, Engram, Layer
from specs.problem import PhaseEfficiency, Problem
from specs.tensors import Matrix, Parts


@dataclass
class _Tally:
    """Seconds of one stretch of the pass, kept apart so that either overlap rule can use them.

    ``read``      seconds of memory reads by component
    ``compute``   seconds of computing, all operators
    ``longer``    sum over operators of the longer of both, by what was longer
    ``exchange``  seconds of collectives and launches by component
    ``work``      bytes and FLOPs of the busiest card, which add up over layers
    ``counts``    counts of one layer; the largest layer speaks for the stack
    """

    plans: int
    read: dict[str, FloatArray] = field(default_factory=dict)
    compute: FloatArray | float = 0.0
    longer: dict[str, FloatArray] = field(default_factory=dict)
    exchange: dict[str, FloatArray] = field(default_factory=dict)
    work: dict[str, FloatArray] = field(default_factory=dict)
    counts: dict[str, FloatArray] = field(default_factory=dict)

    def add(self, into: dict[str, FloatArray], name: str, values: FloatArray) -> None:
        into[name] = into[name] + values if name in into else values

    def times(self, times: IntArray | float) -> "_Tally":
        """Return the tally of that many equal stretches after each other."""
        found = _Tally(self.plans)
        found.add_scaled(self, times)
        return found

    def add_scaled(self, other: "_Tally", times: IntArray | float) -> None:
        for mine, theirs in (
            (self.read, other.read),
            (self.longer, other.longer),
            (self.exchange, other.exchange),
            (self.work, other.work),
        ):
            for name, values in theirs.items():
                self.add(mine, name, values * times)
        self.compute = np.asarray(self.compute + other.compute * times, dtype=np.float64)
        for name, values in other.counts.items():
            self.counts[name] = np.maximum(self.counts.get(name, 0.0), values)

    def local(self, overlap: str) -> dict[str, FloatArray]:
        """Seconds spent on the card itself, by component, under an overlap rule."""
        if overlap == "per_operator":
            return self.longer
        reads = np.sum([np.zeros(self.plans), *self.read.values()], axis=0)
        computing = self.compute > reads
        components = {n: np.where(computing, 0.0, values) for n, values in self.read.items()}
        components["compute"] = np.where(computing, self.compute, 0.0)
        return components

    def totals(self) -> FloatArray:
        """Seconds of reads, of computing, of the longer per operator, and of collectives."""
        zero = np.zeros(self.plans)
        return np.array(
            [
                sum(self.read.values(), zero),
                self.compute + zero,
                sum(self.longer.values(), zero),
                sum(self.exchange.values(), zero),
            ]
        )


class RooflineModel:
    """Peaks and stated efficiencies; nothing is fitted."""

    name = "roofline"

    def memory(self, problem: Problem, plans: PlanTable, held: FloatArray) -> MemoryEstimate:
        """Bytes on the fullest card; see ``costmodels.memory.estimate``."""
        return memory_by_format(
            problem, plans, lambda here, some, rows: memory.estimate(here, some, held[rows])
        )

    def decode(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> StepEstimate:
        """Time of one step of each session of the batch: one token, and those it verifies.

        With a pipeline the batch is cut into micro-batches that follow each other through the
        stages: a token takes the longer of one micro-batch passing all stages, and the slowest
        stage serving all micro-batches.
        """
        return step_by_format(
            problem,
            plans,
            lambda here, some, rows: _decode(here, some, batch[rows], context[rows]),
        )

    def prefill(
        self,
        problem: Problem,
        plans: PlanTable,
        sequences: IntArray,
        tokens: FloatArray,
        prefix: FloatArray,
    ) -> StepEstimate:
        """Time of one pass that takes in ``tokens`` tokens of each of ``sequences`` sessions."""
        return step_by_format(
            problem,
            plans,
            lambda here, some, rows: _prefill(
                here, some, sequences[rows], tokens[rows], prefix[rows]
            ),
        )


def _decode(
    problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
) -> StepEstimate:
    parts = np.where(plans.pp > 1, np.minimum(plans.microbatches, np.maximum(batch, 1)), 1)
    turns = _turns(plans, -(-batch // parts))
    taken: IntArray = parts * turns
    instance = -(-batch // taken)
    pass_ = Pass(
        "decode",
        rank_sequences=-(-instance // plans.attention_dp),
        instance_sequences=instance,
        new_tokens=np.asarray(1.0 + plans.mtp, dtype=np.float64),
        held_tokens=context,
    )
    return _forward(problem, plans, pass_, parts, turns, batch)


def _prefill(
    problem: Problem,
    plans: PlanTable,
    sequences: IntArray,
    tokens: FloatArray,
    prefix: FloatArray,
) -> StepEstimate:
    turns = _turns(plans, sequences)
    instance = -(-sequences // turns)
    pass_ = Pass(
        "prefill",
        rank_sequences=-(-instance // plans.attention_dp),
        instance_sequences=instance,
        new_tokens=tokens,
        held_tokens=prefix,
    )
    return _forward(problem, plans, pass_, np.ones_like(plans.tp), turns, sequences)


def _turns(plans: PlanTable, sequences: IntArray) -> IntArray:
    """Parts of a batch that take turns on a card; a single sequence cannot be halved."""
    halved = plans.overlap == WORDS["overlap"].index("two_batch")
    return np.where(halved & (sequences > 1), 2, 1)


def _forward(
    problem: Problem,
    plans: PlanTable,
    pass_: Pass,
    parts: IntArray,
    turns: IntArray,
    batch: IntArray,
) -> StepEstimate:
    """Compose operators, collectives, stages and overhead into one step."""
    efficiency: PhaseEfficiency = getattr(problem.assumptions.efficiency, pass_.phase)
    model = problem.model
    layers = [
        _launched(problem, _taking_turns(problem, layer, turns), turns)
        for layer in _layers(problem, model.kinds, plans, pass_, efficiency)
    ]
    first, last = _edges(problem, plans, pass_, efficiency)
    if (turns > 1).any():
        first, last = first.times(turns), last.times(turns)
    if model.draft and pass_.phase == "decode" and (plans.mtp > 0).any():
        draft = _draft(problem, model.draft, plans, pass_, efficiency)
        last.add_scaled(draft.times(turns), plans.mtp)
    whole = _Tally(len(plans))
    for count, layer in zip(model.kind_counts, layers, strict=True):
        whole.add_scaled(layer, count)
    whole.add_scaled(first, 1)
    whole.add_scaled(last, 1)
    overlap = problem.assumptions.overlap
    components = {**whole.local(overlap), **whole.exchange}
    overhead = _overhead(problem, batch)
    follows = np.sum(list(components.values()), axis=0)
    if (plans.pp > 1).any():
        follows = _pipeline(
            problem, plans, pass_, parts, efficiency, layers, (first, last), components
        )
    components["overhead"] = overhead
    return StepEstimate(components, follows + overhead, {**whole.work, **whole.counts})


def _tally(
    problem: Problem,
    plans: PlanTable,
    operators: Iterable[Operator],
    exchanges: Iterable[Exchange],
    efficiency: PhaseEfficiency,
) -> _Tally:
    """Turn work into seconds: the slower of compute and reads per operator, collectives after."""
    tally = _Tally(len(plans))
    bandwidth = problem.hardware.memory.hbm.bandwidth * efficiency.memory
    for operator in operators:
        peak = problem.compute_peak(operator.tensor) * getattr(efficiency, operator.efficiency)
        read = operator.bytes / bandwidth
        compute = operator.flops / peak
        computing = compute > read
        tally.add(tally.read, operator.component, read)
        tally.compute = tally.compute + compute
        tally.add(tally.longer, operator.component, np.where(computing, 0.0, read))
        tally.add(tally.longer, "compute", np.where(computing, compute, 0.0))
        tally.add(tally.work, "flops", operator.flops)
        tally.add(tally.work, "bytes_read", operator.bytes + np.zeros(len(plans)))
        tally.add(tally.work, f"{operator.component}_bytes", operator.bytes + np.zeros(len(plans)))
    for exchange in exchanges:
        seconds = exchange_seconds(problem, plans, exchange, efficiency.network)
        tally.add(tally.exchange, exchange.component, seconds)
        tally.add(tally.work, "bytes_sent", bytes_sent(exchange))
    return tally


def _taking_turns(problem: Problem, layer: _Tally, turns: IntArray) -> _Tally:
    """Return a layer with the part of its exchanges that stays exposed.

    Two half batches take turns: while one computes, the other exchanges, so of each pair the
    shorter is hidden, but for the last exchange of a pass, which has nothing left to hide behind.
    With ``communication: hidden`` every exchange hides behind the work of its own layer.
    """
    hidden = problem.assumptions.communication == "hidden"
    if not layer.exchange or not (hidden or (turns > 1).any()):
        return layer
    local = np.sum(list(layer.local(problem.assumptions.overlap).values()), axis=0)
    sent = np.sum(list(layer.exchange.values()), axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        covered = np.where(sent > 0, np.minimum(local, sent) / sent, 0.0)
    last = 1 - 1 / (2 * problem.model.layer_count)
    share = covered if hidden else np.where(turns > 1, covered * last, 0.0)
    found = layer.times(turns)
    found.exchange = {name: values * (1 - share) for name, values in found.exchange.items()}
    return found


def _launched(problem: Problem, layer: _Tally, turns: IntArray | int) -> _Tally:
    """Add the launch time of a layer, which nothing hides."""
    launch = problem.assumptions.layer_launch
    if launch:
        layer.exchange["launch"] = launch * turns * np.ones(layer.plans)
    return layer


def _draft(
    problem: Problem, draft: Draft, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> _Tally:
    """One proposal of the draft module: its layers and the output head, one token a session."""
    model = problem.model
    one = replace(pass_, new_tokens=np.ones(len(plans)))
    rows = one.rank_tokens(plans.cp)
    join = Matrix("attention", model.hidden, model.hidden, times=draft.projections)
    operators = dense(problem, (join,), plans, rows, "attention_projection")
    exchanges = _head(problem, plans, one, operators)
    found = _tally(problem, plans, operators, exchanges, efficiency)
    kinds = [Layer.of(group) for group in draft.layers]
    layers = _layers(problem, kinds, plans, one, efficiency)
    for group, layer in zip(draft.layers, layers, strict=True):
        layer.counts.clear()
        found.add_scaled(_launched(problem, layer, 1), group.count)
    return found


def _layers(
    problem: Problem,
    kinds: Sequence[Layer],
    plans: PlanTable,
    pass_: Pass,
    efficiency: PhaseEfficiency,
) -> list[_Tally]:
    """One layer of each kind; kinds share the halves that they have in common."""
    attentions: dict[tuple[Attention, int | None], _Tally] = {}
    networks: dict[tuple[Ffn, int | None], _Tally] = {}
    layers = []
    for kind in kinds:
        last = kind.prefill_last if pass_.phase == "prefill" else None
        here = pass_ if last is None else pass_.last_tokens(last)
        of_attention, of_network = (kind.attention, last), (kind.ffn, last)
        if of_attention not in attentions:
            half = _attention(problem, kind.attention, plans, here, efficiency)
            if last is not None:
                parts = kind.attention.parts(problem.model.hidden, "prefill")
                skipped = attention.kept_only(problem, parts, plans, pass_, here)
                half.add_scaled(_tally(problem, plans, skipped, [], efficiency), 1)
            attentions[of_attention] = half
        if of_network not in networks:
            networks[of_network] = _network(problem, kind.ffn, plans, here, efficiency)
        layer = _Tally(len(plans))
        layer.add_scaled(attentions[of_attention], 1)
        layer.add_scaled(networks[of_network], 1)
        if kind.engram:
            table = _engram(problem, kind.engram, plans, here)
            layer.add_scaled(_tally(problem, plans, table, [], efficiency), 1)
        layers.append(layer)
    return layers


def _attention(
    problem: Problem,
    kind: Attention,
    plans: PlanTable,
    pass_: Pass,
    efficiency: PhaseEfficiency,
) -> _Tally:
    """The attention half of a layer."""
    parts = kind.parts(problem.model.hidden, pass_.phase)
    operators = attention.operators(problem, parts, plans, pass_)
    operators += _around(problem, parts, plans, pass_)
    exchanges = attention.exchanges(problem, parts, plans, pass_)
    if any(matrix.is_output for matrix in parts.matrices):
        exchanges += output_sum(problem, plans, pass_.rank_tokens(plans.cp))
    return _tally(problem, plans, operators, exchanges, efficiency)


def _network(
    problem: Problem, kind: Ffn, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> _Tally:
    """The feed-forward half of a layer."""
    operators = ffn.operators(problem, kind, plans, pass_)
    operators += _around(problem, kind.parts(problem.model.hidden), plans, pass_)
    exchanges = ffn.exchanges(problem, kind, plans, pass_)
    tally = _tally(problem, plans, operators, exchanges, efficiency)
    if isinstance(kind, MoeFfn):
        outcome = ffn.routed(problem, kind, plans, pass_)
        tally.counts["active_experts"] = outcome.active
        tally.counts["busiest_group_tasks"] = outcome.busiest_tasks
    return tally


def _around(problem: Problem, parts: Parts, plans: PlanTable, pass_: Pass) -> list[Operator]:
    """Norms and mixer of the residual streams around one half of a layer."""
    model = problem.model
    if not parts.matrices:
        return []
    rows = pass_.rank_tokens(plans.cp)
    found = dense(problem, model.mixer.matrices, plans, rows, "ffn")
    if problem.assumptions.count_norms:
        norms = sharding.vector_bytes(model, sharding.half_norms(model, parts), read=True)
        found.append(_vectors(problem, plans, norms))
    return found


def _engram(problem: Problem, table: Engram, plans: PlanTable, pass_: Pass) -> list[Operator]:
    """Rows that the tokens look up, and the projection of them."""
    rows = pass_.rank_tokens(plans.cp)
    looked_up = rows * (table.lookups * table.row_bytes)
    return [
        Operator("engram", "ffn", "engram", np.zeros(len(plans)), looked_up),
        *dense(problem, (table.matrix,), plans, rows, "ffn"),
    ]


def _vectors(problem: Problem, plans: PlanTable, size: FloatArray | float) -> Operator:
    """Reads that multiply nothing: norms and embedding rows, whole on every rank unless even."""
    one = np.ones_like(plans.tp)
    share = {"exact": one, "even": plans.tp, "pooled": plans.stage_cards}[
        problem.assumptions.read_shards
    ]
    nothing = np.zeros(len(plans))
    return Operator("dense_weights", "head", "head", nothing, size / share)


def _edges(
    problem: Problem, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> tuple[_Tally, _Tally]:
    """Embedding rows on the first stage; final norm and output head on the last."""
    model = problem.model
    rows = pass_.rank_tokens(plans.cp)
    first: list[Operator] = []
    last = dense(problem, model.last_mixer.matrices, plans, _projected(pass_), "ffn")
    exchanges = _head(problem, plans, pass_, last)
    if problem.assumptions.count_norms:
        row = model.hidden * model.formats.embedding.bytes_per_number
        first.append(_vectors(problem, plans, rows * row))
        last.append(_vectors(problem, plans, model.hidden * model.formats.norms.bytes_per_number))
    return (
        _tally(problem, plans, first, [], efficiency),
        _tally(problem, plans, last, exchanges, efficiency),
    )


def _projected(pass_: Pass) -> FloatArray:
    """Tokens of a rank that are projected onto the vocabulary.

    A prefill needs only the last position of each sequence, a step all that it verifies.
    """
    tokens = pass_.new_tokens if pass_.phase == "decode" else 1.0
    return np.asarray(pass_.rank_sequences * tokens, dtype=np.float64)


def _head(
    problem: Problem, plans: PlanTable, pass_: Pass, operators: list[Operator]
) -> list[Exchange]:
    """Add the output projection, and return the gather of the tokens that shards compute for."""
    model, rows = problem.model, _projected(pass_)
    together = rows * plans.head_tp
    flops = 2.0 * together * (float(model.hidden) * sharding.head_rows(model, plans))
    operators.append(Operator("dense_weights", "head", "head", flops, _head_read(problem, plans)))
    if not (plans.head_tp > 1).any():
        return []
    size = together * model.hidden * model.formats.activations.bytes_per_number
    return [Exchange("all_gather", "all_gather", plans.head_tp, plans.lanes, size)]


def _head_read(problem: Problem, plans: PlanTable) -> FloatArray:
    """Bytes of the output projection that one card reads."""
    if problem.assumptions.read_shards == "pooled":
        one = PlanTable.from_columns({"tp": [1]})
        return sharding.head_bytes(problem.model, one) / plans.stage_cards
    return sharding.head_bytes(problem.model, plans)


def _pipeline(
    problem: Problem,
    plans: PlanTable,
    pass_: Pass,
    parts: IntArray,
    efficiency: PhaseEfficiency,
    layers: list[_Tally],
    edges: tuple[_Tally, _Tally],
    components: dict[str, FloatArray],
) -> FloatArray:
    """Add the hand-over between stages and the wait for the slowest one; return its time."""
    number_bytes = problem.model.formats.activations.bytes_per_number
    shards = np.where(plans.sp == 1, plans.tp, 1)
    size = pass_.rank_tokens(plans.cp) * problem.model.hidden * number_bytes / shards
    sends, slowest_send = boundary_seconds(problem.hardware, plans, size, efficiency.network)
    components["pipeline_send"] = sends
    per_layer = np.array([layer.totals() for layer in layers])
    first, last = (edge.totals() for edge in edges)
    model = problem.model
    slowest, through = np.empty(len(plans)), np.empty(len(plans))
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        held = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
        stage = np.einsum("sg,gkp->skp", held, per_layer[:, :, rows])
        stage[0] += first[:, rows]
        stage[-1] += last[:, rows]
        seconds = _overlapped(stage, problem.assumptions.overlap)
        slowest[rows], through[rows] = seconds.max(axis=0), seconds.sum(axis=0)
    # One stage is the whole pass; the reads of one stage do not hide the computing of another.
    passing = np.sum(list(components.values()), axis=0)
    through = np.where(plans.pp > 1, through + sends, passing)
    slowest = np.where(plans.pp > 1, slowest + slowest_send, passing)
    # Two sums of the same parts may differ in their last digit.
    components["pipeline_wait"] = np.maximum(cycle(through, slowest, parts) - passing, 0.0)
    return slowest


def _overlapped(totals: FloatArray, overlap: str) -> FloatArray:
    """Seconds from ``totals`` of shape ``(stages, 4, plans)`` under an overlap rule."""
    reads, compute, longer, exchange = (totals[:, i] for i in range(4))
    return exchange + (longer if overlap == "per_operator" else np.maximum(reads, compute))


def _overhead(problem: Problem, batch: IntArray) -> FloatArray:
    """Fixed seconds of a step, by the band that the batch falls into."""
    overhead = problem.assumptions.overhead
    if not isinstance(overhead, tuple):
        return np.full(len(batch), overhead)
    bounds = [band.up_to for band in overhead if band.up_to is not None]
    seconds = np.array([band.seconds for band in overhead])
    return seconds[np.searchsorted(bounds, batch)]
