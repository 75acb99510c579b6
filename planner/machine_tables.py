"""The document of ``planner machine`` as tables for a terminal."""

from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console
from results.words import quantity

Document = dict[str, Any]

_OF_LEVELS = ("bandwidth", "latency")
"""Figures of a level that collectives over it need."""


def show_machine(document: Document) -> None:
    """Print the tables of a machine."""
    console = open_console()
    card, peak = document["card"], document["card"]["peak_flop_per_s"]
    console.print(Text(document["title"] or document["name"], style="bold"))
    rates = ", ".join(f"{name} {_with_prefix(rate, _work(name))}/s" for name, rate in peak.items())
    console.print(f"{document['cards']:,} × {card['name'] or 'card'}: {rates}")
    for section in (_memories, _levels, _hiding, _collectives, _connections, _facility):
        section(console, document)
    if document["missing"]:
        console.print(Text(f"Not stated: {', '.join(document['missing'])}", style="dim"))


def _table(
    console: Console,
    title: str,
    columns: Iterable[str],
    rows: Iterable[Iterable[str]],
    needs: Iterable[str] = (),
) -> None:
    """Print a table whose first column is words and whose others are figures.

    What it cannot show because figures are not stated is said in one line that names what it
    ``needs``.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for position, name in enumerate(columns):
        table.add_column(name, justify="left" if position == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(Text(title, style="bold"))
    if table.row_count:
        console.print(table)
    if lacks := ", ".join(needs):
        console.print(Text(f"needs {lacks}"))


def _memories(console: Console, document: Document) -> None:
    rows = (
        (
            m["tier"] if m["writable"] else f"{m['tier']}, read only",
            _size(m["bytes_per_card"]),
            str(m["cards"]),
            _rate(m["bytes_per_s"]),
            m["bound_by"],
            quantity(m["read_all_s"], "s"),
            m["port"],
        )
        for m in document["memories"]
    )
    columns = ("memory", "a card", "shared by", "read rate", "bound by", "read all", "port")
    _table(console, "Memories, as one card reaches them", columns, rows)


def _levels(console: Console, document: Document) -> None:
    rows = (
        (
            level["name"],
            _network(level["topology"]),
            f"{level['cards']:,}",
            _rate(level["bytes_per_s_per_card"]),
            quantity(level["nearest_s"], "s"),
            quantity(level["farthest_s"], "s"),
            f"{level['links']:,}",
            _figure(level["switch_chips"]),
            _rate(level["bisection_bytes_per_s_per_card"]),
            _rate(level["alltoall_bytes_per_s_per_card"]),
        )
        for level in document["levels"]
    )
    columns = (
        "level",
        "topology",
        "cards",
        "a card",
        "nearest",
        "farthest",
        "links",
        "chips",
        "bisection",
        "All-to-All",
    )
    _table(console, "Fabric, per card and direction", columns, rows)
    for level in document["levels"]:
        rewiring = level["rewiring"]
        if rewiring:
            calls = rewiring["pays_after_calls"]
            after = "never pays" if calls is None else f"pays after {calls:,.0f} AllReduces"
            console.print(
                f"{level['name']}: rewiring in {quantity(rewiring['seconds'], 's')} {after}"
            )


def _hiding(console: Console, document: Document) -> None:
    """How much work there is for a byte of an All-to-All, and which experts bring as much."""
    rows = (
        (
            f"{level['name']}, {dtype}",
            f"{level['cards']:,}",
            _figure(work),
            _figure(level["expert_width_that_hides"][dtype]),
        )
        for level in document["levels"]
        for dtype, work in level["flop_per_byte"].items()
        if work is not None
    )
    columns = ("level, format", "cards", "FLOP a byte", "expert width")
    needs = [path for path in document["missing"] if path.endswith(".bandwidth")]
    _table(console, "Experts so wide hide the messages of their tokens", columns, rows, needs)


def _network(topology: Document) -> str:
    """Say how cards are joined in a few words."""
    if "dims" in topology:
        return f"{topology['kind']} {'×'.join(str(d) for d in topology['dims'])}"
    words = [topology["kind"].replace("_", " ")]
    if topology.get("radix"):
        words.append(f"of {topology['radix']} ports")
    if topology.get("planes", 1) > 1:
        words.append(f"× {topology['planes']}")
    if topology.get("oversubscription", 1) > 1:
        words.append(f"{topology['oversubscription']:g}:1")
    return " ".join(words)


def _collectives(console: Console, document: Document) -> None:
    found = document["collectives"]
    if not found["rows"]:
        return
    rows = (
        (
            f"{row['operation'].replace('_', ' ')}, {row['algorithm'].replace('_', ' ')}",
            quantity(row["seconds"], "s"),
            _rate(row["algbw_bytes_per_s"]),
            _rate(row["busbw_bytes_per_s"]),
        )
        for row in found["rows"]
        if row["seconds"] is not None
    )
    crossed = {f"levels.{name}.{figure}" for name in found["levels"] for figure in _OF_LEVELS}
    needs = [path for path in document["missing"] if path in crossed]
    over = ", ".join(found["levels"])
    title = (
        f"Collectives of {_size(found['bytes'])} among {_counted(found['ranks'], 'card')} over "
        f"{over}"
    )
    _table(console, title, ("collective", "time", "algbw", "busbw"), rows, needs)


def _connections(console: Console, document: Document) -> None:
    for found in document["connections"]:
        rows = (
            (
                f"{row['hosts']:,}",
                _size(row["state_bytes"]),
                quantity(row["wait_s"], "s"),
                quantity(row["setup_s"], "s"),
            )
            for row in found["by_hosts"]
        )
        title = (
            f"Connections of {found['level']}, {found['kind']}: {_size(found['cache_bytes'])} on "
            f"the chip hold those of {_counted(found['hosts_held'], 'host')}"
        )
        _table(console, title, ("hosts", "state", "wait", "set up"), rows)


def _facility(console: Console, document: Document) -> None:
    found = document["facility"]
    rows = (
        (
            f"{row['cards']:,}",
            f"{row['servers']:,}",
            quantity(row["power_w"], "watts"),
            _figure(row["racks"]),
            _figure(row["switch_tiers"]),
        )
        for row in found["steps"]
    )
    each = f"Servers of {_counted(found['cards_per_server'], 'card')}"
    _table(console, each, ("cards", "servers", "power", "racks", "switch tiers"), rows)
    if found["servers_on_air"] is not None:
        console.print(f"Air cools {_counted(found['servers_on_air'], 'server')} a rack")
    blocks = ", ".join(f"{d['name']} {d['cards']:,}" for d in document["failure_domains"])
    console.print(f"Cards that fail together: {blocks}")


def _size(value: float | None) -> str:
    return _with_prefix(value, "B")


def _rate(value: float | None) -> str:
    return _with_prefix(value, "B/s")


def _with_prefix(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:,.4g} {prefix}{unit}"
    return f"{value:,.4g} {unit}"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _work(dtype: str) -> str:
    """Unit of the matrix rate of a format: whole numbers do not float."""
    return "OP" if dtype.startswith("int") else "FLOP"
