"""Events that say the same are one event, which is counted."""

from __future__ import annotations

from datetime import timedelta

from gpusquad.engines.kubernetes.status.events import EventWriter
from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage
from tests.engines.kubernetes.status.made import NOW, pod, why


def test_the_same_again_is_counted() -> None:
    events = EventWriter()
    first = events.write_for(pod(), why("6 of 8 are idle"), NOW)
    assert first.is_new
    assert first.content["involvedObject"]["uid"] == "uid-a"
    assert (first.content["type"], first.content["reason"], first.content["count"]) == ("Warning", FAILED_SCHEDULING, 1)
    events.written(first, NOW)
    later = NOW + timedelta(seconds=60)
    again = events.write_for(pod(), why("7 of 8 are idle"), later)
    assert not again.is_new
    assert again.path == f"/api/v1/namespaces/default/events/{first.content['metadata']['name']}"
    assert again.content == {"count": 2, "lastTimestamp": "2026-03-01T12:01:00Z", "message": "7 of 8 are idle"}


def test_another_pod_reason_kind_or_text_is_another_event() -> None:
    events = EventWriter()
    events.written(events.write_for(pod(), why("6 are idle"), NOW), NOW)
    for other_pod, status in (
        (pod("b"), why("6 are idle")),
        (pod(), why("held by ann")),
        (pod(), StatusMessage("Preempted", "6 are idle")),
        (pod(), StatusMessage(FAILED_SCHEDULING, "6 are idle", is_warning=False)),
    ):
        assert events.write_for(other_pod, status, NOW).is_new


def test_an_event_that_the_server_may_have_forgotten_is_made_anew() -> None:
    events = EventWriter()
    events.written(events.write_for(pod(), why("x"), NOW), NOW)
    assert events.write_for(pod(), why("x"), NOW + timedelta(minutes=55)).is_new
