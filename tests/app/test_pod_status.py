"""Tests of pod conditions and events written from the scheduler's answers, with a fake scheduler and engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusquad.app.pod_status import PodStatusUpdater
from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.message import StatusMessage
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.server.answers import PendingSummary, QueueEntry, ReservedStart
from gpusquad.server.services.jobs.rights import RESTRICTED
from gpusquad.server.services.runtime.unit_of_work import StoryEvent
from gpusquad.store.jobs import JobRow

MINUTE_US = 60_000_000
NOON_US = 1_772_366_400 * 1_000_000  # 2026-03-01 12:00 UTC
BIG, SMALL = "01hzx7k2m9qd3w5r8t1v4y6a0b", "3d190wtybaypsj955vh847ecdh"


def row(job_id: str = BIG, state: str = "pending", tasks: int = 8, **more: Any) -> JobRow:
    name = {BIG: "big", SMALL: "small"}.get(job_id, job_id)
    core = {"id": job_id, "submitted": 0, "count": tasks, "gpus": 1}
    base = JobRow(id=job_id, name=name, tenant="nlp", user="ann", state=state, gpus=tasks, core=core)
    return replace(base, **more)


@dataclass
class FakeScheduler:
    """The scheduler, the engine and its status writer in one."""

    rows: list[JobRow] = field(default_factory=list)
    answers: dict[str, PendingSummary] = field(default_factory=dict)
    reserved: dict[str, ReservedStart] = field(default_factory=dict)
    backlog: int = 0
    written: list[tuple[str, str, StatusMessage]] = field(default_factory=list)
    nodes: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    requested: list[list[str]] = field(default_factory=list)

    def unfinished(self) -> list[JobRow]:
        return self.rows

    def queue(self, offset: int = 0, limit: int = 100, tenant: str | None = None) -> list[QueueEntry]:
        return []

    def pending_summaries(self, job_ids: Sequence[str], most_s: float) -> dict[str, PendingSummary]:
        self.requested.append(list(job_ids))
        return {job_id: self.answers.get(job_id, PendingSummary(1, ())) for job_id in job_ids}

    def reservations(self) -> dict[str, ReservedStart]:
        return self.reserved

    def write_status(self, write: Callable[[Any], None]) -> None:
        write(self)

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


def updater_of(fake: FakeScheduler, **settings: float) -> PodStatusUpdater:
    return PodStatusUpdater(fake, StatusSettings(**settings), now_us=lambda: NOON_US)  # type: ignore[arg-type]


def story_events(kind: str, job: JobRow, cause: str = "", **data: Any) -> list[tuple[int, StoryEvent]]:
    return [(1, StoryEvent(job, NOON_US, kind, cause, data=data or None))]


def test_reason_of_a_pending_gang_has_causes_position_and_forecast() -> None:
    reasons = [
        Reason(ReasonCode.NO_CARDS, "needs 8 idle cards, 6 are idle", "wait, or ask for at most 6"),
        Reason(ReasonCode.RESERVED, f"would delay {SMALL} (promised in 5m)", who=(SMALL,)),
    ]
    summary = PendingSummary(3, reasons, NOON_US + 25 * MINUTE_US, ReservedStart(NOON_US, NOON_US + 60 * MINUTE_US))
    fake = FakeScheduler([row(), row(SMALL, "running", 1)], {BIG: summary})
    updater_of(fake).round(fake, 0.0)
    [(kind, job, message)] = fake.written
    assert (kind, job, message.reason, message.is_why, message.is_warning) == (
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


def test_reason_names_jobs_of_other_tenants_by_id() -> None:
    reason = Reason(ReasonCode.RESERVED, f"would delay {SMALL}", who=(SMALL,))
    fake = FakeScheduler([row(tasks=1), row(SMALL, "running", 1, tenant="vision")], {BIG: PendingSummary(1, [reason])})
    updater_of(fake).round(fake, 0.0)
    assert fake.written[0][2].message.startswith(f"would delay {SMALL}")


def test_queue_position_and_forecast_are_not_material_changes() -> None:
    reason = Reason(ReasonCode.NO_CARDS, "needs 8 idle cards, 6 are idle")
    fake = FakeScheduler([row()], {BIG: PendingSummary(3, [reason])})
    updater = updater_of(fake)
    updater.round(fake, 0.0)
    fake.answers[BIG] = PendingSummary(2, [reason], NOON_US + MINUTE_US)
    updater.round(fake, 100.0)
    first, second = (message for _, _, message in fake.written)
    assert first.message != second.message
    assert first.material == second.material


def test_reason_includes_the_cause_of_the_last_requeue() -> None:
    fake = FakeScheduler([row(attempt=1, cause="for small of bob: urgent goes first")])
    updater_of(fake).round(fake, 0.0)
    assert "requeued: for small of bob: urgent goes first" in fake.written[0][2].message


def test_updater_requests_no_more_summaries_than_can_be_written() -> None:
    rows = [row(f"job-{number}", tasks=1) for number in range(100)]
    fake = FakeScheduler(rows, backlog=30)
    updater = updater_of(fake, per_second=10.0)
    updater.round(fake, 0.0)
    assert len(fake.requested[0]) == 20
    fake.backlog = 50
    updater.round(fake, 1.0)
    assert len(fake.requested) == 1


def test_reservation_is_written_with_its_nodes_and_cleared_when_it_ends() -> None:
    fake = FakeScheduler([row()], reserved={BIG: ReservedStart(NOON_US, NOON_US + 5 * MINUTE_US, ("a", "a", "b"))})
    updater = updater_of(fake)
    updater.heard(story_events("promised", row(), start_us=NOON_US))
    updater.round(fake, 0.0)
    [(_, _, message)] = [entry for entry in fake.written if entry[0] == "event"]
    assert (message.reason, message.is_warning) == ("Reserved", False)
    assert message.message == (
        "gang big (8 pods): 8 GPUs reserved from 12:05 UTC (in 5m) or earlier, on a (2), b; "
        "other jobs may be backfilled until then"
    )
    updater.round(fake, 1.0)
    fake.reserved = {BIG: ReservedStart(NOON_US, NOON_US, ("c", "c", "b"))}
    updater.round(fake, 2.0)
    fake.reserved = {}
    updater.round(fake, 3.0)
    assert fake.nodes == [(BIG, ("a", "a", "b")), (BIG, ("c", "c", "b")), (BIG, ())]


def test_reserved_nodes_from_before_a_restart_are_cleared() -> None:
    fake = FakeScheduler([row(), row(SMALL, "running", 1)])
    updater = updater_of(fake)
    updater.round(fake, 0.0)
    updater.round(fake, 1.0)
    assert fake.nodes == [(BIG, ())]


def test_moved_reservation_event_gives_the_cause() -> None:
    fake = FakeScheduler([row()])
    updater = updater_of(fake)
    updater.heard(
        story_events("eta_moved", row(), "small runs longer: expected 10m later", start_us=NOON_US + MINUTE_US)
    )
    updater.round(fake, 0.0)
    message = next(message for kind, _, message in fake.written if kind == "event")
    assert message.reason == "ReservationMoved"
    assert message.message.endswith("now expected at 12:01 UTC (in 1m): small runs longer: expected 10m later")


def test_preemption_is_written_to_the_victim_at_once_and_to_the_preemptor_later() -> None:
    victim = row(SMALL, "preempting", 1)
    fake = FakeScheduler([row(), victim])
    updater = updater_of(fake)
    updater.heard(story_events("preempting", victim, "for big of ann: urgent goes first", **{"for": BIG}))
    assert [(kind, job, message.reason) for kind, job, message in fake.written] == [("stop_cause", SMALL, "Preempted")]
    assert "for big of ann: urgent goes first" in fake.written[0][2].message
    updater.round(fake, 0.0)
    message = next(message for kind, job, message in fake.written if kind == "event" and job == BIG)
    assert message.reason == "Preempting"
    assert "small is being preempted (1 GPU): urgent goes first" in message.message


def test_restricted_annotations_are_written_to_the_pod_once() -> None:
    fake = FakeScheduler([row(tasks=1)])
    updater = updater_of(fake)
    updater.heard(story_events("warned", row(tasks=1), "priority urgent is above the maximum", **RESTRICTED))
    updater.heard(story_events("warned", row(tasks=1), "share.memory is less than similar jobs used"))
    updater.round(fake, 0.0)
    updater.round(fake, 1.0)
    messages = [message for kind, _, message in fake.written if kind == "event"]
    assert [(message.reason, message.message) for message in messages] == [
        ("NotPermitted", "priority urgent is above the maximum"),
    ]


def test_stop_cause_is_written_when_the_time_limit_is_reached() -> None:
    late = row(state="stopping", stop={"how": "timed_out"})
    fake = FakeScheduler([late])
    updater_of(fake).heard(story_events("stopping", late, "ran for its limit of 2h"))
    assert [(kind, message.reason) for kind, _, message in fake.written] == [("stop_cause", "Stopped")]


def test_running_jobs_get_no_status() -> None:
    fake = FakeScheduler([row(state="running"), row(SMALL, "starting")])
    updater = updater_of(fake)
    updater.heard(story_events("running", row(state="running")))
    updater.round(fake, 0.0)
    assert fake.written == fake.requested == []
