"""The roofline cost model: every operator takes the longer of computing and reading (6-2).

Operators of a layer follow each other, and so do layers. Collectives follow them and hide behind
nothing, unless a plan lets two half batches take turns or the spec assumes that they are hidden.
Sources of all formulas: ``docs/equations.md``. Valid for any model and machine that a spec can
describe; at data-sheet peaks it is a lower bound on time, which measured serving exceeds.
"""

import numpy as np

from costmodels import memory, sharding
from costmodels.base import Basis, MemoryEstimate, StepEstimate
from costmodels.collectives.fabric import boundary_seconds
from costmodels.engram import fetch
from costmodels.operators.work import Pass, Phase
from costmodels.pipeline import cycle
from costmodels.plans import FloatArray, IntArray, PlanTable
from costmodels.precision import memory_by_format, step_by_format
from costmodels.stack import drafted, edges, exposed, launched, layer_tallies
from costmodels.tally import Tally, empty, overlapped
from specs.assumptions import PhaseEfficiency, PhaseOverheads
from specs.problem import Problem


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
        remaining: FloatArray | None = None,
    ) -> StepEstimate:
        """Time of one pass that takes in ``tokens`` tokens of each of ``sequences`` sessions."""
        left = np.zeros(len(plans)) if remaining is None else remaining
        return step_by_format(
            problem,
            plans,
            lambda here, some, rows: _prefill(
                here, some, sequences[rows], tokens[rows], prefix[rows], left[rows]
            ),
        )

    def basis(
        self, problem: Problem, plans: PlanTable, batch: IntArray, context: FloatArray
    ) -> Basis:
        """Formulas and stated efficiencies, which cover every plan."""
        return Basis.of_formula("roofline at stated efficiencies", len(plans))


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
    remaining: FloatArray,
) -> StepEstimate:
    turns = _turns(plans, sequences)
    instance = -(-sequences // turns)
    pass_ = Pass(
        "prefill",
        rank_sequences=-(-instance // plans.attention_dp),
        instance_sequences=instance,
        new_tokens=tokens,
        held_tokens=prefix,
        remaining_tokens=remaining,
    )
    return _forward(problem, plans, pass_, np.ones_like(plans.tp), turns, sequences)


def _turns(plans: PlanTable, sequences: IntArray) -> IntArray:
    """Parts of a batch that take turns on a card; one sequence of a shard cannot be halved."""
    halved = plans.has("overlap", "two_batch")
    return np.where(halved & (sequences > plans.attention_dp), 2, 1)


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
    halves = layer_tallies(problem, model.kinds, plans, pass_, efficiency)
    layers = [
        launched(problem, kind, plans, pass_, layer, turns)
        for kind, layer in zip(model.kinds, exposed(problem, plans, halves, turns), strict=True)
    ]
    first, last = edges(problem, plans, pass_, efficiency)
    if (turns > 1).any():
        first, last = first.times(turns), last.times(turns)
    if model.draft and (plans.mtp > 0).any():
        draft = drafted(problem, model.draft, plans, pass_, efficiency)
        # One proposal after the other in decode; a prompt passes the module once.
        passes = plans.mtp if pass_.phase == "decode" else np.minimum(plans.mtp, 1)
        last.join(draft.times(turns * passes))
    whole = empty(problem, plans)
    for count, layer in zip(model.kind_counts, layers, strict=True):
        whole.join(layer.times(count))
    overlap = problem.assumptions.overlap
    whole.join(first)
    whole.join(last)
    components = {**whole.local(overlap), **whole.exchange}
    overhead = _overhead(problem, pass_.phase, batch)
    follows = np.sum(list(components.values()), axis=0)
    if (plans.pp > 1).any():
        follows = _pipeline(
            problem, plans, pass_, (parts, turns), efficiency, layers, (first, last), components
        )
    if rows := fetch(problem, plans, pass_, efficiency, turns):
        passing = np.sum(list(components.values()), axis=0)
        rest = _after_first_block(problem, plans, layers, (first, last))
        reading, exchanging = rows.late(passing, rest + components.get("pipeline_send", 0.0))
        components |= {"engram_wait": reading, "engram_exchange": exchanging}
        # The first stage of a pipeline is taken until the rows of its pass are there.
        waited = np.where(plans.pp > 1, rows.seconds, passing + reading + exchanging)
        follows = np.maximum(follows, waited)
    components["overhead"] = overhead
    return StepEstimate(components, follows + overhead, {**whole.work, **whole.counts})


def _after_first_block(
    problem: Problem, plans: PlanTable, layers: list[Tally], edges: tuple[Tally, Tally]
) -> FloatArray:
    """Seconds on the cards of what follows the first of equal blocks, without Engram rows."""
    model, overlap = problem.model, problem.assumptions.overlap
    stack = empty(problem, plans)
    for count, layer in zip(model.kind_counts, layers, strict=True):
        stack.join(layer.but("engram").times(count))
    later = stack.seconds(overlap) * (1 - 1 / model.layer_count)
    first, last = (edge.seconds(overlap) for edge in edges)
    return later + first + last


def _pipeline(
    problem: Problem,
    plans: PlanTable,
    pass_: Pass,
    shares: tuple[IntArray, IntArray],
    efficiency: PhaseEfficiency,
    layers: list[Tally],
    edges: tuple[Tally, Tally],
    components: dict[str, FloatArray],
) -> FloatArray:
    """Add the hand-over between stages and the wait for the slowest one; return its time.

    ``shares``: micro-batches, and the parts of each that take turns on a card.
    """
    number_bytes = problem.model.formats.activations.bytes_per_number
    shards = np.where(plans.sp == 1, plans.tp, 1)
    parts, turns = shares
    size = pass_.rank_tokens(plans.cp) * problem.model.residual_width * number_bytes / shards
    reached = efficiency.linked("send"), problem.assumptions.start_up.of("send")
    sends, slowest_send = boundary_seconds(problem.hardware, plans, size, *reached)
    sends, slowest_send = sends * turns, slowest_send * turns
    components["pipeline_send"] = sends
    overlap = problem.assumptions.overlap
    per_layer = np.array([layer.totals(overlap) for layer in layers])
    ports = len(edges[0].ports)
    first, last = (edge.totals(overlap) for edge in edges)
    model = problem.model
    slowest, through = np.empty(len(plans)), np.empty(len(plans))
    for stages in np.unique(plans.pp):
        rows = np.flatnonzero(plans.pp == stages)
        held = sharding.stage_layers(model.runs, len(model.kinds), int(stages))
        stage = np.einsum("sg,gkp->skp", held, per_layer[:, :, rows])
        stage[0] += first[:, rows]
        stage[-1] += last[:, rows]
        seconds = overlapped(stage, overlap, ports)
        slowest[rows], through[rows] = seconds.max(axis=0), seconds.sum(axis=0)
    # One stage is the whole pass; the reads of one stage do not hide the computing of another.
    passing = np.sum(list(components.values()), axis=0)
    through = np.where(plans.pp > 1, through + sends, passing)
    slowest = np.where(plans.pp > 1, slowest + slowest_send, passing)
    # Two sums of the same parts may differ in their last digit.
    components["pipeline_wait"] = np.maximum(cycle(through, slowest, parts) - passing, 0.0)
    return slowest


def _overhead(problem: Problem, phase: Phase, batch: IntArray) -> FloatArray:
    """Seconds of a pass beside its layers, by the number of its sequences."""
    overhead = problem.assumptions.overhead
    fixed: PhaseOverheads = getattr(problem.assumptions.overheads, phase)
    beside = fixed.step + fixed.sequence * np.asarray(batch, dtype=np.float64)
    if not isinstance(overhead, tuple):
        return overhead + beside
    bounds = [band.up_to for band in overhead if band.up_to is not None]
    seconds = np.array([band.seconds for band in overhead])
    return seconds[np.searchsorted(bounds, batch)] + beside
