"""What a machine is, for people who design or choose one: memories, fabric, collectives, facility.

Everything is computed from the figures that the machine states, at full efficiency, without a
model or a load. Figures that need one which is not stated are ``None``, and the missing ones are
listed by their paths. Keys name their unit, in SI.
"""

import math
from typing import Any

import numpy as np

from costmodels import facility
from costmodels.collectives import connections, switches, topology
from costmodels.collectives.algorithms import ring_allreduce
from costmodels.collectives.crossing import ALGORITHMS
from costmodels.collectives.measures import (
    algorithm_bandwidth,
    bus_bandwidth,
    hiding_width,
    payback_calls,
)
from costmodels.collectives.routes import Leg, Route
from costmodels.plans import PlanTable
from specs.fabric import Level, Switch, Torus
from specs.formats import BITS
from specs.hardware import HardwareSpec
from specs.memory import MemoryTier

Document = dict[str, Any]

SCHEMA = "planner/machine/1"


def machine_document(hardware: HardwareSpec, cards: int, ranks: int, size: float) -> Document:
    """Return what a machine is, as JSON values.

    Parameters
    ----------
    hardware: the machine.
    cards: how many of its cards are installed.
    ranks: neighbouring cards that take part in a collective.
    size: bytes of that collective: the input of one rank, the whole vector of a ReduceScatter or
        AllGather, or what one rank sends to others in an All-to-All.
    """
    return {
        "schema": SCHEMA,
        "name": hardware.name,
        "title": hardware.title,
        "sources": list(hardware.sources),
        "cards": cards,
        "card": {
            "name": hardware.card.name,
            "peak_flop_per_s": dict(hardware.card.peak),
            "price_per_s": hardware.card.price,
        },
        "memories": [_memory(hardware, name) for name in hardware.memory.tiers],
        "levels": [
            _level(hardware, level.model_copy(update={"size": domain, "sizes": ()}), ranks, size)
            for level in hardware.levels
            for domain in level.sizes or (level.size,)
        ],
        "collectives": _collectives(hardware, ranks, size),
        "connections": [
            _connections(hardware, level, cards) for level in hardware.levels if level.connections
        ],
        "facility": _facility(hardware, cards),
        "failure_domains": [{"name": d.name, "cards": d.cards} for d in hardware.failures],
        "missing": _missing(hardware),
    }


def _known(value: float) -> float | None:
    """Return a number, or nothing where it needs a figure that is not stated or never ends."""
    return float(value) if math.isfinite(value) else None


def _missing(hardware: HardwareSpec) -> list[str]:
    """Paths of the figures that are not stated and that something here needs."""
    found = [
        f"levels.{level.name}.{figure}"
        for level in hardware.levels
        for figure in ("bandwidth", "latency")
        if getattr(level, figure) is None
    ]
    return found + (["server.power"] if hardware.server.power is None else [])


def _memory(hardware: HardwareSpec, name: str) -> Document:
    memory: MemoryTier = getattr(hardware.memory, name)
    bounds = memory.bounds
    return {
        "tier": name,
        "cards": memory.cards,
        "bytes_per_card": memory.share,
        "bytes_per_s": memory.rate,
        "bound_by": min(bounds, key=bounds.__getitem__),
        "bounds_bytes_per_s": bounds,
        "read_all_s": memory.share / memory.rate,
        "random_reads_per_s": memory.random_reads,
        "reads_in_flight": memory.in_flight,
        "reads_in_flight_needed": memory.reads_in_flight_needed,
        "latency_s": memory.latency,
        "port": memory.port or name,
        "writable": memory.writable,
        "flop_per_byte": {d: peak / memory.rate for d, peak in hardware.card.peak.items()},
        "source": memory.source,
    }


def _level(hardware: HardwareSpec, level: Level, ranks: int, size: float) -> Document:
    """One level whose domains are built with ``level.size`` cards."""
    n, beta = level.size, level.beta
    farthest = level.alpha + level.hop * int(topology.chips_passed(level, n, n, 1))
    every, one = np.array(n), np.array(1)
    leg = Leg(level, n, every, one, one, every, hardware.server.cards, 1.0)
    everybody = leg.everybody()[1].item()
    peak = hardware.card.peak
    return {
        "name": level.name,
        "cards": n,
        "domains": hardware.cards // n,
        "topology": level.topology.model_dump(mode="json"),
        "links_per_card": level.links,
        "bytes_per_s_per_card": _known(beta),
        "nearest_s": level.latency,
        "farthest_s": _known(farthest),
        "farthest_links": topology.diameter(level),
        "links": topology.links(level),
        **_switches(level),
        "bisection_bytes_per_s_per_card": _known(topology.bisection(level)),
        "alltoall_bytes_per_s_per_card": _known(everybody),
        "flop_per_byte": {d: _known(rate / everybody) for d, rate in peak.items()},
        "expert_width_that_hides": {
            d: _known(hiding_width(rate, everybody, BITS[d] / 8, BITS["bf16"] / 8))
            for d, rate in peak.items()
        },
        "rewiring": _rewiring(level, min(ranks, n), size),
        "source": level.source,
    }


def _switches(level: Level) -> Document:
    """Tiers and chips of a network of switches; chips are unknown where no radix is stated."""
    network = level.topology
    if not isinstance(network, Switch):
        return {"switch_tiers": 0, "switch_chips": 0}
    if network.radix is None:
        return {"switch_tiers": None, "switch_chips": None}
    return {
        "switch_tiers": int(switches.tiers(network, level.size)),
        "switch_chips": int(switches.chips(network, level.size)),
    }


def _rewiring(level: Level, ranks: int, size: float) -> Document | None:
    """Ring AllReduces after which giving a group all links of its cards has paid (6.5.4)."""
    if not isinstance(level.topology, Torus) or level.topology.rewiring is None or ranks < 2:
        return None
    n, vector = np.array(ranks), np.array(size)
    share = float(topology.ring_share(level, ranks, 1))
    as_wired = float(ring_allreduce(n, vector, level.alpha, share * level.beta))
    rewired = float(ring_allreduce(n, vector, level.alpha, level.beta))
    saved, once = as_wired - rewired, level.topology.rewiring
    return {
        "seconds": once,
        "saved_s": _known(saved),
        "pays_after_calls": _known(payback_calls(once, saved)) if saved > 0 else None,
    }


def _collectives(hardware: HardwareSpec, ranks: int, size: float) -> Document:
    """Every operation by every algorithm, over neighbouring cards of one instance."""
    plans = PlanTable.from_columns({"tp": [ranks]})
    route = Route(hardware, plans, plans.tp, np.ones_like(plans.tp))
    vector, several = np.array([size]), len(route.cuts) > 1
    # An algorithm that never ends is one that this network does not have, and what works level by
    # level needs more than one. A single card exchanges nothing.
    rows = [
        _collective(operation, name, ranks, size, seconds)
        for operation, forms in ALGORITHMS.items()
        for name, form in forms.items()
        if route.legs and (several or name != "hierarchical")
        if (seconds := float(form(route, vector)[0])) != math.inf
    ]
    return {
        "ranks": ranks,
        "bytes": size,
        "levels": [leg.level.name for leg in route.legs],
        "rows": rows,
        "measured": [
            row.model_dump(mode="json") for row in hardware.collectives if row.ranks == ranks
        ],
    }


def _collective(
    operation: str, algorithm: str, ranks: int, size: float, seconds: float
) -> Document:
    return {
        "operation": operation,
        "algorithm": algorithm,
        "seconds": _known(seconds),
        "algbw_bytes_per_s": _known(float(algorithm_bandwidth(size, seconds))),
        "busbw_bytes_per_s": _known(float(bus_bandwidth(operation, ranks, size, seconds))),
    }


def _connections(hardware: HardwareSpec, level: Level, cards: int) -> Document:
    """State, waits and set-up of connections as more hosts are joined."""
    kept = level.connections
    assert kept is not None
    waits = kept.miss is not None
    most = max(-(-cards // hardware.server.cards), 2)
    hosts = np.array(_doubling(2, most))
    columns = zip(
        hosts.tolist(),
        connections.state_bytes(kept, hosts).tolist(),
        connections.wait(kept, hosts).tolist(),
        connections.all_hosts_seconds(kept, hosts).tolist(),
        strict=True,
    )
    return {
        "level": level.name,
        "kind": kept.kind,
        "endpoints_per_host": kept.endpoints,
        "cache_bytes": kept.cache,
        "hosts_held": connections.most_hosts(kept),
        "by_hosts": [
            {"hosts": n, "state_bytes": state, "wait_s": wait if waits else None, "setup_s": setup}
            for n, state, wait, setup in columns
        ],
    }


def _doubling(first: int, last: int) -> list[int]:
    """``first`` and its doubles, up to and with ``last``."""
    found = [first]
    while 2 * found[-1] < last:
        found.append(2 * found[-1])
    return [*found, last] if last > first else found


def _facility(hardware: HardwareSpec, cards: int) -> Document:
    """What stands there as cards grow: whole installation units, doubled, and the steps between."""
    site, per_server = hardware.facility, hardware.server.cards
    unit = site.unit * per_server
    counts = {-(-count // unit) * unit for count in _doubling(unit, cards)}
    ports = site.switch_ports
    if ports is not None:
        counts |= {most for most in (ports // unit * unit, ports // unit * unit + unit) if most}
    steps = np.array(sorted(count for count in counts if count <= max(cards, unit)))
    servers = steps // per_server
    columns = zip(
        steps.tolist(),
        servers.tolist(),
        facility.power(hardware, servers).tolist(),
        facility.racks(hardware, servers).tolist(),
        facility.second_tier(hardware, servers).tolist(),
        strict=True,
    )
    per_rack = facility.servers_per_rack(hardware)
    return {
        "cards_per_server": per_server,
        "server_power_w": hardware.server.power,
        "servers_per_unit": site.unit,
        "servers_per_rack": per_rack,
        "servers_on_air": facility.servers_on(hardware, site.rack.air) if site.rack.air else None,
        "steps": [
            {
                "cards": count,
                "servers": stand,
                "power_w": _known(power),
                "racks": None if per_rack is None else racks,
                "switch_tiers": None if ports is None else 1 + second,
            }
            for count, stand, power, racks, second in columns
        ],
    }
