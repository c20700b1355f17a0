"""Traffic to a card that is busy without computing, beside that of the idle card."""

from __future__ import annotations

from gpusquad.agent.nvml_bus import BusTraffic


class Card:
    """Answers with a rate in KiB per second and counts the questions."""

    def __init__(self) -> None:
        self.kib_s: int | None = 400
        self.asked = 0

    def card(self, name: str, counter: int) -> int | None:
        assert (name, counter) == ("nvmlDeviceGetPcieThroughput", 1)
        self.asked += 1
        return self.kib_s


class Clock:
    def __init__(self) -> None:
        self.at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


def see(traffic: BusTraffic, card: Card, percent: int | None, power_w: float | None = 140.0):
    return traffic.see("A", card, 1, percent, power_w, 700.0)  # pyright: ignore[reportArgumentType]


def test_busy_card_at_little_power_is_compared_with_the_idle_card():
    traffic, card = BusTraffic(Clock()), Card()
    assert see(traffic, card, 0) == (None, 400 * 1024)
    card.kib_s = 60_000
    assert see(traffic, card, 100) == (60_000 * 1024, 400 * 1024)


def test_median_of_the_last_samples_ignores_an_outlier():
    traffic, card = BusTraffic(Clock()), Card()
    see(traffic, card, 0)
    for card.kib_s in (440, 430, 9000, 450, 440):
        received, _ = see(traffic, card, 100)
    assert received == 440 * 1024


def test_idle_card_is_asked_from_time_to_time():
    clock, card = Clock(), Card()
    traffic = BusTraffic(clock)
    for clock.at_s in range(60):
        see(traffic, card, 0)
    assert card.asked == 3


def test_card_that_computes_or_was_never_idle_is_not_asked():
    traffic, card = BusTraffic(Clock()), Card()
    assert see(traffic, card, 100) == (None, None)
    see(traffic, card, 0)
    see(traffic, card, 100)
    assert see(traffic, card, 100, power_w=600.0) == (None, 400 * 1024)
    assert card.asked == 2


def test_unknown_rates_stay_unknown():
    traffic, card = BusTraffic(Clock()), Card()
    card.kib_s = None
    assert see(traffic, card, 0) == (None, None)
    assert see(traffic, card, None) == (None, None)
