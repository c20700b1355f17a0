"""From the scheduler's answers to the words on pods, with a scheduler and an engine that only note."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusquad.app.pod_status import PodStatusUpdater
from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.server.answers import PendingSummary, QueueEntry, ReservedStart
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.store.jobs import JobRow

MINUTE_US = 60_000_000
NOON_US = 1_772_366_400 * 1_000_000  # 2026-03-01 12:00 UTC
BIG, SMALL = "01hzx7k2m9qd3w5r8t1v4y6a0b", "3d190wtybaypsj955vh847ecdh"


def row(job_id: str = BIG, state: str = "pending", tasks: int = 8, **more: Any) -> JobRow:
    name = {BIG: "big", SMALL: "small"}.get(job_id, job_id)
    core = {"id": job_id, "submitted": 0, "count": tasks, "gpus": 1}
    made = JobRow(id=job_id, name=name, tenant="nlp", user="ann", state=state, gpus=tasks, core=core)
    return replace(made, **more)


@dataclass
class FakeScheduler:
    """The scheduler, the engine and its status writer in one."""

    rows: list[JobRow] = field(default_factory=list)
    answers: dict[str, PendingSummary] = field(default_factory=dict)
    promised: dict[str, ReservedStart] = field(default_factory=dict)
    backlog: int = 0
    written: list[tuple[str, str, StatusMessage]] = field(default_factory=list)
    nodes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    asked: list[list[str]] = field(default_factory=list)

    def unfinished(self) -> list[JobRow]:
        return self.rows

    def queue(self, offset: int = 0, limit: int = 100, tenant: str | None = None) -> list[QueueEntry]:
        return []

    def pending_summaries(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]:
        self.asked.append(list(job_ids))
        return {job_id: self.answers.get(job_id, PendingSummary(1, ())) for job_id in job_ids}

    def reservations(self) -> dict[str, ReservedStart]:
        return self.promised

    def write_status(self, what: Callable[[Any], None]) -> None:
        what(self)

    def pending_status_writes(self) -> int:
        return self.backlog

    def write_reason(self, job: str, message: StatusMessage, position: int) -> None:
        self.written.append(("reason", job, message))

    def write_event(self, job: str, message: StatusMessage) -> None:
        self.written.append(("event", job, message))

    def write_stop_cause(self, job: str, message: StatusMessage) -> None:
        self.written.append(("stop_cause", job, message))

    def write_reserved_nodes(self, job: str, nodes: tuple[str, ...]) -> None:
        self.nodes.append((job, nodes))


def updater_of(world: FakeScheduler, **settings: float) -> PodStatusUpdater:
    return PodStatusUpdater(world, StatusSettings(**settings), now_us=lambda: NOON_US)  # type: ignore[arg-type]


def happened(kind: str, of: JobRow, cause: str = "", **data: Any) -> list[tuple[int, StoryEvent]]:
    return [(1, StoryEvent(of, NOON_US, kind, cause, data=data or None))]


def test_a_gang_that_waits_is_told_everything() -> None:
    reasons = [
        Reason(ReasonCode.NO_CARDS, "needs 8 idle cards, 6 are idle", "wait, or ask for at most 6"),
        Reason(ReasonCode.RESERVED, f"would delay {SMALL} (promised in 5m)", who=(SMALL,)),
    ]
    outlook = PendingSummary(3, reasons, NOON_US + 25 * MINUTE_US, ReservedStart(NOON_US, NOON_US + 60 * MINUTE_US))
    world = FakeScheduler([row(), row(SMALL, "running", 1)], {BIG: outlook})
    updater_of(world).round(world, 0.0)
    [(how, job, message)] = world.written
    assert (how, job, message.reason, message.is_why, message.is_warning) == (
        "reason",
        BIG,
        "FailedScheduling",
        True,
        True,
    )
    assert message.message == (
        "gang big (8 pods): needs 8 idle cards, 6 are idle; wait, or ask for at most 6 | would delay small "
        "(promised in 5m) | position 3 in the queue, reserved from 13:00 UTC (in 1h00m) or earlier, expected "
        "to start at 12:25 UTC (in 25m)"
    )


def test_jobs_of_others_keep_their_ids() -> None:
    reason = Reason(ReasonCode.RESERVED, f"would delay {SMALL}", who=(SMALL,))
    world = FakeScheduler([row(tasks=1), row(SMALL, "running", 1, tenant="vision")], {BIG: PendingSummary(1, [reason])})
    updater_of(world).round(world, 0.0)
    assert world.written[0][2].message.startswith(f"would delay {SMALL}")


def test_the_place_in_line_and_the_forecast_are_no_news() -> None:
    reason = Reason(ReasonCode.NO_CARDS, "needs 8 idle cards, 6 are idle")
    world = FakeScheduler([row()], {BIG: PendingSummary(3, [reason])})
    updater = updater_of(world)
    updater.round(world, 0.0)
    world.answers[BIG] = PendingSummary(2, [reason], NOON_US + MINUTE_US)
    updater.round(world, 100.0)
    first, second = (message for _, _, message in world.written)
    assert first.message != second.message
    assert first.material == second.material


def test_what_threw_it_back_is_told_too() -> None:
    world = FakeScheduler([row(attempt=1, cause="for small of bob: urgent goes first")])
    updater_of(world).round(world, 0.0)
    assert "requeued: for small of bob: urgent goes first" in world.written[0][2].message


def test_asks_for_no_more_than_can_be_written() -> None:
    rows = [row(f"job-{number}", tasks=1) for number in range(100)]
    world = FakeScheduler(rows, backlog=30)
    updater = updater_of(world, per_second=10.0)
    updater.round(world, 0.0)
    assert len(world.asked[0]) == 20
    world.backlog = 50
    updater.round(world, 1.0)
    assert len(world.asked) == 1


def test_a_promise_is_told_with_its_nodes_and_taken_back() -> None:
    world = FakeScheduler([row()], promised={BIG: ReservedStart(NOON_US, NOON_US + 5 * MINUTE_US, ("a", "a", "b"))})
    updater = updater_of(world)
    updater.heard(happened("promised", row(), start_us=NOON_US))
    updater.round(world, 0.0)
    [(_, _, message)] = [entry for entry in world.written if entry[0] == "event"]
    assert (message.reason, message.is_warning) == ("Reserved", False)
    assert message.message == (
        "gang big (8 pods): 8 GPUs reserved from 12:05 UTC (in 5m) or earlier, on a (2), b; "
        "other jobs may be backfilled until then"
    )
    updater.round(world, 1.0)
    world.promised = {BIG: ReservedStart(NOON_US, NOON_US, ("c", "c", "b"))}
    updater.round(world, 2.0)
    world.promised = {}
    updater.round(world, 3.0)
    assert world.nodes == [(BIG, ("a", "a", "b")), (BIG, ("c", "c", "b")), (BIG, ())]


def test_what_pods_were_promised_before_a_restart_is_taken_back() -> None:
    world = FakeScheduler([row(), row(SMALL, "running", 1)])
    updater = updater_of(world)
    updater.round(world, 0.0)
    updater.round(world, 1.0)
    assert world.nodes == [(BIG, ())]


def test_a_promise_that_moved_says_why() -> None:
    world = FakeScheduler([row()])
    updater = updater_of(world)
    updater.heard(happened("eta_moved", row(), "small runs longer: expected 10m later", start_us=NOON_US + MINUTE_US))
    updater.round(world, 0.0)
    message = next(message for how, _, message in world.written if how == "event")
    assert message.reason == "ReservationMoved"
    assert message.message.endswith("now expected at 12:01 UTC (in 1m): small runs longer: expected 10m later")


def test_who_is_preempted_hears_it_before_it_goes_and_the_other_hears_too() -> None:
    victim = row(SMALL, "preempting", 1)
    world = FakeScheduler([row(), victim])
    updater = updater_of(world)
    updater.heard(happened("preempting", victim, "for big of ann: urgent goes first", **{"for": BIG}))
    assert [(how, job, message.reason) for how, job, message in world.written] == [("stop_cause", SMALL, "Preempted")]
    assert "for big of ann: urgent goes first" in world.written[0][2].message
    updater.round(world, 0.0)
    message = next(message for how, job, message in world.written if how == "event" and job == BIG)
    assert message.reason == "Preempting"
    assert "small is being preempted (1 GPU): urgent goes first" in message.message


def test_who_ran_into_its_limit_hears_it() -> None:
    late = row(state="stopping", stop={"how": "timed_out"})
    world = FakeScheduler([late])
    updater_of(world).heard(happened("stopping", late, "ran for its limit of 2h"))
    assert [(how, message.reason) for how, _, message in world.written] == [("stop_cause", "Stopped")]


def test_whoever_runs_is_left_alone() -> None:
    world = FakeScheduler([row(state="running"), row(SMALL, "starting")])
    updater = updater_of(world)
    updater.heard(happened("running", row(state="running")))
    updater.round(world, 0.0)
    assert world.written == world.asked == []
