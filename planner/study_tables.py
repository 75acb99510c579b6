"""Kept studies as text for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planner.tables import open_console, show_ranking
from results.ranking import SCHEMA as RANKING
from results.store.listing import SHORT
from results.words import CURRENCY_UNIT, plan_name, quantity, share, stated

Document = dict[str, Any]

_WIDTH = 40
"""Characters of a value in the table of a comparison."""


def one_line(study: Mapping[str, Any]) -> str:
    """Name a study."""
    name = f" {study['name']!r}" if study["name"] else ""
    return (
        f"{study['id'][:SHORT]}{name} ({study['model']} on {study['hardware']}, {study['state']})"
    )


def show_list(studies: Sequence[Document], where: str) -> None:
    """Print a line per study."""
    console = open_console()
    if not studies:
        console.print(Text(f"No such study in {where}."))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "asked (UTC)", "state"):
        table.add_column(column, no_wrap=True)
    for column in ("study", "model on machine", "best plan"):
        table.add_column(column, overflow="fold")
    table.add_column("cost", justify="right", no_wrap=True)
    for study in studies:
        table.add_row(
            study["id"][:SHORT],
            study["created"][:16].replace("T", " "),
            study["state"],
            Text(study["name"] or "-"),
            Text(f"{study['model']} on {study['hardware']}"),
            Text(_best(study)),
            _cost(study["best"]),
        )
    console.print(table)


def _best(study: Document) -> str:
    if study["best"]:
        return plan_name(study["best"]["plan"])
    if study["kind"] != "rank":
        return study["kind"]
    return "none feasible" if study["state"] == "done" else "-"


def _cost(best: Document | None) -> str:
    if best is None:
        return ""
    return f"{best['cost_per_on_time_session']:.4g} {CURRENCY_UNIT[best['currency']]}"


def show_study(study: Document) -> None:
    """Print the answer as ``planner rank`` does, then what it rests on."""
    console = open_console()
    if study["result"] and study["result"]["schema"] == RANKING:
        show_ranking(study["result"])
        console.print()
    elif study["result"]:
        console.print(f"A {study['kind']}: ask again to see it at once, or print it with --json.")
    console.print(Text(f"Study {one_line(study)}", style="bold"))
    if study["error"]:
        console.print(Text(f"Ended with: {study['error']}"))
    if study["held_by"]:
        console.print(Text(f"Worked on by {study['held_by']}"))
    if study["chunks"]:
        chunks = "1 chunk is" if study["chunks"] == 1 else f"{study['chunks']:,} chunks are"
        console.print(f"{chunks} kept; to ask again goes on from there.")
    inputs = study["inputs"]
    rows = {
        "id": study["id"],
        "asked": study["created"],
        "ended": study["finished"] or "-",
        "time spent": f"{study['seconds']:.2f} s",
        "source": inputs.get("source") or "-",
        "changed by": ", ".join(inputs.get("sets") or ()) or "-",
        "executor": inputs.get("executor") or "-",
        "cost model": study["cost_model"],
        "seed": str(study["seed"]),
        "versions": ", ".join(f"{n} {_version(v)}" for n, v in study["versions"].items()),
        "problem": study["problem_hash"],
        "table": study["table"] or "-",
    }
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows.items():
        table.add_row(name, Text(value))
    console.print(table)


def _version(value: str) -> str:
    """Shorten a hash; a version is short."""
    return value[:SHORT] if len(value) == 64 else value


def show_comparison(document: Document) -> None:
    """Print the two studies, what differs, and what each difference does alone."""
    console = open_console()
    for letter in "ab":
        _show_end(console, letter.upper(), document[letter])
    if document["change"] is not None:
        console.print(f"B costs {_change(document['change'])} against A.")
    for item in document["versions"]:
        before, after = (_version(item[letter] or "none") for letter in "ab")
        console.print(Text(f"Version of {item['name']}: {before} → {after}", style="dim"))
    if document["causes"]:
        console.print()
        console.print(_causes_table(document))
    console.print()
    console.print(Text(document["verdict"], style="bold"))
    _show_refused(console, document["causes"])


def _show_end(console: Console, letter: str, study: Document) -> None:
    name = study["name"] or study["id"][:SHORT]
    console.print(Text(f"{letter}  {name}: {study['model']} on {study['hardware']}", style="bold"))
    now, best = study["now"], study["best"]
    console.print(Text(f"   {_answer(now)}"))
    if (best or {}).get("plan") != now["plan"]:
        was = plan_name(best["plan"]) if best else "nothing feasible"
        console.print(Text(f"   when it was asked, by other versions: {was}"))


def _answer(now: Document) -> str:
    if now["plan"] is None:
        return "nothing feasible"
    cost = f"{now['cost']:.6g} {CURRENCY_UNIT[now['currency']]} per on-time session"
    return f"{now['name']}: {cost}, {now['feasible']:,} feasible"


def _causes_table(document: Document) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("input", overflow="fold", min_width=30)
    table.add_column("A → B", overflow="fold", max_width=34)
    table.add_column("A with it", justify="right", no_wrap=True)
    table.add_column("B without", justify="right", no_wrap=True)
    table.add_column("what it does alone", overflow="fold")
    for cause in document["causes"]:
        before, after = (_short(cause[letter], cause["unit"]) for letter in "ab")
        count = f" ({cause['leaves']} figures)" if cause["leaves"] > 1 else ""
        table.add_row(
            Text(f"{cause['path']}{count}"),
            Text(f"{before} → {after}"),
            _change(cause["into_a"]["change"]),
            _change(cause["out_of_b"]["change"]),
            Text(_effect(cause, document["a"]["now"]["plan"])),
        )
    return table


def _short(value: Any, unit: str) -> str:
    """Return a value as a spec would have it, of no more than some characters."""
    said = quantity(value, unit) if value and unit in {"bytes", "s"} else stated(value)
    return said if len(said) <= _WIDTH else f"{said[: _WIDTH - 1]}…"


def _change(change: float | None) -> str:
    if change is None:
        return "-"
    if change == 0:
        return "the same"
    return f"{'+' if change > 0 else '-'}{share(abs(change))}"


def _effect(cause: Document, winner: Document | None) -> str:
    into = cause["into_a"]
    if "error" in into:
        return "cannot be swapped alone"
    if into["plan"] is None:
        return "leaves nothing feasible"
    if cause["sufficient"]:
        return "gives the best plan of B"
    if cause["necessary"]:
        return "needed for the best plan of B"
    return "the same best plan" if into["plan"] == winner else f"best: {into['name']}"


def _show_refused(console: Console, causes: Sequence[Document]) -> None:
    for cause in causes:
        for side, letter in (("into_a", "A with"), ("out_of_b", "B without")):
            if error := cause[side].get("error"):
                console.print(Text(f"{letter} {cause['path']}: {error}", style="dim"))


def show_removed(document: Document) -> None:
    """Print what was, or would be, removed."""
    console = open_console()
    verb = "Would remove" if document["dry_run"] else "Removed"
    megabytes = f"({document['table_bytes'] / 1e6:.1f} MB)"
    told = [
        _counted(len(document["studies"]), "study without an answer", "studies without an answer"),
        _counted(document["chunks"], "chunk", "chunks"),
        _counted(document["problems"], "problem of no study", "problems of no study"),
        _counted(
            len(document["tables"]),
            f"table of no study {megabytes}",
            f"tables of no study {megabytes}",
        ),
    ]
    told = [words for words in told if words]
    console.print(f"{verb} {', '.join(told)}." if told else "There is nothing to remove.")
    for id in document["studies"]:
        console.print(Text(f"  study {id[:SHORT]}", style="dim"))
    for file in document["tables"]:
        console.print(Text(f"  {file}", style="dim"))


def _counted(count: int, one: str, many: str) -> str:
    """Say how many there are; nothing for none."""
    return "" if count == 0 else f"1 {one}" if count == 1 else f"{count:,} {many}"
