"""Goals in one line."""

import pytest

from gpusquad.model.errors import Invalid
from gpusquad.spec.check import check
from gpusquad.spec.slo_text import slo_from_text
from tests.spec.data import SIMPLE


@pytest.mark.parametrize(
    ("text", "slo"),
    [
        ("p99=20ms,throughput=100", {"latency": "20ms", "throughput": 100}),
        (" latency = 1s , availability=99.9% ", {"latency": "1s", "availability": "99.9%"}),
        ("deadline=2h,availability=0.5", {"deadline": "2h", "availability": 0.5}),
    ],
)
def test_goals_are_read(text, slo):
    assert slo_from_text(text) == slo
    assert check(SIMPLE | {"slo": slo}).slo


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("", "slo", "p99=20ms"),
        ("p99", "slo", "p99=20ms"),
        ("p99=", "slo", "p99=20ms"),
        ("p98=20ms", "slo.p98", "did you mean 'p99'"),
        ("p99=20ms,latency=1s", "slo.latency", "twice"),
        ("p99=20 parsecs", "slo.p99", "not a unit"),
        ("throughput=fast", "slo.throughput", "expected a number"),
        ("throughput=0", "slo.throughput", "is zero"),
        ("throughput=nan", "slo.throughput", "finite"),
        ("throughput=5%", "slo.throughput", "expected a number"),
        ("availability=2", "slo.availability", "above 1"),
        ("x" * 300, "slo", "keep it to 256"),
    ],
)
def test_what_is_wrong_is_named(text, field, words):
    with pytest.raises(Invalid) as caught:
        slo_from_text(text)
    assert caught.value.field == field
    assert words in str(caught.value)
