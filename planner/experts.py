"""``planner experts``: where experts lie, and how even that makes the work of their groups."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.experts import experts_document
from specs.load import load_problem

Document = dict[str, Any]


def document(spec: str, sets: Sequence[str], ep: int | None, copies: int | None) -> Document:
    """Return what ``planner experts --json`` prints."""
    return experts_document(load_problem(spec, sets), ep, copies)


def show(document: Document) -> None:
    """Print the busiest group by degree of EP, and how many experts a step reaches."""
    console = open_console()
    console.print(Text(f"{document['model']}, {document['routing']}", style="bold"))
    console.print("Work of the busiest expert group over the mean, averaged over observed layers:")
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("EP", "copies", "slots", "in order", "placed", "at least", "placement is"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document["degrees"]:
        placed = row["balanced"]
        table.add_row(
            str(row["ep"]),
            str(row["redundant_experts"]),
            str(row["slots_per_group"]),
            f"{row['contiguous']['mean']:.4f}",
            f"{placed['mean']:.4f}",
            f"{placed['bound']['mean']:.4f}",
            "proved best" if placed["certificate"] == "optimal" else "near the bound",
        )
    console.print(table)
    reached = ", ".join(
        f"{item['observed']:.1f} by {item['tokens']} (uniform {item['uniform']:.1f})"
        for item in document["active_experts"]
    )
    console.print(f"Experts of {document['experts']} that the tokens of a step reach: {reached}.")
