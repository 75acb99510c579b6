"""Thresholds as text for a terminal."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.figures import figure, times
from results.words import CURRENCY_UNIT, common_axes, plan_name

Document = Mapping[str, Any]

_SIDES = ("below", "above")

_MOST_BECOMING = 15

_REST = {
    "moves": "The best plan stays with",
    "still": "Nothing moves at all with",
    "fixed": "The spec accepts no other value that was tried of",
}

_NOTHING = "nothing feasible"


def show_thresholds(document: Document) -> None:
    """Print the best plan, where it changes, where others become feasible, and what was tried."""
    console = open_console()
    best = document["best"]
    console.print(Text(document["name"] or "Thresholds", style="bold"))
    plans = _plans(document)
    common = common_axes(plans)
    cost, unit = best["cost_per_on_time_session"], CURRENCY_UNIT[best["currency"]]
    console.print(f"Best now: {plan_name(best['plan'])}, {cost:.6g} {unit} per on-time session.")
    changing = [leaf for leaf in document["thresholds"] if leaf["below"] or leaf["above"]]
    if changing:
        console.print(_changes(changing, common))
    else:
        console.print("No figure changes the best plan within what was tried.")
    if becoming := document["feasible_from"]:
        console.print()
        console.print(_feasible(becoming[:_MOST_BECOMING], common))
        if len(becoming) > _MOST_BECOMING:
            console.print(f"and {len(becoming) - _MOST_BECOMING} farther away: --json")
    console.print()
    _show_rest(console, document)


def _plans(document: Document) -> list[Any]:
    changes = (leaf[side] for leaf in document["thresholds"] for side in _SIDES)
    found = [change["plan"] for change in changes if change and change["plan"]]
    found += [item["plan"] for item in document["feasible_from"]]
    return [document["best"]["plan"], *found]


def _changes(leaves: Sequence[Document], common: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    table.add_column("The best plan changes with", overflow="fold")
    table.add_column("now", justify="right", no_wrap=True)
    table.add_column("at", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("to", overflow="fold")
    for leaf in leaves:
        sides = [side for side in _SIDES if leaf[side]]
        for number, side in enumerate(sides):
            change = leaf[side]
            word = "≤" if side == "below" else "≥"
            table.add_row(
                Text(leaf["path"] if not number else ""),
                figure(leaf["current"], leaf["unit"]) if not number else "",
                f"{word} {figure(change['value'], leaf['unit'])}",
                times(change["value"], leaf["current"]),
                Text(_plan(change, common)),
            )
    return table


def _plan(change: Document, common: Mapping[str, Any]) -> str:
    name = plan_name(change["plan"], common) if change["plan"] else _NOTHING
    return name if change["verified"] else f"{name} (not confirmed 0.1 % aside)"


def _feasible(items: Sequence[Document], common: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("Another plan is feasible with", overflow="fold")
    table.add_column("now", justify="right", no_wrap=True)
    table.add_column("", justify="right", no_wrap=True)
    table.add_column("plan", overflow="fold")
    for item in items:
        word = "from" if item["side"] == "from" else "up to"
        table.add_row(
            Text(item["path"]),
            figure(item["current"], item["unit"]),
            f"{word} {figure(item['value'], item['unit'])}",
            Text(plan_name(item["plan"], common)),
        )
    return table


def _show_rest(console: Console, document: Document) -> None:
    """Say what was tried, and which figures change nothing."""
    rest: dict[str, list[str]] = {"moves": [], "still": [], "fixed": []}
    for leaf in document["thresholds"]:
        if not (leaf["below"] or leaf["above"]):
            rest[_kind(leaf["tried"].values())].append(leaf["path"])
    factors = ", ".join(f"{factor:g}" for factor in document["grid"]["factors"])
    console.print(
        f"Each figure was tried at 1/{factors.replace(', ', ', 1/')} of its value and at 0, and at "
        f"{factors} times it, as far as the spec accepts; between two of these a change may hide."
    )
    for kind, words in _REST.items():
        if rest[kind]:
            console.print(Text(f"{words}: {', '.join(rest[kind])}."))


def _kind(sides: Collection[Document]) -> str:
    """Say whether a figure without a threshold moves anything, and whether it could be moved."""
    if any(side["moves"] for side in sides):
        return "moves"
    return "still" if any(side["values"] for side in sides) else "fixed"
