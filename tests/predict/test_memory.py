"""The most memory of a card a job will hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Profile
from gpusquad.predict.memory import PeakMemoryPredictor, peak_quantiles
from tests.predict.similar_jobs import GIB, expecting, job, ran, seen

peaks = st.integers(2**20, 2**40)


def learned(*gibs: float, how="succeeded", gpus: int = 1) -> PeakMemoryPredictor:
    known = PeakMemoryPredictor()
    for number, gib in enumerate(gibs):
        known.learn(ran(job(f"resnet50-run{number}", gpus, number), peak_gib=gib, how=how, ended_us=number))
    return known


def test_nothing_known_nothing_said():
    assert PeakMemoryPredictor().predict(job()) is None
    known = PeakMemoryPredictor()
    known.learn(ran(job()))  # a run whose peak was not measured
    assert known.predict(job()) is None


def test_past_runs_of_the_same_kind_tell():
    found = learned(10, 10.1, 9.9, 10).peak(job("resnet50-run99"))
    assert found is not None
    assert found.bytes.source == "history"
    assert found.bytes.at(0.5) == pytest.approx(10 * GIB, rel=0.02)
    assert 10.2 * GIB < found.bytes.at(0.95) < 13 * GIB
    assert len(found.runs) == 4


def test_one_run_is_trusted_less_than_many():
    one, many = learned(10).predict(job()), learned(*[10] * 15).predict(job())
    assert one is not None
    assert many is not None
    assert one.confidence < many.confidence
    assert one.at(0.9) > many.at(0.9)


def test_an_outlier_moves_it_little():
    plain, odd = learned(*[10] * 9).predict(job()), learned(*[10] * 9, 75).predict(job())
    assert plain is not None
    assert odd is not None
    assert odd.at(0.9) < 1.25 * plain.at(0.9)


def test_two_ways_to_run_it_are_not_outliers():
    found = learned(*[10, 40] * 5).predict(job())
    assert found is not None
    assert found.at(0.9) >= 40 * GIB


@pytest.mark.parametrize("how", ["failed", "timed_out", "cancelled", "preempted", "lost"])
def test_a_run_cut_short_has_not_reached_its_peak(how):
    known = learned(10, 10, 10)
    before = known.predict(job())
    for number in range(10):
        known.learn(ran(job(number=100 + number), peak_gib=0.5, how=how, ended_us=100 + number))
    after = known.predict(job())
    assert before is not None
    assert after is not None
    assert after.values == before.values


def test_a_run_cut_short_that_held_more_counts():
    known = learned(10, 10, 10)
    before = known.predict(job())
    for number in range(3):
        known.learn(ran(job(number=100 + number), peak_gib=14, how="timed_out", ended_us=100 + number))
    after = known.predict(job())
    assert before is not None
    assert after is not None
    assert after.at(0.9) > 13 * GIB > before.at(0.9)


def test_only_cut_runs_are_better_than_nothing_but_not_trusted():
    found = learned(6, 7, how="cancelled").predict(job())
    assert found is not None
    assert (found.confidence, found.at(0.9) > 7 * GIB) == (0, True)


def test_a_network_split_over_more_cards_is_judged_by_its_own_size():
    known = learned(60, 60, gpus=2)
    for number in range(2):
        known.learn(ran(job("resnet50", 4, number), peak_gib=32, ended_us=10 + number))
    found = [known.predict(job(gpus=gpus)) for gpus in (2, 4)]
    assert [round(one.at(0.5) / GIB) for one in found if one] == [60, 32]


def test_the_job_file_tells_until_runs_do():
    known = PeakMemoryPredictor()
    expecting_more = job(expected=expecting(memory_bytes=20 * GIB))
    found = known.predict(expecting_more)
    assert found is not None
    assert (found.source, found.at(0.5)) == ("analytical", 20 * GIB)
    known.learn(ran(job(number=1), peak_gib=9))
    assert known.peak(expecting_more).bytes.source == "analytical"  # type: ignore[union-attr]
    known.learn(ran(job(number=2), peak_gib=9))
    assert known.peak(expecting_more).bytes.source == "history"  # type: ignore[union-attr]


def test_the_profile_is_the_last_resort():
    found = PeakMemoryPredictor().predict(job(profile=Profile(memory_bytes=6 * GIB)))
    assert found is not None
    assert (found.source, found.at(0.9)) == ("user", 6 * GIB)


runs = st.builds(
    lambda gpus, peak, how, number: seen(gpus, how=how, number=number, peak_bytes=peak),
    st.integers(1, 8), st.none() | peaks, st.sampled_from(["succeeded", "failed", "timed_out", "lost"]),
    st.integers(0, 99),
)  # fmt: skip


@given(st.lists(runs, max_size=30))
def test_quantiles_grow_and_stay_near_what_was_seen(history):
    found = peak_quantiles(history)
    told = [run.peak_bytes for run in history if run.peak_bytes]
    assert (found is None) == (not told)
    if found is not None:
        assert list(found.values) == sorted(found.values)
        assert min(told) / 2 <= found.at(0.5) <= max(told) * 2
        assert 0 <= found.confidence <= 1


@given(st.lists(peaks, min_size=1, max_size=20), peaks)
def test_more_memory_in_one_more_run_never_lowers_the_middle(values, extra):
    before = peak_quantiles([seen(number=n, peak_bytes=value) for n, value in enumerate(values)])
    after = peak_quantiles([seen(number=n, peak_bytes=value) for n, value in enumerate([*values, max(*values, extra)])])
    assert before is not None
    assert after is not None
    assert after.at(0.5) >= before.at(0.5) * 0.999
