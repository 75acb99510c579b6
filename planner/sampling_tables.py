"""What a sampling search has to say of itself, as text for a terminal."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from results.words import quantity
from specs.paths import leaf_unit

Document = Mapping[str, Any]


def show_variables(console: Console, document: Document) -> None:
    """Print the values of the variables beside the ranks."""
    names = document["search"].get("variables", [])
    if not names:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    for name in names:
        table.add_column(name, justify="right", overflow="fold")
    front = any("pareto" in item for item in document["plans"])
    if front:
        table.add_column("Pareto front")
    for item in document["plans"]:
        values = [_measured(name, item["variables"][name]) for name in names]
        mark = ["yes" if item["pareto"] else ""] if front else []
        table.add_row(str(item["rank"]), *values, *mark)
    console.print(table)


def _measured(path: str, value: Any) -> str:
    """Return the value of a leaf with its unit."""
    unit = leaf_unit(path)
    return quantity(float(value), unit) if unit and not isinstance(value, str) else f"{value}"


def proof(document: Document) -> str:
    """Say what the search proves of the first plan, and why it was searched so."""
    certificate, search = document["certificate"], document["search"]
    under = f"under {document['cost_model']}"
    if search["method"] == "exhaustive":
        return (
            f"{certificate['feasible']:,} feasible of {certificate['candidates']:,} candidates; "
            f"the first is {certificate['kind']} {under}."
        )
    return (
        f"The first is the best of {certificate['n']:,} trials {under}, each "
        f"{search['trial_is']}; it need not be the optimum. Sampled by {search['sampler']}, since "
        f"{search['why']}."
    )


def nothing_found(document: Document) -> str:
    """Say that no trial is feasible, and what that means."""
    tried = document["certificate"]["n"]
    return f"None of the {tried:,} trials is feasible, which proves nothing of what was not tried."
