"""The axes of a plan and the values that a user lets each take."""

from typing import Annotated, Literal, TypeVar

from pydantic import BeforeValidator, Field

from specs.base import Count, CountOrZero, Spec
from specs.memory import Tier
from specs.precision import KvPrecision, Precision

MOST_VALUES = 1000
"""Values that may be listed for one axis."""

MOST_DRAFTED = 16
"""Tokens that a step may verify beside its own."""


_LISTED = Field(min_length=1, max_length=MOST_VALUES)


def _as_tuple(value: object) -> object:
    """Let one value stand for a list of one; leave words and lists to the next check."""
    if isinstance(value, int | str) and value != "open":
        return (value,)
    return value


T = TypeVar("T")

Values = Annotated[
    Literal["open"] | Annotated[tuple[T, ...], _LISTED],
    BeforeValidator(_as_tuple),
]
"""What may be said of an axis: the word ``open``, one value, or a list of them."""

Degrees = Values[Count]
Counts = Values[CountOrZero]
Drafts = Values[Annotated[CountOrZero, Field(le=MOST_DRAFTED)]]
Switches = Values[bool]
Precisions = Values[Precision]
KvDtypes = Values[KvPrecision]
SharedLayouts = Values[Literal["dealt", "copied"]]
Overlaps = Values[Literal["none", "two_batch"]]
Tiers = Values[Tier]
AllReduce = Values[
    Literal["auto", "ring", "tree", "hierarchical", "in_network", "recursive", "swing"]
]
AllToAll = Values[Literal["auto", "direct", "pairwise"]]


class Space(Spec):
    """Values that each axis may take; an axis left out takes its default, ``open`` all that fits.

    The order of the fields is the order of the axes in every table.
    """

    tp: Degrees | None = None
    """Tensor parallel ranks of attention and dense layers. Default and ``open``: every degree
    that divides the query heads, up to the cards (by default up to one inner domain)."""
    kv_split: Degrees | None = None
    """Ranks of a TP group that split the history instead of replicating KV heads; divides
    ``tp``. Default 1; ``open``: all divisors of a TP degree."""
    pp: Degrees | None = None
    """Pipeline stages. Default: 1, and one stage per inner domain; ``open``: every count up to
    the layers."""
    cp: Degrees | None = None
    """Context parallel ranks. Default 1; ``open``: powers of two and divisors of the cards."""
    sp: Switches | None = None
    """Sequence parallel in the TP group (multiplies no cards). Default false; ``open``: both."""
    attention_dp: Degrees | None = None
    """Shards of the batch inside one instance of a mixture of experts. Default and ``open``:
    divisors of the cards."""
    attention_replicas: Degrees | None = None
    """Copies of attention over the expert groups, in place of dispatch. Default 1; ``open``:
    divisors of the cards."""
    ep: Degrees | None = None
    """Expert groups. Default: what the other degrees leave."""
    expert_tp: Degrees | None = None
    """Ranks that split each expert. Default: powers of two up to 8; ``open``: divisors of the
    intermediate width."""
    redundant_experts: Counts | None = None
    """Extra copies of experts. Default: the fewest that make the split over EP even."""
    shared_experts: SharedLayouts | None = None
    """Whether TP deals the experts that every token runs, or each rank holds a copy. Default
    ``dealt``; ``open``: both."""
    o_proj_tp: Degrees | None = None
    """Batch shards that deal the output projection of attention among them. Default 1; ``open``:
    divisors of the cards."""
    head_tp: Degrees | None = None
    """Batch shards that deal the output head among them. Default 1; ``open``: divisors of the
    cards."""
    replicas: Degrees | None = None
    """Equal instances (data parallel). Default: as many as the limits allow, and, where only used
    cards are billed, no more than there are sessions; ``open``: every count up to the cards."""
    prefill_replicas: Counts | None = None
    """Further equal instances that only take in prompts and hand their KV over (``steady``), 0 for
    prompts on the same cards. Default 0; ``open``: every count up to the cards."""
    domain: Degrees | None = None
    """Cards of one domain of the innermost fabric level, where the machine lists several
    ``sizes``. Default: the largest; ``open``: all that it lists."""
    precision: Precisions | None = None
    """Recipe of weight formats. Default ``checkpoint``; ``open``: all that the card can
    multiply."""
    kv_dtype: KvDtypes | None = None
    """Format of keys and values. Default ``checkpoint``; ``open``: all."""
    weights_tier: Tiers | None = None
    """Memory that holds the weights of attention, dense networks, routers and head. Default: ROM
    where the machine has one, else its working memory; ``open``: every memory that it has."""
    experts_tier: Tiers | None = None
    """Memory that holds routed experts. Default and ``open`` as for ``weights_tier``."""
    engram_tier: Tiers | None = None
    """Memory that holds Engram tables. Default and ``open`` as for ``weights_tier``."""
    kv_tier: Tiers | None = None
    """Memory that holds what is kept of the context. Default: the working memory; ``open``: every
    memory that can be written."""
    batch: Degrees | None = None
    """Sessions that one instance decodes together. Default: all it is given (``burst``), or the
    cheapest within memory and limits (``steady``)."""
    microbatches: Degrees | None = None
    """Parts of a batch that follow each other through the pipeline, never more than the batch has
    sessions. Default: as many as stages; ``open``: 1 up to twice the stages."""
    overlap: Overlaps | None = None
    """Whether two halves of a batch take turns, one computing while the other exchanges. Default
    ``none``; ``open``: both."""
    prefill_chunk: Counts | None = None
    """Tokens of a prompt that one pass takes in; 0 for whole prompts. Default 0; ``open``: powers
    of two from 512 to 32768."""
    mtp: Drafts | None = None
    """Tokens that the draft module proposes in each step. Default 0; ``open``: 0 to 5."""
    allreduce: AllReduce | None = None
    """Algorithm of AllReduce. Default ``auto``: the fastest of ring, tree, one ring inside
    another (``hierarchical``) and the switches (``in_network``) for each group and size;
    ``open``: those and the ones that only a spec names."""
    alltoall: AllToAll | None = None
    """Algorithm of All-to-All. Default ``auto``: the faster one for each group and size."""
    where: tuple[str, ...] = ()
    """Further rules between axes, such as ``ep == attention_dp`` or ``tp * cp <= 8``."""


AXES: dict[str, str] = {
    name: (field.description or "") for name, field in Space.model_fields.items() if name != "where"
}
"""Every axis of a plan, in table order, with its description."""
