"""Tests of the backlog of status writes: its order, and what is dropped."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.status.backlog import Backlog, BacklogEntry, Urgency
from gpusquad.engines.kubernetes.status.message import StatusMessage
from tests.engines.kubernetes.status.builders import pending_reason


def entry(
    name: str, urgency: Urgency = Urgency.REASON, number: int = 0, position: int = 0, warning: bool = True
) -> BacklogEntry:
    return BacklogEntry(name, StatusMessage("R", "x", warning), urgency, number, position)


def test_entries_are_taken_by_urgency_then_queue_position() -> None:
    backlog = Backlog(10)
    for item in (
        entry("late", position=9),
        entry("usual", Urgency.NORMAL),
        entry("second-pod", number=1, position=1),
        entry("first", position=1),
        entry("leaves", Urgency.LEAVING, position=50),
    ):
        backlog.put(item)
    order = [item.uid for item in iter(lambda: backlog.take(0.0), None)]
    assert order == ["leaves", "first", "second-pod", "late", "usual"]


def test_only_the_newest_text_of_a_pod_is_kept() -> None:
    backlog = Backlog(10)
    backlog.put(BacklogEntry("u", pending_reason("old"), Urgency.REASON))
    backlog.put(BacklogEntry("u", pending_reason("new"), Urgency.REASON), due_s=5.0, now_s=0.0)
    assert len(backlog) == 1
    assert backlog.take(4.9) is None
    assert backlog.next_s() == 5.0
    found = backlog.take(5.0)
    assert found is not None
    assert found.message == pending_reason("new")


@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.booleans(), st.integers(0, 3), st.floats(0, 9), st.booleans()), max_size=80
    )
)
def test_warnings_are_never_dropped_and_each_entry_is_taken_once(steps: list) -> None:
    """Each slot has its newest text, warnings are always accepted, and normal events are bounded."""
    backlog, expected, now_s = Backlog(max_normal_events=3), {}, 0.0
    for number, warning, position, due_s, take in steps:
        if take:
            found = backlog.take(now_s)
            if found is not None:
                assert expected.pop(found.slot) == found
        else:
            item = BacklogEntry(
                f"u{number}", StatusMessage("W" if warning else "N", "x", warning), Urgency.REASON, 0, position
            )
            accepted = backlog.put(item, now_s + due_s, now_s)
            expected.pop(item.slot, None)
            assert accepted or not warning
            if accepted:
                expected[item.slot] = item
        assert sum(not item.message.is_warning for item in expected.values()) <= 3
        assert backlog.gangs == len(backlog) == len(expected)
        now_s += 1.0
    assert {item.slot for item in iter(lambda: backlog.take(now_s + 100), None)} == expected.keys()
