"""What an answer depends on beside the problem: code, packages, cost models of others, files."""

import hashlib
import inspect
import re
from functools import cache
from importlib.metadata import version
from pathlib import Path

from costmodels.base import cost_model
from specs.errors import SpecError
from specs.fingerprint import PACKAGES, code_fingerprint
from specs.problem import Problem

_PACKAGES = ("llm-deployment-planner", "numpy", "ortools", "pydantic")


def versions() -> dict[str, str]:
    """Versions of the packages that an answer depends on."""
    return dict(_installed())


@cache
def _installed() -> dict[str, str]:
    return {package: version(package) for package in _PACKAGES}


def grounds(problem: Problem) -> dict[str, str]:
    """Return everything but the problem that its answer depends on, by name.

    That is ``versions()``, the planner's own ``code``, and where the cost model has them, the
    ``plug-in`` that it comes from and the files that it names, by the hashes of what they hold.
    """
    found = {**versions(), "code": code_fingerprint()}
    model = type(cost_model(problem.cost_model))
    if model.__module__.partition(".")[0] not in PACKAGES:
        found["plug-in"] = _digest(Path(inspect.getfile(model)))
    for name in re.split("[,:=]", problem.cost_model):
        if (file := Path(name)).suffix and file.is_file():
            found[name] = _digest(file)
    return found


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        raise SpecError.single(
            "cost_model", str(file), f"cannot be read: {error.strerror}"
        ) from error
