"""What differs between two studies: inputs by their paths, versions, and outcomes.

An input is a leaf of the canonical problem, or a whole section where another model, machine or
engine took the place of the first. Inputs can be swapped between the two problems one by one.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from results.ranking import Ranking
from results.words import plan_name
from specs.paths import Part, leaf_unit, text

Document = dict[str, Any]

_NAMED = ("model", "hardware", "engine")
"""Sections that are swapped whole if their names differ."""

_MOST_LEAVES = 12
"""Leaves of one section that are swapped one by one; more are swapped together."""


NOTHING: Document = {
    **dict.fromkeys(("plan", "name", "cost", "currency", "on_time")),
    "feasible": 0,
}
"""What a ranking without a feasible plan comes to."""


@dataclass(frozen=True)
class Difference:
    """One input that differs: its path, and what stands there in each problem.

    ``leaves`` says how many figures differ in it.
    """

    parts: tuple[Part, ...]
    values: tuple[Any, Any]
    leaves: int

    @property
    def path(self) -> str:
        """Dotted path."""
        return text(self.parts)

    def put(self, spec: Mapping[str, Any], which: int) -> Document:
        """Return a copy of a problem that has this input of the first (0) or second (1) one."""
        changed = _put(spec, self.parts, self.values[which])
        assert isinstance(changed, dict)
        return changed

    def document(self) -> Document:
        """Return it as JSON values; a section that was replaced by its two names."""
        first, second = (_brief(value) for value in self.values)
        unit = leaf_unit(self.path)
        return {"path": self.path, "a": first, "b": second, "unit": unit, "leaves": self.leaves}


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[Difference]:
    """Return the inputs in which two canonical problems differ, in the order of the spec.

    The name of a study and the executor change no answer, and are left out.
    """
    found: list[Difference] = []
    for section in first:
        before, after = first[section], second[section]
        leaves = [d for d in _leaves((section,), before, after) if _matters(d)]
        if not leaves:
            continue
        whole = section in _NAMED and _name(before) != _name(after)
        if whole or len(leaves) > _MOST_LEAVES:
            found.append(Difference((section,), (before, after), len(leaves)))
        else:
            found += leaves
    return found


def versions_differ(first: Mapping[str, str], second: Mapping[str, str]) -> list[Document]:
    """Return the versions that differ, by name."""
    names = sorted({*first, *second})
    pairs = ((name, first.get(name), second.get(name)) for name in names)
    return [{"name": name, "a": a, "b": b} for name, a, b in pairs if a != b]


def outcome(ranking: Ranking) -> Document:
    """Return what a ranking comes to: its best plan, what it costs, and how many are feasible."""
    if not ranking.feasible:
        return dict(NOTHING)
    found = ranking.found
    best = found.ranked[0]
    plan = found.evaluated.plans.row(int(best))
    return {
        "plan": plan,
        "name": plan_name(plan),
        "cost": float(found.evaluated.outcomes.cost[best]),
        "currency": ranking.problem.objective.currency,
        "on_time": float(found.evaluated.outcomes.on_time[best]),
        "feasible": ranking.feasible_plans,
    }


def change(before: Document, after: Document) -> float | None:
    """Return by which share the cost of an outcome changes, ``None`` where nothing compares."""
    if not before["cost"] or after["cost"] is None or before["currency"] != after["currency"]:
        return None
    share: float = after["cost"] / before["cost"] - 1
    return share


def _matters(difference: Difference) -> bool:
    return difference.parts not in (("name",), ("search", "executor"))


def _name(section: Any) -> Any:
    return section.get("name") if isinstance(section, Mapping) else section


def _brief(value: Any) -> Any:
    name = _name(value)
    return name if isinstance(value, Mapping) and name else value


def _leaves(parts: tuple[Part, ...], before: Any, after: Any) -> Iterator[Difference]:
    """Yield the least parts that differ and that have the same place in both."""
    if before == after:
        return
    pairs = _pairs(before, after)
    if pairs is None:
        yield Difference(parts, (before, after), 1)
        return
    for part, one, other in pairs:
        yield from _leaves((*parts, part), one, other)


def _pairs(before: Any, after: Any) -> Sequence[tuple[Part, Any, Any]] | None:
    """Return what stands at the same places, ``None`` if the places are not the same."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if before.keys() != after.keys():
            return None
        return [(key, before[key], after[key]) for key in before]
    if not (isinstance(before, list) and isinstance(after, list) and len(before) == len(after)):
        return None
    if not all(isinstance(item, Mapping) for item in (*before, *after)):
        return None
    names = [item.get("name") for item in before]
    named = all(names) and len(set(names)) == len(names)
    if named and names != [item.get("name") for item in after]:
        return None
    places: Sequence[Part] = names if named else range(len(before))
    return list(zip(places, before, after, strict=True))


def _put(here: Any, parts: tuple[Part, ...], value: Any) -> Any:
    if not parts:
        return value
    part, *rest = parts
    if isinstance(here, Mapping):
        return {**here, part: _put(here[part], tuple(rest), value)}
    place = part if isinstance(part, int) else [item["name"] for item in here].index(part)
    return [*here[:place], _put(here[place], tuple(rest), value), *here[place + 1 :]]
