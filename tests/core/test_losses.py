"""The leaky count of losses, and the delays that follow from it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.containment.losses import (
    Loss,
    after_loss,
    crash_backoff_s,
    is_exhausted,
    loss_backoff_s,
    losses_from,
    losses_record,
)
from gpusquad.core.containment.rules import ContainmentRules

RULES = ContainmentRules()
MINUTE_US = 60_000_000


def lost_every(minutes: int, times: int, steps=lambda attempt: None):
    losses = ()
    for attempt in range(times):
        at_us = (attempt + 1) * minutes * MINUTE_US
        losses = after_loss(losses, Loss(at_us, "lost", "gone", step=steps(attempt)), minutes * MINUTE_US, RULES)
    return losses


def test_first_loss_is_retried_at_once_and_the_delay_doubles_with_each_further_one():
    assert [loss_backoff_s(count, RULES) for count in range(9)] == [0, 0, 10, 20, 40, 80, 160, 320, 640]
    assert loss_backoff_s(10**9, RULES) == 900


def test_losses_count_even_if_each_attempt_ran_for_ten_minutes():
    assert [len(lost_every(10, times)) for times in (1, 2, 8)] == [1, 2, 8]
    assert not is_exhausted(7, RULES)
    assert is_exhausted(8, RULES)


def test_loss_is_forgiven_after_hours_of_running():
    assert len(lost_every(5 * 60, 20)) == 1


def test_progress_beyond_the_best_step_forgives_earlier_losses():
    assert len(lost_every(10, 20, steps=lambda attempt: 100 * attempt)) == 1


def test_progress_up_to_the_same_step_forgives_nothing():
    assert len(lost_every(10, 8, steps=lambda attempt: 100 - attempt % 2)) == 8


def test_losses_are_equal_after_the_store():
    losses = lost_every(10, 3, steps=lambda attempt: 1)
    assert losses_from(losses_record(losses)) == losses
    assert losses_from(None) == ()


def test_zero_means_no_limit():
    assert not is_exhausted(10**6, ContainmentRules(max_losses=0))


def test_backoff_of_a_failing_program_doubles_with_each_fast_crash():
    assert [crash_backoff_s(n, 5.0) for n in (0, 1, 2, 3, 4)] == [0, 10, 20, 40, 80]
    assert crash_backoff_s(3, 60.0) == 0
    assert crash_backoff_s(10**9, 1.0) == 900


@given(attempts=st.integers(0, 10**6), run_s=st.floats(0, 1e6))
def test_backoff_of_a_failing_program_grows_with_attempts_and_is_bounded(attempts, run_s):
    assert 0 <= crash_backoff_s(attempts, run_s) <= crash_backoff_s(attempts + 1, run_s) <= 900
