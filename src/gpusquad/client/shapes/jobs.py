"""A job, a page of jobs, and the queue."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Reason(TypedDict):
    code: str
    message: str
    cure: NotRequired[str]
    numbers: NotRequired[dict[str, float]]
    who: NotRequired[list[str]]


class TaskPlace(TypedDict):
    task: int
    node: str
    cards: list[str]
    role: NotRequired[str]
    role_index: NotRequired[int]


class RunTime(TypedDict):
    mid_s: float
    high_s: float
    source: str
    confidence: NotRequired[float | None]
    """0: a guess. 1: as good as measured."""


class RunTimeRecord(TypedDict):
    count: int
    within_ratio: float
    """Runs that ended by the high end of their prediction."""
    median_ratio: float
    """Half of the predictions were this near, in parts of the truth."""


class Progress(TypedDict):
    step: float | None
    total: float | None
    ratio: float | None
    at_s: float


class EndOfTask(TypedDict):
    task: int | None
    exit_code: int | None
    signal: int | None
    oom: bool


class JobShare(TypedDict):
    """Of one card, for each task."""

    sm: float | None
    memory: int | str | None
    isolation: str


class JobView(TypedDict):
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
    share: JobShare | None
    tasks: int
    submitted_s: float
    started_s: float | None
    ended_s: float | None
    cause: str
    placement: list[TaskPlace]
    result: EndOfTask | None
    progress: Progress | None
    forecast: RunTime | None
    retries_left: int
    preemptions: int
    after: list[dict[str, str]]
    reason: NotRequired[Reason | None]
    run_record: NotRequired[RunTimeRecord | None]


class ChangedJob(JobView):
    memory: NotRequired[int | str | None]
    """Of its card, for each task: bytes, or a percentage. None: nothing that was named."""


class QueueEntry(JobView):
    position: int | None
    eta_s: float | None
    eta_high_s: NotRequired[float | None]
    promised_s: float | None


class JobPage(TypedDict):
    items: list[JobView]
    next: str | None


class QueueAnswer(TypedDict):
    items: list[QueueEntry]
    running: list[JobView]
    counts: dict[str, int]
    next: str | None


class SubmissionAnswer(TypedDict):
    group: str | None
    jobs: list[JobView]
    chosen: NotRequired[list[str]]
    """What was chosen where the file said ``auto``, and why."""
    warnings: NotRequired[list[str]]
