import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specs import canonical_json, get, load_problem, problem_hash, resolve
from specs.catalog import entry
from specs.errors import SpecError
from specs.problem import Problem

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))

# The spec of docs and examples: every key that the language has, with and without a meaning yet.
EVERY_KEY = """
name: continue four 128K sessions
model: qwen3-32b
hardware: hgx-h100
engine: none
workload:
  kind: burst
  serving: one_at_a_time
  on_time_share: 0.75
  classes:
    - {name: continue, sessions: 4, context: 131064, prompt: 0, generate: 8, deadline: 130 ms}
  failures: []
objective: {minimise: cost_per_on_time_session, currency: gpu_seconds}
limits: {cards: 8}
space: {tp: [1, 2, 4, 8], pp: [1], cp: [1], allreduce: [ring]}
assumptions: {billing: allocated, overlap: per_operator, workspace: 2 GiB, routing: uniform_without_replacement}
uncertainty: {}
cost_model: roofline
search: {method: auto, executor: local, seed: 0, variables: {}, trials: 500}
fleet: null
"""  # noqa: E501 - as it stands in the manual


def test_every_key_of_the_language_is_read() -> None:
    problem = load_problem(EVERY_KEY)
    assert problem.workload.classes[0].deadline == 0.13
    assert problem.search.trials == 500
    assert problem.assumptions.workspace == 2 * 2**30
    assert problem.hardware.memory.hbm.capacity == 80e9


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_examples_load_and_say_what_they_ask(file: Path) -> None:
    assert load_problem(file).workload.classes
    assert load_problem(str(file)) == load_problem(file)
    assert file.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda f: f.stem)
def test_canonical_json_loads_to_the_same_problem(file: Path) -> None:
    problem = load_problem(file)
    text = canonical_json(problem)
    assert load_problem(json.loads(text)) == problem
    assert canonical_json(load_problem(text)) == text


def test_own_hardware_uses_every_field_of_a_machine() -> None:
    machine = load_problem(next(f for f in EXAMPLES if f.stem == "own-hardware-inline")).hardware
    assert all(getattr(machine, name) for name in type(machine).model_fields)
    assert machine.card.price and machine.server.power
    assert all(measured.source for measured in machine.collectives)


def test_hash_ignores_name_and_executor_only(raw: dict[str, Any]) -> None:
    problem = load_problem(raw)
    same = load_problem(raw, ["name=other", "search.executor=processes:2"])
    other = load_problem(raw, ["search.seed=1"])
    assert re.fullmatch(r"[0-9a-f]{64}", problem_hash(problem))
    assert problem_hash(problem) == problem_hash(same) != problem_hash(other)


def test_units_do_not_change_the_hash(raw: dict[str, Any]) -> None:
    first = load_problem(raw, ["workload.classes.continue.deadline=130 ms"])
    second = load_problem(raw, ["workload.classes.continue.deadline=0.13"])
    assert problem_hash(first) == problem_hash(second)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("hardware.memory.hbm.capacity=96 GB", "hardware.memory.hbm.capacity", 96e9),
        ("space.tp=[1]", "space.tp", (1,)),
        ("space.tp=4", "space.tp", (4,)),
        ("space.ep=open", "space.ep", "open"),
        ("workload.classes.continue.deadline=1 s", "workload.classes[0].deadline", 1.0),
        ("workload.classes[0].sessions=2", "workload.classes[0].sessions", 2),
        ("model.layers[0].count=32", "model.layers[0].count", 32),
        ("limits.power=5 kW", "limits.power", 5000.0),
        ("limits.cards=", "limits.cards", None),
        ("hardware=hgx-h200", "hardware.memory.hbm.capacity", 141e9),
        (" space.where = [tp <= 4, pp == 1]", "space.where", ("tp <= 4", "pp == 1")),
        ("model.formats.kv.dtype=fp8", "model.formats.kv.dtype", "fp8"),
    ],
)
def test_sets(raw: dict[str, Any], text: str, path: str, value: object) -> None:
    assert get(load_problem(raw, [text]), path) == value
    if not text.startswith("hardware="):
        assert get(load_problem(load_problem(raw), [text]), path) == value


def test_sets_apply_in_order(raw: dict[str, Any]) -> None:
    problem = load_problem(raw, ["hardware=hgx-h200", "hardware.memory.hbm.capacity=100 GB"])
    assert problem.hardware.memory.hbm.capacity == 100e9
    assert problem.hardware.name == "hgx-h200"


def test_a_checked_problem_passes_unchanged(raw: dict[str, Any]) -> None:
    problem = load_problem(raw)
    assert load_problem(problem) is problem


def test_base_and_overrides(raw: dict[str, Any]) -> None:
    raw["hardware"] = {
        "base": "hgx-h100",
        "overrides": {"memory.hbm.bandwidth": "4.8 TB/s", "levels.nvlink.latency": "1 us"},
    }
    machine = load_problem(raw).hardware
    assert machine.memory.hbm.bandwidth == 4.8e12
    assert machine.levels[0].latency == pytest.approx(1e-6)
    assert machine.memory.hbm.capacity == 80e9


def test_resolve_writes_out_and_copies(raw: dict[str, Any]) -> None:
    full = resolve(raw)
    assert full["model"] == entry("models", "qwen3-32b")
    assert raw["model"] == "qwen3-32b"


def test_every_unknown_part_is_named(raw: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        resolve({**raw, "model": "qwen3-32c", "hardware": "hgx-h1000"})
    assert [fault.path for fault in caught.value.faults] == ["model", "hardware"]


@pytest.fixture
def folder(tmp_path: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of specs that name files, beside one that must not be read; elsewhere is current."""
    specs, elsewhere = tmp_path / "specs", tmp_path / "elsewhere"
    (specs / "parts").mkdir(parents=True)
    elsewhere.mkdir()
    model = {**entry("models", "qwen3-32b"), "title": "from a file"}
    for place in (specs / "parts", tmp_path):
        (place / "model.json").write_text(json.dumps(model), encoding="utf-8")
    based = {"base": "model.json", "overrides": {"max_context": "256K"}}
    (specs / "parts" / "longer.yaml").write_text(json.dumps(based), encoding="utf-8")
    (specs / "parts" / "loop.yaml").write_text("base: loop.yaml\n", encoding="utf-8")
    (specs / "parts" / "bad.yaml").write_text("a: [1\n", encoding="utf-8")
    (specs / "parts" / "link.json").symlink_to(tmp_path / "model.json")
    monkeypatch.chdir(elsewhere)
    return specs


def spec_naming(folder: Path, raw: dict[str, Any], model: object) -> Path:
    file = folder / "spec.json"
    file.write_text(json.dumps({**raw, "model": model}), encoding="utf-8")
    return file


def test_files_beside_the_spec(folder: Path, raw: dict[str, Any]) -> None:
    problem = load_problem(spec_naming(folder, raw, "parts/model.json"))
    assert problem.model.title == "from a file"
    longer = load_problem(spec_naming(folder, raw, "parts/longer.yaml"))
    assert longer.model.max_context == 256 * 1024


def test_files_in_the_current_folder(
    folder: Path, raw: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_naming(folder, raw, "../model.json")
    with pytest.raises(SpecError, match="must lie in the folder"):
        load_problem(spec)
    monkeypatch.chdir(folder.parent)
    assert load_problem(spec).model.title == "from a file"


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("../model.json", "a file must lie in the folder of the spec or in the current folder"),
        ("parts/link.json", "a file must lie in the folder"),
        ("/etc/passwd", r"a file must end in \.yaml, \.yml, \.json"),
        ("/etc/some.yaml", "a file must lie in the folder"),
        ("parts/nowhere.yaml", "no such file"),
        ("parts/nul\0l.yaml", "no such file"),
        ("parts/loop.yaml", "more than 8 bases"),
        ("parts/bad.yaml", "not valid YAML on line 2"),
    ],
)
def test_files_that_are_not_read(folder: Path, raw: dict[str, Any], model: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as caught:
        load_problem(spec_naming(folder, raw, model))
    (fault,) = caught.value.faults
    assert fault.path == "model"
    assert caught.value.source.endswith("spec.json")


def test_a_service_reads_no_files(folder: Path, raw: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=r"model: files are not read here"):
        load_problem({**raw, "model": "parts/model.json"}, files=False)
    with pytest.raises(SpecError, match=r"files are not read here"):
        load_problem(raw, ["model=parts/model.json"], files=False)
    # A name of a file is then a text like any other.
    with pytest.raises(SpecError, match="expected keys and values"):
        load_problem("spec.json", files=False)
    with pytest.raises(SpecError, match="files are not read here"):
        load_problem(folder / "spec.json", files=False)
    assert isinstance(load_problem(EVERY_KEY, files=False), Problem)


def test_faults_name_the_file(folder: Path, changed: Callable[..., dict[str, Any]]) -> None:
    raw = changed((("workload", "classes", 0, "deadline"), 0), (("space", "tp"), [0]))
    with pytest.raises(SpecError) as caught:
        load_problem(spec_naming(folder, raw, "qwen3-32b"))
    lines = str(caught.value).splitlines()
    assert lines == [
        f"{folder}/spec.json: workload.classes[0].deadline: must be greater than 0 (got 0)",
        f"{folder}/spec.json: space.tp[0]: must be at least 1 (got 0)",
    ]


def test_reading_a_spec_loads_no_heavy_package() -> None:
    code = (
        "import sys, specs; "
        "print([m for m in ('numpy', 'pandas', 'ortools', 'ray', 'optuna') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
