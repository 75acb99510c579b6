import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specs.units import UNITS, Quantity, parse_quantity


@pytest.mark.parametrize(
    ("text", "dimension", "si"),
    [
        ("80 GB", "bytes", 80e9),
        ("80GB", "bytes", 80e9),
        ("2 GiB", "bytes", 2 * 2**30),
        ("8 Gb", "bytes", 1e9),
        ("3350 GB/s", "bytes/s", 3.35e12),
        ("3.35 TB/s", "bytes/s", 3.35e12),
        ("400 Gb/s", "bytes/s", 50e9),
        ("400 Gbps", "bytes/s", 50e9),
        ("0.822 us", "seconds", 0.822e-6),
        ("0.822 µs", "seconds", 0.822e-6),
        ("130 ms", "seconds", 0.13),
        ("2 h", "seconds", 7200.0),
        ("989.4 TFLOP/s", "flop/s", 989.4e12),
        ("1978.9 TOP/s", "flop/s", 1978.9e12),
        ("10.2 kW", "watts", 10200.0),
        ("128K", "tokens", 131072.0),
        ("128k", "tokens", 128000.0),
        ("2.5 USD/h", "money/s", 2.5 / 3600),
        ("20 USD/h", "money/h", 20.0),
        ("75 %", "share", 0.75),
        ("1e-6", "seconds", 1e-6),
        (3, "seconds", 3.0),
        ("7", "bytes", 7.0),
        ("131_072", "tokens", 131072.0),
    ],
)
def test_text_becomes_si(text: object, dimension: str, si: float) -> None:
    assert parse_quantity(text, dimension) == pytest.approx(si, rel=1e-15)


@pytest.mark.parametrize(
    ("value", "dimension", "says"),
    [
        ("80 GB/s", "bytes", "'GB/s' is a unit of bytes/s"),
        ("80 parsecs", "bytes", "'parsecs' is no known unit"),
        ("fast", "bytes/s", "such as '3350 GB/s'"),
        ("", "seconds", "such as '130 ms'"),
        (math.nan, "seconds", "must be finite"),
        (math.inf, "seconds", "must be finite"),
        ("1e999", "seconds", "must be finite"),
        (True, "seconds", "expected a quantity in seconds"),
        (None, "seconds", "expected a quantity in seconds"),
        ([1], "seconds", "expected a quantity in seconds"),
        (10**400, "seconds", "too large"),
        ("1" + " " * 10**6 + "\n", "seconds", "expected a quantity in seconds"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_is_no_quantity_is_refused(value: object, dimension: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parse_quantity(value, dimension)


@pytest.mark.parametrize(
    ("quantity", "value", "says"),
    [
        (Quantity("seconds", above=0), 0, "greater than 0"),
        (Quantity("bytes", least=0), -1, "not be negative"),
        (Quantity("share", above=0, most=1), "101 %", "at most 1"),
        (Quantity("tokens", least=1, whole=True), 0, "at least 1"),
        (Quantity("tokens", least=0, whole=True), 1.5, "whole number of tokens"),
    ],
)
def test_bounds_are_said(quantity: Quantity, value: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        quantity.convert(value)


def test_whole_quantities_stay_whole() -> None:
    assert isinstance(Quantity("tokens", whole=True).convert("128K"), int)


@given(st.floats(1e-6, 1e6), st.sampled_from([(d, u) for d in UNITS for u in UNITS[d] if u]))
def test_every_unit_scales_the_number(number: float, unit: tuple[str, str]) -> None:
    dimension, name = unit
    expected = number * UNITS[dimension][name]
    assert parse_quantity(f"{number!r} {name}", dimension) == pytest.approx(expected, rel=1e-12)
