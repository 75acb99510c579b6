"""State that a network adapter keeps for its connections, and the time to set them up (6.5.5).

Notation: ``A`` endpoints of one host (``connections.endpoints``), ``H`` hosts that are connected,
the own one included. Arguments are arrays of shape ``(plans,)`` or numbers.
"""

import numpy as np

from costmodels.plans import FloatArray, IntArray
from specs.fabric import Connections

Hosts = IntArray | int


def _terms(connections: Connections) -> tuple[float, float]:
    """Bytes of state that one host has by itself, and bytes that every further host adds."""
    endpoints = connections.endpoints
    match connections.kind:
        case "pairwise":
            return connections.queue_bytes * endpoints, connections.pair_bytes * endpoints**2
        case "channel":
            return connections.endpoint_bytes * endpoints, connections.channel_bytes
        case "directory":
            return connections.lines * connections.tag_bytes, connections.lines / 8


def state_bytes(connections: Connections, hosts: Hosts) -> FloatArray:
    """State of one adapter: 512 A²(H-1) + 32 A, 52 A + 56 (H-1), or W ((H-1)/8 + 8) bytes."""
    own, further = _terms(connections)
    return own + further * (np.asarray(hosts) - 1.0)


def wait(connections: Connections, hosts: Hosts) -> FloatArray:
    """Seconds that a message waits on average for state that is not on the chip.

    All connections are used alike, so the share of the state that the chip lacks is the share of
    messages that wait; none waits where no time of a miss is stated.
    """
    missing = 1.0 - connections.cache / state_bytes(connections, hosts)
    return np.maximum(missing, 0.0) * (connections.miss or 0.0)


def most_hosts(connections: Connections) -> int:
    """Hosts whose state the chip holds; 0 where it does not even hold that of one."""
    own, further = _terms(connections)
    return max(int((connections.cache - own) // further) + 1, 0)


def setup_seconds(connections: Connections, local: Hosts, remote: Hosts) -> FloatArray:
    """Seconds to connect ``local`` endpoints to ``remote`` endpoints (pairwise) or hosts (channel).

    Every pair takes its calls and one exchange of names; with channels every endpoint takes one
    call, every remote host one call and one exchange. A directory sets nothing up.
    """
    call, exchange = connections.call, connections.round_trip
    near, far = np.asarray(local, dtype=np.float64), np.asarray(remote, dtype=np.float64)
    match connections.kind:
        case "pairwise":
            serial = near * far * (connections.calls * call + exchange)
        case "channel":
            serial = near * call + far * (call + exchange)
        case "directory":
            serial = 0.0 * near * far
    return serial / connections.cores


def all_hosts_seconds(connections: Connections, hosts: Hosts) -> FloatArray:
    """Seconds in which one host connects its endpoints to those of all others."""
    each = connections.endpoints if connections.kind == "pairwise" else 1
    return setup_seconds(connections, connections.endpoints, each * (np.asarray(hosts) - 1))
