"""Where the servers of a plan stand: power, racks and cooling, and what one failure takes down."""

from typing import Any

from costmodels import facility
from costmodels.failures import blast_radius
from costmodels.plans import IntArray, PlanTable
from costmodels.sessions.outcome import powered_servers
from specs.facility import Rack
from specs.hardware import HardwareSpec
from specs.problem import Problem

Document = dict[str, Any]


def facility_document(problem: Problem, plan: PlanTable) -> Document:
    """Return what a table of one plan takes beside its cards, as JSON values.

    A figure that needs one which the machine does not state is left out.
    """
    hardware, servers = problem.hardware, powered_servers(problem, plan)
    stands = facility.installed(hardware, servers)
    document: Document = {"servers": int(stands[0])}
    if hardware.server.power is not None:
        document["power_w"] = float(facility.power(hardware, servers)[0])
    if hardware.facility.switch_ports is not None:
        document["switch_tiers"] = 1 + int(facility.second_tier(hardware, servers)[0])
    if hardware.facility.rack != Rack():
        document["racks"] = _racks(hardware, stands)
    shares = blast_radius(problem, plan)[:, 0]
    document["failure_domains"] = [
        {"name": domain.name, "cards": domain.cards, "sessions_lost": float(share)}
        for domain, share in zip(hardware.failures, shares, strict=True)
    ]
    return document


def _racks(hardware: HardwareSpec, stands: IntArray) -> Document:
    """Racks that hold ``stands`` servers as tightly as they may, and as far as air cools them.

    ``servers`` are those of the fullest rack.
    """
    rack, power, count = hardware.facility.rack, hardware.server.power, int(stands[0])
    most = facility.servers_per_rack(hardware) or count
    fullest = min(most, count)
    document: Document = {"count": int(facility.racks(hardware, stands)[0]), "servers": fullest}
    if power is not None:
        document["power_w"] = fullest * power
    if power is not None and rack.air is not None:
        on_air = min(most, facility.servers_on(hardware, rack.air))
        document["cooling"] = "air" if fullest <= on_air else "liquid"
        document["on_air"] = {
            "count": -(-count // on_air) if on_air else None,
            "servers": on_air,
            "power_w": on_air * power,
        }
    return document
