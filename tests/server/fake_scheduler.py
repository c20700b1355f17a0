"""A scheduler without decisions: it stores jobs in the real store, gives fixed answers and can be made to fail."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

from gpusquad.core.transitions import FINAL
from gpusquad.model.codec import job_to_dict
from gpusquad.model.errors import Invalid
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.units import US_PER_S
from gpusquad.model.views import RunTimePrediction
from gpusquad.modes import load_mode
from gpusquad.server.answers import (
    AccuracyAnswer,
    CardStatus,
    CardUser,
    ClusterStatus,
    EndAnswer,
    HangStatus,
    HeldEntry,
    JobChange,
    NodeStatus,
    PolicyPreview,
    PolicyStatus,
    QueueEntry,
    TaskPlace,
    WhatIfAnswer,
    WhenAnswer,
    Who,
    WhyAnswer,
    WindowStatus,
)
from gpusquad.server.errors import Conflict, JobRefused, NotFound
from gpusquad.server.ids import new_id
from gpusquad.spec.check import spec_to_dict
from gpusquad.spec.convert import to_job
from gpusquad.spec.model import JobSpec
from gpusquad.store import events, jobs, policy
from gpusquad.store.database import Database
from gpusquad.store.jobs import JobFilter, JobRow

GPUS = 8
NODE = "node0"
MODES = ("fifo", "fair", "slo")
FAR_US = 2**62
"""Time that the core uses for "never"."""


class FakeScheduler:
    """See ``server.wiring.SchedulerPort``."""

    context = neighbours = forecaster = None
    """It has no plan and learns nothing."""

    def __init__(self, database: Database, now_us: Callable[[], int]) -> None:
        self._database = database
        self._now_us = now_us
        self._lock = threading.Lock()
        self._listeners: list[Callable[..., None]] = []
        self._windows: dict[str, WindowStatus] = {}
        self._marks: dict[str, str] = {}
        self._policy = PolicyStatus(0, "fifo", "fifo", "easy", "binpack", {"by": "none"}, MODES, 0, "")
        self.doubted: list[str] = []
        """Cards that their agents shall test."""
        self.fail: Exception | None = None
        """Raised by every call while it is set."""
        self.gate: threading.Event | None = None
        """If set, slow answers wait for it."""
        self.is_ready = True
        self.tenants_read = 0

    def wanted(self) -> list[str]:
        return self.doubted

    @property
    def queries(self) -> FakeScheduler:
        return self

    node_service = policy_service = suspects = hangs = queries

    def warnings(self, row: JobRow) -> list[HangStatus]:
        return [HangStatus("silent", 0, 60, "no output", "check it", None)] if row.state == "running" else []

    # -- jobs ------------------------------------------------------------------------------------------------------

    def submit(
        self, specs: Sequence[JobSpec], who: Who, group_id: str | None = None, key: str | None = None
    ) -> list[JobRow]:
        self._may_fail()
        if key is not None:
            group_id = hashlib.sha256(f"{who.user}\0{key}".encode()).hexdigest()[:26]
        now_us = self._now_us()
        rows = [self._row(spec, who, group_id, now_us) for spec in specs]
        with self._lock, self._database.write() as c:
            if key is not None and (before := jobs.by_group(c, group_id or "")):
                return before
            first = jobs.next_sequence(c)
            rows = [replace(row, sequence=first + at) for at, row in enumerate(rows)]
            jobs.insert(c, rows)
            for row in rows:
                events.append(c, row.id, now_us, "pending", row.state, 0, actor=who.user)
        self._notify_listeners()
        return rows

    def cancel(self, job_id: str, who: Who, cause: str) -> None:
        self.move(job_id, "cancelled", cause, actor=who.user)

    def hold(self, job_id: str, who: Who) -> None:
        self.move(job_id, "held", actor=who.user, only=("pending", "held"))

    def release(self, job_id: str, who: Who) -> None:
        self.move(job_id, "pending", actor=who.user, only=("held",))

    def update(self, job_id: str, change: JobChange, who: Who) -> None:
        self._may_fail()
        row = self._unfinished(job_id)
        if change.priority not in (None, "low", "normal", "high", "urgent"):
            raise Invalid("priority", f"{change.priority!r} is not known")
        changed = {name: getattr(change, name) for name in ("name", "priority", "queue", "lane")}
        with self._database.write() as c:
            jobs.change(c, row.id, **{name: value for name, value in changed.items() if value is not None})

    def move(
        self, job_id: str, state: str, cause: str = "", *, actor: str = "", only: Sequence[str] = (), **columns: Any
    ) -> None:
        """Change the state of a job, as the engine's reports would."""
        self._may_fail()
        row = self._unfinished(job_id)
        if only and row.state not in only:
            raise Conflict(f"job {job_id} is {row.state}")
        now_us = self._now_us()
        if state in FINAL:
            columns.setdefault("ended_us", now_us)
        with self._database.write() as c:
            jobs.change(c, job_id, state=state, cause=cause, **columns)
            events.append(c, job_id, now_us, state, state, columns.get("attempt", row.attempt), cause, actor=actor)
        self._notify_listeners()

    # -- answers ---------------------------------------------------------------------------------------------------

    def why(self, job_id: str) -> WhyAnswer:
        self._wait_for_gate()
        self._unfinished(job_id)
        return WhyAnswer(1, [Reason(ReasonCode.NO_CARDS, "needs 8 GPUs, 2 idle", "wait", {"needed": 8.0, "idle": 2.0})])

    def when(self, job_id: str) -> WhenAnswer:
        self._wait_for_gate()
        self._unfinished(job_id)
        now_us = self._now_us()
        forecast = RunTimePrediction(60 * US_PER_S, FAR_US, "history")
        return WhenAnswer(1, now_us, FAR_US, None, forecast, AccuracyAnswer(10, 0.9, 12.5, -7.5))

    def what_if(self, spec: JobSpec, who: Who) -> WhatIfAnswer:
        self._wait_for_gate()
        row = self._row(spec, who, None, self._now_us(), refuse=False)
        refused = _never_fits(row.gpus) if row.gpus > GPUS else None
        with self._database.read() as c:
            others = [row.id for row in jobs.unfinished(c)]
        return WhatIfAnswer(
            refused, refused is None, self._now_us(), None, None, None, (TaskPlace(0, NODE, (f"{NODE}/0",)),),
            tuple((job_id, US_PER_S) for job_id in others), tuple(others),
        )  # fmt: skip

    def ends(self) -> dict[str, EndAnswer]:
        return {}

    def queue(self, offset: int, limit: int, tenant: str | None = None) -> list[QueueEntry]:
        self._may_fail()
        with self._database.read() as c:
            waiting = jobs.find(c, JobFilter(("pending",), sort="submitted"), 100_000).items
        placed = [(at, row.id) for at, row in enumerate(waiting, 1) if tenant in (None, row.tenant)]
        return [QueueEntry(job_id, at, None, FAR_US, "no_cards", "") for at, job_id in placed[offset : offset + limit]]

    def held(self, limit: int, tenant: str | None = None) -> list[HeldEntry]:
        self._may_fail()
        with self._database.read() as c:
            rows = jobs.find(c, JobFilter(("held",), None if tenant is None else (tenant,), sort="submitted"), limit)
        return [HeldEntry(row.id, "suspected") for row in rows.items]

    # -- nodes and cards -------------------------------------------------------------------------------------------

    def nodes(self) -> list[NodeStatus]:
        self._may_fail()
        cards, windows = tuple(self.cards()), tuple(self.windows())
        return [NodeStatus(NODE, NODE in self._marks, 64_000, 32_000, 2**38, 2**37, cards, windows)]

    def cards(self) -> list[CardStatus]:
        with self._database.read() as c:
            running = jobs.find(c, JobFilter(("running",), sort="submitted"), GPUS).items
        users = {at: (CardUser(row.id, row.name, row.user, row.tenant),) for at, row in enumerate(running)}
        return [
            CardStatus(
                f"{NODE}/{at}", NODE, at, "H100", 80 * 2**30, "busy" if at in users else "free", jobs=users.get(at, ()),
                sample={"power_w": 300.0},
            )
            for at in range(GPUS)
        ]  # fmt: skip

    def cluster(self) -> ClusterStatus:
        self._may_fail()
        return ClusterStatus(GPUS, GPUS, {1: 8, 2: 4, 4: 2, 8: 1}, 0, 0, True, self._policy.mode)

    def drain(self, node: str, who: Who, cause: str) -> None:
        self._known(node, {NODE})
        self._marks[node] = cause

    def undrain(self, node: str) -> None:
        self._known(node, {NODE})
        self._marks.pop(node, None)

    def cordon(self, card: str, who: Who, cause: str) -> None:
        self._known(card, {known.id for known in self.cards()})
        self._marks[card] = cause

    def uncordon(self, card: str) -> None:
        self._known(card, {known.id for known in self.cards()})
        self._marks.pop(card, None)

    def windows(self) -> list[WindowStatus]:
        return list(self._windows.values())

    def add_window(self, nodes: Sequence[str], start_us: int, end_us: int | None, who: Who, cause: str) -> WindowStatus:
        for node in nodes:
            self._known(node, {NODE})
        window = WindowStatus(new_id(), tuple(nodes), start_us, end_us, who.user, cause)
        self._windows[window.id] = window
        return window

    def remove_window(self, window_id: str) -> None:
        self._known(window_id, set(self._windows))
        del self._windows[window_id]

    # -- policy ----------------------------------------------------------------------------------------------------

    def status(self) -> PolicyStatus:
        self._may_fail()
        return self._policy

    @property
    def divide(self) -> str:
        return self._policy.divide

    def set(self, wanted: Mapping[str, Any], who: Who, note: str) -> PolicyStatus:
        _check_mode(wanted)
        now_us = self._now_us()
        with self._database.write() as c:
            number = policy.append(c, now_us, who.user, dict(wanted), note)
        mode = wanted.get("mode", self._policy.mode)
        divide = load_mode(mode).divide
        self._policy = replace(
            self._policy, revision=number, mode=mode, at_us=now_us, by=who.user, note=note, divide=divide
        )
        return self._policy

    def preview(self, wanted: Mapping[str, Any]) -> PolicyPreview:
        self._wait_for_gate()
        _check_mode(wanted)
        return PolicyPreview(("a",), (), (("b", US_PER_S, None),))

    def reload_tenants(self) -> None:
        self.tenants_read += 1

    def ready(self) -> tuple[bool, str]:
        return self.is_ready, "" if self.is_ready else "the scheduler is not running"

    def on_event(self, callback: Callable[..., None]) -> None:
        self._listeners.append(callback)

    # -- internal ----------------------------------------------------------------------------------------------------

    def _row(self, spec: JobSpec, who: Who, group_id: str | None, now_us: int, refuse: bool = True) -> JobRow:
        job = to_job(spec, new_id(), now_us, spec.tenant or who.tenant, who.user)
        if refuse and job.gpus > GPUS:
            raise JobRefused(_never_fits(job.gpus))
        return JobRow(
            id=job.id, name=job.name, tenant=job.tenant, user=job.user, group_id=group_id, submitted_us=now_us,
            gpus=job.gpus, gpu_milli=job.gpu_milli, spec=spec_to_dict(spec), core=job_to_dict(job),
        )  # fmt: skip

    def _unfinished(self, job_id: str) -> JobRow:
        with self._database.read() as c:
            row = jobs.get(c, job_id)
        if row is None:
            raise NotFound(f"there is no job {job_id!r}")
        if row.state in FINAL:
            raise Conflict(f"job {job_id} is over: {row.state}")
        return row

    def _known(self, name: str, names: Set[str]) -> None:
        self._may_fail()
        if name not in names:
            raise NotFound(f"there is no {name!r}")

    def _wait_for_gate(self) -> None:
        self._may_fail()
        if self.gate is not None:
            self.gate.wait(30)

    def _may_fail(self) -> None:
        if self.fail is not None:
            raise self.fail

    def _notify_listeners(self) -> None:
        for listener in self._listeners:
            listener([])


def _never_fits(gpus: int) -> Reason:
    return Reason(
        ReasonCode.NEVER_FITS, f"needs {gpus} GPUs, there are {GPUS}", "ask for less", {"needed": float(gpus)}
    )


def _check_mode(settings: Mapping[str, Any]) -> None:
    if settings.get("mode", "fifo") not in MODES:
        raise Invalid("mode", f"there is no mode {settings['mode']!r}", f"choose from {', '.join(MODES)}")
