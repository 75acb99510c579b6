import pytest

from specs import catalog, census
from specs.calibration import Calibration
from specs.engine import EngineEntry, EngineMemory
from specs.errors import SpecError
from specs.hardware import HardwareSpec
from specs.model import ModelSpec
from specs.routing import HistogramRouting
from specs.workload import Workload
from tests.shapes import groups, layer_numbers, mixer

SHAPES = {
    "models": ModelSpec,
    "hardware": HardwareSpec,
    "workloads": Workload,
    "routing": HistogramRouting,
    "engines": EngineEntry,
    "calibrations": Calibration,
}
ENTRIES = [(kind, name) for kind in catalog.KINDS for name in catalog.names(kind)]

BF16_BYTES = {
    "qwen3-32b": 65_524_246_528,
    "qwen3-30b-a3b": 61_064_245_248,
    "qwen3-235b-a22b": 470_187_269_120,
    "qwen3-8b": 2 * 8_190_735_360,
    "llama-3.1-70b": 2 * 70_553_706_496,
}


def parameters(model: ModelSpec) -> int:
    """Parameters of the stack by the second opinion of the tests; drafts and modules excepted."""
    tables = model.hidden * model.vocab * (1 if model.tied_embeddings else 2)
    last = mixer(model, last=True)
    joined = sum(m.numbers for m in last.matrices) + sum(last.learned)
    layers = sum(g.count * layer_numbers(model, g) for g in groups(model))
    return tables + layers + joined + model.hidden


@pytest.mark.parametrize("name", catalog.names("models"))
def test_parameters_follow_from_the_shapes(name: str) -> None:
    """Two counts agree with each other, and with what is published."""
    model = ModelSpec.model_validate(catalog.entry("models", name))
    counts = census.parameters(model)
    stack = sum(counts.values()) - counts.get("modules", 0) - counts.get("engram", 0)
    assert stack == parameters(model)
    if name in BF16_BYTES:
        assert model.parameters == parameters(model)
        assert 2 * parameters(model) == BF16_BYTES[name]
    else:
        assert model.parameters, "states the published count"


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_entries_are_valid_named_and_sourced(kind: str, name: str) -> None:
    spec = SHAPES[kind].model_validate(catalog.entry(kind, name))
    assert isinstance(spec, tuple(SHAPES.values()))
    assert spec.name == name
    assert spec.title
    assert spec.sources and all(spec.sources)


@pytest.mark.parametrize("name", catalog.names("hardware"))
def test_latencies_and_measurements_say_where_they_come_from(name: str) -> None:
    machine = HardwareSpec.model_validate(catalog.entry("hardware", name))
    assert all(level.source for level in machine.levels)
    assert all(measured.source for measured in machine.collectives)


@pytest.mark.parametrize("name", catalog.names("engines"))
def test_every_input_of_an_engine_has_its_evidence(name: str) -> None:
    engine = EngineEntry.model_validate(catalog.entry("engines", name))
    settings = {"max_batched_tokens", "max_sequences", "max_model_len"}
    # Only engines that are known to treat such models in a way of their own state how.
    optional = {"compressed", "hyper_pass"} - engine.memory.model_fields_set
    assert set(engine.evidence) == set(EngineMemory.model_fields) - settings - optional
    assert all(earlier.source for earlier in engine.versions)


def test_entries_are_copies() -> None:
    catalog.entry("models", "qwen3-8b")["layers"].clear()
    assert catalog.entry("models", "qwen3-8b")["layers"]


def test_listing() -> None:
    listed = catalog.listing("hardware")
    assert [row["name"] for row in listed] == list(catalog.names("hardware"))
    assert all(set(row) == {"name", "title", "sources"} for row in listed)


@pytest.mark.parametrize(
    ("kind", "name", "says"),
    [
        ("models", "qwen3-33b", "Did you mean 'qwen3-32b'"),
        ("hardware", "HGX-H100", "Did you mean 'hgx-h100'"),
        ("workloads", "../models/qwen3-8b", "no workload of that name"),
        ("models", "x" * 10**6, "no model of that name"),
        ("model", "qwen3-8b", "Did you mean 'models'"),
        ("..", "x", "the catalogue holds models, hardware, workloads, routing"),
    ],
    ids=lambda value: value[:20],
)
def test_unknown_names(kind: str, name: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        catalog.entry(kind, name)
