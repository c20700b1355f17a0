"""Tests for the pace of the host."""

from dataclasses import replace

import pytest

from gpusquad.predict.analytical import pace
from gpusquad.predict.analytical.estimate import _pace_now
from gpusquad.predict.analytical.measured import MeasuredCard

CARD = MeasuredCard(
    "test", 10**10, 100, 1e12, 10**7, {}, 1e13, measured=True, host={"pace": 300.0}, processor=pace.processor()
)


def test_processor_has_a_name_and_a_core_count():
    model, cores = pace.processor().rsplit(", ", 1)
    assert model
    assert int(cores.removesuffix(" cores")) > 0


def test_no_pace_when_the_host_differs_from_the_calibrated_one():
    assert _pace_now(replace(CARD, processor="another, 3 cores")) is None
    assert _pace_now(replace(CARD, host={})) is None
    assert _pace_now(replace(CARD, host={"pointwise": 3.0})) is None


def test_pace_is_measured_on_a_host_like_the_calibrated_one():
    torch = pytest.importorskip("torch")
    found = _pace_now(CARD)
    assert found is not None
    assert found > 0
    assert pace.measure(torch, readings=1) > 0
