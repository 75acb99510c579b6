"""What an estimate takes for granted: every idealisation by name, and the shares of peaks."""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from specs.base import Count, Spec
from specs.formats import Dtype
from specs.routing import Routing
from specs.units import BytesOrZero, Factor, Fraction, SecondsOrZero

CONTEXT = ("kv", "window", "index", "state")
"""Components of a step that read what sessions keep."""


class ByPath(NamedTuple):
    """What collectives reach on the innermost fabric level, and on those beyond it."""

    inside: float = 1.0
    across: float = 1.0


STATED = ByPath()
"""All that is stated is reached."""


class PhaseEfficiency(Spec):
    """Share of the peak that is reached in one phase: of bandwidths, and of compute by operator."""

    memory: Fraction = 1.0
    """Share of the memory bandwidth in reads of weights, of experts and context if not apart."""
    experts_memory: Fraction | None = None
    """Share of the memory bandwidth in reads of routed experts."""
    context_memory: Fraction | None = None
    """Share of the memory bandwidth in reads of what sessions keep: KV, index keys, states."""
    network: Fraction = 1.0
    """Share of the link bandwidth, of All-to-Alls too if not apart."""
    alltoall: Fraction | None = None
    """Share of the link bandwidth in All-to-Alls: tokens on their way to experts and back."""
    network_across: Fraction | None = None
    """The same as ``network`` on fabric levels beyond the innermost, if apart there."""
    alltoall_across: Fraction | None = None
    """The same as ``alltoall`` on fabric levels beyond the innermost, if apart there."""
    attention_projection: Fraction = 1.0
    """Share of the compute peak in the projections of attention."""
    attention: Fraction = 1.0
    """Share of the compute peak in attention proper."""
    ffn: Fraction = 1.0
    """Share of the compute peak in dense networks and routers."""
    experts: Fraction = 1.0
    """Share of the compute peak in experts."""
    head: Fraction = 1.0
    """Share of the compute peak in the output projection."""

    def reading(self, component: str) -> float:
        """Share of the memory bandwidth in reads of a component of a step."""
        apart = None
        if component == "experts":
            apart = self.experts_memory
        elif component in CONTEXT:
            apart = self.context_memory
        return self.memory if apart is None else apart

    def linked(self, operation: str) -> ByPath:
        """Share of the link bandwidth in a collective."""
        if operation != "all_to_all":
            return ByPath(self.network, _first(self.network_across, self.network))
        inside = _first(self.alltoall, self.network)
        across = _first(self.alltoall_across, self.alltoall, self.network_across, self.network)
        return ByPath(inside, across)


class Efficiency(Spec):
    """Share of the peak that is reached, by phase."""

    decode: PhaseEfficiency = PhaseEfficiency()
    """Decode steps."""
    prefill: PhaseEfficiency = PhaseEfficiency()
    """Prefill passes."""


class StartUp(Spec):
    """Start-up times of collectives over those that the machine states."""

    reduce: Factor = 1.0
    """AllReduce, ReduceScatter, AllGather and the sends of a pipeline."""
    alltoall: Factor = 1.0
    """All-to-All, with what kernels of dispatch and combine add."""
    reduce_across: Factor | None = None
    """The same as ``reduce`` on fabric levels beyond the innermost, if apart there."""
    alltoall_across: Factor | None = None
    """The same as ``alltoall`` on fabric levels beyond the innermost, if apart there."""

    def of(self, operation: str) -> ByPath:
        """Factor on the start-up times of a collective."""
        if operation == "all_to_all":
            return ByPath(self.alltoall, _first(self.alltoall_across, self.alltoall))
        return ByPath(self.reduce, _first(self.reduce_across, self.reduce))


class PhaseOverheads(Spec):
    """Time of one pass that no peak explains; nothing hides it."""

    step: SecondsOrZero = 0.0
    """Each pass: scheduling, preparing inputs, taking the token."""
    sequence: SecondsOrZero = 0.0
    """Further for each sequence that an instance takes in or makes a token for."""
    layer: SecondsOrZero = 0.0
    """Each layer: launch of its kernels, waits between them, and collectives at their shortest."""
    moe_layer: SecondsOrZero = 0.0
    """Further for each layer with routed experts: choosing, sorting, and small products."""
    token_layer: SecondsOrZero = 0.0
    """Further for each token of a card in each layer: norms, activations, quantisation."""


class Overheads(Spec):
    """Time that no peak explains, by phase."""

    decode: PhaseOverheads = PhaseOverheads()
    """Decode steps."""
    prefill: PhaseOverheads = PhaseOverheads()
    """Prefill passes."""


def _first(*values: float | None) -> float:
    """Return the first value that is stated."""
    return next(value for value in values if value is not None)


class OverheadBand(Spec):
    """Fixed time of a step for batches up to ``up_to`` sessions (no bound if not given)."""

    up_to: Count | None = None
    """Largest batch of the band."""
    seconds: SecondsOrZero
    """Fixed time of each step."""


class Assumptions(Spec):
    """Every idealisation of the estimate, by name; each report lists those in force."""

    billing: Literal["used", "allocated"] = "used"
    """Cards that are paid for: those of the deployment, or all within ``limits``."""
    overlap: Literal["per_operator", "per_kind", "whole_step", "added"] = "per_operator"
    """Whether compute hides memory reads inside one operator, among all operators of a kind
    (those that share an efficiency, over all layers), over the whole step, or nowhere."""
    activations: Literal["estimated", "in_workspace"] = "estimated"
    """Whether activations are counted by their shapes, or contained in ``workspace``."""
    workspace: BytesOrZero = 2.0 * 2**30
    """Bytes that every card keeps free of weights and KV."""
    capacity: Literal["per_card", "pooled"] = "per_card"
    """Whether the fullest card decides, or the sum over the cards of an instance."""
    routing: Routing = "uniform_without_replacement"
    """How tokens choose experts: a word, a stated skew, or counts of an observation."""
    expert_split: Literal["whole", "fractional"] = "whole"
    """Whether an expert group holds whole experts, or the exact share of all."""
    read_shards: Literal["exact", "even", "pooled"] = "exact"
    """Whether ranks that share a KV head each hold and read its projections, or all weights that
    a TP group reads count as evenly shared, or one copy is read evenly by all cards of a stage."""
    compressor_state: Literal["counted", "in_workspace"] = "counted"
    """Whether sessions hold the tokens of entries that are not complete yet, or the workspace."""
    prefill_reads: Literal["once", "per_token"] = "once"
    """Whether a prefill reads each kept entry once, or every new token reads what it sees."""
    prefill_context: Literal["triangle", "middle"] = "triangle"
    """Whether each new token sees what precedes it, or all see as much as the middle one."""
    count_modules: bool = True
    """Whether parts beside the stack, such as a vision tower, take memory."""
    count_norms: bool = True
    """Whether a step reads normalisation weights and the embedding rows of its tokens."""
    count_embedding_rows: bool = True
    """Whether those embedding rows count where normalisation weights do."""
    matmul_dtype: Literal["own", "bf16"] = "own"
    """Whether the compute peak is that of the weights' format, or of BF16 for all."""
    reduce_dtype: Dtype | None = None
    """Format in which partial sums travel; that of the activations if not given."""
    dispatch_dtype: Dtype | None = None
    """Format in which tokens travel to experts; that of the activations if not given."""
    combine_dtype: Dtype | None = None
    """Format in which expert outputs travel back; that of the activations if not given."""
    a2a_dedup: Literal["none", "card"] = "none"
    """Whether a token is sent once per chosen expert, or once per card that holds any."""
    alltoall_levels: Literal["added", "overlapped", "outermost"] = "added"
    """Where an All-to-All crosses fabric levels: whether the time on each level is added, the
    longest of them decides, or only the outermost level counts."""
    collective_table: Literal["next_size_up", "interpolate"] = "interpolate"
    """How a measured table of collectives is read between its sizes."""
    engram_reads: Literal["counted", "hidden"] = "counted"
    """Whether rows of Engram tables take time of the memory that holds them, or none; in both cases
    a pass waits for rows that come later than its first block is computed."""
    engram_projection: Literal["whole", "with_table"] = "whole"
    """Whether each card holds and reads the projections of Engram tables whole, or they are dealt
    with the tables and not read."""
    balance: Fraction = 1.0
    """Mean over busiest of what the parts of a machine do: time on the card is divided by it."""
    communication: Literal["exposed", "hidden"] = "exposed"
    """Whether collectives add to the time of a layer, or hide behind its work as far as it goes."""
    acceptance: Annotated[tuple[Fraction, ...], Field(min_length=1, max_length=16)] = (
        0.7,
        0.5,
        0.35,
    )
    """Chance that the first, second, … drafted token is accepted, given those before it; the last
    value holds for all later ones."""
    carried: Fraction = 1.0
    """Share of the time of prompts that falls between the steps of a steady load and stretches
    them; the rest passes while nobody decodes, as where sessions start and end together."""
    cp_layout: Literal["zigzag", "contiguous"] = "zigzag"
    """How context-parallel ranks share the causal triangle of a prefill."""
    steady_context: Literal["mean", "start"] = "mean"
    """Context at which a steady step is taken: halfway through, or as at the start."""
    overhead: Annotated[tuple[OverheadBand, ...], Field(min_length=1)] | SecondsOrZero = 0.0
    """Fixed time of every step: one value, or bands by batch."""
    layer_launch: SecondsOrZero = 0.0
    """Time that every layer adds to a pass for launching its kernels and waiting for them."""
    overheads: Overheads = Overheads()
    """Time that no peak explains, beside ``overhead`` and ``layer_launch``."""
    start_up: StartUp = StartUp()
    """Start-up times of collectives over those that the machine states."""
    efficiency: Efficiency = Efficiency()
    """Share of the peaks that is reached."""

    @model_validator(mode="after")
    def _rising_bands(self) -> Self:
        if isinstance(self.overhead, tuple):
            *bounds, last = [band.up_to for band in self.overhead]
            finite = [b for b in bounds if b is not None]
            if last is not None or finite != bounds or finite != sorted(set(finite)):
                raise ValueError(
                    "overhead bands must rise by up_to, and the last must leave it out"
                )
        return self
