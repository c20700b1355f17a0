"""Tests for combining several calibration readings of a host."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.predict.analytical.calibrate import typical
from gpusquad.predict.analytical.host import ELASTICITY
from gpusquad.predict.analytical.probes import convs


def reading(pace, power):
    slowdown = (pace / 300) ** power
    return {
        "pace": pace,
        "add.inference": 10 * slowdown,
        "add.backward": 20 * slowdown,
        "module.backward": 0.0,
        "mix.rows": 1.3,
    }


@given(st.floats(0, 1), st.lists(st.floats(100, 900), min_size=3, max_size=9).filter(lambda x: max(x) > 1.2 * min(x)))
def test_elasticity_is_recovered_from_readings(power, paces):
    found = typical([reading(pace, power) for pace in paces])
    assert found[ELASTICITY] == pytest.approx(power, abs=1e-6)
    assert found["pace"] == pytest.approx(sum(paces) / len(paces))


def test_negative_elasticity_becomes_zero():
    assert typical([reading(pace, -0.5) for pace in (200, 300, 400)])[ELASTICITY] == 0


def test_elasticity_is_one_when_the_pace_is_constant():
    assert typical([reading(300, 0.7)] * 3)[ELASTICITY] == 1


def test_parts_of_a_calibration_cover_all_shapes():
    whole = sorted(convs.parts(40, 1)[0])
    assert sorted(shape for part in convs.parts(40, 4) for shape in part) == whole
