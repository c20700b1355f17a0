"""Interference measurements as plain data."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.interference import (
    ConfidenceInterval,
    CoRun,
    MeasurementSeries,
    MeasurementSetting,
    SoloMeasurement,
)
from gpusquad.model.interference_data import from_data, to_data

ratios = st.floats(0, 1, allow_nan=False)
intervals = st.builds(ConfidenceInterval, ratios, ratios, ratios, st.integers(1, 9))
names = st.sampled_from(["vgg16", "alexnet", "cnn"])
solos = st.builds(
    SoloMeasurement, names, intervals, st.lists(st.tuples(st.integers(1, 1000), ratios), max_size=3).map(tuple)
)


@st.composite
def co_runs(draw: st.DrawFn) -> CoRun:
    size = draw(st.integers(2, 3))
    workloads = tuple(draw(names) for _ in range(size))
    sm_milli = tuple(draw(st.sampled_from([250, 500, 1000])) for _ in range(size))
    if draw(st.booleans()):
        return CoRun(workloads, sm_milli, out_of_memory=(True,) + (False,) * (size - 1))
    samples = tuple((draw(ratios), draw(ratios)) for _ in range(size))
    return CoRun(workloads, sm_milli, tuple(draw(intervals) for _ in range(size)), samples)


series = st.builds(
    MeasurementSeries,
    st.builds(MeasurementSetting, st.just("NVIDIA H200"), st.just("580.1"), st.sampled_from(["time-slicing", "mps"])),
    st.integers(0, 2**50),
    st.lists(solos, max_size=3).map(tuple),
    st.lists(co_runs(), max_size=4).map(tuple),
)


@given(series)
def test_measurements_survive_a_round_trip_through_json(measurements: MeasurementSeries):
    assert from_data(json.loads(json.dumps(to_data(measurements)))) == measurements


@pytest.mark.parametrize("data", [None, [], {}, {"format": 99}, {"format": 1, "setting": {}}, {"format": 1}])
def test_data_that_is_no_measurement_is_refused(data: object):
    with pytest.raises(Invalid, match="measure again"):
        from_data(data)


def test_co_run_gives_both_directions_and_a_pair_of_equals_gives_one():
    interval = ConfidenceInterval(0.5, 0.4, 0.6)
    pair = CoRun(("a", "b"), (1000, 1000), (interval, interval))
    pair_of_equals = CoRun(("a", "a"), (1000, 1000), (interval, interval))
    uneven = CoRun(("a", "a"), (250, 750), (interval, interval))
    triple = CoRun(("a", "b", "b"), (1000, 1000, 1000), (interval, interval, interval))
    measurements = MeasurementSeries(
        MeasurementSetting("x", "1", "mps"), 0, co_runs=(pair, pair_of_equals, uneven, triple)
    )
    pairs = [(own, other, index) for own, other, _, index in measurements.pairs()]
    assert pairs == [("a", "b", 0), ("b", "a", 1), ("a", "a", 0), ("a", "a", 0), ("a", "a", 1)]
