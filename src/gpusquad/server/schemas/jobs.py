"""Jobs and their predictions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from gpusquad.model.errors import Invalid
from gpusquad.server.params import Line
from gpusquad.server.schemas.base import ApiBody, ApiView, Next, Priority, ReasonView
from gpusquad.spec.check import check
from gpusquad.spec.model import JobFile
from gpusquad.spec.params import MAX_PARAMS, MAX_VALUE_CHARS, PARAM_NAME

_PARAMS: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"], "maxLength": MAX_VALUE_CHARS},
    "propertyNames": {"pattern": rf"^{PARAM_NAME.pattern}$"},
    "maxProperties": MAX_PARAMS,
    "default": {},
}


def _checked(data: object) -> JobFile:
    if not isinstance(data, dict):
        raise Invalid("", "is not a job file", "send its fields as a JSON object")
    return check(data)


CheckedFile = Annotated[JobFile, BeforeValidator(_checked)]
"""Validated by the job file's own rules, so that errors are the same as on the command line."""
Params = Annotated[dict[str, Any], WithJsonSchema(_PARAMS)]
"""Checked when they are filled in."""
SloName = Literal["deadline", "latency", "p99", "throughput", "availability"]
SloValue = Annotated[str, Field(max_length=32)] | float
CardPart = (
    Annotated[int, Field(ge=1, le=2**50)]
    | Annotated[float, Field(gt=0, le=2**50)]
    | Annotated[str, Field(max_length=32)]
)
"""Card memory: bytes, or text with a unit or a percentage. Fractions are accepted here, so that the error can name the
cure."""
Span = Annotated[float, Field(ge=0, le=2**31)] | Annotated[str, Field(max_length=32)]
"""Seconds, or text with a unit: 90s, 2h."""


class FileRequest(ApiBody):
    """A job file and the values of its parameters."""

    file: CheckedFile
    params: Params = Field(default_factory=dict)


class ChangeRequest(ApiBody):
    """Fields to change; others stay."""

    name: Line | None = None
    priority: Priority | None = Field(None, description="low, normal, high, urgent or an integer")
    queue: Line | None = None
    lane: Line | None = None
    slo: dict[SloName, SloValue] | None = Field(None, description="An empty one removes the SLO")
    estimate: Span | None = None
    limit: Span | None = None
    memory: CardPart | None = Field(
        None,
        description="Card memory for each task with a share: 6GiB, 30%; peak: observed peak plus 10 %",
    )


class CauseRequest(ApiBody):
    cause: Line = ""


class TaskPlace(ApiView):
    task: int
    node: str
    cards: list[str]


class TaskResult(ApiView):
    """The task that ended the gang."""

    task: int | None
    exit_code: int | None
    signal: int | None
    oom: bool


class Progress(ApiView):
    step: float | None
    total: float | None
    ratio: float | None
    at_s: float | None


class RunForecast(ApiView):
    """Predicted run time."""

    mid_s: float | None
    high_s: float | None
    source: str
    confidence: float | None = Field(description="0: a guess. 1: as good as measured. null: unknown")


class RunTimeRecord(ApiView):
    """Accuracy of the latest such predictions for the job's tenant."""

    count: int
    within_ratio: float = Field(description="Fraction that ended by the predicted P90")
    median_ratio: float = Field(description="Median error relative to the actual run time")


class End(ApiView):
    """Predicted end of a running job."""

    mid_s: float | None
    high_s: float | None
    source: str


class DependencyView(ApiView):
    job: str
    on: str


class ShortReason(ApiView):
    code: str
    message: str


class JobShare(ApiView):
    sm: float | None = Field(description="Guaranteed fraction of the SMs; null: none")
    memory: int | str | None = Field(description="Bytes, or a percentage of the card's memory; null: not set")
    isolation: str = Field(description="shared or isolated")


class JobView(ApiView):
    id: str
    name: str
    tenant: str
    user: str
    queue: str
    group: str | None
    state: str
    attempt: int
    priority: str
    lane: str
    gpus: int
    share: JobShare | None = Field(
        description="Share of each task; null: whole cards or none, or tasks request different shares"
    )
    tasks: int
    submitted_s: float
    eligible_s: float | None = Field(
        description="Its place in the queue counts from then: submission, release, last dependency or retry after a "
        "failure; null: held"
    )
    started_s: float | None
    ended_s: float | None
    cause: str
    placement: list[TaskPlace]
    result: TaskResult | None
    progress: Progress | None
    forecast: RunForecast | None
    retries_left: int
    losses: int = Field(
        description="Recent losses: attempts that ended by a fault of a card, with their node or processes, or could "
        "not start"
    )
    next_attempt_s: float | None = Field(description="Earliest time of the next attempt of a held job; null: none")
    preemptions: int
    after: list[DependencyView]


class ChangedJob(JobView):
    memory: int | str | None = Field(description="New card memory of each task: bytes, or a percentage; null: not set")


class ChosenRequest(ApiView):
    """A field that the job file left to the service (``auto``)."""

    field: str = Field(description="gpus, gpu_memory, cpu or memory; of a role: roles[1].cpu")
    value: int | float | str | None = Field(description="As a job file writes it; null: left out")
    amount: float | None = Field(description="GPUs of a task, bytes, or cores; null: left out")
    source: str = Field(description="history, estimate, fair share, default, or out of memory")
    why: str
    used: float | None = Field(description="In the unit of amount; null: not measured, or of a role")


class EstimatorView(ApiView):
    """The program that computes the offline estimate (``expect.by``)."""

    state: Literal["waiting", "done", "failed"]
    command: str
    fields: dict[str, Any] = Field(description="What it printed, as in expect")
    warning: str = Field(description="Why its answer is not used; empty: it is")
    took_s: float
    cached: bool = Field(description="Answer of an equal program for another job")


class UsedView(ApiView):
    """Peaks of the last attempt on cards; null: not measured."""

    attempt: int
    gpus: float | None = Field(
        description="Cards of one task that were busy; in a run of less than a minute, cards whose memory it held"
    )
    gpu_memory: float | None = Field(description="Bytes of one card")
    cpu: float | None = Field(description="Cores of one task, mean of its busiest minute")
    memory: float | None = Field(description="Bytes of main memory of one task")


class SloView(ApiView):
    """Goals of the job; null: not set. Its state is that of ``GET /goals``."""

    deadline_s: float | None
    latency_s: float | None
    throughput: float | None = Field(description="Requests or steps per second")
    availability: float | None = Field(description="Fraction of requests within the latency")
    deadline_met: bool | None = Field(description="null: no deadline, or not reached yet")
    attainment_ratio: float | None = Field(description="Of the other targets, while it runs; null: unknown, or none")
    unknown: bool = Field(description="It runs with other targets, and their attainment is not reported")


class HangWarning(ApiView):
    """Hang detection warns about the job now."""

    rule: str = Field(description="silent, spinning, stopped, nan, stuck, repeats, flood or overrun")
    message: str = Field(description="The evidence")
    cure: str
    since_s: float = Field(description="Last sign of life, or start of the overrun")
    warned_s: float
    stops_s: float | None = Field(description="When it is stopped unless that ends; null: it is not")


class JobDetail(JobView):
    slo: SloView | None
    estimate_s: float | None = Field(description="Its user's estimate of the run time")
    limit_s: float | None = Field(description="Run time after which it is stopped")
    held_s: float | None = Field(description="When it was held; null: it is not held")
    hang_warnings: list[HangWarning] = Field(description="Of a running job")
    run_record: RunTimeRecord | None
    auto: list[ChosenRequest]
    estimator: EstimatorView | None
    used: UsedView | None


class RunningView(JobView):
    end: End | None = Field(description="As in when; null: not known")
    hang_warnings: list[HangWarning]


class QueuedView(JobView):
    position: int
    eta_s: float | None = Field(description="Forecast start, as start_s of when; null: not known")
    eta_high_s: float | None = Field(description="Start in nine of ten cases; null if only eta_s is known")
    promised_s: float | None = Field(description="Latest start by its first reservation; null: it has none")
    reason: ShortReason | None


class HeldView(JobView):
    held_s: float | None = Field(description="When it was held; null: not known")
    reason: ShortReason | None


class JobPage(ApiView):
    items: list[JobView]
    next: Next


class QueuePage(ApiView):
    items: list[QueuedView]
    running: list[RunningView] = Field(description="On the first page only")
    held: list[HeldView] = Field(
        description="Jobs that the service holds, oldest first: suspected, or waiting for their next attempt or "
        "estimator. Not those held by users or waiting for other jobs. On the first page only"
    )
    counts: dict[str, int]
    next: Next


class SubmissionNotes(ApiView):
    """Choices for open fields of a job, and warnings."""

    chosen: list[str]
    warnings: list[str]


class SubmissionAnswer(SubmissionNotes):
    group: str | None
    jobs: list[JobView]


class JobSource(ApiView):
    """The job as it was accepted."""

    spec: dict[str, Any]


class PassedView(ApiView):
    """A job submitted later that went ahead by a right."""

    job: str
    user: str
    tenant: str
    running: bool
    by: Literal["priority", "guarantee", "lane", "wait limit", "fair share"]
    value: str = Field(description="The priority, the lane, or why its tenant goes first")
    granted: str = Field(description="Who has the right, and from whom")
    message: str


class WhyView(ApiView):
    state: str
    position: int | None
    reasons: list[ReasonView]
    passed: list[PassedView] = Field(description="At most 20, running ones first")
    hang_warnings: list[HangWarning] = Field(description="Of a running job")


class AccuracyView(ApiView):
    count: int
    within_ratio: float | None
    median_error_s: float | None
    median_late_s: float | None = Field(description="With its sign: negative if most started before the forecast")


class WhenView(ApiView):
    state: str
    start_s: float | None = Field(description="Forecast start of a pending job; null: not known")
    high_s: float | None = Field(description="Start in nine of ten cases")
    promised_s: float | None = Field(description="Latest start by its first reservation; null: it has none")
    run: RunForecast | None
    run_record: RunTimeRecord | None
    end: End | None
    position: int | None
    accuracy: AccuracyView | None


class Delay(ApiView):
    job: str
    by_s: float


class WhatIfView(SubmissionNotes):
    refused: ReasonView | None
    starts_now: bool
    start_s: float | None
    high_s: float | None
    promised_s: float | None
    run: RunForecast | None
    placement: list[TaskPlace]
    reasons: list[ReasonView] = Field(description="All reasons why it would wait; empty if it would start now")
    delayed: list[Delay]
    preempted: list[str]
    others: int = Field(description="Number of other tenants' jobs that would be delayed or preempted")
    jobs: int = Field(description="Number of jobs in the file; the answer is about the first")


class StoryLine(ApiView):
    id: int
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str
    actor: str
    data: Any


class Story(ApiView):
    items: list[StoryLine]
    next: Next


class LogPart(ApiView):
    task: int
    attempt: int
    offset: int
    next: int
    text: str
    end: bool = Field(description="Nothing more will follow")


LogTask = Annotated[str, Field(pattern=r"^(all|[0-9]{1,7})$")]
Sort = Literal["-submitted", "submitted", "-ended"]
