"""Tests for advice on the resources that a job should request."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.model.job import Request, Share
from gpusquad.predict.advice import IDLE_RATIO, AdviceInput, RunUtilisation, advise, memory_warning
from gpusquad.predict.memory import PeakPrediction, peak_quantiles
from gpusquad.predict.scaling import relative
from gpusquad.predict.similar_runs import groups_of
from tests.predict.similar_jobs import GIB, job, offline_estimate, run_summary


def advice_input(*runs, uses=(), cards=(80,), **rest) -> AdviceInput:
    group = groups_of(job())[0]
    quantiles = peak_quantiles(runs)
    peak = PeakPrediction(quantiles, group, [run for run in runs if run.peak_bytes]) if quantiles else None
    sizes = tuple(gib * GIB for gib in cards)
    return AdviceInput(group if runs else None, runs, peak, uses, card_bytes=sizes, **({"max_gpus": 8} | rest))


def utilisation(*ratios: float) -> RunUtilisation:
    return RunUtilisation("0", ratios)


def test_advice_is_empty_and_lists_missing_evidence_without_runs():
    found = advise(job(gpus=8), AdviceInput(card_bytes=(80 * GIB,)))
    assert (found.gpus, found.memory, found.cpu_milli, found.times) == (None, None, None, ())
    assert len(found.missing) == 3
    assert "run it once" in found.missing[0]


def test_advice_omits_cards_that_were_idle_in_all_runs():
    runs = [run_summary(8, number=n) for n in range(3)]
    found = advise(job(gpus=8), advice_input(*runs, uses=[utilisation(0.9, 0.8, *[0.0] * 6)] * 3))
    assert found.gpus is not None
    assert found.gpus.value == 2
    assert found.gpus.why == "6 of the 8 cards were idle in the last 3 runs"


def test_idle_cards_give_no_advice_when_the_request_is_already_smaller():
    uses = [utilisation(*[0.9] * 6, 0.0, 0.0)]
    assert advise(job(gpus=2), advice_input(run_summary(8), uses=uses)).gpus is None


def test_cards_idle_in_only_one_run_give_no_advice():
    uses = [utilisation(0.9, 0.0), utilisation(0.9, 0.9)]
    assert advise(job(gpus=2), advice_input(run_summary(2), uses=uses)).gpus is None


def test_runs_that_never_used_a_card_give_no_advice():
    assert advise(job(gpus=2), advice_input(run_summary(2), uses=[utilisation(0.0, 0.0)])).gpus is None


def test_advice_omits_gpus_that_bring_too_little_speed():
    runs = [run_summary(n, 1000 * relative((0.2, 0.0), n), number=i) for n in (1, 2, 4, 8) for i in range(10)]
    found = advise(job(gpus=8), advice_input(*runs))
    assert found.gpus is not None
    assert found.gpus.value == 2
    assert "runs with 1, 2, 4 and 8 GPUs" in found.gpus.why
    assert "8 would take" in found.gpus.why
    assert [run_time.gpus for run_time in found.times] == [1, 2, 4, 8]
    assert {run_time.run.source for run_time in found.times} == {"history"}


def test_runs_of_one_size_give_predicted_times_but_no_gpu_advice():
    found = advise(job(gpus=8), advice_input(run_summary(8)))
    assert found.gpus is None
    assert [run_time.run.source for run_time in found.times] == ["default", "default", "default", "history"]
    assert any("two different numbers" in text for text in found.missing)


def test_advised_gpus_exceed_neither_the_request_nor_past_runs():
    runs = [run_summary(n, 1000 / n, number=i) for n in (1, 2, 4) for i in range(10)]
    assert advise(job(gpus=2), advice_input(*runs)).gpus.value == 2  # type: ignore[union-attr]
    assert advise(job(gpus=1), advice_input(*runs), is_open=True).gpus.value == 4  # type: ignore[union-attr]
    assert advise(job(gpus=1), advice_input(*runs, max_gpus=2), is_open=True).gpus.value == 2  # type: ignore[union-attr]


def test_auto_gpus_follow_the_last_run_when_all_runs_had_one_size():
    found = advise(job(gpus=1), advice_input(run_summary(4), run_summary(4, number=1)), is_open=True)
    assert found.gpus is not None
    assert (found.gpus.value, "the last of the runs of resnet50 by ada had 4 GPUs") == (4, found.gpus.why)


def test_advice_is_not_below_successful_sizes_when_smaller_runs_failed():
    runs = [run_summary(n, 1000, number=i) for n in (4, 8) for i in range(10)]
    assert advise(job(gpus=8), advice_input(*runs)).gpus.value < 4  # type: ignore[union-attr]
    failed = run_summary(1, 5, "failed")
    assert advise(job(gpus=8), advice_input(*runs, failed)).gpus.value == 4  # type: ignore[union-attr]


def test_advice_below_all_past_sizes_has_a_note():
    expected = offline_estimate(by_gpus={1: 100, 2: 95, 8: 92})
    found = advise(job(gpus=8, expected=expected), advice_input(run_summary(8)))
    assert found.gpus is not None
    assert found.gpus.value == 1
    assert "never ran with 1 GPU" in found.notes[0]


def test_memory_advice_gives_its_reason():
    found = advise(job(), advice_input(*[run_summary(number=n, peak_gib=9.7) for n in range(10)]))
    assert found.memory is not None
    assert found.memory.value == 12 * GIB
    assert "9.7 GiB median" in found.memory.why
    assert "10 runs of resnet50 by ada" in found.memory.why


def test_memory_advice_has_a_note_when_no_card_is_large_enough():
    found = advise(job(), advice_input(*[run_summary(number=n, peak_gib=100) for n in range(5)]))
    assert found.memory is not None
    assert found.memory.value == 80 * GIB
    assert "only if the program splits its network" in found.notes[0]


def test_memory_advice_never_excludes_the_largest_card():
    largest_card_bytes = int(79.65 * GIB)  # an H100 with "80 GB"
    for peak_gib in (79.2, 100):
        base_input = advice_input(*[run_summary(number=n, peak_gib=peak_gib) for n in range(20)])
        found = advise(job(), replace(base_input, card_bytes=(largest_card_bytes,)))
        assert found.memory is not None
        assert found.memory.value == 79 * GIB


def test_auto_gpus_do_not_exceed_the_largest_node():
    found = advise(job(), advice_input(run_summary(8), max_gpus=4), is_open=True)
    assert found.gpus is not None
    assert found.gpus.value == 4
    assert "no node has more than 4" in found.gpus.why


@pytest.mark.parametrize(("limit", "max_gpus", "chosen", "why"), [
    (2, 8, 2, "tenant vision has a limit of 2"),
    (6, 4, 4, "no node has more than 4"),
    (8, 8, 8, ""),
    (None, 8, 8, ""),
    (0, 8, 1, "tenant vision has a limit of 0"),  # such a job is refused at submission
])  # fmt: skip
def test_auto_gpus_do_not_exceed_the_tenant_limit(limit: int | None, max_gpus: int, chosen: int, why: str):
    found = advise(
        job(tenant="vision"), advice_input(run_summary(8), max_gpus=max_gpus, limit_gpus=limit), is_open=True
    )
    assert found.gpus is not None
    assert found.gpus.value == chosen
    assert found.gpus.why.partition("; ")[2] == why


def test_auto_gpus_do_not_exceed_the_tenant_limit_when_more_would_be_faster():
    runs = [run_summary(1, 100), run_summary(8, 14)]
    assert advise(job(gpus=1), advice_input(*runs), is_open=True).gpus.value == 8  # type: ignore[union-attr]
    found = advise(job(gpus=1), advice_input(*runs, limit_gpus=2), is_open=True)
    assert found.gpus is not None
    assert found.gpus.value == 2
    assert found.gpus.why.endswith("; tenant default has a limit of 2")


def test_share_is_advised_when_the_card_is_mostly_idle():
    runs = [run_summary(number=n, peak_gib=8) for n in range(5)]
    found = advise(job(), advice_input(*runs, uses=[utilisation(0.2)]))
    assert "share: {memory: 10GiB, sm: 0.3}" in found.notes[0]
    assert advise(job(), advice_input(*runs, uses=[utilisation(0.9)])).notes == ()


def test_cpu_advice_adds_headroom():
    found = advise(job(), advice_input(run_summary(cpu_milli=3100), run_summary(number=1, cpu_milli=2000)))
    assert found.cpu_milli is not None
    assert (found.cpu_milli.value, "3 cores used at most in 95 % of 2 runs" in found.cpu_milli.why) == (4000, True)


def test_memory_warning_when_the_request_is_below_the_likely_peak():
    runs = [run_summary(number=n, peak_gib=10) for n in range(10)]
    peak = advice_input(*runs).peak
    share = job(request=Request(share=Share(4 * GIB)))
    assert "share.memory of 4 GiB is less than" in memory_warning(share, peak)
    assert "request 12GiB" in memory_warning(share, peak)
    small = job(request=Request(gpus=1, min_card_memory_bytes=8 * GIB))
    assert "gpu_memory of 8 GiB" in memory_warning(small, peak)
    for enough in (job(), job(request=Request(share=Share(12 * GIB))), job(request=Request(share=Share(0, 500)))):
        assert memory_warning(enough, peak) == ""
    assert memory_warning(share, None) == ""
    tenth = job(request=Request(share=Share(sm_milli=100)))
    assert "share of 8 GiB is less than" in memory_warning(tenth, peak, 80 * GIB)
    minimal = job(request=Request(share=Share(sm_milli=1)))
    assert memory_warning(minimal, peak, 80 * GIB) == memory_warning(tenth, peak, 160 * GIB) == ""


histories = st.lists(
    st.builds(run_summary, st.integers(1, 16), st.floats(0.001, 1e6), st.sampled_from(["succeeded", "failed", "lost"]),
              st.integers(0, 9), peak_bytes=st.none() | st.integers(1, 2**38),
              cpu_milli=st.none() | st.integers(0, 10**5)),
    max_size=10,
)  # fmt: skip
ratios = st.lists(st.floats(0, 1), min_size=1, max_size=8).map(tuple)


@given(
    histories,
    st.lists(ratios.map(lambda busy: RunUtilisation("0", busy)), max_size=3),
    st.integers(1, 16),
    st.booleans(),
)
def test_advice_is_always_a_valid_request(runs, uses, gpus, is_open):
    uses = [use for use in uses if len(use.busy) == len(uses[0].busy)]
    found = advise(job(gpus=gpus), advice_input(*runs, uses=uses, cards=(16, 80)), is_open=is_open)
    if found.gpus is not None:
        assert 1 <= found.gpus.value <= max(gpus, 8, *(run.gpus for run in runs))
        assert not is_open or found.gpus.value <= 8
        assert found.gpus.why
        if not is_open and not any(run.how == "failed" for run in runs):
            assert found.gpus.value <= gpus
    if found.memory is not None:
        assert GIB <= found.memory.value <= 80 * GIB
    assert list(found.times) == sorted(found.times, key=lambda run_time: run_time.gpus)


@given(ratios)
def test_idle_counts_the_cards_below_the_idle_ratio(busy_ratios):
    assert RunUtilisation("0", busy_ratios).idle == sum(ratio < IDLE_RATIO for ratio in busy_ratios)
