"""The processes for one set of clients: warm clients, an MPS daemon, the card daemon and a region.

A failure is reported as ``Lost`` with a reason and affects only what depends on it. A client process that died can be
started again. Leaving the ``with`` block ends all processes.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from bench.card import ways
from bench.card.daemon import CardDaemon
from bench.card.leftovers import MPS, SHARED, new_folder, sweep
from bench.card.place import Lost, Place
from bench.card.ways import Seat
from bench.data import ROOT
from gpusquad.gpu.build import library
from gpusquad.gpu.mps import Mps
from gpusquad.gpu.region.card_region import CardRegion
from gpusquad.gpu.region.pages import ClientPage, Grant
from gpusquad.measure.channel import Channel, WorkerGone, ask_all, close_all
from gpusquad.measure.launcher import LocalLauncher
from gpusquad.model.errors import Invalid

HELLO_TIMEOUT_S, BUILD_WITHIN_S = 120.0, 120.0
MAX_STARTS = 2
"""A process that died is started again once; a cause that kills it twice would kill it always."""
_NOTICE_S = 0.15
"""Requests for a block reach all workers within this."""


@dataclass(frozen=True)
class Tenant:
    """A client and its workload."""

    name: str
    workload: str
    batch: int | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Attributes of the client for the card daemon."""
    quota_bytes: int = 0


class Stage:
    """``with Stage(place, tenants) as stage: stage.ready(seats)``."""

    def __init__(self, place: Place, tenants: Sequence[Tenant], policy: str = "slo") -> None:
        self.place, self._policy = place, policy
        self._tenants = {tenant.name: tenant for tenant in tenants}
        self._slots = {tenant.name: slot for slot, tenant in enumerate(tenants)}
        self._workers: dict[Seat, Channel] = {}
        self._starts: dict[Seat, int] = {}
        self.said: dict[Seat, dict[str, Any]] = {}
        """Answer of each process to ``hello``."""
        self.built: dict[Seat, dict[str, Any]] = {}
        """And when its model was built."""
        self._parts = contextlib.ExitStack()
        self._mps: Mps | None = None
        self._regions: dict[str, CardRegion] = {}
        self._daemons: dict[str, CardDaemon] = {}

    def __enter__(self) -> Stage:
        sweep(SHARED, self.place.card)
        self._folder = new_folder(SHARED)
        self._parts.callback(shutil.rmtree, self._folder, ignore_errors=True)
        logs = self.place.logs or self._folder / "logs"
        self._launcher = LocalLauncher(logs)
        self._logs = logs
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            close_all(list(self._workers.values()))
        finally:
            self._workers.clear()
            with contextlib.suppress(Invalid):  # the MPS daemon does not answer ``quit``
                self._parts.close()

    def ready(self, seats: Sequence[Seat], build: bool = True) -> dict[Seat, str]:
        """Starts those that are not up, all at once, and builds their models. Whom it could not, and why."""
        lost: dict[Seat, str] = {}
        fresh: list[Seat] = []
        for seat in dict.fromkeys(seats):
            if seat in self._workers:
                continue
            try:
                self._workers[seat] = self._start(seat)
                fresh.append(seat)
            except (Lost, Invalid, OSError) as error:
                lost[seat] = str(error)
        lost |= self._ask_each(fresh, "hello", HELLO_TIMEOUT_S, self.said)
        if build:
            lost |= self.build([seat for seat in dict.fromkeys(seats) if seat not in lost])
        return lost

    def build(self, seats: Sequence[Seat]) -> dict[Seat, str]:
        return self._ask_each([seat for seat in seats if seat not in self.built], "build", BUILD_WITHIN_S, self.built)

    def let_go(self, seats: Sequence[Seat]) -> None:
        """End these processes, because their memory is needed or they are no longer used."""
        for seat in seats:
            self.built.pop(seat, None)
        close_all([self._workers.pop(seat) for seat in seats if seat in self._workers])

    def together(
        self,
        asked: Mapping[Seat, tuple[str, dict[str, Any]]],
        timeout_s: float,
        meanwhile: Callable[[float], None] = lambda start_s: None,
    ) -> dict[Seat, dict[str, Any]]:
        """Let each process run its verb from a common start, which is passed to ``meanwhile``. Raises Lost if one is
        gone or fails."""
        missing = self.ready(list(asked))
        if missing:
            raise Lost("; ".join(f"{seat}: {why}" for seat, why in missing.items()))
        start_s = time.monotonic() + _NOTICE_S
        until_s = start_s + timeout_s
        answers: dict[Seat, dict[str, Any]] = {}
        problems = []
        for seat, (verb, request) in asked.items():
            try:
                self._workers[seat].send(verb, start_s=start_s, **request)
            except WorkerGone as gone:
                problems.append(self._drop(seat, str(gone)))
        if not problems:
            meanwhile(start_s)
        for seat in asked:
            if seat not in self._workers:
                continue
            try:
                answers[seat] = self._workers[seat].answer(until_s)
                if "error" in answers[seat]:
                    problems.append(self._drop(seat, answers[seat]["error"]))
            except WorkerGone as gone:
                problems.append(self._drop(seat, str(gone)))
        if problems:
            raise Lost("; ".join(problems))
        return answers

    def masks(self, masks: Mapping[str, int]) -> None:
        """Of the tenants with a grant that the bench writes. 0: the whole card."""
        quotas = {name: self._tenants[name].quota_bytes for name in masks}
        self.grants({name: Grant(quota_bytes=quotas[name], mask=mask) for name, mask in masks.items()})

    def grants(self, grants: Mapping[str, Grant], way: str = ways.FIXED) -> None:
        """Whole ones, of the tenants that share a region in this way. A tenant's slot is its place in the list."""
        self._region_of(way).write({self._slots[name]: grant for name, grant in grants.items()})

    def page(self, name: str, way: str = ways.FIXED) -> ClientPage:
        """Page of a client's processes in the region of this way."""
        return self._region_of(way).page(self._slots[name])

    def ask(self, question: Mapping[str, object], way: str = ways.SQUADS) -> dict[str, Any]:
        """Send a request to the card daemon: there is one for clients under MPS and one for those without."""
        return self._daemon_of(way).ask(question)

    def change(self, name: str, way: str = ways.SQUADS, **facts: object) -> None:
        """Tells the daemon more of a tenant."""
        self._page(name, way)
        self.ask({"do": "change", "tenant": {"id": name, **facts}}, way)

    def report_to(self, name: str, way: str = ways.SQUADS) -> dict[str, str]:
        """What a client needs to report its latencies."""
        return {"socket": str(self._daemon_of(way).socket), "id": name}

    def _start(self, seat: Seat) -> Channel:
        self._starts[seat] = self._starts.get(seat, 0) + 1
        if self._starts[seat] > MAX_STARTS:
            raise Lost("it ended too often")
        tenant, place = self._tenants[seat.tenant], self.place
        arguments = [tenant.workload, "--device", place.device]
        arguments += ["--batch", str(tenant.batch)] if tenant.batch else []
        return self._launcher.start(str(seat), self.place.module, arguments, self.environment(seat))

    def environment(self, seat: Seat) -> dict[str, str]:
        """Environment of a process in this seat, in addition to that of the bench."""
        page = ""
        if ways.needs_region(seat.way):
            page = str(self._region_of(seat.way).path(self._slots[seat.tenant]))
        elif ways.needs_daemon(seat.way):
            page = self._page(seat.tenant, seat.way)
        mps = self._with_mps() if ways.needs_mps(seat.way) else None
        env = ways.environment(seat.way, self.place.card, mps, library(), page)
        env["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        return env

    def _ask_each(
        self, seats: Sequence[Seat], verb: str, timeout_s: float, keep: dict[Seat, dict[str, Any]] | None = None
    ) -> dict[Seat, str]:
        lost: dict[Seat, str] = {}
        answers = ask_all([self._workers[seat] for seat in seats], verb, timeout_s)
        for seat, answer in zip(seats, answers, strict=True):
            if isinstance(answer, WorkerGone) or "error" in answer:
                lost[seat] = self._drop(seat, str(answer) if isinstance(answer, WorkerGone) else answer["error"])
            elif keep is not None:
                keep[seat] = answer
        return lost

    def _drop(self, seat: Seat, why: str) -> str:
        channel = self._workers.pop(seat, None)
        self.built.pop(seat, None)
        if channel is not None:
            channel.close(gracefully=False)
        return f"{seat}: {why}"

    def _with_mps(self) -> Mps:
        if self._mps is None:
            self._mps = self._parts.enter_context(Mps(self.place.card, folder=str(self._folder / MPS)))
        return self._mps

    def _region_of(self, way: str) -> CardRegion:
        """Without a heartbeat, so that its grants hold indefinitely."""
        company = ways.company(way)
        if company not in self._regions:
            place = self.place
            folder = self._folder / f"fixed-{company}"
            region = CardRegion(folder, groups=place.groups, sms_per_group=place.sms_per_group)
            for name, slot in self._slots.items():
                region.attach(slot, quota_bytes=self._tenants[name].quota_bytes)
            self._regions[company] = region
        return self._regions[company]

    def _page(self, name: str, way: str) -> str:
        tenant = self._tenants[name]
        facts = {**tenant.facts, "is_time_sliced": not ways.needs_mps(way)}
        if tenant.quota_bytes:
            facts["quota_bytes"] = tenant.quota_bytes
        return self._daemon_of(way).page(name, facts)

    def _daemon_of(self, way: str) -> CardDaemon:
        company = ways.company(way)
        if company not in self._daemons:
            self._daemons[company] = CardDaemon(
                self._folder / f"squads-{company}", self.place, self._policy, self._logs, self._parts
            )
        return self._daemons[company]
