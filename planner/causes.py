"""Which input made two studies differ: inputs swapped one at a time, and every swap ranked.

A swap is a study like any other: kept in the same store, and not computed twice.
"""

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from planner.studies import rank
from results.comparison import NOTHING, Difference, change, differences, outcome, versions_differ
from results.words import share
from specs.errors import SpecError
from specs.load import load_problem

if TYPE_CHECKING:
    from results.store import Store

Document = dict[str, Any]

SCHEMA = "planner/comparison/1"

Progress = Callable[[int, int], None]
"""Told how many problems are ranked, and how many there will be at least."""


class Comparison:
    """Two finished studies of a store, by their documents of ``results.store.listing.find``."""

    def __init__(
        self, store: "Store", first: Document, second: Document, progress: Progress
    ) -> None:
        for study in (first, second):
            if study["state"] != "done":
                raise SpecError.single("ID", study["id"][:12], f"is {study['state']}, not done")
            if study["kind"] != "rank":
                raise SpecError.single(
                    "ID", study["id"][:12], f"is of kind {study['kind']}, not rank"
                )
        self.studies = first, second
        self.specs = json.loads(first["spec"]), json.loads(second["spec"])
        self.inputs = differences(*self.specs)
        self._store, self._progress = store, progress
        self._done, self._total = 0, 2 + 2 * len(self.inputs)
        self.ends = self._outcome(self.specs[0]), self._outcome(self.specs[1])
        self.winner_changes = _winner(self.ends[0]) != _winner(self.ends[1])

    def document(self) -> Document:
        """Return the comparison as JSON values."""
        first, second = self.studies
        causes = [self._cause(difference) for difference in self.inputs]
        together = self._together(causes)
        return {
            "schema": SCHEMA,
            "a": _said(first, self.ends[0]),
            "b": _said(second, self.ends[1]),
            "change": change(*self.ends),
            "versions": versions_differ(first["versions"], second["versions"]),
            "causes": causes,
            "together": together,
            "verdict": self._verdict(causes, together),
        }

    def _outcome(self, spec: Document) -> Document:
        """Rank a problem with today's code; say what is wrong with one that is none."""
        try:
            found = outcome(rank(load_problem(spec), store=self._store))
        except SpecError as error:
            found = {**NOTHING, "error": str(error)}
        self._done += 1
        self._progress(self._done, max(self._done, self._total))
        return found

    def _cause(self, difference: Difference) -> Document:
        """Swap one input into each problem."""
        into = self._outcome(difference.put(self.specs[0], 1))
        out = self._outcome(difference.put(self.specs[1], 0))
        return {
            **difference.document(),
            "into_a": into | {"change": change(self.ends[0], into)},
            "out_of_b": out | {"change": change(self.ends[1], out)},
            "sufficient": self.winner_changes and self._is_second(into),
            "necessary": self.winner_changes and "error" not in out and not self._is_second(out),
        }

    def _is_second(self, found: Document) -> bool:
        """Whether a swap has the best plan of the second study."""
        return _winner(found) == _winner(self.ends[1])

    def _together(self, causes: Sequence[Document]) -> list[str]:
        """Return a smallest set of inputs that changes the winner, if no single one does.

        Inputs are taken out one by one, as long as the rest still makes the second winner.
        """
        if not self.winner_changes or any(cause["sufficient"] for cause in causes):
            return []
        needed = list(self.inputs)
        for difference in self.inputs:
            rest = [other for other in needed if other is not difference]
            spec = self.specs[0]
            for other in rest:
                spec = other.put(spec, 1)
            if rest and self._is_second(self._outcome(spec)):
                needed = rest
        return [difference.path for difference in needed]

    def _verdict(self, causes: Sequence[Document], together: Sequence[str]) -> str:
        if not causes:
            return self._without_inputs()
        if alone := [cause["path"] for cause in causes if cause["sufficient"]]:
            return f"{' or '.join(alone)} alone {self._effect()}."
        if self.winner_changes:
            return f"No input alone {self._effect()}; together these do: {', '.join(together)}."
        largest = max(causes, key=lambda cause: abs(cause["into_a"]["change"] or 0.0))
        effect = largest["into_a"]["change"]
        most = f"; most of it is {largest['path']} ({_signed(effect)} alone)" if effect else ""
        return f"The best plan is the same{most}."

    def _effect(self) -> str:
        if self.ends[1]["plan"] is None:
            return "leaves nothing feasible in A"
        return "makes the best plan of B the best of A"

    def _without_inputs(self) -> str:
        first, second = self.studies
        if first["id"] == second["id"]:
            return "This is one study."
        same = "The inputs are the same; only versions differ"
        bests = [study["best"] or {"plan": None} for study in self.studies]
        if bests[0] == bests[1]:
            return f"{same}, and they change nothing."
        changed = "the cost" if bests[0]["plan"] == bests[1]["plan"] else "the best plan"
        return f"{same}, and they change {changed}."


def _winner(found: Document) -> object:
    """Return what tells one best plan from another; that of a swap that cannot be is like none."""
    return object() if "error" in found else found["plan"]


def _said(study: Document, end: Document) -> Document:
    named = ("id", "name", "created", "model", "hardware", "workload", "cost_model", "best")
    return {name: study[name] for name in named} | {"now": end}


def _signed(change: float) -> str:
    return f"{'+' if change > 0 else '-'}{share(abs(change))}"
