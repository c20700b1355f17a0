"""Tests for samples of card metrics."""

import pytest

from gpusquad.store import samples
from gpusquad.store.samples import SampleRow
from tests.store.examples import SECOND_US


def add_samples(database, at_s, *rows):
    with database.write() as c:
        samples.append(c, at_s * SECOND_US, rows)


@pytest.fixture
def sampled(database):
    """A card whose busy ratio grows by 0.1 per second and that reports no power, and a second card."""
    for second in range(10):
        first_card = SampleRow("n0/0", busy_ratio=second / 10, memory_bytes=second * 1000, temperature_c=40.0)
        add_samples(database, second, first_card, SampleRow("n0/1", power_w=300.0))
    return database


def test_samples_of_a_card_round_trip_unchanged(sampled):
    with sampled.read() as c:
        found = samples.of_card(c, "n0/0", 3 * SECOND_US, 5 * SECOND_US)
        assert found == [
            SampleRow("n0/0", 3 * SECOND_US, 0.3, None, 3000, None, 40.0, None),
            SampleRow("n0/0", 4 * SECOND_US, 0.4, None, 4000, None, 40.0, None),
        ]
        assert len(samples.of_card(c, "n0/1", 0, 100 * SECOND_US, limit=4)) == 4
        assert samples.of_card(c, "n0/2", 0, 100 * SECOND_US) == []


def test_samples_are_averaged_per_interval(sampled):
    with sampled.read() as c:
        found = samples.of_card(c, "n0/0", 0, 100 * SECOND_US, every_s=4)
    assert [row.at_us for row in found] == [0, 4 * SECOND_US, 8 * SECOND_US]
    assert [row.busy_ratio for row in found] == pytest.approx([0.15, 0.55, 0.85])
    assert [row.memory_bytes for row in found] == [1500, 5500, 8500]
    assert all(isinstance(row.busy_ratio, float) and row.power_w is None for row in found)


def test_second_sample_of_a_card_at_the_same_time_replaces_the_first(sampled):
    add_samples(sampled, 9, SampleRow("n0/1", power_w=100.0))
    add_samples(sampled, 9)
    with sampled.read() as c:
        assert samples.of_card(c, "n0/1", 9 * SECOND_US, 10 * SECOND_US)[0].power_w == 100.0


def test_latest_returns_the_newest_sample_of_each_card(sampled):
    add_samples(sampled, 12, SampleRow("n0/1", power_w=7.0))
    with sampled.read() as c:
        assert samples.latest(c, 0) == {
            "n0/0": SampleRow("n0/0", 9 * SECOND_US, 0.9, None, 9000, None, 40.0),
            "n0/1": SampleRow("n0/1", 12 * SECOND_US, power_w=7.0),
        }
        assert list(samples.latest(c, 10 * SECOND_US)) == ["n0/1"]


def test_trim_removes_old_samples_in_batches(sampled):
    with sampled.write() as c:
        assert samples.trim(c, 4 * SECOND_US) == 8
        assert samples.of_card(c, "n0/0", 0, 100 * SECOND_US)[0].at_us == 4 * SECOND_US
        # Removes the oldest samples first, and all cards of one time together.
        assert samples.trim(c, 8 * SECOND_US, most=3) == 4
        assert samples.of_card(c, "n0/1", 0, 100 * SECOND_US)[0].at_us == 6 * SECOND_US
        assert samples.trim(c, 8 * SECOND_US, most=1) == 2
        assert samples.trim(c, 8 * SECOND_US) == 2
        assert samples.trim(c, 8 * SECOND_US) == 0


def test_busy_returns_the_mean_busy_ratio_and_the_sample_count(sampled):
    with sampled.read() as c:
        mean, count = samples.busy(c, "n0/0", 2 * SECOND_US, 5 * SECOND_US)
        assert (mean, count) == (pytest.approx(0.3), 3)
        assert samples.busy(c, "n0/1", 0, 100 * SECOND_US) == (None, 0)  # the card reports no busy ratio
        assert samples.busy(c, "n0/2", 0, 100 * SECOND_US) == (None, 0)
