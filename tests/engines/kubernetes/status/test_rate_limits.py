"""Tests of the rate limits of status writes, per pod and in total."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.engines.kubernetes.status.rate_limits import RepeatLimiter, TokenBucket
from tests.engines.kubernetes.status.builders import pending_reason


def test_message_with_other_numbers_is_delayed_to_once_a_minute() -> None:
    limiter = RepeatLimiter(StatusSettings())
    assert limiter.delay_s("u", pending_reason("6 are idle"), 0.0) == 0.0
    limiter.record("u", pending_reason("6 are idle"), 0.0)
    assert limiter.delay_s("u", pending_reason("7 are idle"), 10.0) == pytest.approx(50.0)
    assert limiter.delay_s("u", pending_reason("7 are idle"), 60.0) == 0.0


def test_new_reason_is_delayed_only_by_the_flap_time() -> None:
    limiter = RepeatLimiter(StatusSettings(flap_s=5.0))
    limiter.record("u", pending_reason("6 are idle"), 0.0)
    assert limiter.delay_s("u", pending_reason("the tenant's limit"), 1.0) == pytest.approx(4.0)
    assert limiter.delay_s("u", pending_reason("the tenant's limit"), 6.0) == 0.0


def test_unchanged_message_is_repeated_after_the_repeat_time() -> None:
    limiter = RepeatLimiter(StatusSettings(repeat_s=300.0))
    limiter.record("u", pending_reason("6 are idle"), 0.0)
    assert limiter.delay_s("u", pending_reason("6 are idle"), 299.0) is None
    assert limiter.delay_s("u", pending_reason("6 are idle"), 300.0) == 0.0


def test_limits_of_pods_and_reasons_are_independent() -> None:
    limiter = RepeatLimiter(StatusSettings())
    limiter.record("u", pending_reason("6 are idle"), 0.0)
    assert limiter.delay_s("v", pending_reason("6 are idle"), 0.0) == 0.0
    assert limiter.delay_s("u", StatusMessage("Preempted", "6 are idle"), 0.0) == 0.0


def test_limiter_keeps_a_bounded_number_of_pods() -> None:
    limiter = RepeatLimiter(StatusSettings(), limit=3)
    for number in range(10):
        limiter.record(f"u{number}", pending_reason("x"), 0.0)
    assert [limiter.delay_s(f"u{number}", pending_reason("x"), 1.0) is None for number in (6, 7, 8, 9)] == [
        False,
        *3 * [True],
    ]


@given(st.lists(st.floats(0.0, 3.0), max_size=60), st.floats(0.5, 50.0), st.floats(1.0, 20.0))
def test_bucket_never_exceeds_its_rate_and_burst(steps: list[float], per_second: float, burst: float) -> None:
    bucket, now_s, taken = TokenBucket(per_second, burst), 0.0, []
    for step in steps:
        now_s += step
        if bucket.wait_s(now_s) == 0.0:
            taken.append(now_s)
    for first in range(len(taken)):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - taken[first]) * per_second + 1e-6


def test_bucket_gives_a_token_after_the_returned_wait() -> None:
    bucket = TokenBucket(per_second=4.0, burst=1.0)
    assert bucket.wait_s(0.0) == 0.0
    wait_s = bucket.wait_s(0.0)
    assert wait_s == pytest.approx(0.25)
    assert bucket.wait_s(wait_s) == 0.0
