"""Tests of the order in which pending pods get status updates."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.app.pod_update_queue import PodUpdateQueue


def test_update_order_is_head_then_newest_then_least_recently_updated() -> None:
    queue = PodUpdateQueue(every_s=60.0, front=1)
    for name, at_s in (("first", 0.0), ("old", 5.0), ("older", 1.0)):
        queue.asked(name, at_s)
    waiting = ["first", "old", "older", "new", "newest"]
    assert queue.choose(waiting, ["first", "old"], 9, 100.0) == ["first", "newest", "new", "older", "old"]
    assert queue.choose(waiting, ["first", "old"], 2, 100.0) == ["first", "newest"]


def test_job_is_not_chosen_again_within_the_interval_unless_it_changed() -> None:
    queue = PodUpdateQueue(every_s=60.0)
    queue.asked("a", 0.0)
    assert queue.choose(["a"], ["a"], 9, 59.0) == []
    queue.changed("a")
    assert queue.choose(["a"], ["a"], 9, 59.0) == ["a"]
    assert queue.choose(["a"], ["a"], 0, 99.0) == []


def test_job_that_returns_to_the_queue_counts_as_new() -> None:
    queue = PodUpdateQueue(every_s=60.0)
    assert queue.asked("a", 0.0)
    assert not queue.asked("a", 1.0)
    assert queue.choose([], [], 9, 2.0) == []
    assert queue.choose(["a"], [], 9, 3.0) == ["a"]


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 3))
def test_every_job_is_chosen_within_one_full_round(count: int, room: int, front: int) -> None:
    """With ``room`` updates per round, every job is updated within ceil(count / room) rounds."""
    queue, waiting = PodUpdateQueue(every_s=1000.0, front=front), [f"j{number}" for number in range(count)]
    seen: set[str] = set()
    for now in range(-(-count // room)):
        chosen = queue.choose(waiting, waiting, room, float(now))
        assert len(chosen) == len(set(chosen)) <= room
        for name in chosen:
            queue.asked(name, float(now))
        seen |= set(chosen)
    assert seen == set(waiting)
