"""What changed between two series."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.measure.analysis.compare import are_comparable, as_plain, compare, describe
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import ConfidenceInterval, CoRun
from tests.measure.sample import sample


def test_the_same_twice():
    found = compare(sample(), sample())
    assert found.changes == []
    assert describe(found) == [
        f"{len(found.tested)} of {len(found.tested)} speeds are unchanged within their intervals"
    ]


def test_one_pair_changed():
    found = compare(sample(), sample(driver="610.5", shift=0.08))
    assert [(one.own, [name for name, _ in one.run]) for one in found.changes] == [("cnn", ["cnn", "matmul"])]
    assert found.changes[0].by.mean == pytest.approx(0.08, abs=1e-3)
    words = describe(found)
    assert words[0] == "driver 600.10 before, 610.5 now"
    assert "cnn in cnn beside matmul: 0.67 of its speed alone before, 0.75 now (faster" in words[1]


@given(st.floats(-0.2, 0.2))
@settings(max_examples=20)
def test_there_and_back_say_the_same(shift):
    old, new = sample(), sample(shift=shift)
    there, back = compare(old, new), compare(new, old)
    assert {one.run for one in there.changes} == {one.run for one in back.changes}
    assert [one.by.mean for one in there.tested if not one.is_alone] == pytest.approx(
        [-one.by.mean for one in back.tested if not one.is_alone]
    )


@given(st.floats(-0.02, 0.02))
@settings(max_examples=20)
def test_no_more_changes_than_without_correction(shift):
    found = compare(sample(), sample(shift=shift))
    assert len(found.changes) <= sum(one.by.p < 0.05 for one in found.tested)


def test_workloads_alone_are_compared_too():
    old = sample()
    slower = replace(old.solos[0], steps_per_s=ConfidenceInterval(106.0, 105.0, 107.0, 5))
    found = compare(old, replace(old, solos=(slower, *old.solos[1:])))
    assert [(one.own, one.is_alone) for one in found.changes] == [("cnn", True)]
    assert "cnn alone: 50.0% slower than before" in describe(found)[0]


def test_what_fits_now_and_what_no_more():
    old, new = sample(), sample()
    place = next(at for at, run in enumerate(old.co_runs) if not run.fits)
    fits = CoRun(("transformer-training",) * 2, (1000, 1000), (ConfidenceInterval(0.4, 0.4, 0.4),) * 2)
    new = replace(new, co_runs=(*new.co_runs[:place], fits, *new.co_runs[place + 1 :]))
    assert "transformer-training beside transformer-training: fit in memory now" in describe(compare(old, new))
    assert "transformer-training beside transformer-training: no longer fit in memory" in describe(compare(new, old))


def test_who_came_first_in_a_run_does_not_matter():
    old = sample()
    turned = tuple(
        replace(run, workloads=run.workloads[::-1], sm_milli=run.sm_milli[::-1], ratios=run.ratios[::-1],
                samples=run.samples[::-1])
        for run in old.co_runs
    )  # fmt: skip
    found = compare(old, replace(old, co_runs=turned))
    assert found.changes == []
    assert (found.only_old, found.only_new) == ((), ())


def test_once_measured_is_not_compared():
    found = compare(sample(repeats=1), sample(repeats=1, shift=0.3))
    assert found.changes == []
    assert any("measured only once" in line for line in describe(found))


def test_nothing_in_common():
    assert describe(compare(replace(sample(), solos=(), co_runs=()), replace(sample(), solos=(), co_runs=()))) == [
        "the series have nothing in common"
    ]


def test_runs_of_one_series_only():
    found = compare(sample(), replace(sample(), co_runs=sample().co_runs[:-2]))
    assert (len(found.only_old), len(found.only_new)) == (2, 0)
    assert describe(found)[-1] == "measured only before: 2 runs; only now: 0"


def test_other_settings_are_not_compared():
    old = sample()
    assert are_comparable(old.setting, replace(old.setting, driver="other"))
    others = {
        "gpu is": replace(old.setting, gpu="B"),
        "40 GB in one": replace(old.setting, memory_bytes=None),
        "sharing is mps in one": replace(old.setting, sharing="time-slicing"),
    }
    for told, other in others.items():
        with pytest.raises(Invalid, match=told):
            compare(old, replace(old, setting=other))


def test_plain_data_is_json():
    data = json.loads(json.dumps(as_plain(compare(sample(), sample(shift=0.08))), allow_nan=False))
    assert data["changes"][0]["run"] == {"workloads": ["cnn", "matmul"], "sm_milli": [1000, 1000]}
    assert data["tested"] == 48
