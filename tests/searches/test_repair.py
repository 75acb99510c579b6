"""Changes that make a deployment possible which racks or a failure forbid."""

from pathlib import Path
from typing import Any

import pytest

SPEC = """
name: two servers
model: qwen3-32b
hardware: {base: two-hgx-h100, overrides: {facility: {rack: {servers: 1}}}}
workload:
  kind: burst
  classes: [{name: chat, sessions: 8, context: 8184, generate: 8}]
space: {tp: [8]}
"""


@pytest.fixture
def spec(tmp_path: Path) -> str:
    file = tmp_path / "spec.yaml"
    file.write_text(SPEC)
    return str(file)


def changes(document: Any) -> list[dict[str, Any]]:
    return [
        {change["path"]: change["to"] for change in repair["changes"]}
        for repair in document["conflict"]["relaxations"]
    ]


def sets(*words: str) -> list[str]:
    return [part for word in words for part in ("--set", word)]


def test_too_much_hangs_on_one_card(planner: Any, spec: str) -> None:
    done = planner("rank", spec, "--json", *sets("limits.blast_radius=0.4"))
    assert done.code == 3
    assert done.document["conflict"]["cores"] == [["blast_radius"]]
    assert changes(done.document) == [{"limits.blast_radius": 0.5}]
    (row,) = (r for r in done.document["funnel"] if r["constraint"] == "blast_radius")
    says = "one failed card takes down 50.0% of the sessions, 40.0% allowed"
    assert row["nearest_miss"]["reason"] == says


def test_too_few_racks(planner: Any, spec: str) -> None:
    done = planner("rank", spec, "--json", *sets("limits.racks=1", "space.replicas=[2]"))
    assert done.code == 3
    assert done.document["conflict"]["cores"] == [["racks", "space.replicas", "space.tp"]]
    assert {"limits.racks": 2} in changes(done.document)


def test_more_racks_make_room_for_an_instance_that_a_failure_spares(
    planner: Any, spec: str
) -> None:
    done = planner("rank", spec, "--json", *sets("limits.racks=1", "limits.blast_radius=0.5"))
    assert changes(done.document) == [{"limits.racks": 2}, {"limits.blast_radius": 1.0}]


def test_an_engine_goes_by_what_the_driver_reports(planner: Any, spec: str) -> None:
    engine = "engine={name: vllm, options: {gpu_memory_utilization: 0.1}}"
    found = changes(planner("rank", spec, "--json", *sets(engine, "space.pp=[1]")).document)
    assert any("hardware.memory.hbm.reported" in change for change in found)
    assert not any("hardware.memory.hbm.capacity" in change for change in found)


def test_the_conflict_in_words(planner: Any, spec: str) -> None:
    done = planner("rank", spec, *sets("limits.blast_radius=0.4"))
    assert done.code == 3
    assert "limits.blast_radius 0.4 → 0.5" in " ".join(done.out.split())
