"""In which order pods are told, and what is dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.status.backlog import Backlog, BacklogEntry, Urgency
from gpusquad.engines.kubernetes.status.message import StatusMessage
from tests.engines.kubernetes.status.made import why


def entry(
    name: str, urgency: Urgency = Urgency.REASON, number: int = 0, position: int = 0, warning: bool = True
) -> BacklogEntry:
    return BacklogEntry(name, StatusMessage("R", "x", warning), urgency, number, position)


def test_the_most_urgent_and_first_in_line_go_first() -> None:
    backlog = Backlog(10)
    for one in (
        entry("late", position=9),
        entry("usual", Urgency.NORMAL),
        entry("second-pod", number=1, position=1),
        entry("first", position=1),
        entry("leaves", Urgency.LEAVING, position=50),
    ):
        backlog.put(one)
    taken = [one.uid for one in iter(lambda: backlog.take(0.0), None)]
    assert taken == ["leaves", "first", "second-pod", "late", "usual"]


def test_only_the_newest_text_waits() -> None:
    backlog = Backlog(10)
    backlog.put(BacklogEntry("u", why("old"), Urgency.REASON))
    backlog.put(BacklogEntry("u", why("new"), Urgency.REASON), due_s=5.0, now_s=0.0)
    assert len(backlog) == 1
    assert backlog.take(4.9) is None
    assert backlog.next_s() == 5.0
    found = backlog.take(5.0)
    assert found is not None
    assert found.message == why("new")


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3), st.floats(0, 9), st.booleans()), max_size=80
    )
)
def test_warnings_are_never_lost_and_nothing_is_told_twice(moves: list) -> None:
    """Whatever comes: each slot has its newest text, warnings find room, normal ones are bounded."""
    backlog, expected, now_s = Backlog(max_normal_events=3), {}, 0.0
    for number, warning, position, due_s, take in moves:
        if take:
            found = backlog.take(now_s)
            if found is not None:
                assert expected.pop(found.slot) == found
        else:
            one = BacklogEntry(
                f"u{number}", StatusMessage("W" if warning else "N", "x", warning), Urgency.REASON, 0, position
            )
            taken = backlog.put(one, now_s + due_s, now_s)
            expected.pop(one.slot, None)
            assert taken or not warning
            if taken:
                expected[one.slot] = one
        assert sum(not one.message.is_warning for one in expected.values()) <= 3
        assert backlog.gangs == len(backlog) == len(expected)
        now_s += 1.0
    assert {one.slot for one in iter(lambda: backlog.take(now_s + 100), None)} == expected.keys()
