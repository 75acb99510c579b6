"""A process that has joined the cluster of all tests."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")
def joined(cluster: Any) -> Iterator[None]:
    """This process has joined the cluster, so that several runs share their workers."""
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level=logging.ERROR)
    yield
    ray.shutdown()
