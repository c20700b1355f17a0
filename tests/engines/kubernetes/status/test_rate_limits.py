"""How often one pod is told something, and how often all are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.engines.kubernetes.status.rate_limits import RepeatLimiter, TokenBucket
from tests.engines.kubernetes.status.made import why


def test_one_pod_hears_the_same_with_other_numbers_once_a_minute() -> None:
    patience = RepeatLimiter(StatusSettings())
    assert patience.delay_s("u", why("6 are idle"), 0.0) == 0.0
    patience.record("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("7 are idle"), 10.0) == pytest.approx(50.0)
    assert patience.delay_s("u", why("7 are idle"), 60.0) == 0.0


def test_news_waits_only_as_long_as_it_takes_not_to_flap() -> None:
    patience = RepeatLimiter(StatusSettings(flap_s=5.0))
    patience.record("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("the tenant's limit"), 1.0) == pytest.approx(4.0)
    assert patience.delay_s("u", why("the tenant's limit"), 6.0) == 0.0


def test_the_very_same_is_told_again_before_the_server_forgets_it() -> None:
    patience = RepeatLimiter(StatusSettings(repeat_s=300.0))
    patience.record("u", why("6 are idle"), 0.0)
    assert patience.delay_s("u", why("6 are idle"), 299.0) is None
    assert patience.delay_s("u", why("6 are idle"), 300.0) == 0.0


def test_pods_and_reasons_do_not_hold_each_other_up() -> None:
    patience = RepeatLimiter(StatusSettings())
    patience.record("u", why("6 are idle"), 0.0)
    assert patience.delay_s("v", why("6 are idle"), 0.0) == 0.0
    assert patience.delay_s("u", StatusMessage("Preempted", "6 are idle"), 0.0) == 0.0


def test_what_is_remembered_is_bounded() -> None:
    patience = RepeatLimiter(StatusSettings(), limit=3)
    for number in range(10):
        patience.record(f"u{number}", why("x"), 0.0)
    assert [patience.delay_s(f"u{number}", why("x"), 1.0) is None for number in (6, 7, 8, 9)] == [False, *3 * [True]]


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.floats(0.5, 50.0), st.floats(1.0, 20.0))
def test_the_bucket_never_gives_more_than_it_may(steps: list[float], per_second: float, burst: float) -> None:
    bucket, now_s, taken = TokenBucket(per_second, burst), 0.0, []
    for step in steps:
        now_s += step
        if bucket.wait_s(now_s) == 0.0:
            taken.append(now_s)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - taken[first]) * per_second + 1e-6


def test_whoever_waits_as_long_as_told_gets_one() -> None:
    bucket = TokenBucket(per_second=4.0, burst=1.0)
    assert bucket.wait_s(0.0) == 0.0
    wait_s = bucket.wait_s(0.0)
    assert wait_s == pytest.approx(0.25)
    assert bucket.wait_s(wait_s) == 0.0
