"""``planner import-model``: what it prints, what it writes, and what it refuses."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from specs.documents import read_file, read_text
from specs.huggingface import import_model
from specs.model import ModelSpec

DATA = Path(__file__).parent / "data" / "hf"
LLAMA = str(DATA / "meta-llama--Meta-Llama-3.1-8B")

STUDY = """
name: imported
model: ./llama.yaml
hardware: hgx-h100
workload:
  kind: burst
  serving: one_at_a_time
  classes:
    - {name: chat, sessions: 2, context: 1000, prompt: 0, generate: 8}
objective: {minimise: cost_per_on_time_session, currency: gpu_seconds}
limits: {cards: 2}
space: {tp: [1, 2]}
"""


def test_yaml_goes_to_stdout_and_notes_to_stderr(planner: Any) -> None:
    done = planner("import-model", LLAMA)
    assert done.code == 0
    assert ModelSpec.model_validate(read_text(done.out)) == import_model(LLAMA).model
    assert "note: " in done.err


def test_the_file_itself_may_be_given(planner: Any) -> None:
    assert planner("import-model", f"{LLAMA}/config.json").out == planner("import-model", LLAMA).out


def test_rank_accepts_what_is_written(planner: Any, tmp_path: Path) -> None:
    out = tmp_path / "llama.yaml"
    done = planner("import-model", LLAMA, "-o", str(out))
    assert (done.code, done.out) == (0, "")
    assert f"wrote {out}" in done.err
    (tmp_path / "study.yaml").write_text(STUDY)
    ranked = planner("rank", str(tmp_path / "study.yaml"), "--json")
    assert ranked.code == 0, ranked.err
    document = json.loads(ranked.out)
    assert [p["plan"]["tp"] for p in document["plans"]]


@pytest.mark.parametrize(
    "folder",
    [
        "openai--gpt-oss-20b",
        "Qwen--Qwen3.5-35B-A3B",
        "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-NVFP4",
    ],
)
def test_mixed_stacks_are_ranked(planner: Any, tmp_path: Path, folder: str) -> None:
    assert planner("import-model", str(DATA / folder), "-o", str(tmp_path / "llama.yaml")).code == 0
    study = STUDY.replace("tp: [1, 2]", "tp: [1, 2], ep: [1, 2]")
    (tmp_path / "study.yaml").write_text(study)
    ranked = planner("rank", str(tmp_path / "study.yaml"), "--json")
    assert ranked.code == 0, ranked.out


def test_a_name_may_be_given(planner: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.yaml"
    assert planner("import-model", LLAMA, "-o", str(out), "--name", "my-llama").code == 0
    assert read_file(out)["name"] == "my-llama"
    refused = planner("import-model", LLAMA, "--name", "My Llama")
    assert refused.code == 2
    assert "--name" in refused.err


def test_nothing_is_overwritten_without_force(planner: Any, tmp_path: Path) -> None:
    out = tmp_path / "a.yaml"
    out.write_text("mine")
    refused = planner("import-model", LLAMA, "-o", str(out))
    assert refused.code == 2
    assert "is there already" in refused.err and "--force" in refused.err
    assert out.read_text() == "mine"
    assert planner("import-model", LLAMA, "-o", str(out), "--force").code == 0
    assert read_file(out)["hidden"] == 4096


@pytest.mark.parametrize(
    ("out", "says"),
    [
        ("a.txt", "must end in .yaml"),
        ("none/a.yaml", "cannot write into this folder"),
        ("folder.yaml", "a folder, not a file"),
    ],
)
def test_files_that_cannot_be_written(planner: Any, tmp_path: Path, out: str, says: str) -> None:
    (tmp_path / "folder.yaml").mkdir()
    refused = planner("import-model", LLAMA, "-o", str(tmp_path / out))
    assert refused.code == 2
    assert says in refused.err


def test_json_is_one_document(planner: Any) -> None:
    folder = str(DATA / "Qwen--Qwen3-Next-80B-A3B-Thinking")
    document = json.loads(planner("import-model", folder, "--json").out)
    assert document["schema"] == "planner/import/1"
    assert document["architecture"] == "qwen3_next"
    assert document["parameters"]["draft"] == 1_650_471_424
    assert ModelSpec.model_validate(read_text(document["yaml"])) == import_model(folder).model


def test_errors_are_one_message(planner: Any, tmp_path: Path) -> None:
    config = {"architectures": ["LlammaForCausalLM"], "model_type": "llamma", "hidden_size": 64}
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = planner("import-model", str(tmp_path))
    assert (done.code, done.out) == (2, "")
    assert len(re.findall("^error: ", done.err, re.M)) == 1
    assert "LlamaForCausalLM" in done.err and "missing are" in done.err
    as_json = planner("import-model", str(tmp_path), "--json")
    assert as_json.code == 2
    (fault,) = json.loads(as_json.out)["errors"]
    assert fault["path"] == "architectures"
    assert fault["value"] == "LlammaForCausalLM"


def test_a_folder_without_a_configuration(planner: Any, tmp_path: Path) -> None:
    done = planner("import-model", str(tmp_path))
    assert done.code == 2
    assert "no config.json in this folder" in done.err
    assert "Traceback" not in done.err


def test_a_warning_says_how_far_off_the_count_is(planner: Any, tmp_path: Path) -> None:
    config = (DATA / "meta-llama--Meta-Llama-3.1-8B" / "config.json").read_text()
    (tmp_path / "config.json").write_text(config)
    index = {"metadata": {"total_size": 10**9}, "weight_map": {"lm_head.weight": "a.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    done = planner("import-model", str(tmp_path))
    assert done.code == 0
    assert re.search(r"warning: total_size of the index: .*\+1506", done.err)
