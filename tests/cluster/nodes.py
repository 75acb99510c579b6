"""A Ray cluster of several nodes on this machine: separate raylets, each with a store."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

TOKEN = "0123456789abcdef0123456789abcdef"


def settings() -> dict[str, str]:
    """Environment of a cluster that only holders of the token may use, and that reports nothing."""
    return {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        # A dead node is noticed after seconds.
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_timeout_ms": "2000",
        "RAY_health_check_failure_threshold": "3",
    }


def _free_port() -> int:
    """Return a port for the head, whose usual ones another cluster may hold."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def three_nodes() -> Iterator[Any]:
    """Yield a cluster with a head and two more nodes of one processor each."""
    os.environ.update(settings())
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    head = {"num_cpus": 1, "include_dashboard": True, "dashboard_port": _free_port()}
    cluster = Cluster(head_node_args=head, initialize_head=True)
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()
