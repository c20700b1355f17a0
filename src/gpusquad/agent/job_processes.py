"""Processes of each run and their resource use, from /proc."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.wire import WatchedRun

Owner = tuple[str, int]
"""A job's id and an attempt."""

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_ENVIRONMENT_BYTES = 256 * 1024
_LOOKS = 3
"""A process carries its parent's environment until it execs, so one reading without a mark proves nothing."""
_JOB_ID = re.compile(r"[A-Za-z0-9_.-]{1,64}")


@dataclass(frozen=True, slots=True)
class _Stat:
    pid: int
    parent: int
    name: str
    start: int
    """In ticks since boot: with the pid it identifies a process permanently."""
    cpu_ticks: int
    rss_bytes: int

    @property
    def key(self) -> tuple[int, int]:
        return (self.pid, self.start)


@dataclass(frozen=True, slots=True)
class _Mark:
    """What the engine wrote into a task's environment."""

    owner: Owner
    cards: tuple[str, ...] | None


class Processes:
    """The processes of the current runs. Scan once per tick; owners can then be queried for any pid."""

    def __init__(self, proc: Path = Path("/proc"), clock_s: Callable[[], float] = time.monotonic) -> None:
        self._proc = str(proc)
        self._clock_s = clock_s
        self._looked_s: float | None = None
        self._stats: dict[int, _Stat] = {}
        self._cpu_ticks: dict[tuple[int, int], int] = {}
        self._marks: dict[tuple[int, int], _Mark] = {}
        self._unmarked: dict[tuple[int, int], int] = {}
        self._by_pid: dict[int, Owner] = {}
        self._owners: dict[int, Owner | None] = {}

    def look(self, runs: Iterable[WatchedRun]) -> list[JobProcess]:
        """Every process of these runs now."""
        live = {(run.job, run.attempt): run for run in runs}
        self._by_pid = {pid: owner for owner, run in live.items() for pid in run.pids}
        self._stats = self._scan() if live else {}
        self._owners = {}
        self._forget_the_dead()
        now_s = self._clock_s()
        passed_s = None if self._looked_s is None else now_s - self._looked_s
        owned = [(stat, owner) for stat in self._stats.values() if (owner := self.owner(stat.pid)) in live]
        found = [self._describe(stat, live[owner], passed_s) for stat, owner in owned]
        self._cpu_ticks = {stat.key: stat.cpu_ticks for stat, _ in owned}
        self._looked_s = now_s
        return found

    def owner(self, pid: int) -> Owner | None:
        """The run of a process: from its environment, otherwise from its ancestors."""
        if pid not in self._owners:
            self._owners[pid] = self._find_owner(self._stat(pid))
        return self._owners[pid]

    def name(self, pid: int) -> str:
        """The short name of a program; empty if the process is not visible."""
        stat = self._stat(pid)
        return stat.name if stat is not None else ""

    # -- ownership ---------------------------------------------------------------------------------------------------

    def _find_owner(self, stat: _Stat | None) -> Owner | None:
        mark = self._mark(stat) if stat is not None else None
        return mark.owner if mark is not None else self._owner_by_ancestry(stat)

    def _owner_by_ancestry(self, stat: _Stat | None) -> Owner | None:
        seen: set[int] = set()
        # Parents read at different times may form a cycle.
        while stat is not None and stat.pid > 1 and stat.pid not in seen:
            if stat.pid in self._by_pid:
                return self._by_pid[stat.pid]
            seen.add(stat.pid)
            stat = self._stat(stat.parent)
        return None

    def _mark(self, stat: _Stat) -> _Mark | None:
        mark = self._marks.get(stat.key)
        looks = self._unmarked.get(stat.key, 0)
        if mark is not None or looks >= _LOOKS:
            return mark
        mark = _read_mark(self._read(stat.pid, "environ", _ENVIRONMENT_BYTES))
        if mark is None:
            self._unmarked[stat.key] = looks + 1
        else:
            self._marks[stat.key] = mark
        return mark

    def _forget_the_dead(self) -> None:
        alive = {stat.key for stat in self._stats.values()}
        self._marks = {key: mark for key, mark in self._marks.items() if key in alive}
        self._unmarked = {key: looks for key, looks in self._unmarked.items() if key in alive}

    # -- resource use ------------------------------------------------------------------------------------------------

    def _describe(self, stat: _Stat, run: WatchedRun, passed_s: float | None) -> JobProcess:
        mark = self._marks.get(stat.key)
        cards = mark.cards if mark is not None and mark.cards is not None else run.cards
        before = self._cpu_ticks.get(stat.key)
        cpu_ratio = None
        if before is not None and passed_s:
            cpu_ratio = max(stat.cpu_ticks - before, 0) / _TICKS_PER_S / passed_s
        return JobProcess(stat.pid, stat.name, run.job, run.attempt, cards, cpu_ratio, stat.rss_bytes)

    # -- /proc -------------------------------------------------------------------------------------------------------

    def _scan(self) -> dict[int, _Stat]:
        stats = (self._read_stat(int(name)) for name in os.listdir(self._proc) if name.isdigit())
        return {stat.pid: stat for stat in stats if stat is not None}

    def _stat(self, pid: int) -> _Stat | None:
        return self._stats.get(pid) or self._read_stat(pid)

    def _read_stat(self, pid: int) -> _Stat | None:
        return _parse_stat(pid, self._read(pid, "stat", 4096))

    def _read(self, pid: int, name: str, limit: int) -> bytes:
        """Empty if the process has ended or may not be read."""
        try:
            with open(f"{self._proc}/{pid}/{name}", "rb") as file:
                return file.read(limit)
        except OSError:
            return b""


def total_cpu_ratio(processes: Sequence[JobProcess]) -> float | None:
    """None: none of them was seen twice yet."""
    known = [process.cpu_ratio for process in processes if process.cpu_ratio is not None]
    return sum(known) if known else None


def _parse_stat(pid: int, data: bytes) -> _Stat | None:
    # The name is in parentheses and may itself contain spaces and parentheses.
    head, closing, tail = data.rpartition(b")")
    fields = tail.split()
    if not closing or len(fields) < 22:
        return None
    name = head.partition(b"(")[2].decode("utf-8", "replace")
    try:
        cpu_ticks = int(fields[11]) + int(fields[12])
        return _Stat(pid, int(fields[1]), name, int(fields[19]), cpu_ticks, max(int(fields[21]), 0) * _PAGE_BYTES)
    except ValueError:
        return None


def _read_mark(environment: bytes) -> _Mark | None:
    values: dict[str, str] = {}
    for entry in environment.split(b"\0"):
        if entry.startswith(b"GPUSQUAD_"):
            key, _, value = entry.decode("utf-8", "replace").partition("=")
            values[key] = value
    job, attempt = values.get("GPUSQUAD_JOB", ""), values.get("GPUSQUAD_ATTEMPT", "")
    # Any process can set variables: accept only what an engine would write.
    if not _JOB_ID.fullmatch(job) or not re.fullmatch(r"[0-9]{1,9}", attempt):
        return None
    cards = values.get("GPUSQUAD_CARDS")
    return _Mark((job, int(attempt)), None if cards is None else tuple(filter(None, cards.split(","))))
