"""A fleet as text for a terminal."""

from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.fleet import entry_name, fleet_headline
from results.fleet_page import entries
from results.words import quantity, share

Document = dict[str, Any]

_NUMBERS = {"count", "cards", "batch", "sessions each", "session", "pass"}
_MOST_FILLINGS = 12


def show_fleet(document: Document) -> None:
    """Print the answer in a sentence, what runs where, and what is left when a server fails."""
    console = open_console()
    console.print(Text(document["name"] or "Fleet", style="bold"))
    if not document["deployment"]:
        _show_none(console, document)
        return
    console.print(Text(fleet_headline(document)))
    rows = entries(document)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in rows[0]:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    _show_demands(console, document)
    _show_pools(console, document)
    _show_servers(console, document)
    for limit in document["limits"]:
        if limit["limit"] is not None:
            console.print(
                f"limits.{limit['name']}: {limit['taken']:,.6g} of {limit['limit']:,.6g} "
                f"{limit['unit']}"
            )
    for said in document["certificate"]["restrictions"]:
        console.print(Text(f"Restriction: {said}.", style="dim"))
    for warning in document["warnings"]:
        console.print(Text(f"Note: {warning}", style="dim"))


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index > 1 else "left", overflow="fold")
    return table


def _show_demands(console: Console, document: Document) -> None:
    lasting = "share_after_failed_server" in document["demands"][0]
    extra = ("after the worst failed server",) if lasting else ()
    table = _table("demand", "model", "wanted", "served", "spare", *extra)
    for item in document["demands"]:
        unit = "/s" if lasting else ""
        left = (share(item["share_after_failed_server"]),) if lasting else ()
        table.add_row(
            item["name"],
            item["model"],
            f"{item['wanted']:.6g}{unit}",
            f"{item['served']:.6g}{unit}",
            share(max(item["spare"], 0.0)),
            *left,
        )
    console.print(table)


def _show_pools(console: Console, document: Document) -> None:
    table = _table("pool", "machine", "cards used", "servers used", "racks", "power")
    for pool in document["pools"]:
        table.add_row(
            pool["name"],
            pool["hardware"],
            f"{pool['cards_used']:,} of {pool['cards']:,}",
            f"{pool['servers_used']:,} of {pool['servers']:,}",
            str(pool.get("racks_used", "–")),
            quantity(pool.get("power_w"), "watts"),
        )
    console.print(table)


def _show_servers(console: Console, document: Document) -> None:
    """Print how servers are filled, the most frequent fillings first."""
    fillings = sorted(document["servers"], key=lambda filling: -filling["count"])
    for filling in fillings[:_MOST_FILLINGS]:
        held = ", ".join(
            f"{hold['count']} × {hold['demand']} {hold['role']} ({entry_name(hold)})"
            for hold in filling["holds"]
        )
        each = filling["servers_each"]
        what = "server" if each == 1 else f"times {each} servers"
        plural = "s" if filling["count"] > 1 and each == 1 else ""
        line = f"  {filling['count']:,} {what}{plural} of {filling['pool']}: {held}"
        console.print(Text(line, style="dim"))
    if len(fillings) > _MOST_FILLINGS:
        console.print(Text(f"  and {len(fillings) - _MOST_FILLINGS} more fillings", style="dim"))


def _show_none(console: Console, document: Document) -> None:
    """Print why there is no deployment, and what would help."""
    conflict = document.get("conflict")
    if conflict is None:
        console.print("No deployment was found in the time given, nor that there is none.")
        console.print("Give it more with --seconds.")
        return
    console.print("No deployment serves this.")
    for item in conflict["unserved"]:
        for pool in item["pools"]:
            rules = "; ".join(" and ".join(core) for core in pool["cores"]) or "nothing fits"
            console.print(
                f"  {item['demand']}: no instance on {pool['pool']} can serve it: {rules}"
            )
    if conflict["core"]:
        console.print(f"Cannot hold together in these pools: {', '.join(conflict['core'])}")
    for change in conflict["relaxations"]:
        console.print(
            f"  {change['path']}: {change['to']:,.6g} in place of {change['from']:,.6g} would do"
        )
    if conflict["share_of_rates"] is not None:
        console.print(
            f"Within the limits {share(conflict['share_of_rates'])} of all rates can be served, "
            f"failures not counted."
        )
