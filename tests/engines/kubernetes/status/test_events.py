"""Tests of events: repeated messages are counted in one event."""

from __future__ import annotations

from datetime import timedelta

from gpusquad.engines.kubernetes.status.events import EventWriter
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage
from tests.engines.kubernetes.status.builders import NOW, pending_reason, pod


def test_repeated_message_increments_the_count() -> None:
    events = EventWriter()
    first = events.write_for(pod(), pending_reason("6 of 8 are idle"), NOW)
    assert first.is_new
    assert first.content["involvedObject"]["uid"] == "uid-a"
    assert (first.content["type"], first.content["reason"], first.content["count"]) == ("Warning", FAILED_SCHEDULING, 1)
    events.written(first, NOW)
    later = NOW + timedelta(seconds=60)
    repeated = events.write_for(pod(), pending_reason("7 of 8 are idle"), later)
    assert not repeated.is_new
    assert repeated.path == f"/api/v1/namespaces/default/events/{first.content['metadata']['name']}"
    assert repeated.content == {"count": 2, "lastTimestamp": "2026-03-01T12:01:00Z", "message": "7 of 8 are idle"}


def test_other_pod_reason_type_or_text_is_a_new_event() -> None:
    events = EventWriter()
    events.written(events.write_for(pod(), pending_reason("6 are idle"), NOW), NOW)
    for other_pod, status in (
        (pod("b"), pending_reason("6 are idle")),
        (pod(), pending_reason("held by ann")),
        (pod(), StatusMessage("Preempted", "6 are idle")),
        (pod(), StatusMessage(FAILED_SCHEDULING, "6 are idle", is_warning=False)),
    ):
        assert events.write_for(other_pod, status, NOW).is_new


def test_event_is_created_again_when_the_server_may_have_deleted_it() -> None:
    events = EventWriter()
    events.written(events.write_for(pod(), pending_reason("x"), NOW), NOW)
    assert events.write_for(pod(), pending_reason("x"), NOW + timedelta(minutes=55)).is_new
