"""Who may use a cluster, which nodes may work for it, and a cluster that is started for one run."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from searches.executors import executor
from searches.executors.connection import identity, require_same
from specs.errors import SpecError
from specs.fingerprint import PACKAGES
from tests.cluster import work
from tests.cluster.studies import EXAMPLE, ROOT

PLANNER = [sys.executable, "-c", "from planner.cli import main; main()"]

pytestmark = [pytest.mark.ray, pytest.mark.xdist_group("ray")]


def planner(name: str, home: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Rank with an executor, in an environment that knows of no cluster and no token."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
    return subprocess.run(
        [*PLANNER, "rank", str(EXAMPLE), "--store", "none", "--json", "--executor", name],
        check=False,
        env=mine | {"HOME": str(home)} | changes,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize("token", [pytest.param("", marks=pytest.mark.soak), "f" * 32])
def test_strangers_are_refused(address: str, tmp_path: Path, token: str) -> None:
    shown = {"RAY_AUTH_TOKEN": token} if token else {}
    done = planner(address, tmp_path, **shown)
    assert done.returncode == 2
    assert "this Ray cluster asks for a token" in done.stdout
    assert "RAY_AUTH_TOKEN_PATH" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_token_in_the_home_folder_opens_the_cluster(
    cluster: Any, address: str, tmp_path: Path
) -> None:
    """Ray itself would not look there when it is given an address."""
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text(os.environ["RAY_AUTH_TOKEN"])
    done = planner(address, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == planner("local", tmp_path).stdout


def test_a_cluster_for_one_run(tmp_path: Path) -> None:
    """It says nothing, keeps others out, and leaves nothing in the home folder."""
    done = planner("ray", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == planner("local", tmp_path).stdout
    assert not list(tmp_path.iterdir())


OWN_FIRST = """
import sys
from importlib.machinery import PathFinder

class OwnFirst:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{folder!r}]) if path is None else None

sys.meta_path.insert(0, OwnFirst)
"""
"""A node on this machine would import what this process imports."""


@contextmanager
def node_with(cluster: Any, folder: Path) -> Iterator[None]:
    """Add a node whose Python finds the modules of a folder first."""
    (folder / "sitecustomize.py").write_text(OWN_FIRST.format(folder=str(folder)))
    node = cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(folder)})
    yield
    cluster.remove_node(node)


def test_a_node_with_other_code_is_refused(cluster: Any, address: str, tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package)
    with (tmp_path / "costmodels/roofline.py").open("a") as file:
        file.write("# a line more\n")
    with (
        node_with(cluster, tmp_path),
        pytest.raises(SpecError, match=r"node \S+ has code .*Install the same planner on"),
    ):
        list(executor(address).run(work.add, 1, [1, 2, 3]))


@pytest.mark.soak
def test_a_node_without_the_planner_is_refused(cluster: Any, address: str, tmp_path: Path) -> None:
    (tmp_path / "searches.py").write_text("")
    with (
        node_with(cluster, tmp_path),
        pytest.raises(SpecError, match=r"node \S+ has no planner .*ModuleNotFoundError"),
    ):
        list(executor(address).run(work.add, 1, [1, 2, 3]))


@pytest.mark.parametrize("what", [0, 1, 2])
def test_every_part_of_the_identity_counts(what: int) -> None:
    other = list(identity())
    other[what] = "other"
    version, code, numpy = other
    require_same(identity(), identity(), "there")
    with pytest.raises(SpecError, match="node there has"):
        require_same((version, code, numpy), identity(), "there")
