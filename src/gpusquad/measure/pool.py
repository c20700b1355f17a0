"""The running workers: started in parallel, kept warm, and stopped when memory or processes run short."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusquad.measure.cells import MeasurementCell
from gpusquad.measure.channel import Channel, WorkerGone, ask_all, close_all

HELLO_TIMEOUT_S = 180.0
PARK_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, order=True)
class WorkerId:
    """A workload with its SMs. Copies are distinguished by number. The SMs belong to the process and cannot change
    later.
    """

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
    """Memory held while parked."""
    held_bytes: int = 0
    """Memory held when built, as last measured."""

    @property
    def now_bytes(self) -> int:
        return max(self.held_bytes, self.context_bytes) if self.is_built else self.context_bytes


Start = Callable[[WorkerId], Channel]


@dataclass(slots=True)
class WorkerPool:
    """Workers by id, the least recently used first."""

    start: Start
    most: int = 40
    """Largest number of processes: MPS serves 48 clients on older drivers, and each takes a gigabyte or more of host
    memory.
    """
    workers: dict[WorkerId, Worker] = field(default_factory=dict)

    def ready(self, wanted: Sequence[WorkerId]) -> dict[WorkerId, WorkerGone]:
        """Start the missing workers in parallel. If there are too many, the least recently used are stopped. Returns
        the workers that did not start.
        """
        missing = [one for one in dict.fromkeys(wanted) if one not in self.workers]
        over = len(self.workers) + len(missing) - self.most
        self._stop_workers([one for one in self.workers if one not in wanted][: max(0, over)])
        started = [Worker(one, self.start(one)) for one in missing]
        lost: dict[WorkerId, WorkerGone] = {}
        answers = ask_all([one.channel for one in started], "hello", HELLO_TIMEOUT_S)
        for worker, answer in zip(started, answers, strict=True):
            if isinstance(answer, WorkerGone) or "error" in answer:
                lost[worker.id] = (
                    answer if isinstance(answer, WorkerGone) else WorkerGone(f"{worker.id}: {answer['error']}")
                )
                worker.channel.close(gracefully=False)
            else:
                worker.pid = int(answer["pid"])
                self.workers[worker.id] = worker
        return lost

    def use(self, one: WorkerId) -> Worker:
        worker = self.workers.pop(one)
        self.workers[one] = worker  # move to the end: most recently used
        return worker

    def drop(self, worker: Worker) -> None:
        """Drop a worker that hangs or has ended."""
        worker.channel.close(gracefully=False)
        self.workers.pop(worker.id, None)

    def ask(self, workers: Sequence[Worker], do: str, timeout_s: float, **request: Any) -> list[dict[str, Any]]:
        """Send a request to all. Raises WorkerGone if one of them is gone or reports an error. Those that are gone are
        dropped.
        """
        return [_checked_answer(worker, answer) for worker, answer in self.try_ask(workers, do, timeout_s, **request)]

    def try_ask(
        self, workers: Sequence[Worker], do: str, timeout_s: float, **request: Any
    ) -> list[tuple[Worker, dict[str, Any] | WorkerGone]]:
        answers = ask_all([one.channel for one in workers], do, timeout_s, **request)
        for worker, answer in zip(workers, answers, strict=True):
            if isinstance(answer, WorkerGone):
                self.drop(worker)
        return list(zip(workers, answers, strict=True))

    def park(self, workers: Iterable[Worker]) -> None:
        asked = [one for one in workers if one.is_built]
        for one in asked:
            one.is_built = False
        self.ask(asked, "park", PARK_TIMEOUT_S)

    def close(self) -> None:
        self._stop_workers(list(self.workers))

    def keep_only(self, needed: Container[WorkerId]) -> None:
        self._stop_workers([one for one in self.workers if one not in needed])

    def _stop_workers(self, ids: Sequence[WorkerId]) -> None:
        close_all([self.workers.pop(one).channel for one in ids])


def _checked_answer(worker: Worker, answer: Mapping[str, Any] | WorkerGone) -> dict[str, Any]:
    if isinstance(answer, WorkerGone):
        raise answer
    if "error" in answer:
        raise WorkerGone(f"{worker.id}: {answer['error']}")
    return dict(answer)


def workers_of(cell: MeasurementCell) -> list[WorkerId]:
    """The workers that a cell needs. Two copies of a workload are two workers."""
    seen: dict[tuple[str, int], int] = {}
    found = []
    for part in cell.parts:
        copy = seen.get((part.workload, part.sm_milli), 0)
        seen[part.workload, part.sm_milli] = copy + 1
        found.append(WorkerId(part.workload, part.sm_milli, copy))
    return found
