"""Tests of parsing quantities exactly, as Kubernetes does."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.kube.errors import MalformedField
from gpusquad.kube.quantity import milli_from_nanos, parse_quantity, units_from_nanos

UNITS = {
    "": Fraction(1), "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9), "T": Fraction(10**12),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40),
    "e3": Fraction(10**3), "E-3": Fraction(1, 1000), "e+2": Fraction(100), "E0": Fraction(1),
}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "in_milli", "in_whole"),
    [
        ("0", 0, 0),
        ("100m", 100, 1),
        ("1.5", 1500, 2),
        ("8Gi", 8 * 2**30 * 1000, 8 * 2**30),
        ("2e3", 2_000_000, 2000),
        ("2E3", 2_000_000, 2000),
        ("12E", 12 * 10**21, 12 * 10**18),
        ("12E1", 120_000, 120),
        ("1Ei", 2**60 * 1000, 2**60),
        ("5n", 1, 1),
        ("1.", 1000, 1),
        (".5", 500, 1),
        ("+3", 3000, 3),
        ("-0", 0, 0),
        ("0.1n", 1, 1),
        ("1.5Ki", 1_536_000, 1536),
        (2, 2000, 2),
        (0.25, 250, 1),
    ],
)
def test_quantity_is_parsed(text: object, in_milli: int, in_whole: int):
    nanos = parse_quantity(text, "quantity")
    assert (milli_from_nanos(nanos), units_from_nanos(nanos)) == (in_milli, in_whole)


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1 Gi", "Gi", ".", "+", "1.2.3", "1e", "1Gib", "1ki", "1g", "0x10", "1_000", "١", "-1", "-0.1m",
     "inf", "12E-", "12EE", "1e25", "99999999E", "1e9999", "1e99999", "9" * 65, True, None, [], {},
     float("nan"), float("inf"), 10**40],
)  # fmt: skip
def test_invalid_quantity_is_rejected_by_its_path(text: object):
    with pytest.raises(MalformedField) as error:
        parse_quantity(text, "main.resources.requests[cpu]")
    assert error.value.field == "main.resources.requests[cpu]"
    assert len(str(error.value)) < 300


@given(st.integers(0, 10**6), st.text("0123456789", max_size=12), st.sampled_from(sorted(UNITS)))
def test_quantity_is_exact_and_rounded_up_once(digits: int, decimals: str, unit: str):
    text = f"{digits}{'.' if decimals else ''}{decimals}{unit}"
    value = Fraction(f"{digits}.{decimals or 0}") * UNITS[unit]
    nanos = parse_quantity(text, "x")
    assert nanos == math.ceil(value * 10**9)
    assert milli_from_nanos(nanos) == math.ceil(value * 1000)
    assert units_from_nanos(nanos) == math.ceil(value)


@given(st.text(max_size=80) | st.integers() | st.floats() | st.binary(max_size=9) | st.none())
def test_arbitrary_value_is_a_quantity_or_malformed(value: object):
    with contextlib.suppress(MalformedField):
        assert parse_quantity(value, "x") >= 0
