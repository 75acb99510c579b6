"""The values that each axis may take, and how axes that nobody states follow from others."""

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd

import numpy as np

from constraints.limits import most_servers
from costmodels.collectives.crossing import reduces
from costmodels.collectives.domains import instances_held
from costmodels.following import even_copies, expert_groups
from costmodels.plans import NEUTRAL, TIER_AXES, WORDS, IntArray, PlanTable, encode
from specs.precision import RECIPES
from specs.problem import Problem
from specs.space import AXES
from specs.units import ROUNDING

_EXPERT_TP_MOST = 8
"""Widest expert TP that people deploy; ``open`` goes further."""

_OPEN_DRAFTS = 5
"""Longest draft that ``open`` tries."""

_OPEN_BATCHES = tuple(2**i for i in range(13))


def divisors(number: int) -> tuple[int, ...]:
    """All divisors of ``number`` in rising order."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return tuple(sorted({*small, *(number // d for d in small)}))


def _powers_of_two(most: int) -> tuple[int, ...]:
    return tuple(2**i for i in range(max(most, 1).bit_length()))


def _shared_divisors(numbers: list[int], most: int) -> tuple[int, ...]:
    return tuple(d for d in divisors(gcd(*numbers)) if d <= most)


@dataclass(frozen=True)
class Derived:
    """An axis that follows from others where the spec does not state it."""

    reads: tuple[str, ...]
    value: Callable[[Problem, PlanTable], IntArray]


def _replicas(problem: Problem, plans: PlanTable) -> IntArray:
    """As many instances as all limits allow, and no more than are of use; at least one."""
    limits, hardware = problem.limits, problem.hardware
    cards = min(problem.card_limit, most_servers(problem) * hardware.server.cards)
    held = instances_held(hardware, plans, cards) - plans.prefill_replicas
    if limits.money_per_hour is not None and hardware.card.price:
        each = hardware.card.price * 3600 * plans.cards
        affordable = np.floor(limits.money_per_hour / each * (1 + ROUNDING))
        held = np.minimum(held, affordable.astype(np.int64) - plans.prefill_replicas)
    if problem.assumptions.billing == "used":
        # An instance that no session reaches would only be paid for.
        workload = problem.workload
        sessions = workload.session_count or workload.concurrency
        held = np.minimum(held, sessions) if sessions else held
    return np.maximum(held, 1)


DERIVED: dict[str, Derived] = {
    "ep": Derived(("tp", "cp", "attention_dp", "attention_replicas", "expert_tp"), expert_groups),
    "redundant_experts": Derived(("ep",), even_copies),
    "microbatches": Derived(("pp",), lambda problem, plans: plans.pp),
    "replicas": Derived(
        ("tp", "cp", "attention_dp", "attention_replicas", "pp", "prefill_replicas", "domain"),
        _replicas,
    ),
}
"""Axes that follow from others, in the order in which they are filled in."""


def _default(problem: Problem, axis: str) -> tuple[int, ...]:
    """Values of an axis that the spec does not name; documented in ``specs.space.Space``."""
    cards, model = problem.card_limit, problem.model
    inner = problem.hardware.levels[0].size
    if axis == "tp":
        heads = list(model.units("heads")) or [cards]
        return _shared_divisors(heads, min(cards, inner))
    if axis == "pp":
        domains = min(-(-cards // inner), model.layer_count)
        return tuple(sorted({1, domains}))
    if axis == "attention_dp" and model.is_moe:
        return divisors(cards)
    if axis == "expert_tp" and model.is_moe:
        return _powers_of_two(min(cards, _EXPERT_TP_MOST))
    if axis == "domain":
        return problem.hardware.levels[0].sizes[-1:] or (NEUTRAL[axis],)
    if axis in TIER_AXES:
        memory = problem.hardware.memory
        return (encode(axis, memory.working if axis == "kv_tier" else memory.weights),)
    return (NEUTRAL[axis],)


def _open(problem: Problem, axis: str) -> tuple[int, ...]:
    """All values of an axis that can fit at all."""
    cards, model = problem.card_limit, problem.model
    heads = list(model.units("heads")) or [cards]
    moe = model.is_moe
    ranges: dict[str, Callable[[], tuple[int, ...]]] = {
        "tp": lambda: _shared_divisors(heads, cards),
        "kv_split": lambda: _shared_divisors(heads, cards),
        "pp": lambda: tuple(range(1, min(cards, model.layer_count) + 1)),
        "cp": lambda: tuple(sorted({*_powers_of_two(cards), *divisors(cards)})),
        "sp": lambda: (0, 1),
        "attention_dp": lambda: divisors(cards) if moe else (1,),
        "attention_replicas": lambda: divisors(cards) if moe else (1,),
        "ep": lambda: tuple(range(1, cards + 1)) if moe else (1,),
        "expert_tp": lambda: (
            _shared_divisors([f.intermediate for f in model.moe], cards) if moe else (1,)
        ),
        "redundant_experts": lambda: tuple(range(0, cards)) if moe else (0,),
        "o_proj_tp": lambda: divisors(cards) if moe else (1,),
        "head_tp": lambda: divisors(cards) if moe else (1,),
        "replicas": lambda: tuple(range(1, cards + 1)),
        "prefill_replicas": lambda: tuple(range(0, cards)),
        "domain": lambda: problem.hardware.levels[0].sizes or _default(problem, axis),
        "batch": lambda: _OPEN_BATCHES,
        "microbatches": lambda: tuple(range(1, 2 * min(cards, model.layer_count) + 1)),
        "prefill_chunk": lambda: (0, *(2**i for i in range(9, 16))),
        "mtp": lambda: tuple(range(0, _OPEN_DRAFTS + 1)) if model.draft else (0,),
    }
    if axis in TIER_AXES:
        return _tiers(problem, axis)
    if axis == "precision":
        return tuple(i for i, name in enumerate(RECIPES) if problem.can_multiply(name))
    if axis == "allreduce":
        able = any(reduces(level) for level in problem.hardware.levels)
        return tuple(i for i, name in enumerate(WORDS[axis]) if able or name != "in_network")
    if axis in WORDS:
        return tuple(range(len(WORDS[axis])))
    return ranges[axis]()


def _places_nothing(problem: Problem, axis: str) -> bool:
    """Whether the model has nothing that the axis places: all its values are one plan."""
    model = problem.model
    if axis == "engram_tier":
        return not any(kind.engram for kind in model.kinds)
    return axis == "experts_tier" and not model.is_moe


def _tiers(problem: Problem, axis: str) -> tuple[int, ...]:
    """Memories that may hold what an axis places."""
    if _places_nothing(problem, axis):
        return _default(problem, axis)
    tiers = problem.hardware.memory.tiers
    return tuple(
        encode(axis, name) for name, tier in tiers.items() if tier.writable or axis != "kv_tier"
    )


def stated(problem: Problem, axis: str) -> tuple[int, ...] | None:
    """Values that the spec states for an axis; ``None`` if it states nothing."""
    given = getattr(problem.space, axis)
    if given is None:
        return None
    if given == "open":
        return _open(problem, axis)
    values = tuple(dict.fromkeys(encode(axis, value) for value in given))
    if not _places_nothing(problem, axis):
        return values
    usual = _default(problem, axis)
    return usual if usual[0] in values else values[:1]


def domains(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Values of every axis that is chosen; axes that follow from others are left out."""
    found: dict[str, tuple[int, ...]] = {}
    for axis in AXES:
        values = stated(problem, axis)
        if values is None and axis in DERIVED:
            continue
        found[axis] = values if values is not None else _default(problem, axis)
    return found


def wide_domains(problem: Problem) -> dict[str, tuple[int, ...]]:
    """Stated values joined with the defaults: what a user could allow who restricts an axis."""
    wide = domains(problem)
    for axis, values in wide.items():
        if stated(problem, axis) is not None:
            usual = _open(problem, axis) if axis in DERIVED else _default(problem, axis)
            wide[axis] = tuple(dict.fromkeys((*values, *usual)))
    return wide


def base_axes(axes: tuple[str, ...], chosen: dict[str, tuple[int, ...]]) -> tuple[str, ...]:
    """Chosen axes that ``axes`` depend on, derived ones traced to what they follow from."""
    found: set[str] = set()
    todo = list(axes)
    while todo:
        axis = todo.pop()
        if axis in chosen:
            found.add(axis)
        else:
            todo.extend(DERIVED[axis].reads)
    return tuple(axis for axis in AXES if axis in found)


def complete(problem: Problem, columns: dict[str, IntArray]) -> PlanTable:
    """Build a table from chosen columns and fill in the axes that follow from them."""
    plans = PlanTable.from_columns(columns)
    for axis, derived in DERIVED.items():
        if axis not in columns:
            plans = plans.with_columns(**{axis: derived.value(problem, plans)})
    return plans
