"""Settings of all tests: properties draw afresh on a desk, and the same cases in CI."""

import json
import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from planner.cli import main
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
