"""Tests for comparing two series."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.measure.analysis.compare import are_comparable, as_plain, compare, describe
from gpusquad.model.errors import Invalid
from gpusquad.model.interference import ConfidenceInterval, CoRun
from tests.measure.sample import sample


def test_equal_series_have_no_changes():
    found = compare(sample(), sample())
    assert found.changes == []
    assert describe(found) == [
        f"{len(found.tested)} of {len(found.tested)} speeds are unchanged within their intervals"
    ]


def test_single_changed_pair_is_found():
    found = compare(sample(), sample(driver="610.5", shift=0.08))
    assert [(change.own, [name for name, _ in change.run]) for change in found.changes] == [("cnn", ["cnn", "matmul"])]
    assert found.changes[0].by.mean == pytest.approx(0.08, abs=1e-3)
    words = describe(found)
    assert words[0] == "driver 600.10 before, 610.5 now"
    assert "cnn in cnn beside matmul: 0.67 of its speed alone before, 0.75 now (faster" in words[1]


@given(st.floats(-0.2, 0.2))
@settings(max_examples=20)
def test_comparison_is_antisymmetric(shift):
    old, new = sample(), sample(shift=shift)
    forward, backward = compare(old, new), compare(new, old)
    assert {change.run for change in forward.changes} == {change.run for change in backward.changes}
    assert [change.by.mean for change in forward.tested if not change.is_alone] == pytest.approx(
        [-change.by.mean for change in backward.tested if not change.is_alone]
    )


@given(st.floats(-0.02, 0.02))
@settings(max_examples=20)
def test_correction_never_adds_changes(shift):
    found = compare(sample(), sample(shift=shift))
    assert len(found.changes) <= sum(change.by.p < 0.05 for change in found.tested)


def test_solo_speeds_are_compared():
    old = sample()
    slower = replace(old.solos[0], steps_per_s=ConfidenceInterval(106.0, 105.0, 107.0, 5))
    found = compare(old, replace(old, solos=(slower, *old.solos[1:])))
    assert [(change.own, change.is_alone) for change in found.changes] == [("cnn", True)]
    assert "cnn alone: 50.0% slower than before" in describe(found)[0]


def test_changes_in_fitting_are_described():
    old, new = sample(), sample()
    position = next(index for index, run in enumerate(old.co_runs) if not run.fits)
    fits = CoRun(("transformer-training",) * 2, (1000, 1000), (ConfidenceInterval(0.4, 0.4, 0.4),) * 2)
    new = replace(new, co_runs=(*new.co_runs[:position], fits, *new.co_runs[position + 1 :]))
    assert "transformer-training beside transformer-training: fit in memory now" in describe(compare(old, new))
    assert "transformer-training beside transformer-training: no longer fit in memory" in describe(compare(new, old))


def test_order_of_workloads_in_a_run_does_not_matter():
    old = sample()
    reversed_runs = tuple(
        replace(run, workloads=run.workloads[::-1], sm_milli=run.sm_milli[::-1], ratios=run.ratios[::-1],
                samples=run.samples[::-1])
        for run in old.co_runs
    )  # fmt: skip
    found = compare(old, replace(old, co_runs=reversed_runs))
    assert found.changes == []
    assert (found.only_old, found.only_new) == ((), ())


def test_runs_measured_once_are_not_compared():
    found = compare(sample(repeats=1), sample(repeats=1, shift=0.3))
    assert found.changes == []
    assert any("measured only once" in line for line in describe(found))


def test_series_without_common_runs_are_described():
    assert describe(compare(replace(sample(), solos=(), co_runs=()), replace(sample(), solos=(), co_runs=()))) == [
        "the series have nothing in common"
    ]


def test_runs_in_only_one_series_are_counted():
    found = compare(sample(), replace(sample(), co_runs=sample().co_runs[:-2]))
    assert (len(found.only_old), len(found.only_new)) == (2, 0)
    assert describe(found)[-1] == "measured only before: 2 runs; only now: 0"
    assert describe(replace(found, only_old=found.only_old[:1]))[-1] == "measured only before: 1 run; only now: 0"


def test_series_of_different_settings_are_refused():
    old = sample()
    assert are_comparable(old.setting, replace(old.setting, driver="other"))
    others = {
        "gpu is": replace(old.setting, gpu="B"),
        "40 GB in one": replace(old.setting, memory_bytes=None),
        "sharing is mps in one": replace(old.setting, sharing="time-slicing"),
    }
    for message, other in others.items():
        with pytest.raises(Invalid, match=message):
            compare(old, replace(old, setting=other))


def test_comparison_converts_to_json():
    data = json.loads(json.dumps(as_plain(compare(sample(), sample(shift=0.08))), allow_nan=False))
    assert data["changes"][0]["run"] == {"workloads": ["cnn", "matmul"], "sm_milli": [1000, 1000]}
    assert data["tested"] == 48
