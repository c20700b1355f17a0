"""Jobs: gangs of tasks, their requests and what is known of their run time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

from gpusquad.model.errors import Invalid
from gpusquad.model.lazy import lazy
from gpusquad.model.priority import DEFAULT_PRIORITY, PRIORITY_CLASSES, card_level_of, level_of, priority_text
from gpusquad.model.units import WHOLE_MILLI

Isolation = Literal["shared", "isolated"]
"""Of a GPU client on a shared card. ``shared``: runs concurrently with its neighbours (MPS); a fatal fault of one ends
all. ``isolated``: time-sliced, in a context of its own."""
ProfileSource = Literal["declared", "measured", "predicted"]
SLOT_SM_MILLI = 1
"""An SM share of one thousandth without memory requests a slot on a card and no part of its memory."""
SLOT_MEMORY_BYTES = 1 << 30
"""Memory accounted for such a slot, because a client cannot use a card with less free memory."""


@dataclass(frozen=True, slots=True)
class Share:
    """A request for part of one card. ``sm_milli`` 0 guarantees no SMs (best effort)."""

    memory_bytes: int = 0
    sm_milli: int = 0
    isolation: Isolation = "shared"
    memory_milli: int = 0
    """Thousandths of the card's memory if no bytes are given. If neither is given, equal to ``sm_milli``."""

    def __post_init__(self) -> None:
        if self.memory_bytes < 0:
            raise Invalid("share.memory", f"{self.memory_bytes} is negative")
        if not 0 <= self.sm_milli <= WHOLE_MILLI:
            raise Invalid("share.sm", f"{self.sm_milli} thousandths is outside 0 to 1000", "use 0 to 1")
        if self.isolation not in ("shared", "isolated"):
            raise Invalid("share.isolation", f"{self.isolation!r} is unknown", "use shared or isolated")
        if not 0 <= self.memory_milli <= WHOLE_MILLI:
            raise Invalid("share.memory", f"{self.memory_milli} thousandths is outside 0 to 1000", "use 0 to 1")
        if not (self.memory_bytes or self.sm_milli or self.memory_milli):
            raise Invalid("share", "requests no resources", "set memory, sm or both")
        if self.memory_bytes:
            object.__setattr__(self, "memory_milli", 0)
        elif not self.memory_milli and self.sm_milli > SLOT_SM_MILLI:
            object.__setattr__(self, "memory_milli", self.sm_milli)

    @property
    def is_slot_only(self) -> bool:
        """Without a memory quota: may hold memory that no other client has reserved."""
        return not (self.memory_bytes or self.memory_milli)

    @property
    def named_memory_milli(self) -> int:
        """``memory_milli`` as given by the user. 0 if bytes are given or if it follows from ``sm_milli``."""
        return 0 if self.memory_milli == self.sm_milli > SLOT_SM_MILLI else self.memory_milli

    def memory_on(self, card_bytes: int) -> int:
        """Bytes accounted for it on a card with ``card_bytes`` of memory."""
        if self.is_slot_only:
            return min(SLOT_MEMORY_BYTES, card_bytes)
        return self.memory_bytes or card_bytes * self.memory_milli // WHOLE_MILLI


@dataclass(frozen=True)
class Request:
    """Resources of one task. Equal requests are one *shape*; the core handles them together."""

    gpus: int = 0
    share: Share | None = None
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_models: tuple[str, ...] = ()
    """Accepted card models. Empty: any."""
    min_card_memory_bytes: int = 0
    """For whole GPUs: minimum memory of a card."""
    card: str | None = None
    """ID of the card that the user chose."""
    extras: tuple[tuple[str, int], ...] = ()
    """Other countable resources of a node, for example pods or network adapters: sorted names with amounts per task."""
    where: str = ""
    """Name of the set of allowed nodes, which the engine maintains (``NodeSetsChanged``). Empty: all nodes."""
    most_per_node: int = 0
    """Maximum number of tasks of this shape on one node. 0: no limit."""
    gpus_together: int = 0
    """Maximum number of its whole GPUs that one program sees, since containers of a pod have their own. 0: all."""

    def __post_init__(self) -> None:
        for name in ("gpus", "cpu_milli", "memory_bytes", "min_card_memory_bytes", "most_per_node", "gpus_together"):
            if getattr(self, name) < 0:
                raise Invalid(name, f"{getattr(self, name)} is negative")
        names = [name for name, _ in self.extras]
        if names != sorted(set(names)) or any(amount < 1 for _, amount in self.extras):
            raise Invalid("extras", f"{self.extras!r} must be sorted names, each with a positive amount")
        if self.share is not None and self.gpus:
            raise Invalid("share", "cannot be combined with gpus", "request whole GPUs or a share")
        if self.card is not None and self.share is None and self.gpus != 1:
            raise Invalid("card", "requires gpus: 1 or a share")

    @lazy
    def _hash(self) -> int:
        return hash((self.gpus, self.share, self.cpu_milli, self.memory_bytes, self.gpu_models,
                     self.min_card_memory_bytes, self.card, self.extras, self.where, self.most_per_node,
                     self.gpus_together))  # fmt: skip

    def __hash__(self) -> int:
        return self._hash

    @property
    def cards(self) -> int:
        """Number of cards that a task uses."""
        return self.gpus if self.share is None else 1

    @property
    def cards_at_once(self) -> int:
        """Number of cards that one program of the task sees."""
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
        """Minimum and maximum number of tasks."""
        low = self.count if self.min_count is None else self.min_count
        high = self.count if self.max_count is None else self.max_count
        return low, high


@dataclass(frozen=True, slots=True, eq=False)
class Gang:
    """Total request of a set of roles. Equal gangs are one object, so they are compared by identity."""

    groups: tuple[tuple[Request, int], ...]
    bounds: tuple[tuple[int, int], ...]
    tasks: int
    gpus: int
    min_gpus: int
    """Cards used when elastic roles have their minimum number of tasks."""
    gpu_milli: int
    cpu_milli: int
    memory_bytes: int
    has_shares: bool
    is_elastic: bool


@lru_cache(maxsize=65536)
def gang_of(roles: tuple[Role, ...]) -> Gang:
    """The gang of these roles, cached."""
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
    """Expected use of a card. A hint for placement, independent of the request."""

    utilisation_ratio: float = 1.0
    memory_bytes: int = 0
    bandwidth_ratio: float = 0.0
    source: ProfileSource = "declared"


@dataclass(frozen=True, slots=True)
class Slo:
    """A deadline for a batch job; latency, throughput and availability targets for a service."""

    deadline_us: int | None = None
    latency_us: int | None = None
    throughput_per_s: float | None = None
    availability_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Cost of a preemption: the work since the last checkpoint and the restart."""

    every_us: int | None = None
    """Checkpoint interval. None: no checkpoints, a preemption loses all work."""
    restart_us: int = 0
    preemptible: bool = True


@dataclass(frozen=True, slots=True)
class OfflineEstimate:
    """Run time and memory computed before the run, for example from the network. One source of predictions."""

    run_us: int | None = None
    """Median run time on the requested number of GPUs."""
    run_high_us: int | None = None
    """P90 of the run time."""
    memory_bytes: int = 0
    """Peak memory on one card. 0: unknown."""
    by_gpus: tuple[tuple[int, int], ...] = ()
    """Pairs of the gang's number of GPUs and the median run time on them, by ascending number."""
    cpu_milli: int = 0
    """CPU that one task uses. 0: unknown."""
    host_memory_bytes: int = 0
    """Peak main memory of one task. 0: unknown."""

    def __post_init__(self) -> None:
        sizes = (self.memory_bytes, self.by_gpus, self.cpu_milli, self.host_memory_bytes)
        if self.run_us is None and self.run_high_us is None and not any(sizes):
            raise Invalid("expect", "is empty", "set run, memory, by_gpus, cpu or host_memory")
        if self.run_high_us is not None and self.run_high_us < (self.run_us or 0):
            raise Invalid("expect.run_high", "is less than run", "set it to the time by which 90 % of the runs end")


@dataclass(frozen=True)
class Job:
    """A submitted job: one gang, whose tasks start together or not at all."""

    id: str
    roles: tuple[Role, ...]
    submitted_us: int = 0
    name: str = ""
    tenant: str = "default"
    user: str = ""
    queue: str = ""
    priority: str = DEFAULT_PRIORITY
    """Name of a priority class, or an integer as text."""
    lane: str = ""
    """Empty: chosen by the lane rules."""
    app: str = ""
    """Application label or image. Jobs with the same value share measurements; *standalone* groups them."""
    estimate_us: int | None = None
    limit_us: int | None = None
    slo: Slo | None = None
    profile: Profile | None = None
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    command: str = ""
    """Command on one line, shortened. Predictors use it to find similar jobs."""
    expected: OfflineEstimate | None = None
    held_until_us: int | None = None
    """Last instant at which a hold, a dependency or the retry after a failure ended. None: it was never held."""
    ran_before_us: int = 0
    """Time for which it had run by then."""
    avoid_cards: tuple[str, ...] = ()
    """Cards on which it hung. Used only if no others are free."""

    def __post_init__(self) -> None:
        if not self.id:
            raise Invalid("id", "is empty")
        if not self.roles:
            raise Invalid("roles", "is empty", "add at least one role")
        if self.priority not in PRIORITY_CLASSES:
            object.__setattr__(self, "priority", priority_text(self.priority, "priority"))
        for name in ("submitted_us", "estimate_us", "limit_us", "held_until_us", "ran_before_us"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise Invalid(name, f"{value} is negative")

    def submitted_at(self, submitted_us: int) -> Job:
        """The same job with another submit time. The deadline moves with it."""
        slo = self.slo
        if slo is not None and slo.deadline_us is not None:
            slo = replace(slo, deadline_us=slo.deadline_us + submitted_us - self.submitted_us)
        return replace(self, submitted_us=submitted_us, slo=slo)

    def eligible_from(self, at_us: int, served_gpu_us: int = 0) -> Job:
        """The same job with its place counted from this instant on. It never regains an earlier place."""
        if at_us <= self.eligible_us:
            return self
        ran_us = served_gpu_us * WHOLE_MILLI // self.gpu_milli if self.gpu_milli else 0
        return replace(self, held_until_us=at_us, ran_before_us=ran_us)

    def eligible_by(self, at_us: int) -> Job:
        """The same job with its place counted from this instant, if it counted from a later one."""
        return replace(self, held_until_us=at_us) if at_us < self.eligible_us else self

    def eligible_as(self, before: Job) -> Job:
        """The same job with the place of another version of it."""
        return replace(
            self, held_until_us=before.held_until_us, ran_before_us=before.ran_before_us, avoid_cards=before.avoid_cards
        )

    def avoiding(self, cards: Sequence[str]) -> Job:
        """The same job, placed on other cards if possible."""
        return replace(self, avoid_cards=tuple(sorted({*self.avoid_cards, *cards})))

    @lazy
    def eligible_us(self) -> int:
        """Instant from which its place in the queue counts: its submission, or the end of the last hold."""
        return max(self.submitted_us, self.held_until_us or 0)

    @lazy
    def gang(self) -> Gang:
        """Tasks by shape, with totals. Equal gangs are one object."""
        return gang_of(self.roles)

    @property
    def groups(self) -> tuple[tuple[Request, int], ...]:
        """Number of tasks by shape. Roles with equal requests are one shape."""
        return self.gang.groups

    @property
    def bounds(self) -> tuple[tuple[int, int], ...]:
        """Minimum and maximum number of tasks of each group."""
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
        """Cards used by the gang: whole GPUs plus one for each task with a share."""
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
        """Its priority as an integer: higher goes first."""
        return level_of(self.priority)

    @property
    def card_level(self) -> int:
        """Its priority on shared cards: -1 below normal, 0 normal, 1 above it, 2 urgent."""
        return card_level_of(self.priority_level)
