"""One cluster for all tests that need one."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.nodes import three_nodes


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Three nodes of one processor each, which only holders of the token may use."""
    with three_nodes() as nodes:
        yield nodes


@pytest.fixture(scope="session")
def address(cluster: Any) -> str:
    """Name of the executor that attaches to the cluster."""
    return f"ray:{cluster.address}"


@pytest.fixture(scope="module")
def joined(cluster: Any) -> Iterator[None]:
    """This process has joined the cluster, so that several runs share their workers."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()
