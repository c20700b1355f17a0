"""Tests for amounts and times as text."""

import pytest

from gpusquad.model.units import US_PER_S, show_cores, show_gib, show_wait

GIB, TIB = 2**30, 2**40


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (600 * 2**20, "600 MiB"), (round(12.54 * GIB), "12.5 GiB"), (900 * GIB, "900 GiB"), (1020 * GIB, "1020 GiB"),
        (100 * TIB, "100 TiB"), (5000 * TIB, "5000 TiB"),
    ],
)  # fmt: skip
def test_memory_is_shown_without_exponents(value, text):
    assert show_gib(value) == text


@pytest.mark.parametrize(("milli", "text"), [(1000, "1 core"), (2500, "2.5 cores"), (5_000_000, "5000 cores")])
def test_cores_are_shown_without_exponents(milli, text):
    assert show_cores(milli) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(34.2, "35s"), (59.5, "1m"), (160, "2m40s"), (180, "3m"), (599, "9m59s"), (600, "10m"), (7500, "2h05m")],
)
def test_short_waits_are_shown_to_the_second(seconds, text):
    assert show_wait(round(seconds * US_PER_S)) == text
