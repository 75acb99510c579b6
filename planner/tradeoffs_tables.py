"""The Pareto front and the price of limits as text for a terminal."""

from typing import Any

from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.figures import figure
from results.tradeoffs import lead
from results.words import CURRENCY_UNIT, quantity, share

Document = dict[str, Any]

_MOST_ROWS = 25


def show_tradeoffs(document: Document) -> None:
    """Print the front, its knee, and what moving each limit saves."""
    console = open_console()
    unit = CURRENCY_UNIT[document["currency"]]
    console.print(Text(document["name"] or "Trade-offs", style="bold"))
    console.print(lead(document))
    if not document["front"]:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("plan", overflow="fold")
    for name in (f"{unit} a session", "a token", "first token", "cards"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document["front"][:_MOST_ROWS]:
        table.add_row(
            f"{row['name']}{' (knee)' if row['knee'] else ''}",
            f"{row['cost_per_on_time_session']:.6g}",
            quantity(row["tpot_s"], "s"),
            quantity(row["ttft_s"], "s"),
            f"{row['cards']}",
        )
    console.print(table)
    if len(document["front"]) > _MOST_ROWS:
        console.print(f"and {len(document['front']) - _MOST_ROWS:,} more: --json has all")
    if document["limits"]:
        console.print(_prices(document, unit))


def _prices(document: Document, unit: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("limit", overflow="fold")
    for name in ("is", "moved to", f"saves, {unit}", "share"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in document["limits"]:
        ends = [figure(row[name], row["unit"]) for name in ("value", "moved_to")]
        if row["refused"]:
            table.add_row(row["path"], *ends, "refused", "")
        elif row["saves"] is None:
            table.add_row(row["path"], *ends, "nothing feasible", "")
        else:
            table.add_row(row["path"], *ends, f"{row['saves']:.6g}", share(row["saves_share"]))
    return table
