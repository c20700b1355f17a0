"""Metrics of a simulation, compared with cases computed by hand."""

import json
import math

import numpy as np
import pytest

from gpusquad.model.cluster import grid
from gpusquad.model.job import Job, Request, Role, Share, Slo
from gpusquad.model.units import US_PER_S
from gpusquad.sim.job_table import mean_active
from gpusquad.sim.metrics import Summary, area_under, jain, spread, summarise
from gpusquad.sim.outcome import AttemptSpan, ClusterSamples, Outcome, SimulationResult


def make_job(
    name: str,
    submitted_s: float = 0,
    gpus: int = 1,
    tenant: str = "a",
    *,
    user: str = "",
    share: Share | None = None,
    deadline_s: float | None = None,
) -> Job:
    request = Request(gpus=1) if share is None else Request(share=share)
    slo = None if deadline_s is None else Slo(deadline_us=us(deadline_s))
    return Job(name, (Role("w", gpus, request),), us(submitted_s), tenant=tenant, user=user, slo=slo)


def us(seconds: float) -> int:
    return round(seconds * US_PER_S)


def finished(job: Job, *spans: tuple[float, float, tuple[int, ...]], solo_s: float | None = None, **fields) -> Outcome:
    """Outcome of a job that ran in these spans (seconds) and succeeded in the last one."""
    attempt_spans = [AttemptSpan(us(start), us(end), cards) for start, end, cards in spans]
    solo_us = sum(s.ended_us - s.started_us for s in attempt_spans) if solo_s is None else us(solo_s)
    return Outcome(
        job, solo_us, **{"end": "succeeded", "ended_us": attempt_spans[-1].ended_us, "spans": attempt_spans, **fields}
    )


def make_result(
    *outcomes: Outcome, spec: str = "2x2", samples: ClusterSamples | None = None, **fields
) -> SimulationResult:
    return SimulationResult(
        "test", {"order": "fifo"}, grid(spec), list(outcomes), samples or ClusterSamples(), **fields
    )


@pytest.fixture
def three_jobs() -> Summary:
    """Four cards: a two-card job runs, a four-card job waits for it, and a short job waits for both."""
    samples = ClusterSamples(
        at_us=[us(t) for t in (0, 10, 100, 150, 155)],
        queued=[1, 2, 1, 0, 0],
        busy_milli=[2000, 2000, 4000, 1000, 0],
        stranded=[2, 2, 0, 0, 0],
    )
    return summarise(
        make_result(
            finished(make_job("first", 0, 2, "a"), (0, 100, (0, 1))),
            finished(make_job("wide", 0, 4, "b"), (100, 150, (0, 1, 2, 3))),
            finished(make_job("short", 10, 1, "a"), (150, 155, (0,))),
            samples=samples,
        )
    )


def test_wait_jct_and_makespan_of_three_jobs(three_jobs: Summary) -> None:
    assert three_jobs.jobs == 3
    assert three_jobs.ends == {"succeeded": 3}
    assert three_jobs.wait_s.mean == pytest.approx((0 + 100 + 140) / 3)
    assert three_jobs.wait_s.median == 100
    assert three_jobs.jct_s.mean == pytest.approx((100 + 150 + 145) / 3)
    assert three_jobs.jct_s.max == 150
    assert three_jobs.makespan_s == 155


def test_slowdown_counts_short_runs_as_ten_seconds(three_jobs: Summary) -> None:
    # 1, (100 + 50) / 50, and (140 + 5) / 10 because five seconds count as ten.
    assert three_jobs.slowdown.mean == pytest.approx((1 + 3 + 14.5) / 3)


def test_slowdown_is_never_below_one() -> None:
    assert summarise(make_result(finished(make_job("quick"), (0, 1, (0,))))).slowdown.mean == 1


def test_utilisation_and_fragmentation_of_three_jobs(three_jobs: Summary) -> None:
    assert three_jobs.gpu_hours == pytest.approx(405 / 3600)
    assert three_jobs.utilisation_ratio == pytest.approx(405 / (4 * 155))
    assert three_jobs.fragmentation_ratio == pytest.approx(2 * 100 / (4 * 155))


def test_fairness_of_two_tenants(three_jobs: Summary) -> None:
    fairness = three_jobs.fairness
    assert (fairness.by, fairness.parties) == ("tenant", 2)
    assert fairness.jain == pytest.approx((7.75 + 3) ** 2 / (2 * (7.75**2 + 3**2)))
    # first: 2 of 4 cards is exactly its half. wide: twice its half, so 100 s with its half. short: counted as 10 s.
    assert fairness.rho.mean == pytest.approx((1.0 + 1.5 + 14.5) / 3)
    assert fairness.worse_off_ratio == pytest.approx(2 / 3)


def test_numbers_of_each_tenant(three_jobs: Summary) -> None:
    first, second = three_jobs.parties
    assert (first.name, first.jobs, first.finished) == ("a", 2, 2)
    assert first.gpu_hours == pytest.approx(205 / 3600)
    assert first.wait_mean_s == 70
    assert first.jct_mean_s == 122.5
    assert first.slowdown_mean == 7.75
    assert (second.name, second.rho_mean) == ("b", 1.5)


def test_jobs_of_one_tenant_are_grouped_by_user() -> None:
    outcomes = [finished(make_job(f"j{i}", user=user), (i, i + 20, (0,))) for i, user in enumerate("xyx")]
    summary = summarise(make_result(*outcomes))
    assert summary.fairness.by == "user"
    assert [(party.name, party.jobs) for party in summary.parties] == [("x", 2), ("y", 1)]


def test_mean_active_counts_parties_not_jobs() -> None:
    # a: 0-10 and 5-20 (one busy period), b: 10-15, a again 30-40.
    arrived, left = np.array([0, 5, 10, 30]), np.array([10, 20, 15, 40])
    active_parties = mean_active(arrived, left, np.array([0, 0, 1, 0]), np.ones(4, dtype=bool))
    assert active_parties == pytest.approx([1.0, (5 + 5 * 2 + 5) / 15, 2.0, 1.0])


def test_mean_active_is_exact_with_long_times_and_many_parties() -> None:
    year_us = 365 * 86400 * US_PER_S
    arrived = np.arange(2000, dtype=np.int64) * year_us
    active_parties = mean_active(arrived, arrived + year_us // 2, np.arange(2000), np.ones(2000, dtype=bool))
    assert active_parties == pytest.approx(np.ones(2000))


def test_resize_is_not_a_restart() -> None:
    resized = finished(make_job("grown", gpus=1), (0, 30, (0,)), (30, 60, (0, 1)))
    resized.spans[0].cut = "resized"
    assert summarise(make_result(resized)).restarts == 0


def test_preemption_does_not_improve_slowdown() -> None:
    # Runs 0-30, loses it all, waits, runs 50-110: 60 s of work in 110 s.
    preempted = finished(make_job("twice", gpus=2), (0, 30, (0, 1)), (50, 110, (2, 3)), lost_us=us(30), solo_s=60)
    summary = summarise(make_result(preempted))
    assert summary.restarts == 1
    assert summary.lost_gpu_hours == pytest.approx(60 / 3600)
    assert summary.slowdown.mean == pytest.approx(110 / 60)
    assert summary.wait_s.mean == 0
    assert summary.utilisation_ratio == pytest.approx(180 / (4 * 110))


def test_share_counts_as_the_larger_of_its_sm_and_memory_fractions() -> None:
    memory = grid("1x1").nodes[0].cards[0].memory_bytes
    by_sm = finished(make_job("sm", share=Share(memory // 10, 250)), (0, 100, (0,)))
    by_memory = finished(make_job("memory", share=Share(memory // 2, 100)), (0, 100, (0,)))
    summary = summarise(make_result(by_sm, by_memory, spec="1x1"))
    assert summary.utilisation_ratio == pytest.approx(0.75)


def test_reservations_are_counted_with_their_delays() -> None:
    on_time = finished(make_job("on time"), (50, 60, (0,)), promised_us=us(50))
    early = finished(make_job("early"), (40, 60, (1,)), promised_us=us(50))
    late = finished(make_job("late"), (80, 100, (2,)), promised_us=us(50))
    waiting = Outcome(make_job("waiting"), us(5), promised_us=us(90))
    moved = [("late", us(50), us(70), "overrun"), ("late", us(70), us(80), "overrun")]
    delays = {"on time": 0, "early": 0, "late": us(30)}
    reservations = summarise(
        make_result(on_time, early, late, waiting, moved_reservations=moved, head_delay_us=delays)
    ).promises
    assert (reservations.promised, reservations.broken, reservations.moved) == (4, 2, 2)
    assert (reservations.late_mean_s, reservations.late_max_s) == (20, 30)  # late: 30, waiting: 10 so far
    assert (reservations.head_delay_mean_s, reservations.head_delay_max_s) == (10, 30)


def test_deadlines_are_counted_as_met_missed_or_open() -> None:
    met = finished(make_job("met", deadline_s=20), (0, 20, (0,)))
    missed = finished(make_job("missed", deadline_s=19), (0, 20, (1,)))
    failed = finished(make_job("failed", deadline_s=99), (0, 20, (2,)), end="failed")
    refused = Outcome(make_job("refused", deadline_s=99), us(1), "refused")
    still_open = Outcome(make_job("open", deadline_s=99), us(1))
    summary = summarise(make_result(met, missed, failed, refused, still_open, finished(make_job("free"), (0, 1, (3,)))))
    assert (summary.deadlines.jobs, summary.deadlines.met, summary.deadlines.open) == (5, 1, 1)
    assert summary.deadlines.attainment_ratio == pytest.approx(1 / 4)


def test_unfinished_jobs_count_in_the_numbers_that_are_known() -> None:
    running = Outcome(make_job("running", 0), us(500), spans=[AttemptSpan(us(10), us(100), (0,))])
    waiting = Outcome(make_job("waiting", 20), us(500))
    samples = ClusterSamples(at_us=[0, us(120)], queued=[1, 1], busy_milli=[0, 0], stranded=[3, 3])
    summary = summarise(make_result(running, waiting, samples=samples))
    assert summary.ends == {"unfinished": 2}
    assert (summary.wait_s.count, summary.jct_s.count) == (1, 0)
    assert summary.jct_s.mean is None
    assert summary.makespan_s == 120
    assert summary.fairness.jain is None
    assert summary.fragmentation_ratio == pytest.approx(3 / 4)


def test_timed_out_job_does_not_count_for_fairness() -> None:
    timed_out = finished(make_job("cut"), (0, 50, (0,)), end="timed_out", solo_s=1000)
    summary = summarise(make_result(timed_out))
    assert summary.jct_s.count == 1
    assert summary.fairness.rho.count == 0


@pytest.mark.parametrize("spec", ["2x2", "2x0"])
def test_summary_without_jobs_has_no_numbers(spec: str) -> None:
    summary = summarise(make_result(spec=spec))
    assert (summary.jobs, summary.ends, summary.parties) == (0, {}, ())
    assert summary.makespan_s is None
    assert summary.utilisation_ratio is None
    json.dumps(summary.to_dict(), allow_nan=False)


def test_summary_of_refused_jobs_has_no_times() -> None:
    outcomes = [Outcome(make_job(f"j{i}", i), us(9), "refused", ended_us=us(i)) for i in range(3)]
    summary = summarise(make_result(*outcomes))
    assert summary.ends == {"refused": 3}
    assert summary.wait_s.count == summary.jct_s.count == 0
    assert summary.makespan_s is None
    assert summary.parties[0].wait_mean_s is None
    json.dumps(summary.to_dict(), allow_nan=False)


def test_cpu_job_has_times_and_no_gpu_hours() -> None:
    job = Job("cpu", (Role("w", 1, Request(cpu_milli=1000)),))
    summary = summarise(make_result(finished(job, (5, 25, ())), spec="1x0"))
    assert (summary.wait_s.mean, summary.gpu_hours, summary.utilisation_ratio) == (5, 0, None)


def test_summary_dict_is_plain_json(three_jobs: Summary) -> None:
    copy = json.loads(json.dumps(three_jobs.to_dict(), allow_nan=False))
    assert copy["wait_s"]["median"] == 100
    assert copy["parties"][0]["name"] == "a"
    assert copy["policies"] == {"order": "fifo"}


def test_spread_interpolates() -> None:
    numbers = spread(np.arange(1.0, 102.0))
    assert (numbers.count, numbers.mean, numbers.median, numbers.p90, numbers.p99) == (101, 51, 51, 91, 100)


def test_jain_index_is_between_one_nth_and_one() -> None:
    assert jain(np.array([2.0, 2.0, 2.0])) == pytest.approx(1)
    assert jain(np.array([1.0, 0.0, 0.0, 0.0])) == pytest.approx(1 / 4)
    assert jain(np.empty(0)) is None


def test_area_extends_the_last_value_and_stays_within_its_bounds() -> None:
    assert area_under([0, 10, 20], [1, 3, 5], 5, 30) == 5 * 1 + 10 * 3 + 10 * 5
    assert area_under([0, 0, 10], [9, 1, 0], 0, 10) == 10
    assert area_under([], [], 0, 10) == 0
    assert math.isclose(area_under([50], [2], 0, 10), 0)
