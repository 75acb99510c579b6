"""What a pass of the roofline model does: the layers of a stack, its edges, and drafted tokens."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from costmodels import sharding
from costmodels.collectives.fabric import Exchange
from costmodels.operators import attention, ffn
from costmodels.operators.sums import output_sum
from costmodels.operators.work import Operator, Pass, dense
from costmodels.plans import ONE_CARD, FloatArray, IntArray, PlanTable
from costmodels.tally import ONE_SUM, Tally, empty, tally_of
from specs.assumptions import PhaseEfficiency, PhaseOverheads
from specs.attention import Attention
from specs.ffn import Ffn, MoeFfn
from specs.model import Draft, Engram, Layer
from specs.problem import Problem
from specs.tensors import Matrix, Parts, Vectors


def layer_tallies(
    problem: Problem,
    kinds: Sequence[Layer],
    plans: PlanTable,
    pass_: Pass,
    efficiency: PhaseEfficiency,
) -> list[Tally]:
    """One layer of each kind; kinds share the halves that they have in common."""
    attentions: dict[tuple[Attention, int | None], Tally] = {}
    networks: dict[tuple[Ffn, int | None], Tally] = {}
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
                half = _if_any(half, here)
                half.join(tally_of(problem, plans, skipped, [], efficiency))
            attentions[of_attention] = half
        if of_network not in networks:
            half = _network(problem, kind.ffn, plans, here, efficiency)
            networks[of_network] = half if last is None else _if_any(half, here)
        layer = empty(problem, plans)
        layer.join(attentions[of_attention])
        layer.join(networks[of_network])
        if kind.engram:
            table = _engram(problem, kind.engram, plans, here)
            layer.join(tally_of(problem, plans, table, [], efficiency))
        layers.append(layer)
    return layers


def _if_any(half: Tally, pass_: Pass) -> Tally:
    """Return half a layer, or nothing where no token passes it."""
    return half.times((pass_.new_tokens > 0).astype(np.int64))


def _attention(
    problem: Problem,
    kind: Attention,
    plans: PlanTable,
    pass_: Pass,
    efficiency: PhaseEfficiency,
) -> Tally:
    """The attention half of a layer."""
    parts = kind.parts(problem.model.hidden, pass_.phase)
    operators = attention.operators(problem, parts, plans, pass_)
    operators += _around(problem, parts, plans, pass_)
    exchanges = attention.exchanges(problem, parts, plans, pass_)
    if any(matrix.is_output for matrix in parts.matrices):
        exchanges += output_sum(problem, plans, pass_.rank_tokens(plans.cp))
    return tally_of(problem, plans, operators, exchanges, efficiency)


def _network(
    problem: Problem, kind: Ffn, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> Tally:
    """The feed-forward half of a layer."""
    operators = ffn.operators(problem, kind, plans, pass_)
    operators += _around(problem, kind.parts(problem.model.hidden), plans, pass_)
    exchanges = ffn.exchanges(problem, kind, plans, pass_)
    tally = tally_of(problem, plans, operators, exchanges, efficiency)
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
    projection = dense(problem, (table.matrix,), plans, rows, "ffn")
    if problem.assumptions.engram_projection == "with_table":
        projection = [replace(operator, bytes=0.0 * operator.bytes) for operator in projection]
    if problem.assumptions.engram_reads == "hidden":
        return projection
    looked_up = rows * (table.lookups * table.row_bytes)
    return [Operator("engram", "ffn", "engram", np.zeros(len(plans)), looked_up), *projection]


def _vectors(problem: Problem, plans: PlanTable, size: FloatArray | float) -> Operator:
    """Reads that multiply nothing: norms and embedding rows, whole on every rank unless even."""
    one = np.ones_like(plans.tp)
    share = {"exact": one, "even": plans.tp, "pooled": plans.stage_cards}[
        problem.assumptions.read_shards
    ]
    nothing = np.zeros(len(plans))
    return Operator("dense_weights", "head", "head", nothing, size / share)


def edges(
    problem: Problem, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> tuple[Tally, Tally]:
    """Embedding rows on the first stage; final norm and output head on the last."""
    model = problem.model
    rows = pass_.rank_tokens(plans.cp)
    first: list[Operator] = []
    last = dense(problem, model.last_mixer.matrices, plans, _projected(pass_), "ffn")
    exchanges = _head(problem, plans, pass_, last)
    if problem.assumptions.count_norms:
        if problem.assumptions.count_embedding_rows:
            row = model.hidden * model.formats.embedding.bytes_per_number
            first.append(_vectors(problem, plans, rows * row))
        vectors = (Vectors(model.hidden), *model.last_mixer.vectors)
        last.append(_vectors(problem, plans, sharding.vector_bytes(model, vectors, read=True)))
    return (
        tally_of(problem, plans, first, [], efficiency),
        tally_of(problem, plans, last, exchanges, efficiency),
    )


def _projected(pass_: Pass) -> FloatArray:
    """Tokens of a rank that are projected onto the vocabulary.

    A prompt needs only its last position, which the last of its passes takes in; a step needs all
    positions that it verifies.
    """
    if pass_.phase == "decode":
        return pass_.rank_sequences * pass_.new_tokens
    return pass_.rank_sequences * (pass_.remaining_tokens == 0)


def _head(
    problem: Problem, plans: PlanTable, pass_: Pass, operators: list[Operator]
) -> list[Exchange]:
    """Add the output projection, and return the gather of the tokens that shards compute for."""
    model, rows = problem.model, _projected(pass_)
    together = rows * plans.head_tp
    flops = 2.0 * together * (float(model.hidden) * sharding.head_rows(model, plans))
    read = _head_read(problem, plans) * (rows > 0)
    operators.append(Operator("dense_weights", "head", "head", flops, read))
    if not (plans.head_tp > 1).any():
        return []
    size = together * model.hidden * model.formats.activations.bytes_per_number
    return [Exchange("all_gather", "all_gather", plans.head_tp, plans.lanes, size)]


def _head_read(problem: Problem, plans: PlanTable) -> FloatArray:
    """Bytes of the output projection that one card reads."""
    if problem.assumptions.read_shards == "pooled":
        return sharding.head_bytes(problem.model, ONE_CARD) / plans.stage_cards
    return sharding.head_bytes(problem.model, plans)


def drafted(
    problem: Problem, draft: Draft, plans: PlanTable, pass_: Pass, efficiency: PhaseEfficiency
) -> Tally:
    """One pass of the draft module: in decode a proposal, one token a session and the output head.

    A prefill takes the prompt through the module as well, to leave its context there.
    """
    model = problem.model
    proposing = pass_.phase == "decode"
    one = replace(pass_, new_tokens=np.ones(len(plans))) if proposing else pass_
    rows = one.rank_tokens(plans.cp)
    join = Matrix("attention", model.hidden, model.hidden, times=draft.projections)
    operators = dense(problem, (join,), plans, rows, "attention_projection")
    exchanges = _head(problem, plans, one, operators) if proposing else []
    found = tally_of(problem, plans, operators, exchanges, efficiency)
    kinds = [Layer.of(group) for group in draft.layers]
    layers = layer_tallies(problem, kinds, plans, one, efficiency)
    for group, layer in zip(draft.layers, layers, strict=True):
        layer.counts.clear()
        with_launch = launched(problem, Layer.of(group), plans, one, layer, 1)
        found.join(with_launch.times(group.count))
    return found


def launched(
    problem: Problem,
    kind: Layer,
    plans: PlanTable,
    pass_: Pass,
    layer: Tally,
    turns: IntArray | int,
) -> Tally:
    """Return all turns of a layer with their launches and vector work, which nothing hides."""
    assumptions = problem.assumptions
    fixed: PhaseOverheads = getattr(assumptions.overheads, pass_.phase)
    launch = assumptions.layer_launch + fixed.layer
    launch += fixed.moe_layer if isinstance(kind.ffn, MoeFfn) else 0.0
    added = {}
    if launch:
        added["launch"] = launch * turns * np.ones(layer.plans)
    if fixed.token_layer:
        added["vector"] = fixed.token_layer * turns * pass_.rank_tokens(plans.cp)
    return replace(layer, exchange={**layer.exchange, **added}) if added else layer


def exposed(
    problem: Problem, plans: PlanTable, layers: Sequence[Tally], turns: IntArray
) -> list[Tally]:
    """Return layers of all turns, with the part of their exchanges that stays exposed.

    Two half batches take turns: while one computes, the other exchanges, so of each pair the
    shorter is hidden, but for the last exchange of a pass, which has nothing left to hide behind.
    With ``communication: hidden`` every exchange hides behind the work of its layer.
    """
    hidden = problem.assumptions.communication == "hidden"
    if not hidden and not (turns > 1).any():
        return list(layers)
    most = 1.0 if hidden else np.where(turns > 1, 1 - 1 / (2 * problem.model.layer_count), 0.0)
    if problem.assumptions.overlap in ONE_SUM:
        behind = [_covered(problem, layer) for layer in layers]
    else:
        # What hides an exchange must be charged: reads and computing are summed over the step.
        whole = empty(problem, plans)
        for count, layer in zip(problem.model.kind_counts, layers, strict=True):
            whole.join(layer.times(count))
        behind = [_covered(problem, whole)] * len(layers)
    return [
        replace(
            layer.times(turns),
            exchange={
                name: values * turns * (1 - most * share) for name, values in layer.exchange.items()
            },
        )
        for layer, share in zip(layers, behind, strict=True)
    ]


def _covered(problem: Problem, stretch: Tally) -> FloatArray:
    """Share of the exchanges of a stretch that its work on the card is long enough to hide."""
    local = np.sum(list(stretch.local(problem.assumptions.overlap).values()), axis=0)
    sent = np.sum([np.zeros(stretch.plans), *stretch.exchange.values()], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(sent > 0, np.minimum(local, sent) / sent, 0.0)
