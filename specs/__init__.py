"""What a user may say: model, hardware, workload, limits, objective and search, in SI units.

The lowest floor: everything above speaks of a :class:`Problem`, which :func:`load_problem` makes
from a file, a text or a mapping.
"""

from specs.assumptions import Assumptions
from specs.documents import read_document
from specs.errors import Fault, SpecError
from specs.hardware import HardwareSpec
from specs.load import canonical_json, load_problem, problem_hash, resolve
from specs.model import ModelSpec
from specs.paths import get, leaf_unit, numeric_leaves, put
from specs.problem import Limits, Objective, Problem
from specs.search import Search
from specs.space import AXES, Space
from specs.units import parse_quantity
from specs.workload import SessionClass, Workload

__all__ = [
    "AXES",
    "Assumptions",
    "Fault",
    "HardwareSpec",
    "Limits",
    "ModelSpec",
    "Objective",
    "Problem",
    "Search",
    "SessionClass",
    "Space",
    "SpecError",
    "Workload",
    "canonical_json",
    "get",
    "leaf_unit",
    "load_problem",
    "numeric_leaves",
    "parse_quantity",
    "problem_hash",
    "put",
    "read_document",
    "resolve",
]
