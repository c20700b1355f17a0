"""Looks closer at runs that print nothing new: what their processes wait for, and where."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from gpusquad.agent.inventory import JobProcess
from gpusquad.agent.run_files import RunReading
from gpusquad.agent.serving import ServedPorts, judge_service
from gpusquad.agent.stacks import read_stacks
from gpusquad.agent.waits import WaitReader, WaitReading
from gpusquad.model.units import US_PER_S

QUIET_S = 60.0
"""Time without anything new before a run is looked at."""
_STACKS_TIMES = 4
"""The same before its stacks are read, as a multiple."""
_ALIKE_TIMES = 10
"""The same for a run whose lines differ in numbers only."""
_LOOKS = 4
"""Looks in the first of these times."""
_CALLED_TIMES = 5
"""How long a connection to somebody else counts after it was seen: requests are often short, with pauses between."""
_MANY_LINES = 10
"""Equal lines, or lines that count attempts, from which a run is watched for requests that take milliseconds."""
_NOT_BY_CALLS = ("stopped", "service", "terminal", "network", "outside")
"""What a run waits for, whatever connections it had."""
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RunInspection:
    """What a closer look showed. Of a run that is not quiet: only whether a process of it is stopped."""

    waits: str | None = None
    """A ``WaitKind``; None: not looked at."""
    waits_detail: str = ""
    stopped_us: int | None = None
    """Since when a process of it is stopped by a signal."""
    stopped_detail: str = ""
    disk_bytes: int | None = None
    """Read from and written to disks so far."""
    stacks: tuple[str, ...] = ()


@dataclass(slots=True)
class _State:
    looked_us: int = 0
    since_us: int = 0
    inspection: RunInspection = field(default_factory=RunInspection)
    ports: ServedPorts = field(default_factory=ServedPorts)
    called_us: int | None = None
    """When it was last seen to have a connection that it opened to somebody else."""
    is_watched: bool = False
    stacks_of_us: int | None = None
    """Start of the quiet period whose stacks were read."""


class QuietRuns:
    """Called at each tick with every run."""

    def __init__(
        self,
        waits: WaitReader | None = None,
        stacks: Callable[[Sequence[int]], tuple[str, ...]] = read_stacks,
        start: Callable[[Callable[[], None]], None] | None = None,
        quiet_s: float = QUIET_S,
    ) -> None:
        self._quiet_us = round(quiet_s * US_PER_S)
        self._waits = waits if waits is not None else WaitReader()
        self._stacks = stacks
        self._start = start if start is not None else _in_background
        self._states: dict[Key, _State] = {}
        self._reading = threading.Lock()

    def look(self, key: Key, reading: RunReading, processes: Sequence[JobProcess], now_us: int) -> RunInspection:
        """What is known of the run now."""
        state = self._states.setdefault(key, _State(since_us=now_us))
        state.ports = state.ports.after(now_us, reading, lambda: self._waits.listens([one.pid for one in processes]))
        pids = [process.pid for process in processes]
        if self._may_call(state, now_us) and self._waits.calls(pids):
            state.called_us = now_us
        if now_us - state.looked_us < self._quiet_us // _LOOKS:
            return state.inspection
        state.looked_us = now_us
        moved_us = max(reading.progress_at_us or 0, state.since_us)
        quiet_us = now_us - max(reading.output.retry_us or 0, moved_us)
        alike_us = now_us - max(reading.output.alike_us or 0, moved_us)
        is_quiet = quiet_us >= self._quiet_us or alike_us >= _ALIKE_TIMES * self._quiet_us
        found = self._waits.read(pids, is_gang=reading.tasks > 1) if is_quiet else WaitReading()
        if found.kind == "network" and self._waits.calls(pids):
            state.called_us = now_us
        if state.called_us is not None and now_us - state.called_us < _CALLED_TIMES * self._quiet_us:
            found = _with_calls(found)
        state.ports = state.ports.visited(found)
        found = judge_service(found, reading, state.ports)
        detail = self._waits.stopped(pids)
        before = state.inspection
        state.inspection = RunInspection(
            waits=found.kind if is_quiet else None,
            waits_detail=found.detail,
            stopped_us=(before.stopped_us or now_us) if detail else None,
            stopped_detail=detail,
            disk_bytes=self._waits.disk_bytes(pids),
            stacks=before.stacks if is_quiet else (),
        )
        may_loop = max(reading.output.repeated, reading.output.retries) >= _MANY_LINES
        if may_loop and not state.is_watched and self._may_call(state, now_us):
            state.is_watched = True
            self._start(lambda: self._watch(state, pids, now_us))
        if quiet_us >= _STACKS_TIMES * self._quiet_us and state.stacks_of_us != now_us - quiet_us:
            state.stacks_of_us = now_us - quiet_us
            self._start(lambda: self._read_stacks(state, pids))
        return state.inspection

    def _may_call(self, state: _State, now_us: int) -> bool:
        """Whether it is worth to look for short connections in this tick."""
        is_known = state.called_us is not None and now_us - state.called_us < self._quiet_us
        return state.inspection.waits not in (None, "service", "terminal") and not is_known

    def forget(self, live: Sequence[Key]) -> None:
        self._states = {key: state for key, state in self._states.items() if key in live}

    def _watch(self, state: _State, pids: Sequence[int], now_us: int) -> None:
        """In a thread of its own, until the next look."""
        lasts_us = self._quiet_us // _LOOKS
        try:
            if self._waits.calls_within(pids, lasts_us / US_PER_S):
                state.called_us = now_us + lasts_us
        finally:
            state.is_watched = False

    def _read_stacks(self, state: _State, pids: Sequence[int]) -> None:
        """In a thread of its own, one at a time: a dump takes up to seconds."""
        with self._reading:
            stacks = self._stacks(pids)
        state.inspection = replace(state.inspection, stacks=stacks)


def _with_calls(found: WaitReading) -> WaitReading:
    """The same of a run that has had a connection to somebody else since a short while."""
    if found.kind == "service" and found.besides is not None:
        return replace(found, besides=_with_calls(found.besides))
    if found.kind in _NOT_BY_CALLS:
        return found
    return WaitReading("network", "it calls another program or machine from time to time")


def _in_background(work: Callable[[], None]) -> None:
    threading.Thread(target=work, name="stacks", daemon=True).start()
