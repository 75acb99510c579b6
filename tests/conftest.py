"""Settings of all tests: properties draw afresh on a desk, and the same cases in CI."""

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from planner.cli import main
from tests.cluster.nodes import three_nodes
from tests.databases import postgres_server, postgres_url, store_url  # noqa: F401 - fixtures

_SLOW_DRAWS = [HealthCheck.too_slow, HealthCheck.filter_too_much]

# No test keeps its studies with those of the user who runs it.
os.environ["PLANNER_STORE"] = "none"

settings.register_profile("desk", deadline=None, suppress_health_check=_SLOW_DRAWS)
settings.register_profile(
    "ci", settings.get_profile("desk"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "desk")


class Printed:
    """What one run of the command left behind."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def document(self) -> dict[str, Any]:
        return json.loads(self.out)


@pytest.fixture(autouse=True)
def fixed_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are as wide as without a terminal, whatever the libraries of other tests have set."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def planner(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*words: str) -> Printed:
        with pytest.raises(SystemExit) as stop:
            main(words)
        printed = capsys.readouterr()
        return Printed(int(stop.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """One cluster for all tests that need one, which only holders of the token may use.

    Three nodes of one processor each. Such tests are marked ``ray`` and run in one xdist group.
    """
    with three_nodes() as nodes:
        yield nodes


@pytest.fixture(scope="session")
def address(cluster: Any) -> str:
    """Name of the executor that attaches to the cluster."""
    return f"ray:{cluster.address}"


@pytest.fixture(
    params=[
        "processes:2",
        pytest.param("ray", marks=[pytest.mark.ray, pytest.mark.xdist_group("ray")]),
    ]
)
def elsewhere(request: pytest.FixtureRequest) -> str:
    """Name of an executor that does not work in this process."""
    return request.getfixturevalue("address") if request.param == "ray" else request.param
