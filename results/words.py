"""Numbers, plans and answers in words, the same in every output."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from costmodels.engine_memory import OUTSIDE
from costmodels.plans import NEUTRAL, decode
from specs.space import AXES

Document = Mapping[str, Any]

NOTHING = "Nothing is feasible; planner rank says why."

CURRENCY_UNIT = {"gpu_seconds": "GPU·s", "joules": "J", "money": "money"}
"""Unit of each currency as people read it."""


def quantity(value: float | None, unit: str) -> str:
    """Return a number with a readable prefix: ``119.1 ms``, ``52.09 GB``."""
    if value is None:
        return "–"
    if unit in {"bytes", "B"}:
        return f"{value / 1e9:,.2f} GB"
    if unit in {"seconds", "s"}:
        size = abs(value)
        for limit, factor, name in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
            if size < limit:
                return f"{value * factor:,.3f} {name}"
        return f"{value:,.3f} s"
    if unit == "bytes/s":
        return f"{value / 1e9:,.1f} GB/s"
    if unit == "watts":
        return f"{value / 1e3:,.1f} kW"
    return f"{value:,.6g} {unit}".strip()


_CHANGES = 0.0005
"""Relative change of a cost below which an assumption is not worth a sentence."""

_MORE_BYTES = 5e6
"""Change of what a card holds below which it would read as 0.00 GB."""

_ALWAYS = ("tp", "replicas")


def plan_name(plan: Mapping[str, Any], without: Collection[str] = ()) -> str:
    """Name a plan by the axes that do something; ``tp`` and ``replicas`` always."""
    words = []
    for axis in AXES:
        value = plan.get(axis)
        telling = axis in _ALWAYS or value != decode(axis, NEUTRAL[axis])
        if telling and axis not in without:
            words.append(_setting(axis, value))
    return " ".join(words)


def _setting(axis: str, value: Any) -> str:
    """Return an axis and its value as a spec would have them."""
    return f"{axis}={str(value).lower() if isinstance(value, bool) else value}"


def common_axes(plans: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Axes that all of several plans set alike, and that need not be said of each."""
    if len(plans) < 2:
        return {}
    first = plans[0]
    return {
        axis: first[axis]
        for axis in AXES
        if axis not in _ALWAYS
        and first[axis] != decode(axis, NEUTRAL[axis])
        and all(plan[axis] == first[axis] for plan in plans)
    }


def common_name(plans: Sequence[Mapping[str, Any]]) -> str:
    """Say what all of several plans set alike; empty if nothing."""
    words = [_setting(axis, value) for axis, value in common_axes(plans).items()]
    return f"all with {' '.join(words)}" if words else ""


def share(value: float) -> str:
    """Return a share as a percentage; a small one is not rounded to nothing."""
    return f"{value:.1%}" if value >= 0.0005 or value == 0 else "less than 0.1%"


def stated(value: Any, unit: str = "") -> str:
    """Return the value of an assumption as a spec would have it; one left out is not given."""
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return quantity(value, unit) if value and unit in {"bytes", "s"} else f"{value:.12g}"
    if isinstance(value, Mapping):
        return " ".join(f"{key} {stated(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(stated(part) for part in value)
    return str(value)


def departure(document: Document, assumption: Document) -> str:
    """Say what the default of an assumption would make of the best plan; empty if nothing."""
    default = assumption.get("with_default")
    if not default:
        return ""
    plan = document["plans"][0]
    best = plan["outcome"]["cost_per_on_time_session"]
    found = []
    if default["cost_per_on_time_session"] is None:
        found.append("no session would be on time")
    elif abs(more := default["cost_per_on_time_session"] / best - 1) >= _CHANGES:
        found.append(f"the cost would be {share(abs(more))} {'higher' if more > 0 else 'lower'}")
    found += _moved(plan["memory"]["tiers"], default["tiers"])
    if not default["feasible"]:
        found.append("this batch would not fit or be late")
    unit = assumption.get("unit", "")
    usual, value = (stated(part, unit) for part in (default["default"], assumption["value"]))
    what = f"{assumption['name']} {usual} in place of {value}"
    return f"{what}: {', and '.join(found)}" if found else ""


def _moved(here: Sequence[Document], there: Sequence[Document]) -> list[str]:
    """Say how much more or less of each memory the fullest card would hold; empty if nothing."""
    held = {tier["tier"]: tier["per_card_bytes"] for tier in here}
    more = {tier["tier"]: tier["per_card_bytes"] - held.get(tier["tier"], 0.0) for tier in there}
    words = [
        f"{quantity(abs(size), 'bytes')} {'more' if size > 0 else 'less'} in {name}"
        for name, size in more.items()
        if abs(size) >= _MORE_BYTES
    ]
    return [f"a card would hold {' and '.join(words)}"] if words else []


def others_held(memory: Document) -> list[str]:
    """List what a plan holds outside the working memory of its fullest card, in GB a card.

    What an engine takes beside its share lies in the working memory as well.
    """
    return [
        f"{tier['tier']} {tier['per_card_bytes'] / 1e9:.2f}"
        for tier in memory["tiers"][1:]
        if tier["per_card_bytes"] and tier["tier"] != OUTSIDE
    ]


def _best_first(item: Document) -> tuple[float, float]:
    return item["rank"] or math.inf, item["cost_per_on_time_session"]


def best_sizes(document: Document) -> list[Document]:
    """Return the best plan of each size of domain, smallest size first; none for one size."""
    best: dict[int, Document] = {}
    for item in sorted(document.get("by_domain", ()), key=_best_first):
        best.setdefault(item["domain"], item)
    return [best[size] for size in sorted(best)]


def binding(document: Document) -> str:
    """Say what keeps the batch from growing in the best plan of each size of domain."""
    best = best_sizes(document)
    words = {item["bound_by"] for item in best}
    if len(words) == 1:
        return f"{words.pop()} binds the best plan of every size"
    return ", ".join(f"{item['bound_by']} binds at {item['domain']} cards" for item in best)


def site(plan: Document) -> str:
    """Say where the servers of a plan stand, and what the worst failure takes down."""
    facility = plan["facility"]
    servers = facility["servers"]
    parts = [f"{servers} server{'' if servers == 1 else 's'}"]
    if "power_w" in facility:
        parts.append(quantity(facility["power_w"], "watts"))
    racks = facility.get("racks")
    if racks:
        cooled = f" cooled by {racks['cooling']}" if "cooling" in racks else ""
        parts.append(f"{racks['count']} rack{'' if racks['count'] == 1 else 's'}{cooled}")
    worst = max(facility["failure_domains"], key=lambda domain: domain["sessions_lost"])
    lost = f"one failed {worst['name']} takes down {share(worst['sessions_lost'])} of the sessions"
    return f"{', '.join(parts)}; {lost}."


def noisy_ties(document: Document, most: int = 3) -> list[Document]:
    """Return the first plans that noise does not tell from the best."""
    tied = (item for item in document["plans"] if item["tie_with_best"])
    return [item for item in tied if item["basis"]["noise"]][:most]


def outside(document: Document) -> list[str]:
    """Return what plans outside the range of the data rest on, each source once."""
    bases = (item["basis"] for item in document["plans"])
    return list(dict.fromkeys(basis["source"] for basis in bases if not basis["inside"]))


def headline(document: Document) -> str:
    """Return the answer in one sentence."""
    best = document["plans"][0]
    outcome, plan = best["outcome"], best["plan"]
    unit = CURRENCY_UNIT[outcome["currency"]]
    count = plan["replicas"] + plan["prefill_replicas"]
    cards = outcome["cards"] // count
    instances = "instance" if count == 1 else "instances"
    each = "1 card" if cards == 1 else f"{cards} cards"
    if "makespan_s" in outcome:
        when = (
            f"{outcome['on_time']} of {outcome['sessions']} sessions on time, all done after "
            f"{quantity(outcome['makespan_s'], 's')}"
        )
    else:
        when = (
            f"{outcome['tokens_per_s_per_card']:,.0f} tokens/s a card at batch "
            f"{outcome['batch']}, {quantity(outcome['tpot_s']['max'], 's')} a token"
        )
    return (
        f"Run {count} {instances} of {each} ({plan_name(plan)}): "
        f"{outcome['cost_per_on_time_session']:.4g} {unit} per on-time session; {when}; "
        f"{best['reason']}."
    )
