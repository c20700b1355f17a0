"""SLO attainment from reported latencies and iterations, with bounded memory."""

from __future__ import annotations

import pytest

from gpusquad.gpu.daemon.slo_window import SloWindow
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S

SLO = Slo(latency_us=100)


def window_of(per_squad: int, squads: int, squad_us: int = 2000, late: int = 0) -> SloWindow:
    """A window with ``per_squad`` requests in each squad, of which the last ``late`` missed the target."""
    window = SloWindow()
    for number in range(squads):
        window.iterations(number * squad_us, 0)
        window.latencies(number * squad_us, [50.0] * (per_squad - late) + [500.0] * late)
    return window


@pytest.mark.parametrize("per_squad", [1, 10, 500])
def test_rate_and_attainment_are_independent_of_the_number_of_requests(per_squad: int) -> None:
    squads = 4000
    window = window_of(per_squad, squads)
    now_us = (squads - 1) * 2000
    assert window.per_s(now_us) == pytest.approx(per_squad * US_PER_S / 2000, rel=0.02)
    assert window.attainment(SLO, now_us, wants=True) == 1.0
    assert window.p99_us() == 50.0


def test_attainment_counts_the_latest_requests_of_many() -> None:
    window = window_of(10, 3000, late=1)
    assert window.attainment(SLO, 6_000_000, wants=True) == pytest.approx(0.9)
    assert window.p99_us() == 500.0


def test_number_of_stored_requests_is_bounded() -> None:
    assert window_of(1022, 100).requests == 1000


def test_throughput_target_is_not_missed_without_iterations() -> None:
    window = SloWindow()
    for number in range(4000):
        window.iterations(number * 2000, 0)
    assert window.attainment(Slo(throughput_per_s=10), 8_000_000, wants=True) is None
    for number in range(4000, 8000):
        window.iterations(number * 2000, number // 500)
    met = window.attainment(Slo(throughput_per_s=10), 16_000_000, wants=True)
    assert met is not None
    assert met < 0.2
