"""What a user may say of where a machine stands: servers, racks, power, and what fails together."""

from specs.base import Count, Name, Spec
from specs.units import Watts, WattsOrZero


class Server(Spec):
    """The unit of installation and of power supply."""

    cards: Count
    """Cards in one server."""
    power: Watts | None = None
    """Most power that one server draws, cards and everything else."""


class Rack(Spec):
    """What one rack takes."""

    power: Watts | None = None
    """Most power of one rack; no bound if not given."""
    air: Watts | None = None
    """Most power of a rack that air can cool; a rack that draws more needs liquid."""
    servers: Count | None = None
    """Most servers of one rack; no bound if not given."""


class Facility(Spec):
    """How servers are installed, and what stands beside them (6-11)."""

    unit: Count = 1
    """Servers that are installed together."""
    power: WattsOrZero = 0.0
    """Power of what is there beside the servers, whatever their number: P₀ of (6-11)."""
    switch_ports: Count | None = None
    """Cards that one tier of switches joins; more need a second tier. No bound if not given."""
    second_tier_power: WattsOrZero = 0.0
    """Power that a second tier of switches draws, where there is one."""
    rack: Rack = Rack()
    """The racks that hold the servers."""


class FailureDomain(Spec):
    """Cards that one failure takes down together: those behind one switch, one power feed, …"""

    name: Name
    """What fails."""
    cards: Count
    """Cards that it takes down: blocks of so many neighbours."""
