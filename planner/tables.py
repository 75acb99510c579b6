"""Documents as text for a terminal."""

import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

from costmodels.engine_memory import OUTSIDE
from planner.sampling_tables import nothing_found, proof, show_variables
from results.uncertainty import lead as doubt
from results.words import (
    CURRENCY_UNIT,
    best_sizes,
    common_axes,
    common_name,
    departure,
    headline,
    noisy_ties,
    others_held,
    outside,
    plan_name,
    quantity,
    share,
    site,
)
from specs.calibration import Calibration

Document = dict[str, Any]

_WIDTH = 110

_IDEALISED = "If an assumption had its default (the best plan, same batch)"


def open_console() -> Console:
    """Return the console to print on: as wide as the terminal, or of fixed width without one."""
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console = Console(highlight=False, width=_WIDTH)
    return console


def show_ranking(document: Document) -> None:
    """Print the answer in a sentence, the ranked plans, and what was excluded."""
    console = open_console()
    console.print(Text(document["name"] or document["study"], style="bold"))
    if not document["plans"]:
        _show_conflict(console, document)
        return
    console.print(headline(document))
    if "uncertainty" in document:
        console.print(doubt(document["uncertainty"]))
    console.print(_ranking_table(document))
    show_variables(console, document)
    for item in noisy_ties(document):
        console.print(Text(f"{item['rank']}= {item['reason']}", style="dim"))
    _show_grounds(console, document)
    console.print(proof(document))
    console.print(f"The best takes {site(document['plans'][0])}")
    _show_sizes(console, document)
    _show_excluded(console, document)
    _show_idealisations(console, document)
    _show_warnings(console, document["warnings"])


def _show_grounds(console: Console, document: Document) -> None:
    """Print what data the shown plans rest on, if on any, and which lie outside them.

    Plans with measured steps of their own rest on as many sources; those are not listed.
    """
    for source in outside(document):
        console.print(Text(f"? outside the range of the data: {source}", style="dim"))
    bases = [item["basis"] for item in document["plans"]]
    sources = {basis["source"] for basis in bases}
    if len(sources) == 1 and bases[0]["distance"] is not None and not outside(document):
        console.print(Text(f"Step times rest on {sources.pop()}.", style="dim"))


def _factor(distance: float | None) -> str:
    """Say by what factor something lies outside its data; empty where it is the model, or none."""
    return f" by a factor of {math.exp(distance):.3g}" if distance else ""


def _ranking_table(document: Document) -> Table:
    burst = "makespan_s" in document["plans"][0]["outcome"]
    unit = CURRENCY_UNIT[document["plans"][0]["outcome"]["currency"]]
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    # Other memories stand below the working one, by name; they and the longest bound take room
    # that plans then lack.
    crowded = any(
        others_held(item["memory"]) or item["outcome"]["bound_by"] == "concurrency"
        for item in document["plans"]
    )
    table.add_column("plan", overflow="fold", min_width=16 if crowded else 20)
    table.add_column("cards", justify="right")
    table.add_column(f"{unit}/on-time", justify="right", no_wrap=True)
    for name in ("on time", "all done") if burst else ("tokens/s/card", "batch", "bound by"):
        table.add_column(name, justify="right", no_wrap=True)
    drafting = any(item["step"]["tokens_per_session"] != 1 for item in document["plans"])
    # Steps that make different numbers of tokens compare by the token.
    for name in ("step/token" if drafting else "step", "waits for"):
        table.add_column(name, justify="right", no_wrap=True)
    working = document["plans"][0]["memory"]["tiers"][0]["tier"]
    table.add_column(f"{working}, GB", justify="right", no_wrap=True)
    plans = [item["plan"] for item in document["plans"]]
    common = common_axes(plans)
    table.caption, table.caption_justify = common_name(plans) or None, "left"
    for item in document["plans"]:
        outcome, step, memory = item["outcome"], item["step"], item["memory"]
        if burst:
            middle = [
                f"{outcome['on_time']}/{outcome['sessions']}",
                quantity(outcome["makespan_s"], "s"),
            ]
        else:
            middle = [
                f"{outcome['tokens_per_s_per_card']:,.1f}",
                str(outcome["batch"]),
                outcome["bound_by"],
            ]
        mark = f"{item['rank']}{'=' if item['tie_with_best'] else ''}"
        mark += "" if item["basis"]["inside"] else "?"
        table.add_row(
            mark,
            plan_name(item["plan"], common),
            str(outcome["cards"]),
            f"{outcome['cost_per_on_time_session']:#.6g}",
            *middle,
            quantity(step["seconds"] / step["tokens_per_session"], "s"),
            step["bound_by"],
            "\n".join([f"{memory['per_card_bytes'] / 1e9:.2f}", *others_held(memory)]),
        )
    return table


def _show_sizes(console: Console, document: Document) -> None:
    """Print what the best plan of each size of domain reaches, and what binds it."""
    sizes = best_sizes(document)
    if not sizes:
        return
    console.print(Text("Best plan by size of domain", style="bold"))
    for item in sizes:
        speed = f"{item['tokens_per_s_per_card']:,.1f} tokens/s a card"
        console.print(f"  {item['domain']} cards: {speed}, bound by {item['bound_by']}")


def _show_excluded(console: Console, document: Document, most: int = 5) -> None:
    excluded = document["excluded"]
    if not excluded:
        return
    console.print(Text("Excluded, nearest to feasible first", style="bold"))
    for item in excluded[:most]:
        reasons = "; ".join(f"{v['constraint']}: {v['reason']}" for v in item["violations"])
        console.print(f"  {plan_name(item['plan'])} – {reasons}")
    more = document["excluded_total"] - most
    if more > 0:
        console.print(f"  … and {more:,} more; --json lists the nearest {len(excluded)}")


def _show_idealisations(console: Console, document: Document) -> None:
    """Print what the best plan owes to assumptions that are not the default."""
    changes = [change for a in document["assumptions"] if (change := departure(document, a))]
    if changes:
        console.print(Text(_IDEALISED, style="bold"))
    for change in changes:
        console.print(Text(f"  {change}", style="dim"))


def _show_warnings(console: Console, warnings: Iterable[str]) -> None:
    for warning in warnings:
        console.print(Text(f"Note: {warning}", style="dim"))


def _show_conflict(console: Console, document: Document) -> None:
    """Print what cannot hold together and what would help."""
    conflict = document["conflict"]
    if document["search"]["method"] != "exhaustive":
        console.print(nothing_found(document))
        _show_excluded(console, document)
        _show_warnings(console, document["warnings"])
        return
    console.print("No plan is feasible. These rules cannot hold together:")
    if conflict["sampled"]:
        console.print("(The space is very large: this rests on a sample of its plans.)")
    for core in conflict["cores"]:
        console.print(f"  {{{', '.join(core)}}}")
    if conflict["relaxations"]:
        console.print("Changes that make it feasible, least first (each confirmed by a search):")
    for repair in conflict["relaxations"]:
        changes = " and ".join(
            f"{c['path']} {_shown(c['path'], c['from'])} → {_shown(c['path'], c['to'])}"
            for c in repair["changes"]
        )
        console.print(f"  {changes}  ({plan_name(repair['plan'])})")
    if not conflict["relaxations"]:
        console.print("No change of one or two quantities makes it feasible.")
    _show_excluded(console, document)
    _show_warnings(console, document["warnings"])


def _shown(path: str, value: Any) -> str:
    leaf = path.rsplit(".", 1)[-1]
    unit = {"capacity": "bytes", "deadline": "s", "ttft": "s", "tpot": "s", "power": "watts"}
    if leaf in unit:
        return quantity(float(value), unit[leaf])
    return f"{value}"


def show_funnel(document: Document) -> None:
    """Print what each constraint removes, and its nearest miss."""
    console = open_console()
    console.print(f"{document['certificate']['candidates']:,} candidates")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("constraint")
    for name in ("alone", "in order", "left"):
        table.add_column(name, justify="right")
    table.add_column("nearest miss", overflow="fold")
    for row in document["funnel"]:
        miss = row["nearest_miss"]
        text = f"{plan_name(miss['plan'])}: {miss['reason']}" if miss else ""
        table.add_row(
            row["constraint"],
            f"{row['removes_alone']:,}",
            f"{row['removes_in_order']:,}",
            f"{row['left']:,}",
            text,
        )
    console.print(table)
    if "conflict" in document:
        _show_conflict(console, document | {"excluded": []})
    else:
        _show_warnings(console, document["warnings"])


def show_plan(document: Document) -> None:
    """Print why a plan has its rank or what it breaks, and where it differs from the best."""
    console = open_console()
    console.print(Text(plan_name(document["plan"]), style="bold"))
    for broken in document["violations"]:
        console.print(f"Breaks {broken['constraint']}: {broken['reason']}")
    if document["rank"]:
        console.print(f"Rank {document['rank']:,} of {document['of']:,}.")
    elif document["verdict"] == "ranked":
        console.print(f"Feasible, but not among the best of {document['of']:,}: see search.keep.")
    step, memory = document["step"], document["memory"]
    tokens = step["tokens_per_session"]
    made = "" if tokens == 1 else f" for {tokens:.2f} tokens a session"
    console.print(
        f"Step {quantity(step['seconds'], 's')}{made} at batch {step['batch']} and "
        f"{step['context']:,.0f} tokens held, waiting longest for {step['bound_by']}: "
        + _listed(step["breakdown"], "s")
    )
    basis = document["basis"]
    if basis["distance"] is not None or not basis["inside"]:
        noise = f", ±{share(basis['noise'])}" if basis["noise"] else ""
        console.print(f"The step rests on {basis['source']}{noise}.")
    if not basis["inside"]:
        console.print(f"The plan lies outside the range of the data{_factor(basis['distance'])}.")
    console.print(
        f"Memory {quantity(memory['per_card_bytes'], 'bytes')} of "
        f"{quantity(memory['capacity_bytes'], 'bytes')} on the fullest card, room for "
        f"{memory['sessions_per_instance']} sessions: " + _listed(memory["breakdown"], "bytes")
    )
    for tier in memory["tiers"][1:]:
        where = "Outside the engine's share" if tier["tier"] == OUTSIDE else f"In {tier['tier']}"
        console.print(
            f"{where} {quantity(tier['per_card_bytes'], 'bytes')} of "
            f"{quantity(tier['capacity_bytes'], 'bytes')}: " + _listed(tier["breakdown"], "bytes")
        )
    _show_time_line(console, document["outcome"])
    if "against_best" in document and document["rank"] != 1:
        _show_difference(console, document["against_best"], "best", document)
    if "against" in document:
        _show_difference(console, document["against"], "other", document)


def _listed(terms: Mapping[str, float], unit: str) -> str:
    return ", ".join(f"{name} {quantity(value, unit)}" for name, value in terms.items() if value)


def _show_time_line(console: Console, outcome: Document) -> None:
    if "completion_s" not in outcome:
        console.print(
            f"Batch {outcome['batch']}, bound by {outcome['bound_by']}; "
            f"{quantity(outcome['tpot_s']['max'], 's')} a token, first token after "
            f"{quantity(outcome['ttft_s']['max'], 's')}, a session in "
            f"{quantity(outcome['session_s'], 's')}."
        )
        return
    most = 16
    ends = ", ".join(quantity(t, "s") for t in outcome["completion_s"][:most])
    more = "" if len(outcome["completion_s"]) <= most else ", …"
    console.print(
        f"{outcome['on_time']} of {outcome['sessions']} sessions on time; ends: {ends}{more}"
    )


def _show_difference(console: Console, against: Document, called: str, document: Document) -> None:
    unit = CURRENCY_UNIT[document["outcome"]["currency"]]
    cost, factors = against["cost"], against["factors"]
    name = "the best, " if called == "best" else ""
    if cost["difference"] is None:
        whose = "the best plan's" if called == "best" else f"that of {plan_name(against['plan'])}"
        console.print(f"No session is on time, so there is no cost to set against {whose}.")
        return
    console.print(f"Against {name}{plan_name(against['plan'])}:")
    console.print(
        f"  cost per on-time session {cost['this']:.6f} against {cost[called]:.6f} {unit} "
        f"(billed card time ×{factors['occupied_gpu_seconds']['ratio']:.3f}, "
        f"on-time sessions ×{factors['on_time']['ratio']:.3f})"
    )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("  term")
    for head in (f"this, {unit}", f"{called}, {unit}", "difference"):
        table.add_column(head, justify="right")
    for term in against["cost_terms"]:
        table.add_row(
            f"  {term['term']}",
            f"{term['this']:.6f}",
            f"{term[called]:.6f}",
            f"{term['difference']:+.6f}",
        )
    console.print(table)


def show_catalog(document: Document) -> None:
    """Print listings as tables, one entry as YAML, a calibration in words."""
    console = open_console()
    for kind, items in document.items():
        if kind == "schema":
            continue
        whole = len(items) == 1 and len(items[0]) > 3
        if whole and kind == "calibrations":
            from planner.calibration_tables import show_calibration

            show_calibration(console, Calibration.model_validate(items[0]))
            continue
        if whole:
            console.print(yaml.safe_dump(items[0], sort_keys=False, allow_unicode=True), end="")
            continue
        console.print(Text(kind, style="bold"))
        table = Table(box=None, pad_edge=False, show_header=False)
        for item in items:
            table.add_row(f"  {item['name']}", item.get("title", ""))
        console.print(table)
