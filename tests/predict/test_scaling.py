"""Tests for predicted run times by number of GPUs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.prediction import certain
from gpusquad.predict.scaling import SIZES, curve, relative, worth
from tests.predict.similar_jobs import S, job, offline_estimate, run_summary

LINEAR, FLAT = (0.0, 0.0), (1.0, 0.0)


def runs_of(shape, sizes, one_s: float = 1000, each: int = 3):
    return [run_summary(n, one_s * relative(shape, n), number=i) for n in sizes for i in range(each)]


def test_no_curve_without_successful_runs():
    assert curve(job(), []) is None
    assert curve(job(), [run_summary(2, how="failed")]) is None


@pytest.mark.parametrize("shape", [LINEAR, (0.1, 0.02), (0.3, 0.0), (0.05, 0.1), (0.9, 0.0)])
def test_curve_recovers_a_known_shape(shape):
    found = curve(job(gpus=2), runs_of(shape, (1, 2, 4), each=10))
    assert found is not None
    assert found.source == "history"
    assert found.run(8).at(0.5) == pytest.approx(1000 * S * relative(shape, 8), rel=0.2)
    for size in (1, 2, 4):
        assert found.run(size).at(0.5) == pytest.approx(1000 * S * relative(shape, size), rel=0.01)
        assert found.run(size).source == "history"


def test_other_sizes_have_source_default_when_runs_have_one_size():
    found = curve(job(gpus=4), runs_of(LINEAR, (4,)))
    assert found is not None
    assert (found.run(4).source, found.run(8).source) == ("history", "default")
    assert found.run(4).at(0.5) == pytest.approx(250 * S, rel=0.01)
    assert found.run(8).confidence < 0.1
    far, near = found.run(64), found.run(8)
    assert far.at(0.9) / far.at(0.5) > near.at(0.9) / near.at(0.5)


def test_shape_is_from_the_offline_estimate_and_length_from_past_runs():
    expected = offline_estimate(by_gpus={1: 100, 2: 60, 4: 45})
    found = curve(job(gpus=2, expected=expected), runs_of((0.2, 0.0), (2,), 1000))
    assert found is not None
    assert found.run(2).at(0.5) == pytest.approx(600 * S, rel=0.01)
    assert found.run(4).source == "analytical"
    assert found.run(4).at(0.5) == pytest.approx(450 * S, rel=0.1)


def test_curve_from_the_offline_estimate_alone():
    found = curve(job(expected=offline_estimate(by_gpus={1: 100, 2: 60})), [])
    assert found is not None
    assert [round(found.run(n).at(0.5) / S) for n in (1, 2)] == [100, 60]
    assert found.run(1).source == "analytical"


def test_curve_from_a_run_time_for_the_requested_gpus():
    found = curve(job(gpus=2), [], certain(100 * S, "user"))
    assert found is not None
    assert (found.run(2).source, found.run(2).at(0.5)) == ("user", 100 * S)
    assert found.run(1).at(0.5) > 130 * S


@pytest.mark.parametrize(("shape", "best"), [(LINEAR, 8), ((0.2, 0.0), 2), (FLAT, 1), ((0.06, 0.01), 4)])
def test_worth_returns_the_largest_efficient_number_of_gpus(shape, best):
    found = curve(job(gpus=8), runs_of(shape, (1, 2, 4, 8), each=20))
    assert found is not None
    assert worth(found, 8) == best


def test_worth_returns_more_gpus_for_a_lower_ratio():
    found = curve(job(gpus=8), runs_of((0.2, 0.0), (1, 2, 4, 8), each=20))
    assert found is not None
    assert [worth(found, 8, ratio=ratio) for ratio in (0.9, 0.7, 0.6, 0.3)] == [1, 2, 4, 8]
    assert worth(found, 8, least=4) == 4


histories = st.lists(
    st.builds(run_summary, st.integers(1, 64), st.floats(0.001, 1e7), st.sampled_from(["succeeded", "failed"]),
              st.integers(0, 99)),
    max_size=12,
)  # fmt: skip


@given(histories, st.integers(1, 16))
def test_every_curve_gives_valid_predictions(history, gpus):
    found = curve(job(gpus=gpus), history, certain(50 * S, "user"))
    assert found is not None
    for size in SIZES:
        run = found.run(size)
        assert list(run.values) == sorted(run.values)
        assert run.values[0] >= 1
        assert run.at(0.1) <= run.at(0.5) <= run.at(0.9)
        assert found.efficiency(size) > 0
    assert 1 <= worth(found, gpus) <= gpus


@given(histories)
def test_efficiency_decreases_beyond_the_known_sizes(history):
    found = curve(job(), [run for run in history if run.gpus <= 4], certain(50 * S, "user"))
    assert found is not None
    ratios = [found.efficiency(size) for size in SIZES if size > max(found.known)]
    assert ratios == sorted(ratios, reverse=True)
