"""SLOs in one line of text."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Slo
from gpusquad.model.slo_text import goal_text, goals_in, slo_from_text
from gpusquad.spec.check import check
from tests.spec.data import SIMPLE


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("p99=20ms,throughput=100", {"latency": "20ms", "throughput": 100}),
        ("throughput=5/s", {"throughput": 5}),
        ("throughput= 2.5 /s ", {"throughput": 2.5}),
        (" latency = 1s , availability=99.9% ", {"latency": "1s", "availability": "99.9%"}),
        ("deadline=2h,availability=0.5", {"deadline": "2h", "availability": 0.5}),
    ],
)
def test_slo_text_is_parsed(text, slo):
    assert goals_in(text) == slo
    assert check(SIMPLE | {"slo": slo}).slo


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("", "slo", "p99=20ms"),
        ("p99", "slo", "p99=20ms"),
        ("p99=", "slo", "p99=20ms"),
        ("p98=20ms", "slo.p98", "did you mean 'p99'"),
        ("p99=20ms,latency=1s", "slo.latency", "twice"),
        ("p99=20 parsecs", "slo.p99", "not a unit"),
        ("throughput=fast", "slo.throughput", "write for example 5 or 5/s"),
        ("throughput=5/min", "slo.throughput", "write for example 5 or 5/s"),
        ("throughput=5/s/s", "slo.throughput", "write for example 5 or 5/s"),
        ("throughput=/s", "slo.throughput", "write for example 5 or 5/s"),
        ("throughput=-5/s", "slo.throughput", "below 0"),
        ("throughput=0/s", "slo.throughput", "is zero"),
        ("throughput=0", "slo.throughput", "is zero"),
        ("throughput=nan", "slo.throughput", "finite"),
        ("throughput=5%", "slo.throughput", "write for example 5 or 5/s"),
        ("availability=often", "slo.availability", "write for example 0.999 or 99.9%"),
        ("availability=2", "slo.availability", "above 1"),
        ("x" * 300, "slo", "keep it to 256"),
    ],
)
def test_invalid_slo_text_is_refused_with_the_field(text, field, message):
    with pytest.raises(Invalid) as caught:
        goals_in(text)
    assert caught.value.field == field
    assert message in str(caught.value)


times = st.none() | st.integers(0, 10**14)


@given(st.builds(Slo, times, times, st.none() | st.floats(1e-9, 1e12), st.none() | st.floats(0.0, 1.0)), times)
def test_slo_survives_a_round_trip_through_text(slo: Slo, submitted_us: int | None):
    since_us = submitted_us or 0
    slo = slo if slo.deadline_us is None else replace(slo, deadline_us=slo.deadline_us + since_us)
    text = goal_text(slo, since_us)
    assert (slo_from_text(text, "slo", since_us) if text else Slo()) == slo
    assert goal_text(None) == ""
