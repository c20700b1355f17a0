"""The workers that are up: started side by side, kept warm, and let go when room or processes run short."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusquad.measure.cells import MeasurementCell
from gpusquad.measure.channel import Channel, WorkerGone, ask_all, close_all

HELLO_WITHIN_S = 180.0
PARK_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True, order=True)
class WorkerId:
    """A workload at a share; twins are told apart by number. The share is of the process: it cannot change later."""

    workload: str
    sm_milli: int
    copy: int = 0

    def __str__(self) -> str:
        return f"{self.workload.replace(':', '.').replace('/', '.')}-{self.sm_milli}-{self.copy}"


@dataclass(slots=True, eq=False)
class Worker:
    """One process."""

    id: WorkerId
    channel: Channel
    pid: int = 0
    is_built: bool = False
    context_bytes: int = 0
    """What it holds while it is parked."""
    held_bytes: int = 0
    """What it holds when built, by the last time that was looked at."""

    @property
    def now_bytes(self) -> int:
        return max(self.held_bytes, self.context_bytes) if self.is_built else self.context_bytes


Start = Callable[[WorkerId], Channel]


@dataclass(slots=True)
class WorkerPool:
    """Workers by what they are; the least recently used first."""

    start: Start
    most: int = 40
    """Processes at a time: MPS serves 48 clients on older drivers, and each takes a gigabyte or more of the host."""
    workers: dict[WorkerId, Worker] = field(default_factory=dict)

    def ready(self, wanted: Sequence[WorkerId]) -> dict[WorkerId, WorkerGone]:
        """Starts those that are not up, all at once. Where there are too many, those go that were not used for long.

        Gives back who did not come up.
        """
        missing = [one for one in dict.fromkeys(wanted) if one not in self.workers]
        over = len(self.workers) + len(missing) - self.most
        self._let_go([one for one in self.workers if one not in wanted][: max(0, over)])
        started = [Worker(one, self.start(one)) for one in missing]
        lost: dict[WorkerId, WorkerGone] = {}
        answers = ask_all([one.channel for one in started], "hello", HELLO_WITHIN_S)
        for worker, answer in zip(started, answers, strict=True):
            if isinstance(answer, WorkerGone) or "error" in answer:
                lost[worker.id] = (
                    answer if isinstance(answer, WorkerGone) else WorkerGone(f"{worker.id}: {answer['error']}")
                )
                worker.channel.close(politely=False)
            else:
                worker.pid = int(answer["pid"])
                self.workers[worker.id] = worker
        return lost

    def use(self, one: WorkerId) -> Worker:
        worker = self.workers.pop(one)
        self.workers[one] = worker  # to the end: used last
        return worker

    def drop(self, worker: Worker) -> None:
        """It hangs or has ended: nothing more is asked of it."""
        worker.channel.close(politely=False)
        self.workers.pop(worker.id, None)

    def ask(self, workers: Sequence[Worker], do: str, within_s: float, **request: Any) -> list[dict[str, Any]]:
        """Asks all. Gone: one of them is, or answers that it cannot; those that are gone are dropped."""
        return [_sound(worker, answer) for worker, answer in self.try_ask(workers, do, within_s, **request)]

    def try_ask(
        self, workers: Sequence[Worker], do: str, within_s: float, **request: Any
    ) -> list[tuple[Worker, dict[str, Any] | WorkerGone]]:
        answers = ask_all([one.channel for one in workers], do, within_s, **request)
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, WorkerGone):
                self.drop(worker)
        return list(zip(workers, answers, strict=True))

    def park(self, workers: Iterable[Worker]) -> None:
        asked = [one for one in workers if one.is_built]
        for one in asked:
            one.is_built = False
        self.ask(asked, "park", PARK_WITHIN_S)

    def close(self) -> None:
        self._let_go(list(self.workers))

    def keep_only(self, needed: Container[WorkerId]) -> None:
        self._let_go([one for one in self.workers if one not in needed])

    def _let_go(self, ids: Sequence[WorkerId]) -> None:
        close_all([self.workers.pop(one).channel for one in ids])


def _sound(worker: Worker, answer: Mapping[str, Any] | WorkerGone) -> dict[str, Any]:
    if isinstance(answer, WorkerGone):
        raise answer
    if "error" in answer:
        raise WorkerGone(f"{worker.id}: {answer['error']}")
    return dict(answer)


def workers_of(cell: MeasurementCell) -> list[WorkerId]:
    """Which workers a cell needs: twins are two."""
    seen: dict[tuple[str, int], int] = {}
    found = []
    for part in cell.parts:
        copy = seen.get((part.workload, part.sm_milli), 0)
        seen[part.workload, part.sm_milli] = copy + 1
        found.append(WorkerId(part.workload, part.sm_milli, copy))
    return found
