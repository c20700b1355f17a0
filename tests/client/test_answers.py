"""What answers say beside their data."""

from email.utils import formatdate

import pytest

from gpusquad.client.answers import error_of, skew_of


@pytest.mark.parametrize(("ahead_s", "seen"), [(0, False), (1, False), (3600, True), (-3600, True)])
def test_only_a_clear_difference_of_clocks_counts(ahead_s, seen):
    skew_s = skew_of({"Date": formatdate(1_700_000_000 + ahead_s, usegmt=True)}, 1_700_000_000.0)
    assert (skew_s == pytest.approx(ahead_s)) if seen else (skew_s == 0.0)


@pytest.mark.parametrize("date", [None, "", "yesterday", "Mon, 99 Foo 2026 00:00:00 GMT"])
def test_a_date_that_is_none(date):
    assert skew_of({} if date is None else {"Date": date}, 0.0) == 0.0


@pytest.mark.parametrize(("told", "read"), [("3", 3.0), ("-1", 0.0), ("soon", None), (None, None)])
def test_when_to_ask_again(told, read):
    headers = {} if told is None else {"Retry-After": told}
    assert error_of(503, headers, b"", "http://x").retry_after_s == read
