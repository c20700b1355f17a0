"""Engine for the stress tests: checks the contract and can be slow, lose calls or delay reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gpusquad.core.ports import AttemptEnded, AttemptStarted, Launch, Report
from gpusquad.model.cluster import Cluster
from gpusquad.model.sharing_params import SharingParams

Key = tuple[str, int]


@dataclass
class StormEngine:
    """Checks that its callers keep the engine contract, and behaves as badly as the contract allows."""

    cluster: Cluster
    before_launch: Callable[[Launch], None] = lambda launch: None
    report: Callable[[Report], None] = lambda report: None
    running: dict[Key, Launch] = field(default_factory=dict)
    stopping: dict[Key, str] = field(default_factory=dict)
    ends: dict[Key, AttemptEnded] = field(default_factory=dict)
    """How each finished attempt ended, as its status file would report it."""
    launches: set[Key] = field(default_factory=set)
    sent: list[Report] = field(default_factory=list)
    undelivered: list[Report] = field(default_factory=list)
    """Reports that the scheduler has not received yet."""
    invalid_launches: list[str] = field(default_factory=list)
    """Launches that broke the contract, as messages."""
    slow_to_stop: bool = False
    delays_reports: bool = False
    """Whether reports wait until `deliver` is called."""
    calls_left: int | None = None
    """Number of calls that still arrive before the service crashes. None: no crash."""
    launches_to_refuse: int = 0
    """Number of next launches that fail immediately."""
    launches_to_raise: int = 0
    """Number of next launches that raise."""

    # -- called by the scheduler -----------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        if not self._is_received():
            return
        key = (launch.job_id, launch.attempt)
        try:
            assert key not in self.launches, f"{key} is launched twice"
            assert key not in self.ends, f"{key} is launched after it was given up"
            self.before_launch(launch)
            self.check_cards({**self.running, key: launch})
        except AssertionError as error:
            self.invalid_launches.append(
                str(error)
            )  # recorded too, because the scheduler catches exceptions of a launch
            raise
        self.launches.add(key)
        if self.launches_to_raise:
            self.launches_to_raise -= 1
            raise RuntimeError("no more processes")
        if self.launches_to_refuse:
            self.launches_to_refuse -= 1
            self._record_end(AttemptEnded(*key, "failed", "no such command", never_started=True))
            return
        self.running[key] = launch
        self._report(AttemptStarted(*key, (1,)))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        if not self._is_received():
            return
        key = (job_id, attempt)
        if key in self.running:
            self.stopping[key] = cause
            if not self.slow_to_stop:
                self.end(key, "stopped", cause)
        elif key in self.ends:
            self._report(self.ends[key])
        else:
            self._record_end(AttemptEnded(*key, "lost", "unknown", never_started=True))

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None: ...

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None: ...

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        return (0,) * tasks

    def recover(self, attempts: Sequence[Key]) -> None:
        self.undelivered.clear()
        orphans = self.running.keys() - set(attempts)
        assert not orphans, f"{orphans} run and the store does not know"
        for key in attempts:
            if key in self.running:
                self._report(AttemptStarted(*key, (1,)))
            elif key in self.ends:
                self._report(self.ends[key])
            else:
                self._record_end(AttemptEnded(*key, "lost", "it was never started", never_started=True))

    def close(self) -> None: ...

    # -- what happens to gangs -------------------------------------------------------------------------------------

    def end(self, key: Key, how: str = "succeeded", cause: str = "") -> None:
        del self.running[key]
        self.stopping.pop(key, None)
        self._record_end(AttemptEnded(*key, how, cause))  # type: ignore[arg-type]

    def deliver(self, number: int | None = None) -> None:
        """Deliver the first `number` delayed reports, or all of them, oldest first."""
        for _ in range(len(self.undelivered) if number is None else min(number, len(self.undelivered))):
            self._send(self.undelivered.pop(0))

    def resend(self, at: int) -> None:
        """Deliver an earlier report a second time."""
        if self.sent:
            self.report(self.sent[at % len(self.sent)])

    # -- card accounting -------------------------------------------------------------------------------------------

    def check_cards(self, running: dict[Key, Launch] | None = None) -> None:
        """Check that no whole card has two holders and that no card's memory or SMs are oversubscribed."""
        whole, memory, sm = Counter(), Counter(), Counter()
        for launch in (self.running if running is None else running).values():
            for task in launch.tasks:
                for card in task.cards:
                    if task.share is None:
                        whole[card] += 1
                    else:
                        memory[card] += task.share.memory_bytes
                        sm[card] += task.share.sm_milli
        for card, holders in whole.items():
            assert holders == 1, f"{card} is held by {holders}"
            assert memory[card] == sm[card] == 0, f"{card} is held whole and shared"
        capacity_bytes = {card.id: card.memory_bytes for node in self.cluster.nodes for card in node.cards}
        for card in memory:
            assert memory[card] <= capacity_bytes[card], f"{card} gives {memory[card]} bytes"
            assert sm[card] <= 1000, f"{card} gives {sm[card]} thousandths"

    def _is_received(self) -> bool:
        if self.calls_left is None:
            return True
        self.calls_left -= 1
        return self.calls_left >= 0

    def _record_end(self, report: AttemptEnded) -> None:
        self.ends[report.job_id, report.attempt] = report
        self._report(report)

    def _report(self, report: Report) -> None:
        if self.delays_reports:
            self.undelivered.append(report)
        else:
            self.deliver()
            self._send(report)

    def _send(self, report: Report) -> None:
        self.sent.append(report)
        self.report(report)
