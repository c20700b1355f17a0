"""Jobs: gangs of tasks with what each task asks for, and what is known of their run time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.lazy import lazy
from gpusquad.model.units import WHOLE_MILLI

Isolation = Literal["shared", "isolated"]
"""Of a tenant on a shared card. ``shared``: runs beside its neighbours (MPS), so that a fatal fault of one reaches all.
``isolated``: a context of its own that takes turns with the others."""
ProfileSource = Literal["declared", "measured", "predicted"]
URGENT = "urgent"
SLOT_SM_MILLI = 1
"""The smallest part of the SMs stands for a place on a card, without a part of its memory."""
SLOT_MEMORY_BYTES = 1 << 30
"""What is counted for a place all the same: it is of no use where less of the card's memory is left."""
PRIORITY_CLASSES = {"low": -1, "normal": 0, "high": 1, URGENT: 2}


@dataclass(frozen=True, slots=True)
class Share:
    """A part of one card. ``sm_milli`` 0 means no part of the SMs is held: best effort."""

    memory_bytes: int = 0
    sm_milli: int = 0
    isolation: Isolation = "shared"
    memory_milli: int = 0
    """Thousandths of the card's memory, where no bytes are named; if neither is, as many as of the SMs."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 0:
            raise Invalid("share.memory", f"{self.memory_bytes} is negative")
        if not 0 <= self.sm_milli <= WHOLE_MILLI:
            raise Invalid("share.sm", f"{self.sm_milli} thousandths is not a share of one GPU", "use 0 to 1")
        if self.isolation not in ("shared", "isolated"):
            raise Invalid("share.isolation", f"{self.isolation!r} is not known", "use shared or isolated")
        if not 0 <= self.memory_milli <= WHOLE_MILLI:
            raise Invalid("share.memory", f"{self.memory_milli} thousandths is not a part of one card", "use 0 to 1")
        if not (self.memory_bytes or self.sm_milli or self.memory_milli):
            raise Invalid("share", "asks for nothing", "give memory, sm or both")
        if self.memory_bytes:
            object.__setattr__(self, "memory_milli", 0)
        elif not self.memory_milli and self.sm_milli > SLOT_SM_MILLI:
            object.__setattr__(self, "memory_milli", self.sm_milli)

    @property
    def is_slot_only(self) -> bool:
        """It may hold what nobody else on the card was promised."""
        return not (self.memory_bytes or self.memory_milli)

    @property
    def named_memory_milli(self) -> int:
        """0 where it need not be said: bytes are named, or it follows from the part of the SMs."""
        return 0 if self.memory_milli == self.sm_milli > SLOT_SM_MILLI else self.memory_milli

    def memory_on(self, card_bytes: int) -> int:
        """What is counted for it on a card with that much memory."""
        if self.is_slot_only:
            return min(SLOT_MEMORY_BYTES, card_bytes)
        return self.memory_bytes or card_bytes * self.memory_milli // WHOLE_MILLI


@dataclass(frozen=True)
class Request:
    """What one task asks for. Equal requests are one *shape*: the core decides them together."""

    gpus: int = 0
    share: Share | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_models: tuple[str, ...] = ()
    """Any of these models will do; empty: any model."""
    min_card_memory_bytes: int = 0
    """For whole GPUs: the least memory a card must have."""
    card: str | None = None
    """A card named by the user."""
    extras: tuple[tuple[str, int], ...] = ()
    """Whatever else a node has so many of: names in order, with the amount a task takes (pods, network adapters)."""
    where: str = ""
    """The name of a set of nodes, which the engine keeps (``NodesAllowed``): nowhere else. Empty: anywhere."""
    most_per_node: int = 0
    """No more tasks of this shape on one node. 0: as many as fit."""
    gpus_together: int = 0
    """The most of its whole GPUs that one program of the task sees: containers of a pod have theirs apart. 0: all."""

    def __post_init__(self) -> None:
        for name in ("gpus", "cpu_milli", "memory_bytes", "min_card_memory_bytes", "most_per_node", "gpus_together"):
            if getattr(self, name) < 0:
                raise Invalid(name, f"{getattr(self, name)} is negative")
        names = [name for name, _ in self.extras]
        if names != sorted(set(names)) or any(amount < 1 for _, amount in self.extras):
            raise Invalid("extras", f"{self.extras!r} are not names in order, each with a positive amount")
        if self.share is not None and self.gpus:
            raise Invalid("share", "a task asks for whole GPUs or for a share of one, not both")
        if self.card is not None and self.share is None and self.gpus != 1:
            raise Invalid("card", "a named card goes with gpus: 1 or a share")

    @lazy
    def _hash(self) -> int:
        return hash((self.gpus, self.share, self.cpu_milli, self.memory_bytes, self.gpu_models,
                     self.min_card_memory_bytes, self.card, self.extras, self.where, self.most_per_node,
                     self.gpus_together))  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    @property
    def cards(self) -> int:
        """How many cards a task touches."""
        return self.gpus if self.share is None else 1

    @property
    def cards_at_once(self) -> int:
        """How many cards one program of it sees."""
        return min(self.cards, self.gpus_together or self.cards)

    @property
    def gpu_milli(self) -> int:
        """GPU demand in thousandths of a card. A share of memory alone counts as no SM demand."""
        return self.gpus * WHOLE_MILLI if self.share is None else self.share.sm_milli

    @lazy
    def needs_only_idle_cards(self) -> bool:
        """One idle card of any kind is all a task needs, so a gang fits if that many cards are idle."""
        return self == Request(gpus=1)


@dataclass(frozen=True, slots=True)
class Role:
    """``count`` equal tasks of a gang. An elastic role may start with fewer or more."""

    name: str
    count: int
    request: Request
    min_count: int | None = None
    max_count: int | None = None

    def __post_init__(self) -> None:
        if self.count < 1:
            raise Invalid("count", f"{self.count} is less than one task")
        low, high = self.bounds
        if not 1 <= low <= self.count <= high:
            raise Invalid("count", f"{self.count} is outside {low} to {high}", "keep min <= count <= max")

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the most tasks it may run with."""
        low = self.count if self.min_count is None else self.min_count
        high = self.count if self.max_count is None else self.max_count
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """What a set of roles asks for as a whole. Compared by identity: equal gangs are one object."""

    groups: tuple[tuple[Request, int], ...]
    bounds: tuple[tuple[int, int], ...]
    tasks: int
    gpus: int
    min_gpus: int
    """Cards touched when elastic roles run at their least."""
    gpu_milli: int
    cpu_milli: int
    memory_bytes: int
    has_shares: bool
    is_elastic: bool


@lru_cache(maxsize=65536)
def gang_of(roles: tuple[Role, ...]) -> Gang:
    """Worked out once for all jobs with such roles."""
    counts: dict[Request, list[int]] = {}
    for role in roles:
        low, high = role.bounds
        entry = counts.setdefault(role.request, [0, 0, 0])
        counts[role.request] = [entry[0] + role.count, entry[1] + low, entry[2] + high]
    groups = tuple((request, entry[0]) for request, entry in counts.items())
    return Gang(
        groups=groups,
        bounds=tuple((low, high) for _, low, high in counts.values()),
        tasks=sum(count for _, count in groups),
        gpus=sum(count * request.cards for request, count in groups),
        min_gpus=sum(entry[1] * request.cards for request, entry in counts.items()),
        gpu_milli=sum(count * request.gpu_milli for request, count in groups),
        cpu_milli=sum(count * request.cpu_milli for request, count in groups),
        memory_bytes=sum(count * request.memory_bytes for request, count in groups),
        has_shares=any(request.share is not None for request, _ in groups),
        is_elastic=any(low != high for _, low, high in counts.values()),
    )


@dataclass(frozen=True, slots=True)
class Profile:
    """What the job is expected to use of a card: soft, apart from what it asks for."""

    utilisation_ratio: float = 1.0
    memory_bytes: int = 0
    bandwidth_ratio: float = 0.0
    source: ProfileSource = "declared"


@dataclass(frozen=True, slots=True)
class Slo:
    """A goal: a deadline for a batch job; latency, throughput, availability for a service."""

    deadline_us: int | None = None
    latency_us: int | None = None
    throughput_per_s: float | None = None
    availability_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a preemption costs: the work since the last checkpoint and the restart."""

    every_us: int | None = None
    """None: no checkpoint, all work is lost."""
    restart_us: int = 0
    preemptible: bool = True


@dataclass(frozen=True, slots=True)
class OfflineEstimate:
    """What was worked out before the job ran, by a model of its network say: one source of forecasts among others."""

    run_us: int | None = None
    """The middle of what is expected, for as many GPUs as it asks for."""
    run_high_us: int | None = None
    """Nine runs of ten are expected to be over by then."""
    memory_bytes: int = 0
    """The most that one card will hold of it. 0: not known."""
    by_gpus: tuple[tuple[int, int], ...] = ()
    """GPUs of the whole gang, and the middle run time with so many; the fewest first."""

    def __post_init__(self) -> None:
        if self.run_us is None and self.run_high_us is None and not self.memory_bytes and not self.by_gpus:
            raise Invalid("expect", "says nothing", "give run, memory or by_gpus")
        if self.run_high_us is not None and self.run_high_us < (self.run_us or 0):
            raise Invalid("expect.run_high", "is less than run", "it is the time within which nine runs of ten end")


@dataclass(frozen=True)
class Job:
    """A gang: all of its tasks start together or none does."""

    id: str
    roles: tuple[Role, ...]
    submitted_us: int = 0
    name: str = ""
    tenant: str = "default"
    user: str = ""
    queue: str = ""
    priority: str = "normal"
    lane: str = ""
    """Set by the lane rules when empty."""
    app: str = ""
    """Application label or image: what *standalone* means by like with like."""
    estimate_us: int | None = None
    limit_us: int | None = None
    slo: Slo | None = None
    profile: Profile | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    command: str = ""
    """What it runs, on one line and cut short: tells alike jobs by."""
    expected: OfflineEstimate | None = None

    def __post_init__(self) -> None:
        if not self.id:
            raise Invalid("id", "is empty")
        if not self.roles:
            raise Invalid("roles", "a job needs at least one role")
        if self.priority not in PRIORITY_CLASSES:
            raise Invalid("priority", f"{self.priority!r} is none of {', '.join(PRIORITY_CLASSES)}")
        for name in ("submitted_us", "estimate_us", "limit_us"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise Invalid(name, f"{value} is negative")

    def submitted_at(self, submitted_us: int) -> Job:
        """The same job, had it come then. Its deadline is as long after that as it was said to be."""
        slo = self.slo
        if slo is not None and slo.deadline_us is not None:
            slo = replace(slo, deadline_us=slo.deadline_us + submitted_us - self.submitted_us)
        return replace(self, submitted_us=submitted_us, slo=slo)

    @lazy
    def gang(self) -> Gang:
        """The tasks by shape, with their sums; equal gangs are one object."""
        return gang_of(self.roles)

    @property
    def groups(self) -> tuple[tuple[Request, int], ...]:
        """Tasks by shape: roles that ask for the same are decided together."""
        return self.gang.groups

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """The least and the most tasks of each group."""
        return self.gang.bounds

    @property
    def has_shares(self) -> bool:
        return self.gang.has_shares

    @property
    def is_elastic(self) -> bool:
        return self.gang.is_elastic

    @property
    def tasks(self) -> int:
        return self.gang.tasks

    @property
    def gpus(self) -> int:
        """Cards touched by the whole gang: whole GPUs plus one for each shared task."""
        return self.gang.gpus

    @property
    def gpu_milli(self) -> int:
        return self.gang.gpu_milli

    @property
    def cpu_milli(self) -> int:
        return self.gang.cpu_milli

    @property
    def memory_bytes(self) -> int:
        return self.gang.memory_bytes

    @property
    def priority_level(self) -> int:
        return PRIORITY_CLASSES[self.priority]
