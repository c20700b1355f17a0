"""Runs the cells: starts their workers, gives them a common start time, and monitors the card meanwhile."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from gpusquad.measure.card.memory import free_for, to_park
from gpusquad.measure.cells import CellRepeat, MeasurementCell
from gpusquad.measure.channel import Channel, WorkerGone
from gpusquad.measure.launcher import Launcher
from gpusquad.measure.pool import Worker, WorkerId, WorkerPool, workers_of
from gpusquad.measure.windows import Measurement
from gpusquad.model.errors import Invalid

MONITOR_TIMEOUT_S = 60.0
_TAIL_S = 0.05
_TRIES = 6
_MAX_DELAY_S = 3.0
_MIN_STEPS = 3
_MAX_STRETCH = 4
"""A window with too few steps of a workload is lengthened, up to this factor."""
_SLACK_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class CardUnderTest:
    """The card that is measured."""

    gpu: str
    driver: str
    total_bytes: int


@dataclass(frozen=True, slots=True)
class Options:
    """How to measure."""

    length_s: float = 1.0
    lead_in_s: float = 0.2
    """Time that workloads run together before counting starts."""
    memory_bytes: int | None = None
    """Card memory for all workloads of a cell together. None: all of it."""
    max_workers: int = 40
    answer_timeout_s: float = 20.0
    """A worker whose answer for a window is this late hangs. One step of the slowest workload is far shorter."""
    build_timeout_s: float = 180.0
    arguments: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Arguments of a workload's worker, if they are more than its name."""


Env = Callable[[int], Mapping[str, str]]
"""The environment of a worker with this many thousandths of the SMs."""
ReportProgress = Callable[[int, int, str], None]
"""Progress: done, total, description of the next cell."""


class SeriesRunner:
    """``with SeriesRunner(…) as runner: runner.play(cell_repeats, record)``."""

    def __init__(self, launcher: Launcher, env: Env, options: Options, card: str = "0") -> None:
        self._launcher = launcher
        self._env = env
        self._options = options
        self._card = card
        self._pool = WorkerPool(self._start, options.max_workers)
        self._monitor: Channel | None = None
        self._clock_offset_s = 0.0
        self._delay_s = launcher.start_delay_s
        self._begun_s = time.monotonic()
        self._lengths_s: dict[MeasurementCell, float] = {}
        """Of cells that need longer windows."""
        self.card = CardUnderTest("", "", 0)

    def __enter__(self) -> SeriesRunner:
        module = "gpusquad.measure.card.monitor"
        self._monitor = self._launcher.start("monitor", module, ["--card", self._card], self._env(1000))
        try:
            asked_s = time.monotonic()
            seen = self._ask_monitor("hello")
            self._clock_offset_s = float(seen["now_s"]) - (asked_s + time.monotonic()) / 2
            self.card = CardUnderTest(str(seen["gpu"]), str(seen["driver"]), int(seen["total_bytes"]))
        except WorkerGone as lost:
            self.__exit__()
            raise Invalid("card", str(lost)) from None
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        if self._monitor is not None:
            self._monitor.close()

    def play(
        self,
        cell_repeats: Sequence[CellRepeat],
        record: Callable[[Measurement], None],
        report: ReportProgress = lambda done, of, what: None,
        until_s: float = float("inf"),
    ) -> None:
        """Measure all repeats in their order, until the time is up. A cell that does not fit or fails is not tried
        again.
        """
        given_up: set[MeasurementCell] = set()
        done = 0
        for _, stage in groupby(cell_repeats, key=lambda cell_repeat: cell_repeat.stage):
            stage_repeats = list(stage)
            self._pool.keep_only({one for cell_repeat in cell_repeats[done:] for one in workers_of(cell_repeat.cell)})
            self._prepare(stage_repeats, until_s)
            for cell_repeat in stage_repeats:
                if time.monotonic() >= until_s:
                    return
                done += 1
                if cell_repeat.cell in given_up:
                    continue
                report(done, len(cell_repeats), str(cell_repeat.cell))
                measured = self.measure(cell_repeat)
                if measured.failed or not measured.fits:
                    given_up.add(cell_repeat.cell)
                record(measured)

    def measure(self, cell_repeat: CellRepeat) -> Measurement:
        """Measure one window. A failure of a worker is the result of this cell only."""
        at_s = time.monotonic() - self._begun_s
        length_s = self._lengths_s.get(cell_repeat.cell, self._options.length_s)
        try:
            lost = self._pool.ready(ids := workers_of(cell_repeat.cell))
            if lost:
                raise next(iter(lost.values()))
            workers = [self._pool.use(one) for one in ids]
            full = self._make_ready(workers)
            if any(full):
                return Measurement(cell_repeat.cell, cell_repeat.repeat, length_s, out_of_memory=full, at_s=at_s)
            answers, seen = self._window(workers, length_s)
            fewest = min((float(answer.get("steps", _MIN_STEPS)) for answer in answers), default=_MIN_STEPS)
            if fewest < _MIN_STEPS and cell_repeat.cell not in self._lengths_s:
                length_s = self._lengths_s[cell_repeat.cell] = length_s * stretch(fewest)
                answers, seen = self._window(workers, length_s)
        except WorkerGone as lost:
            return Measurement(cell_repeat.cell, cell_repeat.repeat, length_s, failed=str(lost), at_s=at_s)
        held_bytes = sum(worker.now_bytes for worker in workers)
        full = tuple(bool(answer["out_of_memory"]) for answer in answers)
        for worker, is_full in zip(workers, full, strict=True):
            worker.is_built = not is_full
        if any(full):
            return Measurement(cell_repeat.cell, cell_repeat.repeat, length_s, out_of_memory=full, at_s=at_s)
        return Measurement(
            cell_repeat.cell,
            cell_repeat.repeat,
            length_s,
            steps=tuple(float(answer["steps"]) for answer in answers),
            out_of_memory=full,
            memory_bytes=held_bytes,
            utilisation_ratio=float(seen["utilisation_ratio"]),
            bandwidth_ratio=float(seen["bandwidth_ratio"]),
            power_w=float(seen["power_w"]),
            counters=dict(seen["counters"]),
            at_s=at_s,
        )

    # -- workers ---------------------------------------------------------------------------------------------------

    def _start(self, one: WorkerId) -> Channel:
        arguments = self._options.arguments.get(one.workload, (one.workload,))
        return self._launcher.start(str(one), "gpusquad.measure.worker", arguments, self._env(one.sm_milli))

    def _prepare(self, cell_repeats: Sequence[CellRepeat], until_s: float) -> None:
        """Start and build all workers of a stage in parallel. A start takes seconds, most of them waiting."""
        wanted = list(dict.fromkeys(one for cell_repeat in cell_repeats for one in workers_of(cell_repeat.cell)))
        if not wanted or time.monotonic() >= until_s:
            return
        self._ask_monitor("room", free_bytes=-1)
        before_bytes = int(self._ask_monitor("memory")["used_bytes"])
        up = set(self._pool.workers)
        self._pool.ready(wanted[: self._options.max_workers])
        started = [worker for one, worker in self._pool.workers.items() if one not in up]
        used_bytes = int(self._ask_monitor("memory")["used_bytes"])
        for worker in started:
            worker.context_bytes = max(0, used_bytes - before_bytes) // len(started)
        self._weigh(started)
        asked = [one for one in self._pool.workers.values() if one.id in wanted and not one.is_built]
        for worker, answer in self._pool.try_ask(asked, "build", self._options.build_timeout_s):
            if not isinstance(answer, WorkerGone) and "error" not in answer:  # errors are reported by the cells
                _note_built(worker, answer)
        self._weigh([worker for worker in asked if worker.is_built])

    def _build(self, worker: Worker) -> None:
        """Build a worker, unless memory is short. Raises WorkerGone on any other failure."""
        _note_built(worker, self._pool.ask([worker], "build", self._options.build_timeout_s)[0])
        self._weigh([worker])

    def _weigh(self, workers: Sequence[Worker]) -> None:
        """Set the memory of each process as NVML reports it. Without a report, the computed value stays."""
        by_process = self._ask_monitor("memory")["by_process"]
        for worker in workers:
            seen_bytes = int(by_process.get(str(worker.pid), 0))
            if seen_bytes and worker.is_built:
                worker.held_bytes = seen_bytes
            elif seen_bytes:
                worker.context_bytes = seen_bytes

    # -- memory ----------------------------------------------------------------------------------------------------

    def _make_ready(self, workers: Sequence[Worker]) -> tuple[bool, ...]:
        """Build all within the limit. Returns for each worker whether it ran out of memory."""
        if self._options.memory_bytes is not None:
            return self._make_ready_within(workers, self._options.memory_bytes)
        full = self._build_in_turn(workers)
        if any(full):  # first the least recently used, as much as two of the largest take; then all
            largest_bytes = max(worker.held_bytes for worker in self._pool.workers.values())
            self._pool.park(to_park(2 * largest_bytes, self._idle(workers)))
            full = self._build_in_turn(workers)
        if any(full):
            self._pool.park(self._idle(workers))
            full = self._build_in_turn(workers)
        return full

    def _idle(self, cell: Sequence[Worker]) -> dict[Worker, int]:
        """Workers that could release memory, and how much, the least recently used first."""
        return {
            worker: worker.held_bytes - worker.context_bytes
            for worker in self._pool.workers.values()
            if worker.is_built and worker not in cell
        }

    def _make_ready_within(self, workers: Sequence[Worker], limit_bytes: int) -> tuple[bool, ...]:
        """The ballast leaves the cell its limit. Built workers that certainly fit stay; else building is tried."""
        left_bytes = free_for(limit_bytes, [worker.now_bytes for worker in workers])
        if all(worker.is_built for worker in workers) and left_bytes >= 0:
            self._ask_monitor("room", free_bytes=left_bytes)
            return tuple(False for _ in workers)
        self._pool.park(workers)
        self._weigh(workers)
        left_bytes = free_for(limit_bytes, [worker.now_bytes for worker in workers])
        if left_bytes < 0:
            return tuple(True for _ in workers)
        self._leave_free(left_bytes, workers)
        return self._build_in_turn(workers)

    def _build_in_turn(self, workers: Sequence[Worker]) -> tuple[bool, ...]:
        """Build one after the other, so that it is clear which worker ran out of memory."""
        for worker in workers:
            if not worker.is_built:
                self._build(worker)
        return tuple(not worker.is_built for worker in workers)

    def _leave_free(self, wanted_bytes: int, cell: Sequence[Worker]) -> None:
        """Hold the rest of the card. If other workers hold too much of it, they are parked."""
        free_bytes = int(self._ask_monitor("room", free_bytes=wanted_bytes)["free_bytes"])
        missing_bytes = wanted_bytes - free_bytes - _SLACK_BYTES
        if missing_bytes > 0:
            self._pool.park(to_park(missing_bytes, self._idle(cell)))
            self._ask_monitor("room", free_bytes=wanted_bytes)

    # -- windows ---------------------------------------------------------------------------------------------------

    def _window(self, workers: Sequence[Worker], length_s: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The same window for all. If a worker received it too late, repeat it with a longer lead time."""
        for _ in range(_TRIES):
            answers, seen = self._try_window(workers, length_s)
            if not any(answer.get("late") for answer in answers):
                return answers, seen
            self._delay_s = min(2 * self._delay_s, _MAX_DELAY_S)
        raise WorkerGone("workers received every window too late: the machine is overloaded")

    def _try_window(self, workers: Sequence[Worker], length_s: float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """On the clock of the workers' machine."""
        lead_in_s = self._options.lead_in_s
        start_s = time.monotonic() + self._clock_offset_s + self._delay_s
        counted_s = start_s + lead_in_s
        assert self._monitor is not None
        self._monitor.send("watch", from_s=counted_s, to_s=counted_s + length_s)
        times = {"start_s": start_s, "lead_in_s": lead_in_s, "length_s": length_s, "tail_s": _TAIL_S}
        timeout_s = self._delay_s + lead_in_s + length_s + self._options.answer_timeout_s
        try:
            answers = self._pool.ask(workers, "run", timeout_s, **times)
        finally:
            seen = self._monitor.answer(time.monotonic() + MONITOR_TIMEOUT_S)
        return answers, _checked(seen)

    def _ask_monitor(self, do: str, **request: Any) -> dict[str, Any]:
        assert self._monitor is not None
        return _checked(self._monitor.ask(do, MONITOR_TIMEOUT_S, **request))


def stretch(steps: float) -> int:
    """The factor by which to lengthen a window with this number of steps."""
    return min(_MAX_STRETCH, math.ceil((_MIN_STEPS + 1) / max(steps, 1e-9)))


def _note_built(worker: Worker, answer: Mapping[str, Any]) -> None:
    worker.is_built = not answer["out_of_memory"]
    worker.pid = int(answer.get("pid", worker.pid))  # a command's own process holds the memory
    worker.held_bytes = worker.context_bytes + int(answer.get("reserved_bytes", 0))


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in answer:
        raise WorkerGone(f"card monitor: {answer['error']}")
    return answer
