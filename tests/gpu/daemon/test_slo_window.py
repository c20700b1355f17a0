"""How far goals were met, by what tenants say: bounded, whatever they say."""

from __future__ import annotations

import pytest

from gpusquad.gpu.daemon.slo_window import SloWindow
from gpusquad.model.job import Slo
from gpusquad.model.units import US_PER_S

SLO = Slo(latency_us=100)


def told(per_squad: int, squads: int, squad_us: int = 2000, late: int = 0) -> SloWindow:
    """So many requests at each squad, the last ones of which were late."""
    window = SloWindow()
    for number in range(squads):
        window.iterations(number * squad_us, 0)
        window.latencies(number * squad_us, [50.0] * (per_squad - late) + [500.0] * late)
    return window


@pytest.mark.parametrize("per_squad", [1, 10, 500])
def test_rates_and_attainment_are_the_same_for_few_and_for_many(per_squad: int) -> None:
    squads = 4000
    window = told(per_squad, squads)
    now_us = (squads - 1) * 2000
    assert window.per_s(now_us) == pytest.approx(per_squad * US_PER_S / 2000, rel=0.02)
    assert window.attainment(SLO, now_us, wants=True) == 1.0
    assert window.p99_us() == 50.0


def test_of_many_the_last_ones_count() -> None:
    window = told(10, 3000, late=1)
    assert window.attainment(SLO, 6_000_000, wants=True) == pytest.approx(0.9)
    assert window.p99_us() == 500.0


def test_no_more_are_looked_at_however_many_are_told_of() -> None:
    assert told(1022, 100).requests == 1000


def test_a_target_of_steps_that_nobody_counts_is_not_missed() -> None:
    window = SloWindow()
    for number in range(4000):
        window.iterations(number * 2000, 0)
    assert window.attainment(Slo(throughput_per_s=10), 8_000_000, wants=True) == 1.0
    for number in range(4000, 8000):
        window.iterations(number * 2000, number // 500)
    assert window.attainment(Slo(throughput_per_s=10), 16_000_000, wants=True) < 0.2
