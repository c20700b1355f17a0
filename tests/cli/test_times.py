"""Formatting and parsing of times."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.cli._times import DAY_S, HOUR_S, between, clock, narrow_range, read_time, relative, span
from gpusquad.model.errors import Invalid

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"), (0.4, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (90, "2 min"), (3599, "1 h"), (3600, "1 h"),
        (7500, "2 h 5 min"), (86399, "1 d"), (26 * HOUR_S, "1 d 2 h"), (11.4 * DAY_S, "11 d"),
    ],
)  # fmt: skip
def test_spans(seconds, said):
    assert span(seconds) == said


@pytest.mark.parametrize(
    ("soon_s", "late_s", "said"),
    [
        (600, 2700, "10–45 min"), (2700, 7500, "45 min–2 h 5 min"), (3600, 7200, "1–2 h"), (600, 601, "10 min"),
        (10, 90, "10 s–2 min"), (3900, 7500, "1 h 5 min–2 h 5 min"),
    ],
)  # fmt: skip
def test_narrow_ranges(soon_s, late_s, said):
    assert narrow_range(soon_s, late_s) == said


@given(st.floats(0, 1e9))
def test_a_span_is_short_and_never_60_of_anything(seconds):
    said = span(seconds)
    assert len(said) <= 12
    assert not said.startswith(("60 s", "60 min", "24 h"))
    assert " 60 min" not in said


@pytest.mark.parametrize(("ahead_s", "said"), [(0, "now"), (180, "in 3 min"), (-7200, "2 h ago")])
def test_relative(ahead_s, said):
    assert relative(NOW + ahead_s, NOW) == said


def test_ranges_and_clocks():
    assert between(60, 119) == "1 min to 2 min"
    assert between(60, 61) == "1 min"
    assert clock(NOW, NOW) == time.strftime("%H:%M", time.localtime(NOW))
    assert clock(NOW + 3 * DAY_S, NOW).count(" ") == 1
    assert clock(NOW + 30 * DAY_S, NOW).startswith("2023-12-")


@pytest.mark.parametrize(
    ("text", "seconds"), [("7d", NOW - 7 * DAY_S), ("90min", NOW - 5400), ("now", NOW), ("30", NOW - 30)]
)
def test_reading_spans(text, seconds):
    assert read_time(text, "since", NOW) == seconds
    assert read_time(text, "start", NOW, "future") == 2 * NOW - seconds


def test_reading_dates():
    assert read_time("2026-03-01T14:30+01:00", "since", NOW) == 1772371800.0
    assert read_time("2026-03-01", "since", NOW) == time.mktime((2026, 3, 1, 0, 0, 0, 0, 0, -1))


@pytest.mark.parametrize("text", ["", "soon", "7 parsecs", "2026-13-01", "2026-", "-3d"])
def test_what_is_no_time(text):
    with pytest.raises(Invalid, match="since"):
        read_time(text, "since", NOW)
