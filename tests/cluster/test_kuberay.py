"""The Kubernetes manifests: fields that KubeRay has, one image and version, a command that runs.

The schema below is written by hand from KubeRay's types (``ray-operator/apis/ray/v1``, v1 API), for
the fields that the manifests use: whatever else stands in them is a mistake. No operator runs here.
"""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from tests.cluster.studies import ROOT

FOLDER = ROOT / "deploy/kuberay"
FILES = sorted(FOLDER.glob("*.yaml"))


def record(required: list[str], **fields: Any) -> dict[str, Any]:
    """Schema of an object with these fields and no others."""
    return {
        "type": "object",
        "properties": fields,
        "required": required,
        "additionalProperties": False,
    }


def array(item: Any) -> dict[str, Any]:
    return {"type": "array", "items": item, "minItems": 1}


TEXT = {"type": "string", "minLength": 1}
WHOLE = {"type": "integer", "minimum": 0}
YES_OR_NO = {"type": "boolean"}
TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
QUANTITY = {"type": "string", "pattern": r"^[0-9.]+(m|[KMGT]i?)?$"}
AMOUNT = record(["cpu", "memory"], cpu=QUANTITY, memory=QUANTITY)
NAMED = record(["name"], name=TEXT)

ENV = record(
    ["name"],
    name=TEXT,
    value={"type": "string"},
    valueFrom=record(["secretKeyRef"], secretKeyRef=record(["name", "key"], name=TEXT, key=TEXT)),
)
CONTAINER = record(
    ["name", "image", "resources"],
    name=TEXT,
    image=TEXT,
    env=array(ENV),
    ports=array(record(["name", "containerPort"], name=TEXT, containerPort=WHOLE)),
    resources=record(["requests", "limits"], requests=AMOUNT, limits=AMOUNT),
    volumeMounts=array(record(["name", "mountPath"], name=TEXT, mountPath=TEXT)),
)
VOLUME = record(
    ["name"],
    name=TEXT,
    configMap=NAMED,
    persistentVolumeClaim=record(["claimName"], claimName=TEXT),
)
POD = record(
    ["spec"], spec=record(["containers"], containers=array(CONTAINER), volumes=array(VOLUME))
)
HEAD = record(["rayStartParams", "template"], rayStartParams=TEXTS, template=POD)
WORKERS = record(
    ["groupName", "minReplicas", "maxReplicas", "rayStartParams", "template"],
    groupName=TEXT,
    replicas=WHOLE,
    minReplicas=WHOLE,
    maxReplicas=WHOLE,
    rayStartParams=TEXTS,
    template=POD,
)
CLUSTER = record(
    ["headGroupSpec", "rayVersion"],
    rayVersion=TEXT,
    authOptions=record(["mode"], mode={"enum": ["token", "disabled"]}),
    enableInTreeAutoscaling=YES_OR_NO,
    headGroupSpec=HEAD,
    workerGroupSpecs=array(WORKERS),
)
JOB = record(
    ["entrypoint", "rayClusterSpec"],
    entrypoint=TEXT,
    backoffLimit=WHOLE,
    shutdownAfterJobFinishes=YES_OR_NO,
    ttlSecondsAfterFinished=WHOLE,
    rayClusterSpec=CLUSTER,
)
KINDS = {
    ("ray.io/v1", "RayCluster"): {"spec": CLUSTER},
    ("ray.io/v1", "RayJob"): {"spec": JOB},
    ("v1", "ConfigMap"): {"data": TEXTS},
}


def documents(file: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(file.read_text(encoding="utf-8")))


def clusters() -> Iterator[dict[str, Any]]:
    """Yield the specification of every cluster in the manifests."""
    for file in FILES:
        for document in documents(file):
            spec = document.get("spec", {})
            if document["kind"] in ("RayCluster", "RayJob"):
                yield spec.get("rayClusterSpec", spec)


def containers() -> Iterator[dict[str, Any]]:
    for cluster in clusters():
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            yield from group["template"]["spec"]["containers"]


def pinned_ray() -> str:
    found = re.search(r"^ray==(\S+)$", (ROOT / "pins.txt").read_text(), re.MULTILINE)
    assert found
    return found[1]


def test_there_is_a_cluster_and_a_job() -> None:
    assert [file.name for file in FILES] == ["raycluster.yaml", "rayjob.yaml"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_every_field_is_one_of_kuberay(file: Path) -> None:
    for document in documents(file):
        fields = KINDS[document["apiVersion"], document["kind"]]
        whole = record(
            ["apiVersion", "kind", "metadata", *fields],
            apiVersion=TEXT,
            kind=TEXT,
            metadata=NAMED,
            **fields,
        )
        Draft202012Validator(whole).validate(document)


def test_all_nodes_have_one_image_and_the_pinned_ray() -> None:
    assert len({container["image"] for container in containers()}) == 1
    assert {cluster["rayVersion"] for cluster in clusters()} == {pinned_ray()}
    assert f"FROM rayproject/ray:{pinned_ray()}-py311" in (FOLDER / "Dockerfile").read_text()


def test_clusters_ask_for_a_token_and_report_nothing() -> None:
    assert all(cluster["authOptions"] == {"mode": "token"} for cluster in clusters())
    for container in containers():
        assert {"name": "RAY_USAGE_STATS_ENABLED", "value": "0"} in container["env"]


def test_workers_are_there_when_a_run_begins() -> None:
    """A cluster without a processor is refused, so none may wait for the first task to grow."""
    for cluster in clusters():
        for group in cluster["workerGroupSpecs"]:
            assert 1 <= group["minReplicas"] <= group["replicas"] <= group["maxReplicas"]


def test_what_is_mounted_is_there() -> None:
    configured, job = documents(FOLDER / "rayjob.yaml")
    pod = job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]
    mounted = {mount["name"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod["volumes"]}
    named = {volume["configMap"]["name"] for volume in pod["volumes"] if "configMap" in volume}
    assert named == {configured["metadata"]["name"]}


def test_the_command_of_the_job_runs(planner: Any, tmp_path: Path) -> None:
    configured, job = documents(FOLDER / "rayjob.yaml")
    for name, text in configured["data"].items():
        (tmp_path / name).write_text(text)
    places = {"/batch": str(tmp_path), "/results": str(tmp_path / "results")}
    program, *words = shlex.split(job["spec"]["entrypoint"])
    assert program == "planner"
    assert words[words.index("--executor") + 1] == "ray"
    words[words.index("--executor") + 1] = "local"
    for there, here in places.items():
        words = [word.replace(there, here) for word in words]
    printed = planner(*words, "--store", str(tmp_path / "store.db"))
    assert printed.code == 0, printed.err
    assert (tmp_path / "results/winners.parquet").is_file()
