"""Processes of this node by container, found by their control groups, and their resource usage."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.kubernetes.slots import distinct_cards, in_order

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# Both cgroup drivers include the pod's UID; systemd's replaces dashes by underscores.
_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class _Stat:
    name: str
    start: int
    cpu_ticks: int
    rss_bytes: int


class PodProcesses:
    """Processes of pods with cards. Call ``look`` periodically; ``owner`` then works for any PID."""

    def __init__(self, proc: Path = Path("/proc"), clock_s: Callable[[], float] = time.monotonic) -> None:
        self._proc = proc
        self._clock_s = clock_s
        self._looked_s: float | None = None
        self._ticks: dict[tuple[int, int], int] = {}
        self._owners: dict[int, str] = {}

    def owner(self, pid: int) -> str | None:
        """namespace/name of the pod."""
        return self._owners.get(pid)

    @property
    def owners(self) -> Mapping[int, str]:
        """All owners at the last reading. The next one creates a new mapping."""
        return self._owners

    def look(self, pods: Iterable[Pod], listed: Sequence[ListedPod]) -> list[JobProcess]:
        pods = list(pods)
        # A pod that has just got its cards may be missing in the kubelet's list: its pinned cards count until then.
        promised = {pod.key: tuple(sorted(pod.pinned_cards)) for pod in pods if pod.pinned_cards and not pod.has_ended}
        cards = promised | {
            entry.key: tuple(distinct_cards(in_order(slot for ids in entry.slots.values() for slot in ids)))
            for entry in listed
            if entry.slots
        }
        by_uid = {pod.uid: pod.key for pod in pods if pod.key in cards}
        now_s = self._clock_s()
        passed_s = None if self._looked_s is None else now_s - self._looked_s
        before, self._ticks, self._owners, self._looked_s = self._ticks, {}, {}, now_s
        if not by_uid:
            return []
        found = []
        for pid in (int(name) for name in os.listdir(self._proc) if name.isdigit()):
            key = by_uid.get(self._pod_uid(pid))
            stat = self._stat(pid) if key is not None else None
            if key is None or stat is None:
                continue
            self._owners[pid], self._ticks[pid, stat.start] = key, stat.cpu_ticks
            earlier = before.get((pid, stat.start))
            cpu_ratio = (
                (stat.cpu_ticks - earlier) / _TICKS_PER_S / passed_s if earlier is not None and passed_s else None
            )
            found.append(JobProcess(pid, stat.name, key, 0, cards[key], cpu_ratio, stat.rss_bytes))
        return found

    def _pod_uid(self, pid: int) -> str:
        match = _POD.search(self._read(pid, "cgroup"))
        return match[1].replace("_", "-") if match is not None else ""

    def _stat(self, pid: int) -> _Stat | None:
        # The name is in parentheses and may itself contain spaces and parentheses.
        head, closing, tail = self._read(pid, "stat").rpartition(")")
        fields = tail.split()
        if not closing or len(fields) < 22:
            return None
        cpu_ticks = int(fields[11]) + int(fields[12])
        return _Stat(head.partition("(")[2], int(fields[19]), cpu_ticks, max(int(fields[21]), 0) * _PAGE_BYTES)

    def _read(self, pid: int, name: str) -> str:
        """Empty if the process is gone."""
        try:
            return (self._proc / str(pid) / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
