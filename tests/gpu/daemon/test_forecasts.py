"""Demand prediction for a GPU client, and SLO attainment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.gpu.daemon.demand import QUIET_US, DemandPredictor
from gpusquad.gpu.daemon.slo_window import SloWindow
from gpusquad.gpu.region.pages import ClientPage
from gpusquad.model.job import Slo


def predictor(*pages: ClientPage, every_us: int = 1000) -> DemandPredictor:
    forecast = DemandPredictor()
    for at, page in enumerate(pages):
        forecast.see(page, at * every_us)
    return forecast


def test_client_is_idle_before_its_first_launch_and_after_its_last():
    assert predictor(ClientPage()).is_idle(0)
    forecast = predictor(ClientPage(), ClientPage(launches=1, in_flight=1), ClientPage(launches=1))
    assert not forecast.is_idle(1000 + QUIET_US - 1)
    assert forecast.is_idle(1000 + QUIET_US)
    assert forecast.has_nothing


def test_client_with_work_in_flight_is_not_idle_between_samples():
    assert not predictor(ClientPage(), ClientPage(launches=1, in_flight=1)).is_idle(1_000_000)


def test_idle_time_starts_at_the_end_of_the_work():
    forecast = DemandPredictor()
    forecast.see(ClientPage(), 1000)
    assert forecast.idle_us(5000) == 4000, "no launch since it was attached"
    forecast.see(ClientPage(launches=1, in_flight=1), 6000)
    assert forecast.idle_us(3_000_000) == 0
    forecast.see(ClientPage(launches=1, in_flight=1), 3_000_000)
    forecast.see(ClientPage(launches=1), 3_001_000)
    assert forecast.idle_us(3_002_000) == 2000, "a kernel of three seconds is not idle time"


def test_kernel_time_is_correct_when_completion_is_reported_in_batches():
    pages = [
        ClientPage(launches=10 * at, requested_us=500 * at, completed_us=500 * (at - at % 20), in_flight=1)
        for at in range(401)
    ]
    assert predictor(*pages).kernel_us == pytest.approx(50)
    deep = [
        ClientPage(launches=5000, requested_us=5_000_000, completed_us=1000 * at, in_flight=1) for at in range(1, 400)
    ]
    assert predictor(ClientPage(), *deep).kernel_us == pytest.approx(1000)


def test_kernel_time_is_the_requested_time_per_launch():
    forecast = predictor(
        ClientPage(),
        ClientPage(launches=10, requested_us=500, in_flight=1),
        ClientPage(launches=20, requested_us=1000, in_flight=1),
    )
    assert forecast.kernel_us == 50


def test_client_at_the_gate_demands_the_whole_time():
    free = predictor(ClientPage(), ClientPage(requested_us=100, completed_us=100, launches=1))
    held = predictor(ClientPage(), ClientPage(requested_us=100, completed_us=100, launches=1, waiting=1))
    assert free.demand_us(10_000) == 1000, "a tenth of the time, as requested"
    assert held.demand_us(10_000) == 10_000
    assert held.is_starved
    assert not free.is_starved


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 5000), st.booleans()), max_size=30))
def test_backlog_is_never_negative_and_zero_without_work_in_flight(steps):
    forecast, requested_us, completed_us = DemandPredictor(), 0, 0
    for at, (request_us, complete_us, busy) in enumerate(steps):
        requested_us, completed_us = requested_us + request_us, completed_us + complete_us
        page = ClientPage(requested_us=requested_us, completed_us=completed_us, launches=at, in_flight=int(busy))
        forecast.see(page, at * 1000)
        assert forecast.backlog_us >= 0
        assert busy or forecast.backlog_us == 0
        assert forecast.settled_us + forecast.backlog_us == requested_us


def test_unfinished_work_of_dead_processes_leaves_the_backlog():
    empty = ClientPage(requested_us=5000, completed_us=2000, launches=9)
    assert (
        predictor(empty, ClientPage(requested_us=5400, completed_us=2100, launches=12, in_flight=1)).backlog_us == 300
    )


def test_latency_attainment_is_the_fraction_within_the_target():
    window = SloWindow(1_000_000)
    window.latencies(0, [1000, 2000, 3000, 9000])
    assert window.attainment(Slo(latency_us=3000), 10, True) == 0.75
    assert window.attainment(None, 10, True) is None
    assert window.p99_us() == 9000
    window.latencies(2_000_000, [100])
    assert window.attainment(Slo(latency_us=3000), 2_000_000, True) == 1.0, "old latencies are outside of the window"


def test_throughput_attainment_uses_iterations_per_second():
    window = SloWindow(1_000_000)
    for at in range(11):
        window.iterations(at * 100_000, at * 5)
    assert window.per_s(1_000_000) == pytest.approx(50.0)
    assert window.attainment(Slo(throughput_per_s=100.0), 1_000_000, True) == pytest.approx(0.5)
    assert window.attainment(Slo(throughput_per_s=100.0), 1_000_000, False) is None, "it had no more work"


def test_throughput_attainment_counts_only_time_with_work():
    window = SloWindow(1_000_000)
    for at in range(11):
        window.iterations(at * 100_000, 5 * max(0, at - 5), wants=at > 5)
    assert window.active_per_s(1_000_000) == pytest.approx(50.0)
    assert window.per_s(1_000_000) == pytest.approx(25.0), "in wall-clock time"
    assert window.attainment(Slo(throughput_per_s=50.0), 1_000_000, True) == pytest.approx(1.0)


def test_busy_ratio_covers_the_same_window_as_the_requests():
    window = SloWindow(1_000_000)
    for at in range(31):
        window.busy(at * 100_000, 25_000 * min(at, 20))
        if at < 20:
            window.latencies(at * 100_000, [100.0])
    assert window.busy_ratio() == pytest.approx(0.0)
    assert window.requests == 0
    window.busy(3_100_000, 550_000)
    assert window.busy_ratio() == pytest.approx(0.05)


def test_availability_is_the_fraction_of_time_with_service():
    window = SloWindow(1_000_000)
    for at in range(11):
        window.iterations(at * 100_000, min(at, 5))
    met = window.attainment(Slo(availability_ratio=0.99), 1_000_000, True)
    assert met == pytest.approx(0.5, abs=0.11)


@pytest.mark.parametrize(
    "slo",
    [
        Slo(latency_us=1), Slo(throughput_per_s=9.0), Slo(availability_ratio=0.9), Slo(deadline_us=9),
        Slo(latency_us=1, throughput_per_s=9.0, availability_ratio=0.9),
    ],
)  # fmt: skip
def test_attainment_is_unknown_when_nobody_reports(slo):
    window = SloWindow(1_000_000)
    for at in range(11):
        assert window.attainment(slo, at * 100_000, True) is None
        window.iterations(at * 100_000, 0)
    assert window.attainment(slo, 1_000_000, True) is None


def test_attainment_is_unknown_again_when_the_reports_end():
    window = SloWindow(1_000_000)
    window.latencies(0, [5.0])
    window.iterations(0, 0)
    assert window.attainment(Slo(latency_us=10), 0, True) == 1.0
    window.iterations(2_000_000, 0)
    assert window.attainment(Slo(latency_us=10), 2_000_000, True) is None


def test_target_that_is_met_says_nothing_about_one_that_nobody_reports():
    window = SloWindow(1_000_000)
    for at in range(11):
        window.iterations(at * 100_000, at * 5)
    assert window.attainment(Slo(latency_us=10, throughput_per_s=50.0), 1_000_000, True) is None
    assert window.attainment(Slo(latency_us=10, throughput_per_s=100.0), 1_000_000, True) == pytest.approx(0.5)
