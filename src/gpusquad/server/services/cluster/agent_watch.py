"""Handles the agent's reports: card samples, progress of runs, faults and unmanaged processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import structlog

from gpusquad.core.transitions import JobState
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.model.units import US_PER_S
from gpusquad.server.safe_text import one_line
from gpusquad.server.services.cluster.card_suspects import CardSuspects
from gpusquad.server.services.cluster.hang_watch import HangWatcher
from gpusquad.server.services.cluster.nodes import NodeService
from gpusquad.server.services.cluster.progress_tracking import ProgressTracking
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.sharing.interference_learning import InterferenceLearner
from gpusquad.store import samples
from gpusquad.store.database import StoreUnavailable
from gpusquad.store.jobs import JobRow

_log = structlog.get_logger("gpusquad.watch")
CONFIRM_SAMPLES = 3
"""Consecutive samples that confirm that an unmanaged process is present, or gone."""
MAX_NAMED = 3
UNHELD = "unheld"
"""Marks a process of a job with a share that runs without the shim."""
STORE_INTERVAL_US = 10 * US_PER_S
"""Interval at which samples are stored. The last sample is always in memory."""
KEEP_CARDS = 256
"""With more cards the interval grows, so that a large cluster stores at most this many samples per interval."""


@dataclass(frozen=True, slots=True)
class RunningGang:
    """A running gang and its cards."""

    job: str
    attempt: int
    cards: Mapping[str, frozenset[str]]
    """By node, in the order of its tasks. Nodes without cards are left out."""

    @property
    def key(self) -> tuple[str, int]:
        return (self.job, self.attempt)


class AgentWatcher:
    """Called by the agent's reader thread for each message."""

    def __init__(
        self,
        context: SchedulerContext,
        node_service: NodeService,
        hangs: HangWatcher,
        tracking: ProgressTracking,
        neighbours: InterferenceLearner,
        suspects: CardSuspects,
    ) -> None:
        self._context = context
        self._suspects = suspects
        self._node_service = node_service
        self._hangs = hangs
        self._progress = tracking
        self._neighbours = neighbours
        self._unmanaged: dict[str, int] = {}
        """Card to the number of consecutive samples with an unmanaged process (negative: without)."""
        self._kept_us = 0
        self._kept_samples_us = 0

    # -- queries ---------------------------------------------------------------------------------------------------

    def running(self) -> list[RunningGang]:
        rows = list(self._context.rows.values())
        return [RunningGang(row.id, row.attempt, _cards_by_node(row)) for row in rows if row.state == JobState.RUNNING]

    def node_of(self, card: str) -> str | None:
        """None: no such card."""
        fixed = self._context.fixed
        index = fixed.card_index.get(card)
        return None if index is None else fixed.node_ids[int(fixed.card_node[index])]

    # -- messages --------------------------------------------------------------------------------------------------

    def hear(self, message: Mapping[str, Any]) -> None:
        """Handle one message of the agent."""
        kind = message.get("kind")
        if kind == "card_fault":
            is_event = bool(message.get("event"))
            self._node_service.fault(message["card"], message["cause"], message.get("class"), is_event=is_event)
        elif kind == "card_ok":
            self._node_service.recovered(message["card"])
        elif kind == "samples":
            self._sampled(message)

    def _sampled(self, message: Mapping[str, Any]) -> None:
        cards = {card["id"]: card for card in message["cards"]}
        self._node_service.samples = cards
        for card in cards.values():
            self._check_unmanaged(card)
        self._suspects.hear(cards.values())
        now_us = self._context.clock.now_us()
        self._neighbours.observe(message["at_us"])
        for run in message.get("runs", ()):
            self._check_run(run, cards, run.get("at_us", message["at_us"]))
        self._forget_ended()
        if now_us - self._kept_us >= STORE_INTERVAL_US:
            self._kept_us = now_us
            self._progress.foresee(message["at_us"])
            self._keep(now_us, list(cards.values()), message.get("runs", ()))

    # -- unmanaged processes ---------------------------------------------------------------------------------------

    def _check_unmanaged(self, card: Mapping[str, Any]) -> None:
        unmanaged = [
            process
            for process in card.get("processes") or ()
            if (process.get("job") is None or process.get(UNHELD)) and not unmanaged_process(process).is_harmless
        ]
        before = self._unmanaged.get(card["id"], 0)
        count = max(before, 0) + 1 if unmanaged else min(before, 0) - 1
        self._unmanaged[card["id"]] = max(-CONFIRM_SAMPLES, min(CONFIRM_SAMPLES, count))
        if count >= CONFIRM_SAMPLES:
            # Known processes too, because the rule for them may have changed.
            self._node_service.taken_outside(card["id"], _held_by(unmanaged))
        elif count <= -CONFIRM_SAMPLES and self._node_service.unmanaged_on(card["id"]) is not None:
            self._node_service.taken_outside(card["id"], None)

    # -- runs ------------------------------------------------------------------------------------------------------

    def _check_run(self, run: Mapping[str, Any], cards: Mapping[str, Any], at_us: int) -> None:
        row = self._context.rows.get(run["job"])
        if row is None or row.attempt != run["attempt"] or row.state != JobState.RUNNING:
            return
        tasks = (row.placement or {}).get("tasks", ())
        mine = {card: cards[card] for task in tasks for card in task["cards"] if card in cards}
        self._context.peaks.see(run, mine, at_us, len(tasks))
        self._progress.see(row, run, at_us)
        self._neighbours.see(row, run, at_us)
        self._hangs.see(row, run, cards, at_us)

    def _forget_ended(self) -> None:
        self._hangs.forget_ended()
        self._context.peaks.forget(self._context.rows.keys())

    # -- storing ---------------------------------------------------------------------------------------------------

    def _keep(self, now_us: int, cards: Sequence[Mapping[str, Any]], runs: Sequence[Mapping[str, Any]]) -> None:
        """Store samples and progress. If the store does not answer, some are lost."""
        news = {
            (run["job"], run["attempt"]): record | {"points": self._progress.points(run["job"], run["attempt"])}
            for run in runs
            if (record := progress_record(run)) is not None
        }
        if news:
            self._context.loop.post(lambda: self._keep_progress(news))
        if now_us - self._kept_samples_us < STORE_INTERVAL_US * (len(cards) // KEEP_CARDS):
            return
        self._kept_samples_us = now_us
        try:
            with self._context.database.write() as connection:
                samples.append(connection, now_us, [sample_row(now_us, card) for card in cards])
        except StoreUnavailable as error:
            _log.warning("samples not stored", error=str(error))

    def _keep_progress(self, news: Mapping[tuple[str, int], dict[str, Any]]) -> None:
        """Inside a pass, like every change of a job."""
        for (job_id, attempt), record in news.items():
            row = self._context.rows.get(job_id)
            if row is not None and (row.attempt, row.state) == (attempt, JobState.RUNNING) and row.progress != record:
                self._context.unit.change(job_id, progress=record)


def _held_by(unmanaged: Sequence[Mapping[str, Any]]) -> str:
    named = [f"{one_line(p.get('name') or 'process', 40)} ({_owner(p)})" for p in unmanaged[:MAX_NAMED]]
    rest = len(unmanaged) - len(named)
    return f"held by {', '.join(named)}" + (f" and {rest} more" if rest else "")


def _owner(process: Mapping[str, Any]) -> str:
    of_job = f" of job {process['job']}, which runs without the shim" if process.get("job") else ""
    return f"pid {process['pid']}{of_job}"


def unmanaged_process(process: Mapping[str, Any]) -> UnmanagedProcess:
    return UnmanagedProcess(process["pid"], process.get("name") or "", process.get("memory_bytes") or 0)


def progress_record(run: Mapping[str, Any]) -> dict[str, Any] | None:
    step, total = run.get("step"), run.get("total")
    if step is None:
        return None
    return {"step": step, "total": total, "ratio": min(1.0, step / total) if total else None,
            "at_us": run.get("progress_at_us")}  # fmt: skip


def sample_row(now_us: int, card: Mapping[str, Any]) -> samples.SampleRow:
    return samples.SampleRow(
        card=card["id"], at_us=now_us, busy_ratio=card.get("utilisation_ratio"),
        memory_busy_ratio=card.get("memory_utilisation_ratio"), memory_bytes=card.get("memory_used_bytes"),
        power_w=card.get("power_w"), temperature_c=card.get("temperature_c"), clock_mhz=card.get("sm_clock_mhz"),
    )  # fmt: skip


def _cards_by_node(row: JobRow) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for task in (row.placement or {}).get("tasks", ()):
        if task["cards"]:
            found[task["node"]] = found.get(task["node"], frozenset()) | frozenset(task["cards"])
    return found
