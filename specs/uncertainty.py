"""How sure the figures of a spec are: the spread of a leaf, beside it or in its place.

``uncertainty: {PATH: {kind: normal, deviation: 5 %}}`` states the spread of a leaf that has a
value; ``0.822 us ± 20 %`` in place of a value states both at once.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from specs.base import Spec
from specs.errors import SpecError

Amount = int | float | str
"""A number in SI, a quantity with its unit, or a share of the value such as ``20 %``."""

MOST_SAMPLES = 1000
"""Measurements of one leaf."""

_BESIDE = re.compile(r"\s*(?P<value>[-+.\d][^±]*?)\s*±\s*(?P<amount>[.\d][^±]*?)\s*")

_WORDS = ("name", "title", "source", "note")
"""Keys of sentences, in which the sign means nothing to a program."""


class Normal(Spec):
    """The value of the leaf is the mean of a normal distribution, cut at three deviations."""

    kind: Literal["normal"] = "normal"
    """A normal distribution."""
    deviation: Amount
    """Standard deviation: a share of the value (``5 %``) or an amount in its unit."""


class Uniform(Spec):
    """Every value in a range is as likely as any other."""

    kind: Literal["uniform"] = "uniform"
    """A range."""
    within: Amount | None = None
    """Distance of both ends from the value: a share of it (``20 %``) or an amount in its unit."""
    low: Amount | None = None
    """Least value, in place of ``within``."""
    high: Amount | None = None
    """Largest value, in place of ``within``."""


class Samples(Spec):
    """Measurements, each as likely as any other."""

    kind: Literal["samples"] = "samples"
    """A list of measurements."""
    values: Annotated[tuple[Amount, ...], Field(min_length=2, max_length=MOST_SAMPLES)]
    """The measurements."""


Spread = Annotated[Normal | Uniform | Samples, Field(discriminator="kind")]


def _named(value: object) -> object:
    """Let nothing stand for no spreads, a list for measurements and ``± 20 %`` for a range."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        return value
    return {path: _written_out(said) for path, said in value.items()}


def _written_out(said: object) -> object:
    if isinstance(said, list | tuple):
        return {"kind": "samples", "values": said}
    if isinstance(said, str) and said.lstrip().startswith("±"):
        return {"kind": "uniform", "within": said.lstrip().removeprefix("±").strip()}
    if isinstance(said, Mapping) and "kind" not in said:
        return {"kind": "samples" if "values" in said else "uniform", **said}
    return said


Spreads = Annotated[dict[str, Spread], BeforeValidator(_named)]


def taken_out(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return a raw spec in which ``VALUE ± AMOUNT`` is the value, and the rest a spread.

    Raises ``SpecError`` for a leaf that has a spread already.
    """
    found: dict[str, str] = {}
    plain = {key: _without(key, value, found) for key, value in raw.items()}
    if not found:
        return plain
    stated = plain.get("uncertainty") or {}
    if twice := next((path for path in found if path in stated), None):
        raise SpecError.single(f"uncertainty.{twice}", None, "the value itself states a spread")
    spreads = {path: {"kind": "uniform", "within": amount} for path, amount in found.items()}
    return {**plain, "uncertainty": {**stated, **spreads}}


def _without(path: str, value: Any, found: dict[str, str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(f"{path}.{key}", inner, found) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without(f"{path}[{at}]", inner, found) for at, inner in enumerate(value)]
    if not isinstance(value, str) or "±" not in value:
        return value
    match = _BESIDE.fullmatch(value)
    if not match or path.startswith("uncertainty.") or path.rpartition(".")[2] in _WORDS:
        return value
    found[path] = match["amount"]
    return match["value"]
