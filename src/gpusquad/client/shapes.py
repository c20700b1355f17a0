"""What answers hold. Only for type checkers and readers: at run time answers are plain dictionaries."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict


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


class RunRecord(TypedDict):
    count: int
    within_ratio: float
    """Runs that ended by the high end of their prediction."""
    median_ratio: float
    """Half of the predictions were this near, in parts of the truth."""


class End(TypedDict):
    mid_s: float | None
    high_s: float | None
    source: str


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
    run_record: NotRequired[RunRecord | None]


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


class Accepted(TypedDict):
    group: str | None
    jobs: list[JobView]
    chosen: NotRequired[list[str]]
    """What was chosen where the file said ``auto``, and why."""
    warnings: NotRequired[list[str]]


class WhyAnswer(TypedDict):
    state: str
    position: int | None
    reasons: list[Reason]


class Accuracy(TypedDict):
    count: int
    within_ratio: float | None
    median_error_s: float | None


class WhenAnswer(TypedDict):
    state: NotRequired[str]
    start_s: float | None
    high_s: float | None
    promised_s: float | None
    run: RunTime | None
    run_record: NotRequired[RunRecord | None]
    end: NotRequired[End | None]
    position: int | None
    accuracy: Accuracy | None


class Delay(TypedDict):
    job: str
    by_s: float


class WhatIfAnswer(TypedDict):
    refused: Reason | None
    starts_now: bool
    start_s: float | None
    high_s: float | None
    promised_s: float | None
    run: RunTime | None
    placement: list[TaskPlace]
    reasons: NotRequired[list[Reason]]
    """Everything that would keep it waiting."""
    delayed: list[Delay]
    preempted: list[str]
    others: NotRequired[int]
    """Jobs of other tenants that would be delayed or preempted."""
    jobs: NotRequired[int]
    """Jobs the file makes; the answer is about the first."""
    chosen: NotRequired[list[str]]
    warnings: NotRequired[list[str]]


class AdviceLine(TypedDict):
    field: str
    value: float | str
    now: float | str | None
    change: bool
    why: str


class TimesWith(TypedDict):
    gpus: int
    low_s: float
    mid_s: float
    high_s: float
    efficiency_ratio: float
    source: str
    confidence: float


class PeakMemory(TypedDict):
    mid_bytes: int
    high_bytes: int
    source: str
    confidence: float


class CardUse(TypedDict):
    job: str
    busy_ratios: list[float]


class AlikeRuns(TypedDict):
    runs: int
    of: str
    jobs: list[str]
    uses: list[CardUse]


class Recommendation(TypedDict):
    advice: list[AdviceLine]
    times: list[TimesWith]
    memory: PeakMemory | None
    evidence: AlikeRuns | None
    notes: list[str]
    warnings: list[str]
    missing: list[str]
    jobs: int


class Event(TypedDict):
    id: int
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str
    actor: str
    data: dict[str, Any] | None


class JobEvent(TypedDict):
    id: int
    job: str
    name: str
    at_s: float
    kind: str
    state: str
    attempt: int
    cause: str


class Share(TypedDict):
    sm: float | None
    memory_bytes: int | None
    isolation: str
    """shared or isolated"""


class CardUser(TypedDict):
    """Of other tenants only that there is one."""

    id: str | None
    name: str | None
    user: str | None
    share: Share | None


class Sample(TypedDict):
    """None: the card does not tell."""

    at_s: float
    utilisation_ratio: float | None
    memory_utilisation_ratio: float | None
    memory_used_bytes: float | None
    power_w: float | None
    temperature_c: float | None
    sm_clock_mhz: float | None


class CardView(TypedDict):
    id: str
    uuid: str | None
    model: str
    memory_bytes: int
    index: int
    state: str
    cause: str
    jobs: list[CardUser]
    sample: Sample | None
    simulated: bool


class CardDivide(TypedDict):
    """What a card is to be divided by, and what became of that."""

    policy: str
    own: bool
    of_mode: str
    revision: int | None
    since_s: float | None
    by: str
    note: str
    effect: str
    """live, told, unused or kept"""
    message: str


class CardDivision(TypedDict):
    id: str
    uuid: str | None
    node: str
    index: int
    model: str
    memory_bytes: int
    simulated: bool
    divide: CardDivide


class TenantNow(TypedDict):
    """One of those who share a card. Of other tenants' jobs: only what room they take."""

    job: str | None
    name: str | None
    user: str | None
    id: str | None
    groups: int
    sm_ratio: float | None
    used_bytes: int
    quota_bytes: int
    peak_bytes: int | None
    weight: float | None
    priority: int | None
    slo: dict[str, Any] | None
    attainment_ratio: float | None
    credit_us: int | None
    waiting: int | None
    waited_s: float | None
    is_idle: bool | None
    processes: int | None
    isolation: str
    note: str


class StrangerNow(TypedDict):
    pid: int
    name: str
    memory_bytes: int


class CardNow(TypedDict):
    policy: str
    configuration: str
    length_us: int
    squads: int
    groups: int | None
    why: str
    failure: str
    pool: str
    tenants: list[TenantNow]
    stranger_count: int
    strangers: list[StrangerNow]
    rule: str


class CardDetail(CardDivision):
    now: CardNow | None
    """None: the card is not divided now."""


class DivideRevision(TypedDict):
    revision: int
    at_s: float
    by: str
    card: str
    policy: str | None
    note: str


class Window(TypedDict):
    id: str
    nodes: list[str]
    start_s: float
    end_s: float | None
    by: str
    cause: str


class NodeView(TypedDict):
    id: str
    rack: str
    up: bool
    drained: bool
    cpu_milli: int
    cpu_free_milli: int
    memory_bytes: int
    memory_free_bytes: int
    cards: list[CardView]
    windows: list[Window]


class ClusterView(TypedDict):
    gpus: int
    free: int
    usable: dict[str, int]
    unhealthy: int
    taken_outside: int
    simulated: bool
    mode: str


class Preemption(TypedDict):
    by: str
    min_run_s: NotRequired[float]
    most_per_job: NotRequired[int]


class PolicyView(TypedDict):
    revision: int
    mode: str
    order: str
    plan: str
    place: str
    divide: NotRequired[str]
    """How shared cards are divided that have no setting of their own."""
    preemption: Preemption
    modes: list[str]
    since_s: float
    by: str
    note: NotRequired[str]


class Revision(TypedDict):
    revision: int
    at_s: float
    by: str
    settings: dict[str, Any]
    note: str


class Moved(TypedDict):
    job: str
    before_s: float | None
    after_s: float | None


class PolicyPreview(TypedDict):
    starts: list[str]
    preempted: list[str]
    moved: list[Moved]


class UsageRow(TypedDict):
    key: str
    tenant: str
    gpu_hours: float
    jobs: int
    attempts: int


class PredictionErrors(TypedDict):
    """Of one tenant, or of one source. Only runs that ended by themselves are judged; None: there was none."""

    key: str
    count: int
    """Runs that are judged."""
    cut: int
    """Runs that something else ended: how long they would have taken nobody knows."""
    median_ratio: float | None
    """Half of the runs were this near to the middle of their prediction or nearer, in parts of the truth."""
    mean_error_s: float | None
    within_p50: float | None
    """Part that ended by then; with a good prediction a half."""
    within_p90: float | None
    within_p99: float | None
    pinball_s: float | None
    """The mean pinball loss over the levels: one number for how near and how honest. Less is better."""
    bias: float | None
    """The median of ln(truth / middle): above 0, runs take longer than said."""


class Calibration(TypedDict):
    """Of runs of one source, the part that ended by the value predicted at a level."""

    source: str
    level: float
    observed: float
    count: int


class PredictionPoint(TypedDict):
    """One prediction and what came of it."""

    source: str
    predicted_s: float
    truth_s: float


class Predictions(TypedDict):
    since_s: float
    count: int
    tenants: list[PredictionErrors]
    sources: list[PredictionErrors]
    calibration: list[Calibration]
    points: list[PredictionPoint]


class Me(TypedDict):
    user: str
    tenant: str
    role: str
    scopes: list[str]


class Tenant(TypedDict):
    name: str
    weight: float
    guaranteed_gpus: int | None
    limit_gpus: int | None
    reclaim_s: float
    max_pending: int | None
    on_hang: str
    run_as: str | None


class User(TypedDict):
    name: str
    tenant: str
    role: str
    disabled: bool


class Token(TypedDict):
    id: str
    user: str
    label: str
    scopes: list[str]
    created_s: float
    expires_s: float | None
    revoked_s: float | None
    last_used_s: float | None


class NewToken(Token):
    token: str


class AuditRow(TypedDict):
    at_s: float
    actor: str
    action: str
    target: str
    data: dict[str, Any] | None


class SecretName(TypedDict):
    name: str


class NoticeRule(TypedDict):
    id: int
    kinds: list[str]
    url: str
    label: str
    created_s: float


class Notice(TypedDict):
    id: int
    rule: int
    job: str
    kind: str
    title: str
    state: str
    tries: int
    error: str
    created_s: float
