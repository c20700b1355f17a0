"""Events of pods. A repeated event is counted, not written as a new one."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime

from gpusquad.engines.kubernetes.status.message import StatusMessage, shortened
from gpusquad.kube.names import SCHEDULER
from gpusquad.kube.objects import Object, name_of, namespace_of, uid_of

MAX_REMEMBERED = 50_000
_KEPT_S = 50 * 60.0
"""The API server deletes events after an hour by default. Older events are written as new ones."""
_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class WrittenEvent:
    """An event that was written."""

    path: str
    count: int
    at_s: float


@dataclass(frozen=True, slots=True)
class EventWrite:
    """What to send: a new event (POST to ``path``), or a change to one that is there (PATCH)."""

    path: str
    content: Object
    is_new: bool
    key: _Key


class EventWriter:
    """Remembers which events exist on the server."""

    def __init__(self, instance: str = "", limit: int = MAX_REMEMBERED) -> None:
        self._instance = instance
        self._limit = limit
        self._known: OrderedDict[_Key, WrittenEvent] = OrderedDict()

    def write_for(self, pod: Object, status: StatusMessage, now: datetime) -> EventWrite:
        key = (uid_of(pod), status.kind, status.reason, status.material)
        known = self._known.get(key)
        message = shortened(status.message)
        if known is not None and now.timestamp() - known.at_s < _KEPT_S:
            changes = {"count": known.count + 1, "lastTimestamp": time_text(now), "message": message}
            return EventWrite(known.path, changes, False, key)
        namespace = namespace_of(pod)
        name = f"{name_of(pod)[:230].rstrip('.-')}.{int(now.timestamp() * 1e6):x}{hash(key) & 0xFFFF:04x}"
        return EventWrite(
            f"/api/v1/namespaces/{namespace}/events", self._event(pod, status, name, message, now), True, key
        )

    def written(self, write: EventWrite, now: datetime) -> None:
        if write.is_new:
            path, count = f"{write.path}/{write.content['metadata']['name']}", 1
        else:
            path, count = write.path, write.content["count"]
        self._known[write.key] = WrittenEvent(path, count, now.timestamp())
        self._known.move_to_end(write.key)
        if len(self._known) > self._limit:
            self._known.popitem(last=False)

    def forget(self, write: EventWrite) -> None:
        """The server has deleted the event."""
        self._known.pop(write.key, None)

    def _event(self, pod: Object, status: StatusMessage, name: str, message: str, now: datetime) -> Object:
        namespace, at = namespace_of(pod), time_text(now)
        return {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", "namespace": namespace, "name": name_of(pod),
                               "uid": uid_of(pod)},
            "reason": status.reason, "message": message, "type": status.kind,
            "firstTimestamp": at, "lastTimestamp": at, "count": 1,
            "source": {"component": SCHEDULER}, "reportingComponent": SCHEDULER,
            "reportingInstance": self._instance,
        }  # fmt: skip


def time_text(now: datetime) -> str:
    return now.strftime("%Y-%m-%dT%H:%M:%SZ")
