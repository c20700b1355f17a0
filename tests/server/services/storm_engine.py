"""An engine for storms: it keeps its own books, forgets no launch, and may be slow, deaf or late."""

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
    """Holds its callers to the contract and is itself as difficult as the contract allows."""

    cluster: Cluster
    before_launch: Callable[[Launch], None] = lambda launch: None
    report: Callable[[Report], None] = lambda report: None
    running: dict[Key, Launch] = field(default_factory=dict)
    told_to_go: dict[Key, str] = field(default_factory=dict)
    ends: dict[Key, AttemptEnded] = field(default_factory=dict)
    """How each attempt that is over ended: what its status file says."""
    launches: set[Key] = field(default_factory=set)
    said: list[Report] = field(default_factory=list)
    unsaid: list[Report] = field(default_factory=list)
    """Reports that are on their way."""
    wrong: list[str] = field(default_factory=list)
    """Launches that ought not to have been."""
    slow_to_stop: bool = False
    late: bool = False
    """Reports wait until they are sent on."""
    hears: int | None = None
    """So many more calls arrive, then none: the service dies while it tells us. None: all."""
    refuses: int = 0
    """So many launches fail at once."""
    breaks: int = 0
    """So many launches raise."""

    # -- called by the scheduler -----------------------------------------------------------------------------------

    def launch(self, launch: Launch) -> None:
        if not self._arrives():
            return
        key = (launch.job_id, launch.attempt)
        try:
            assert key not in self.launches, f"{key} is launched twice"
            assert key not in self.ends, f"{key} is launched after it was given up"
            self.before_launch(launch)
            self.check_books({**self.running, key: launch})
        except AssertionError as error:
            self.wrong.append(str(error))  # the scheduler catches what a launch raises
            raise
        self.launches.add(key)
        if self.breaks:
            self.breaks -= 1
            raise RuntimeError("no more processes")
        if self.refuses:
            self.refuses -= 1
            self._over(AttemptEnded(*key, "failed", "no such command", never_started=True))
            return
        self.running[key] = launch
        self._say(AttemptStarted(*key, (1,)))

    def stop(self, job_id: str, attempt: int, cause: str, grace_s: float) -> None:
        if not self._arrives():
            return
        key = (job_id, attempt)
        if key in self.running:
            self.told_to_go[key] = cause
            if not self.slow_to_stop:
                self.end(key, "stopped", cause)
        elif key in self.ends:
            self._say(self.ends[key])
        else:
            self._over(AttemptEnded(*key, "lost", "unknown", never_started=True))

    def change(self, job_id: str, attempt: int, tasks: int, sharing_params: SharingParams) -> None: ...

    def resize(self, job_id: str, attempt: int, tasks: int, before_bytes: int, memory_bytes: int) -> None: ...

    def peak_memory_bytes(self, job_id: str, attempt: int, tasks: int) -> Sequence[int]:
        return (0,) * tasks

    def recover(self, attempts: Sequence[Key]) -> None:
        self.unsaid.clear()
        orphans = self.running.keys() - set(attempts)
        assert not orphans, f"{orphans} run and the store does not know"
        for key in attempts:
            if key in self.running:
                self._say(AttemptStarted(*key, (1,)))
            elif key in self.ends:
                self._say(self.ends[key])
            else:
                self._over(AttemptEnded(*key, "lost", "it was never started", never_started=True))

    def close(self) -> None: ...

    # -- what happens to gangs -------------------------------------------------------------------------------------

    def end(self, key: Key, how: str = "succeeded", cause: str = "") -> None:
        del self.running[key]
        self.told_to_go.pop(key, None)
        self._over(AttemptEnded(*key, how, cause))  # type: ignore[arg-type]

    def send_on(self, number: int | None = None) -> None:
        """The reports on their way arrive, the oldest first."""
        for _ in range(len(self.unsaid) if number is None else min(number, len(self.unsaid))):
            self._send(self.unsaid.pop(0))

    def say_again(self, at: int) -> None:
        """A report that came before comes once more."""
        if self.said:
            self.report(self.said[at % len(self.said)])

    # -- books -----------------------------------------------------------------------------------------------------

    def check_books(self, running: dict[Key, Launch] | None = None) -> None:
        """No card is held by two, nor given away in more parts than it has."""
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
        there = {card.id: card.memory_bytes for node in self.cluster.nodes for card in node.cards}
        for card in memory:
            assert memory[card] <= there[card], f"{card} gives {memory[card]} bytes"
            assert sm[card] <= 1000, f"{card} gives {sm[card]} thousandths"

    def _arrives(self) -> bool:
        if self.hears is None:
            return True
        self.hears -= 1
        return self.hears >= 0

    def _over(self, report: AttemptEnded) -> None:
        self.ends[report.job_id, report.attempt] = report
        self._say(report)

    def _say(self, report: Report) -> None:
        if self.late:
            self.unsaid.append(report)
        else:
            self.send_on()
            self._send(report)

    def _send(self, report: Report) -> None:
        self.said.append(report)
        self.report(report)
