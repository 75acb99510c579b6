"""Plans under uncertain figures as text for a terminal."""

from typing import Any

from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.figures import figure
from results.uncertainty import lead
from results.words import share

Document = dict[str, Any]

_MOST_ROWS = 10


def show_uncertainty(document: Document) -> None:
    """Print which plan to take, how the others fare, and what to measure first."""
    console = open_console()
    console.print(Text(document["name"] or "Uncertainty", style="bold"))
    console.print(lead(document))
    if not document["plans"]:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan", overflow="fold")
    for name in ("best in", "feasible in", "expected regret"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document["plans"][:_MOST_ROWS]:
        mark = "=" if row["tie_with_least"] else ""
        table.add_row(
            f"{row['name']}{' (best as stated)' if row['best_as_stated'] else ''}",
            share(row["chance_best"]),
            share(row["chance_feasible"]),
            f"{share(row['expected_regret'])}{mark}",
        )
    console.print(table)
    figures = Table(box=None, pad_edge=False, header_style="bold")
    figures.add_column("figure", overflow="fold")
    for name in ("stated", "from", "to", "measuring it saves"):
        figures.add_column(name, justify="right", no_wrap=True)
    for row in document["measurements"]:
        values = (figure(row[name], row["unit"]) for name in ("value", "low", "high"))
        figures.add_row(row["path"], *values, share(row["saves"]))
    console.print(figures)
    if document["nothing_feasible"]:
        console.print(f"Nothing is feasible in {share(document['nothing_feasible'])} of the draws.")
    missed = share(document["regret_of_a_missed_limit"])
    says = "Regret: what a plan costs more than the best of the same draw; one that breaks a limit"
    console.print(Text(f"{says} counts {missed}. = not told from the best.", style="dim"))
