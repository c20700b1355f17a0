"""Logs of a job's pods, read through the API server.

The server has no offsets: it returns a log from a point in time on, in whole seconds. A *spool* therefore keeps the
newest output of one task for a while, with offsets from the first byte that the server had. To continue, the last
second is requested again, and lines that the spool has already are skipped by their timestamps.

If a pod fails and is recreated, the log of its task continues in the new pod. The logs of a deleted pod are lost,
except for what a spool still holds.
"""

from __future__ import annotations

import concurrent.futures
import hashlib
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.gangs.pod_gang import is_over, node_name
from gpusquad.engines.kubernetes.parse.cards import cards_by_container
from gpusquad.engines.kubernetes.parse.roles import Place, first_rank, index_of, place_of
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import ATTEMPT
from gpusquad.kube.objects import Object, annotations_of, name_of, namespace_of, uid_of

GONE = "(the pods of this attempt were deleted together with their logs)\n"
MAX_SPOOL_BYTES = 8 << 20
"""For one task."""
MAX_SPOOLS = 64
MAX_READ_BYTES = 16 << 20
"""More than a kubelet keeps of one container by default: 10 MiB."""
_SECOND_CHARS = len("2026-01-01T00:00:00")
_WAIT_S = 30.0
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class JobLogInfo:
    """What the service knows of a job's attempts."""

    attempt: int
    """The latest one."""
    has_ended: bool
    """It has run and ended."""


RunOf = Callable[[str], JobLogInfo | None]
Which = tuple[str, int]
"""Job and attempt."""


class PodLogEngine(Protocol):
    """The part of the engine that is used here."""

    def call_api(self, work: Callable[[AsyncKubeApi], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]: ...
    def pods_of(self, job_id: str) -> list[Object]:
        """Call it in the loop thread."""
        ...


@dataclass(frozen=True, slots=True)
class PodLogChunk:
    """A piece of a task's output."""

    offset: int
    data: bytes
    next_offset: int


@dataclass
class Spool:
    """The newest output of one task."""

    max_bytes: int = MAX_SPOOL_BYTES
    start: int = 0
    """Offset of the first byte in ``data``."""
    data: bytearray = field(default_factory=bytearray)
    done: set[str] = field(default_factory=set)
    """Pods that were read completely."""
    second: str = ""
    """Timestamp of the last line of the current pod. The next request starts there."""
    known: Counter[bytes] = field(default_factory=Counter)
    """Lines of that second or later that were read already."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def end(self) -> int:
        return self.start + len(self.data)

    def take(self, content: bytes, is_last: bool) -> int:
        """Adds the new lines of an answer with timestamps, and returns their number. An incomplete last line is left
        for the next time, unless ``is_last``."""
        *whole, rest = content.split(b"\n")  # not at "\r", which progress bars use to return to the start of a line
        lines = [line + b"\n" for line in whole] + ([rest] if rest and is_last else [])
        left, fresh = Counter(self.known), 0
        for line in lines:
            mark = _mark(line)
            if left[mark]:
                left[mark] -= 1
            else:
                self._add(line, mark)
                fresh += 1
        self._trim()
        return fresh

    def next_pod(self, uid: str) -> None:
        """This pod was read completely."""
        self.done.add(uid)
        self.second, self.known = "", Counter()

    def read(self, offset: int, limit: int) -> PodLogChunk:
        """Starts at the first byte that is still kept."""
        begin = max(offset, self.start)
        data = bytes(self.data[begin - self.start : begin - self.start + limit])
        return PodLogChunk(begin, data, begin + len(data)) if data else PodLogChunk(offset, b"", offset)

    def tail(self, lines: int) -> int:
        """Offset of the first of the last ``lines`` lines."""
        if lines <= 0:
            return self.end
        place = len(self.data) - (1 if self.data.endswith(b"\n") else 0)
        for _ in range(lines):
            place = self.data.rfind(b"\n", 0, place)
            if place < 0:
                return self.start
        return self.start + place + 1

    def _add(self, line: bytes, mark: bytes) -> None:
        second, text = line[:_SECOND_CHARS].decode("ascii", "replace"), line.partition(b" ")[2]
        if second > self.second:
            self.second, self.known = second, Counter()
        self.known[mark] += 1
        self.data += text

    def _trim(self) -> None:
        surplus = len(self.data) - self.max_bytes
        if surplus > 0:
            del self.data[:surplus]
            self.start += surplus


class PodLogSource:
    """The service's ``LogSource``. Any thread may call it."""

    def __init__(self, source: PodLogEngine, run_of: RunOf | None = None) -> None:
        self._source = source
        self.run_of: RunOf = run_of or (lambda job_id: None)
        self._spools: OrderedDict[tuple[Which, int], Spool] = OrderedDict()
        self._lock = threading.Lock()

    def reader(self, job_id: str, attempt: int) -> PodLogReader | GoneReader | None:
        run = self.run_of(job_id)
        if run is None:
            return None
        tasks = tasks_of([pod for pod in self._pods(job_id) if _attempt(pod, run.attempt) == attempt])
        if tasks:
            return PodLogReader(self, (job_id, attempt), tasks)
        return GoneReader() if attempt < run.attempt or run.has_ended else None

    def folder(self, job_id: str, attempt: int) -> Path | None:
        return None

    def catch_up(self, which: Which, task: int, pods: Sequence[Object]) -> Spool:
        """The task's spool with the whole output of its pods up to now."""
        spool = self._spool(which, task)
        with spool.lock:
            for pod in pods:
                if uid_of(pod) not in spool.done:
                    over = is_over(pod)
                    self._fetch(spool, pod, over)
                    if not over:
                        break
                    spool.next_pod(uid_of(pod))
        return spool

    def _fetch(self, spool: Spool, pod: Object, is_over: bool) -> None:
        limit = MAX_READ_BYTES
        while True:
            content = self._get(pod, spool.second, limit)
            cut = len(content) >= limit
            fresh = spool.take(content, is_over and not cut)
            if not cut:
                return
            limit = MAX_READ_BYTES if fresh else 2 * limit  # one second can contain more than the limit

    def _get(self, pod: Object, since: str, limit: int) -> bytes:
        query = {"container": container_of(pod), "timestamps": "true", "limitBytes": str(limit)}
        if since:
            query["sinceTime"] = f"{since}Z"
        path = f"/api/v1/namespaces/{namespace_of(pod)}/pods/{name_of(pod)}/log"
        try:
            return self._source.call_api(lambda api: api.read(path, **query)).result(_WAIT_S)
        except ApiRefused as error:
            if error.status in (400, 404):  # not started yet, or deleted
                return b""
            raise ConnectionError(f"cannot read the log of pod {name_of(pod)}: {error.message}") from None
        except (ApiUnreachable, TimeoutError) as error:
            raise ConnectionError(f"cannot read the log of pod {name_of(pod)}: {error or 'no answer'}") from None

    def _pods(self, job_id: str) -> list[Object]:
        async def find(api: AsyncKubeApi) -> list[Object]:
            return self._source.pods_of(job_id)

        return self._source.call_api(find).result(_WAIT_S)

    def _spool(self, which: Which, task: int) -> Spool:
        """Drops the least recently used spool if there are too many."""
        with self._lock:
            spool = self._spools.pop((which, task), None) or Spool()
            self._spools[which, task] = spool
            while len(self._spools) > MAX_SPOOLS:
                self._spools.popitem(last=False)
        return spool


class PodLogReader:
    """Reads each task's output as it was at the first access to the task."""

    def __init__(self, logs: PodLogSource, which: Which, tasks: dict[int, list[Object]]) -> None:
        self._logs = logs
        self._which = which
        self._tasks = tasks
        self._read: dict[int, Spool] = {}

    def tasks(self) -> Sequence[int]:
        return sorted(self._tasks)

    def size(self, task: int) -> tuple[int, int]:
        spool = self._spool(task)
        with spool.lock:
            return spool.start, spool.end

    def read(self, task: int, offset: int, limit: int) -> PodLogChunk:
        spool = self._spool(task)
        with spool.lock:
            return spool.read(offset, limit)

    def tail(self, task: int, lines: int) -> int:
        spool = self._spool(task)
        with spool.lock:
            return spool.tail(lines)

    def _spool(self, task: int) -> Spool:
        if task not in self._read:
            self._read[task] = self._logs.catch_up(self._which, task, self._tasks.get(task, ()))
        return self._read[task]


class GoneReader:
    """Shows a note in place of logs that were deleted."""

    def __init__(self) -> None:
        self._spool = Spool()
        self._spool.data += GONE.encode()

    def tasks(self) -> Sequence[int]:
        return [0]

    def size(self, task: int) -> tuple[int, int]:
        return 0, self._spool.end

    def read(self, task: int, offset: int, limit: int) -> PodLogChunk:
        return self._spool.read(offset, limit)

    def tail(self, task: int, lines: int) -> int:
        return self._spool.tail(lines)


def tasks_of(pods: Sequence[Object]) -> dict[int, list[Object]]:
    """Pods by the rank of their task, oldest first. Pods created by gpusquad carry their rank; others are numbered in
    order."""
    seats: dict[tuple[Any, ...], list[Object]] = {}
    for pod in sorted((pod for pod in pods if node_name(pod)), key=lambda pod: (place_of(pod)[:3], _age(pod))):
        seats.setdefault(_seat(pod), []).append(pod)
    result: dict[int, list[Object]] = {}
    for number, members in enumerate(seats.values()):
        first, index = first_rank(members[0]), index_of(members[0])
        rank = number if first is None or not index else first + index[0]
        result.setdefault(rank, []).extend(members)
    return result


def container_of(pod: Object) -> str:
    """The first container with cards, or else the first one."""
    names = [each["name"] for each in pod["spec"]["containers"]]
    with_cards = [name for name, _ in cards_by_container(pod) if name in names]
    return (with_cards or names)[0]


def _seat(pod: Object) -> tuple[Any, ...]:
    """Pods with equal keys belong to one task. A pod without an index has a key of its own."""
    place: Place = place_of(pod)
    return place[:3] if place[2] else (*place[:3], uid_of(pod))


def _attempt(pod: Object, latest: int) -> int:
    """The attempt that the pod was bound for; without the annotation, the latest."""
    text = annotations_of(pod).get(ATTEMPT, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else latest


def _age(pod: Object) -> tuple[str, str]:
    return pod["metadata"].get("creationTimestamp", ""), name_of(pod)


def _mark(line: bytes) -> bytes:
    """A short key for a line."""
    return line if len(line) <= 64 else line[:32] + hashlib.blake2b(line, digest_size=16).digest()
