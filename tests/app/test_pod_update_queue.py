"""Who is told next why it waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.app.pod_update_queue import PodUpdateQueue


def test_first_in_line_then_the_newest_then_who_was_asked_longest_ago() -> None:
    rota = PodUpdateQueue(every_s=60.0, front=1)
    for name, at_s in (("first", 0.0), ("old", 5.0), ("older", 1.0)):
        rota.asked(name, at_s)
    waiting = ["first", "old", "older", "new", "newest"]
    assert rota.choose(waiting, ["first", "old"], 9, 100.0) == ["first", "newest", "new", "older", "old"]
    assert rota.choose(waiting, ["first", "old"], 2, 100.0) == ["first", "newest"]


def test_nobody_is_asked_about_again_too_soon() -> None:
    rota = PodUpdateQueue(every_s=60.0)
    rota.asked("a", 0.0)
    assert rota.choose(["a"], ["a"], 9, 59.0) == []
    rota.changed("a")
    assert rota.choose(["a"], ["a"], 9, 59.0) == ["a"]
    assert rota.choose(["a"], ["a"], 0, 99.0) == []


def test_whoever_comes_back_counts_as_new() -> None:
    rota = PodUpdateQueue(every_s=60.0)
    assert rota.asked("a", 0.0)
    assert not rota.asked("a", 1.0)
    assert rota.choose([], [], 9, 2.0) == []
    assert rota.choose(["a"], [], 9, 3.0) == ["a"]


@given(st.integers(1, 30), st.integers(1, 5), st.integers(0, 3))
def test_everybody_has_a_turn(count: int, room: int, front: int) -> None:
    """However little room there is: within as many rounds as it takes for all, all were asked about."""
    rota, waiting = PodUpdateQueue(every_s=1000.0, front=front), [f"j{number}" for number in range(count)]
    seen: set[str] = set()
    for now in range(-(-count // room)):
        chosen = rota.choose(waiting, waiting, room, float(now))
        assert len(chosen) == len(set(chosen)) <= room
        for name in chosen:
            rota.asked(name, float(now))
        seen |= set(chosen)
    assert seen == set(waiting)
