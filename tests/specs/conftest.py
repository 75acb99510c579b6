import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from specs.documents import read_file

Raw = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def raw() -> Raw:
    """The first example, as written."""
    return read_file(EXAMPLES / "qwen3-32b-128k-hgx-h100.yaml")


@pytest.fixture
def changed(raw: Raw) -> Callable[..., Raw]:
    """The first example with some values replaced, by keys and positions; ``...`` removes."""

    def change(*changes: tuple[tuple[str | int, ...], object]) -> Raw:
        new: Any = copy.deepcopy(raw)
        for (*way, last), value in changes:
            here = new
            for step in way:
                here = here[step]
            if value is ...:
                del here[last]
            else:
                here[last] = value
        return new  # type: ignore[no-any-return]

    return change
