"""What stands around the cards: servers in whole units, their power, and the racks they fill.

``servers`` is an array of servers that hold a card; results have its shape.
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray
from specs.hardware import HardwareSpec
from specs.units import ROUNDING


def installed(hardware: HardwareSpec, servers: IntArray) -> IntArray:
    """Servers that stand there: whole installation units."""
    unit = hardware.facility.unit
    return -(-servers // unit) * unit


def second_tier(hardware: HardwareSpec, servers: IntArray) -> "np.typing.NDArray[np.bool_]":
    """Whether the cards installed are more than one tier of switches joins."""
    ports = hardware.facility.switch_ports
    most = np.inf if ports is None else ports
    return np.asarray(installed(hardware, servers) * hardware.server.cards > most)


def power(hardware: HardwareSpec, servers: IntArray) -> FloatArray:
    """Watts that the deployment draws; NaN where the machine states no power of a server.

    P₀ + installed servers · P_s of (6-11), and the second tier of switches where there is one.
    """
    facility, each = hardware.facility, hardware.server.power
    drawn = installed(hardware, servers) * (np.nan if each is None else each)
    switches = second_tier(hardware, servers) * facility.second_tier_power
    return np.asarray(facility.power + drawn + switches)


def servers_on(hardware: HardwareSpec, watts: float) -> int:
    """Servers that so much power feeds, or such cooling carries: ⌊watts / P_s⌋."""
    assert hardware.server.power is not None, "a rack with power or air needs it"
    return int(watts / hardware.server.power * (1 + ROUNDING))


def servers_per_rack(hardware: HardwareSpec) -> int | None:
    """Most servers of one rack: its places, and what its power feeds; ``None`` without a bound."""
    rack = hardware.facility.rack
    bounds = [] if rack.servers is None else [rack.servers]
    bounds += [] if rack.power is None else [servers_on(hardware, rack.power)]
    return min(bounds, default=None)


def racks(hardware: HardwareSpec, servers: IntArray) -> IntArray:
    """Racks that hold the installed servers, each filled before the next; one without a bound."""
    found, per_rack = installed(hardware, servers), servers_per_rack(hardware)
    return np.minimum(found, 1) if per_rack is None else -(-found // per_rack)
