"""The answer to a fleet as one JSON document, and in one sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from constraints.conflict import conflict_cores, verdicts
from costmodels import facility
from results.assumptions import assumptions, warnings
from results.versions import versions
from results.words import CURRENCY_UNIT, common_axes, plan_name, quantity, share
from searches.evaluate import space_of
from searches.fleet.columns import ALL_DEALT, FRACTIONS, MOST_TIMES
from searches.fleet.cuts import served
from searches.fleet.question import MISSING, Question
from searches.fleet.search import FleetFound
from searches.fleet.solver import Answer, Filling
from specs.fleet import Demand, instance_problem
from specs.load import problem_hash

Document = dict[str, Any]

SCHEMA = "planner/fleet/1"

_UNITS = {
    "cards": "cards",
    "servers": "servers",
    "racks": "racks",
    "power": "W",
    "money_per_hour": "money/h",
}
"""Limits of a whole fleet, with the unit of each in a spec."""

_FULL = 0.995
"""Share of a limit from which on it is said to be used up."""


def fleet_document(found: FleetFound) -> Document:
    """Return the document that ``planner fleet --json`` prints."""
    problem = found.problem
    document: Document = {
        "schema": SCHEMA,
        "name": problem.name,
        "problem_hash": problem_hash(problem),
        "versions": versions(),
        "seed": problem.search.seed,
        "cost_model": problem.cost_model,
        "certificate": _certificate(found),
        "deployment": [],
    }
    if found.answer:
        document |= _answered(found, found.answer)
    elif found.conflict:
        document["conflict"] = _conflict(found)
    return document | {
        "assumptions": assumptions(problem, {}),
        "warnings": warnings(problem, sampled=False),
    }


def _certificate(found: FleetFound) -> Document:
    answer, question = found.answer, found.question
    looked = {
        "columns": len(question.columns),
        "plans": sum(offer.plans for offer in found.offers),
        "restrictions": _restrictions(found),
        "rates_met_to": 0.0 if question.bursts else MISSING,
        "rounding": question.rounding,
    }
    if answer is None:
        return {"kind": "infeasible" if found.conflict else "none", **looked}
    proved = answer.bound >= answer.cost
    return {
        "kind": "optimal" if proved else "gap",
        "gap": 0.0 if proved else answer.gap,
        "bound": answer.bound * question.unit / sum(question.wanted),
        **looked,
    }


def _restrictions(found: FleetFound) -> list[str]:
    """Say what was not looked at, so that a reader knows what the proof covers."""
    said = []
    cut = [offer.task for offer in found.offers if not offer.whole]
    if cut:
        keep = found.problem.search.keep
        said.append(
            f"of {len(cut)} of {len(found.offers)} combinations of demand, pool and role only the "
            f"{keep:,} cheapest shapes were looked at (search.keep)"
        )
    columns, demands = found.question.columns, _fleet(found.question).demands
    timed = {i for i, d in enumerate(demands) if d.ttft is not None or d.deadline is not None}
    if any(column.role == "decode" and column.demand in timed for column in columns):
        said.append(
            f"decoding instances that must leave time for prompts elsewhere were tried at "
            f"{len(FRACTIONS)} batches, and at most {MOST_TIMES} of as many cards were kept"
        )
    if found.question.bursts and any(column.serves > ALL_DEALT for column in columns):
        said.append(f"of more than {ALL_DEALT} sessions on an instance not every number was tried")
    for pool, (mixed, kinds) in enumerate(found.answer.mixed if found.answer else ()):
        if mixed < kinds:
            said.append(
                f"servers of pool {_fleet(found.question).pools[pool].name} mix at most {mixed} of "
                f"{kinds} kinds of instances; the bound holds without that"
            )
    return said


def _fleet(question: Question) -> Any:
    return question.problem.fleet


def _answered(found: FleetFound, answer: Answer) -> Document:
    question, fleet = found.question, _fleet(found.question)
    total = answer.cost * question.unit
    chosen = [i for i, count in enumerate(answer.counts) if count]
    cost: Document = {
        "currency": found.problem.objective.currency,
        "cost_per_on_time_session": total / sum(question.wanted),
    }
    if question.bursts:
        cost["total"] = total
        cost["makespan_s"] = max(question.columns[i].seconds for i in chosen)
    else:
        cost["total_per_s"] = total
    document: Document = {
        "cost": cost,
        "deployment": [_entry(question, answer, i) for i in chosen],
        "demands": [_demand(question, answer, i) for i in range(len(fleet.demands))],
        "pools": [_pool(question, answer, g) for g in range(len(fleet.pools))],
        "servers": [_servers(question, filling) for filling in _blocks(question, answer)],
        "limits": _limits(question, answer),
    }
    return document | {"bound_by": _bound_by(document)}


def _entry(question: Question, answer: Answer, index: int) -> Document:
    column, fleet = question.columns[index], _fleet(question)
    entry: Document = {
        "plan": column.plan.row(0),
        "count": answer.counts[index],
        "role": column.role,
        "hardware": question.yards[column.pool].hardware.name,
        "demand": fleet.demands[column.demand].name,
        "pool": fleet.pools[column.pool].name,
        "cards": column.cards,
        "batch": column.batch,
    }
    if question.bursts:
        return entry | {"sessions": int(column.serves), "completion_s": column.seconds}
    entry["sessions_per_s"] = column.serves
    # What is left to a decoding instance belongs to its sessions, not to itself.
    if column.role == "both":
        entry["session_s"] = column.seconds
    if column.role == "prefill":
        entry["pass_s"] = column.seconds
    return entry


def _demand(question: Question, answer: Answer, index: int) -> Document:
    demand, cuts = _fleet(question).demands[index], question.cuts[index]
    wanted = question.wanted[index]
    deals = served(question.columns, answer.counts, cuts)
    document: Document = {
        "name": demand.name,
        "model": (demand.model or question.problem.model).name,
        "wanted": wanted,
        "served": deals,
        "unit": "sessions" if question.bursts else "sessions/s",
        "spare": deals / wanted - 1,
    }
    if question.bursts:
        return document
    left = deals
    for block in _blocks(question, answer):
        counts = [n - block.held.get(i, 0) for i, n in enumerate(answer.counts)]
        left = min(left, served(question.columns, counts, cuts))
    return document | {"after_failed_server": left, "share_after_failed_server": left / wanted}


def _blocks(question: Question, answer: Answer) -> list[Filling]:
    """Return what fails together: servers with what they hold, and instances over several."""
    wide = [
        Filling(column.pool, count, {i: 1})
        for i, (column, count) in enumerate(zip(question.columns, answer.counts, strict=True))
        if count and column.cards > question.yards[column.pool].server
    ]
    return [*answer.fillings, *wide]


def _span(question: Question, filling: Filling) -> int:
    """Servers that a filling takes: one, or those under an instance over several."""
    yard = question.yards[filling.pool]
    widest = max(question.columns[i].cards for i in filling.held)
    return max(1, yard.slot(widest) // yard.server)


def _pool(question: Question, answer: Answer, index: int) -> Document:
    yard, pool = question.yards[index], _fleet(question).pools[index]
    own = [(question.columns[i], answer.counts[i]) for i in question.of_pool(index)]
    used = sum(
        _span(question, block) * block.servers
        for block in _blocks(question, answer)
        if block.pool == index
    )
    servers = np.array([used])
    document: Document = {
        "name": pool.name,
        "hardware": yard.hardware.name,
        "cards": yard.cards,
        "cards_used": sum(column.cards * count for column, count in own),
        "servers": yard.servers,
        "servers_used": used,
    }
    if used and yard.hardware.server.power is not None:
        document["power_w"] = float(facility.power(yard.hardware, servers)[0])
    if facility.servers_per_rack(yard.hardware) is not None:
        document["racks_used"] = int(facility.racks(yard.hardware, servers)[0])
    if yard.hardware.facility.switch_ports is not None:
        document["switch_tiers"] = 1 + int(facility.second_tier(yard.hardware, servers)[0])
    return document


def _servers(question: Question, filling: Filling) -> Document:
    fleet = _fleet(question)
    return {
        "pool": fleet.pools[filling.pool].name,
        "count": filling.servers,
        "servers_each": _span(question, filling),
        "holds": [
            {
                "demand": fleet.demands[question.columns[i].demand].name,
                "role": question.columns[i].role,
                "plan": question.columns[i].plan.row(0),
                "cards": question.columns[i].cards,
                "count": count,
            }
            for i, count in filling.held.items()
        ],
    }


def _limits(question: Question, answer: Answer) -> list[Document]:
    """Return what is taken of each stated limit, and of cards and servers in any case."""
    stated = question.problem.limits
    return [
        {
            "name": name,
            "taken": question.shown(name, answer.taken[name]),
            "limit": getattr(stated, name),
            "unit": unit,
        }
        for name, unit in _UNITS.items()
        if getattr(stated, name) is not None or name in ("cards", "servers")
    ]


def _bound_by(document: Document) -> list[str]:
    """Name the limits and pools that are used up."""
    limits = [
        f"limits.{item['name']}"
        for item in document["limits"]
        if item["limit"] is not None and item["taken"] >= _FULL * item["limit"]
    ]
    full = [
        f"fleet.pools.{pool['name']}"
        for pool in document["pools"]
        if pool["cards_used"] == pool["cards"]
    ]
    return [*limits, *full]


def _conflict(found: FleetFound) -> Document:
    conflict, fleet = found.conflict, _fleet(found.question)
    assert conflict is not None
    return {
        "unserved": [
            {"demand": fleet.demands[i].name, "pools": _unserved(found, fleet.demands[i])}
            for i in conflict.unserved
        ],
        "core": list(conflict.core),
        "relaxations": [
            {"path": r.path, "from": r.stated, "to": r.least, "verified": True}
            for r in conflict.relaxations
        ],
        "share_of_rates": conflict.share,
    }


def _unserved(found: FleetFound, demand: Demand) -> list[Document]:
    """Say of each pool which rules no single instance for a demand keeps together."""
    problem, documents = found.problem, []
    for pool in _fleet(found.question).pools:
        one = instance_problem(problem, demand, pool)
        if demand.sessions:
            shape = one.workload.classes[0].model_copy(update={"sessions": 1})
            workload = one.workload.model_copy(update={"classes": (shape,)})
            one = one.model_copy(update={"workload": workload})
        cores = conflict_cores(verdicts(space_of(one)))
        documents.append({"pool": pool.name, "cores": [sorted(core) for core in cores]})
    return documents


def entry_name(entry: Mapping[str, Any], common: Sequence[str] = ()) -> str:
    """Name the shape of an entry; an instance stands for itself, so replicas are not said."""
    return plan_name(entry["plan"], (*common, "replicas"))


def fleet_headline(document: Document) -> str:
    """Return the answer in one sentence."""
    entries, cost = document["deployment"], document["cost"]
    several = len(document["demands"]) > 1
    common = tuple(common_axes([entry["plan"] for entry in entries]))
    shapes: dict[str, list[str]] = {}
    for entry in entries:
        role = "" if entry["role"] == "both" else f"{entry['role']} "
        dealt = f" ({_count(entry['sessions'], 'session')} each)" if "sessions" in entry else ""
        words = f"{entry['count']} × {role}{entry_name(entry, common)} of {entry['pool']}{dealt}"
        shapes.setdefault(entry["demand"], []).append(words)
    parts = [
        f"{demand} on {', '.join(words)}" if several else ", ".join(words)
        for demand, words in shapes.items()
    ]
    unit = CURRENCY_UNIT[cost["currency"]]
    taken = {item["name"]: item["taken"] for item in document["limits"]}
    when = f", all done after {quantity(cost['makespan_s'], 's')}" if "makespan_s" in cost else ""
    size = f"{_count(taken['cards'], 'card')} in {_count(taken['servers'], 'server')}"
    return (
        f"Run {'; '.join(parts)}: {size}, "
        f"{cost['cost_per_on_time_session']:.4g} {unit} per on-time session{when}; "
        f"{_binds(document)}; {_proof(document['certificate'])}."
    )


def _count(number: float, what: str) -> str:
    return f"{number:,.0f} {what}{'' if number == 1 else 's'}"


def _binds(document: Document) -> str:
    if not document["bound_by"]:
        return "no limit binds but what is demanded"
    return f"used up: {', '.join(document['bound_by'])}"


def _proof(certificate: Document) -> str:
    if certificate["kind"] == "optimal":
        return "proved optimal"
    return f"at most {share(certificate['gap'])} above the best possible"
