"""Reports of agents. Agents may be newer than the service, so unknown fields are ignored, not refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from gpusquad.model.fields import MAX_TEXT
from gpusquad.model.waits import WaitKind
from gpusquad.server.safe_text import one_line
from gpusquad.server.schemas.base import ApiView

MAX_CARDS = 256
MAX_PROCESSES = 1024
MAX_RUNS = 1024
MAX_TENANTS = 64
_MAX_COUNT = 2**62
Ratio = Annotated[float, Field(ge=0, le=1)]
Amount = Annotated[float, Field(ge=0, le=1e15)]
Count = Annotated[int, Field(ge=0, le=_MAX_COUNT)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f\x7f]*$")]
Name = Annotated[Text, BeforeValidator(lambda text: one_line(str(text), MAX_TEXT))]
"""Programs choose their own names, which must not invalidate the report of a node."""
Id = Annotated[str, StringConstraints(min_length=1, max_length=MAX_TEXT, pattern=r"^[^\x00-\x1f\x7f]+$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", allow_inf_nan=False)


class ProcessSample(_Part):
    pid: Count
    memory_bytes: Count | None = None
    name: Name = ""
    job: Id | None = None
    attempt: Count | None = None
    unheld: bool = False
    """Of a pod with a share of the card, running without the shim."""


class TenantDivided(_Part):
    """A GPU client on a shared card, as the card daemon reports it."""

    id: Id
    job: Text = ""
    weight: Amount = 1.0
    priority: Annotated[int, Field(ge=-_MAX_COUNT, le=_MAX_COUNT)] = 0
    slo: Annotated[dict[Text, Amount], Field(max_length=16)] = Field(default_factory=dict)
    groups: Count = 0
    credit_us: Count | None = None
    used_bytes: Count = 0
    quota_bytes: Count = 0
    peak_bytes: Count | None = None
    attainment: Ratio | None = None
    waiting: Count = 0
    waited_us: Count = 0
    is_idle: bool = True
    processes: Count = 0
    iterations_per_s: Amount | None = None
    isolation: Text = ""
    note: Name = ""


class StrangerDivided(_Part):
    pid: Count
    name: Name = ""
    memory_bytes: Count = 0


class CardDivided(_Part):
    """Current division of a card, as its daemon reports it."""

    policy: Name
    groups: Count | None = None
    configuration: Text = ""
    length_us: Count = 0
    squads: Count = 0
    why: Name = ""
    failure: Name = ""
    mps: Name = ""
    context_bytes: Count = 0
    rule: Text = ""
    tenants: Annotated[list[TenantDivided], Field(max_length=MAX_TENANTS)] = Field(default_factory=list)
    strangers: Annotated[list[StrangerDivided], Field(max_length=MAX_PROCESSES)] = Field(default_factory=list)


class SelfTestSample(_Part):
    """Result of the last self-test of a card."""

    passed: bool | None
    detail: Name = ""
    at_us: Count
    took_s: Amount = 0.0


class CardSample(_Part):
    id: Id
    utilisation_ratio: Ratio | None = None
    memory_utilisation_ratio: Ratio | None = None
    memory_used_bytes: Count | None = None
    memory_total_bytes: Count | None = None
    power_w: Amount | None = None
    power_limit_w: Amount | None = None
    idle_power_w: Amount | None = None
    temperature_c: Annotated[float, Field(ge=-300, le=1000)] | None = None
    sm_clock_mhz: Count | None = None
    memory_clock_mhz: Count | None = None
    ecc_corrected: Count | None = None
    ecc_uncorrected: Count | None = None
    throttle: Annotated[list[Text], Field(max_length=64)] | None = None
    received_bytes_s: Amount | None = None
    idle_received_bytes_s: Amount | None = None
    computes: bool | None = None
    processes: Annotated[list[ProcessSample], Field(max_length=MAX_PROCESSES)] = Field(default_factory=list)
    self_test: SelfTestSample | None = None
    """None: it was not tested since the start of the agent."""
    divided: CardDivided | None = None
    """None: not shared."""


class RunSample(_Part):
    job: Id
    attempt: Count | None = None
    """None: its pods do not name it, so it is the running one."""
    cards: Annotated[list[Id], Field(max_length=MAX_CARDS)] = Field(default_factory=list)
    live_pods: Count = 1
    """Pods that have not ended."""
    last_output_us: Count | None = None
    log_bytes: Count = 0
    step: Count | None = None
    total: Count | None = None
    progress_at_us: Count | None = None
    reported_us: Count | None = None
    new_us: Count | None = None
    repeated: Count = 0
    troubles: Count = 0
    crashes: Count = 0
    succeeds: bool = False
    retry_us: Count | None = None
    retries: Count = 0
    alike_us: Count | None = None
    alike: Count = 0
    same_step: Count = 0
    same_step_us: Count | None = None
    longest_step_us: Count | None = None
    improved_us: Count | None = None
    ahead_us: Count | None = None
    falls: Count = 0
    restarts: Count = 0
    nan_us: Count | None = None
    nan_lines: Count = 0
    nan_doubtful: bool = False
    has_losses: bool = False
    waits: WaitKind | None = None
    waits_detail: Name = ""
    stopped_us: Count | None = None
    stopped_detail: Name = ""
    disk_bytes: Count | None = None
    cpu_ratio: Amount | None = None
    rss_bytes: Count = 0
    gpu_ratio: Ratio | None = None


class AgentSamples(_Part):
    kind: Literal["samples"]
    at_us: Count
    cards: Annotated[list[CardSample], Field(max_length=MAX_CARDS)]
    runs: Annotated[list[RunSample], Field(max_length=MAX_RUNS)] = Field(default_factory=list)


class ReportAnswer(ApiView):
    """Answer to an agent's report."""

    ok: bool
    divide: dict[str, str] = Field(description="Divide policy of each card of the node")
    tests: list[str] = Field(default=[], description="Cards of the node to test as soon as no job uses them")
