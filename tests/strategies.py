"""Small clusters, jobs and times for property tests, with few values each so that conflicts are frequent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from gpusquad.core.ports import CardChanged, Event, NodeChanged
from gpusquad.core.state.policies import Policies, make_policies
from gpusquad.model.cluster import GIB, Card, Cluster, MaintenanceWindow, Node, grid
from gpusquad.model.job import Checkpoint, Job, Profile, Request, Role, Share
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.simulator import Scenario, exact, simulate
from gpusquad.sim.traces import TraceJob

TICK_US = 1000
"""Times are whole ticks, so that a wake one microsecond after an end never coincides with the next event."""


def examples(number: int) -> settings:
    """``number`` examples by default; twenty times as many with the profile ``thorough``."""
    thorough = settings.get_profile("thorough").max_examples
    return settings(max_examples=number * 20 if settings().max_examples == thorough else number)


@dataclass(frozen=True, repr=False)
class Load:
    """A cluster with jobs, maintenance windows and incidents. Its repr leaves out default values."""

    cluster: Cluster
    jobs: tuple[TraceJob, ...]
    windows: tuple[MaintenanceWindow, ...] = ()
    incidents: tuple[tuple[int, Event], ...] = ()

    def run(self, plan: str = "easy", order: str = "fifo", place: str = "binpack", *, forecast: Callable = exact,
            policies: Policies | None = None, **rest: Any) -> SimulationResult:  # fmt: skip
        """Simulate it to the end."""
        policies = policies or make_policies(order, plan, place)
        rest = {"windows": self.windows, "incidents": self.incidents} | rest
        return simulate(Scenario(self.cluster, self.jobs, policies, forecast, **rest))

    def __repr__(self) -> str:
        lines = [f"cluster {_brief(self.cluster.nodes)}"]
        lines += [f"{_brief(t.job)}, run_us={t.run_us}, {t.outcome}" for t in self.jobs]
        lines += [_brief(thing) for thing in (self.windows, self.incidents) if thing]
        return "\n  ".join(["", *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))


def _brief(thing: Any) -> str:
    """Like repr, without fields that have their default."""
    if isinstance(thing, tuple):
        return f"({', '.join(_brief(x) for x in thing)})"
    if not is_dataclass(thing):
        return repr(thing)
    non_defaults = []
    for f in fields(thing):
        value = getattr(thing, f.name)
        default = f.default_factory() if f.default_factory is not MISSING else f.default
        if value != default:
            non_defaults.append(f"{f.name}={_brief(value)}")
    return f"{type(thing).__name__}({', '.join(non_defaults)})"


# -- clusters ------------------------------------------------------------------------------------------------------


@st.composite
def clusters(draw: st.DrawFn) -> Cluster:
    """One to four nodes with none to four cards: mixed models, card memory, CPU and memory."""
    nodes = []
    for n in range(draw(st.integers(1, 4))):
        cards = tuple(
            Card(f"n{n}/{c}", draw(st.sampled_from(["a", "b"])), draw(st.sampled_from([8, 16])) * GIB, domain=c // 2)
            for c in range(draw(st.integers(0, 4)))
        )
        cpu, memory = draw(st.sampled_from([(4000, 8), (8000, 16), (2000, 4)]))
        nodes.append(Node(f"n{n}", cards, cpu, memory * GIB, rack=f"r{n // 2}"))
    return Cluster(tuple(nodes))


def plain_clusters() -> st.SearchStrategy[Cluster]:
    """Equal nodes with ample CPU and memory: the number of cards decides."""
    return st.sampled_from(["1x1", "2x1", "3x1", "4x1", "1x2", "1x4", "2x2", "2x3", "4x2"]).map(grid)


# -- requests of a task --------------------------------------------------------------------------------------------

single_cards = st.just(Request(gpus=1))
whole_cards = st.integers(1, 3).map(lambda gpus: Request(gpus=gpus))
cpu_only = st.builds(Request, cpu_milli=st.sampled_from([1000, 2000, 4000]), memory_bytes=st.sampled_from([0, 2 * GIB]))
shares = st.builds(
    lambda share, cpu, memory: Request(share=share, cpu_milli=cpu, memory_bytes=memory),
    st.one_of(
        st.builds(Share, st.sampled_from([2, 4, 8, 12]).map(lambda g: g * GIB), st.sampled_from([0, 250, 500, 1000])),
        st.builds(Share, st.just(0), st.sampled_from([1, 250, 400, 700])),
    ),
    st.sampled_from([0, 1000]), st.sampled_from([0, GIB]),
)  # fmt: skip
constrained_cards = st.builds(
    Request,
    gpus=st.integers(1, 2), cpu_milli=st.sampled_from([0, 1000, 3000]), memory_bytes=st.sampled_from([0, 2 * GIB]),
    gpu_models=st.sampled_from([(), ("a",), ("b",), ("a", "b")]),
    min_card_memory_bytes=st.sampled_from([0, 0, 12 * GIB]),
)  # fmt: skip
named_cards = st.builds(
    lambda card, share: Request(gpus=0 if share else 1, share=share, card=card),
    st.sampled_from(["n0/0", "n0/1", "n1/0"]),
    st.sampled_from([None, Share(4 * GIB, 250)]),
)
requests = st.one_of(single_cards, whole_cards, cpu_only, shares, constrained_cards, named_cards)


# -- jobs ----------------------------------------------------------------------------------------------------------


def run_ticks() -> st.SearchStrategy[int]:
    return st.one_of(st.integers(1, 6), st.integers(1, 30))


def estimate_factors(kind: str) -> st.SearchStrategy[float]:
    """User estimates as fractions of the actual run time."""
    kinds = {"exact": [1.0], "over": [1.0, 1.5, 3.0], "under": [0.3, 0.6, 1.0], "any": [0.3, 0.6, 1.0, 1.5, 3.0]}
    return st.sampled_from(kinds[kind])


@st.composite
def traces(draw: st.DrawFn, number: int, request: st.SearchStrategy[Request] = requests, *, estimates: str = "exact",
           roles: int = 2, elastic: bool = False, mixed: bool = True, fates: bool = False, priorities: bool = False,
           last_tick: int = 20) -> TraceJob:  # fmt: skip
    """A gang with its submission time and run time."""
    created = []
    for r in range(draw(st.integers(1, roles)) if mixed else 1):
        count = draw(st.integers(1, 3))
        bounds = (draw(st.integers(1, count)), draw(st.integers(count, 4))) if elastic else (None, None)
        created.append(Role(f"role{r}", count, draw(request), *bounds))
    run_us = draw(run_ticks()) * TICK_US
    estimate_us = max(1, int(run_us * draw(estimate_factors(estimates))))
    job = Job(
        f"j{number}", tuple(created), draw(st.integers(0, last_tick)) * TICK_US,
        tenant=draw(st.sampled_from(["red", "blue"])), app=draw(st.sampled_from(["", "train"])),
        priority=draw(st.sampled_from(["normal", "normal", "high", "urgent"])) if priorities else "normal",
        profile=draw(st.sampled_from([None, Profile(0.4), Profile(0.9)])),
        estimate_us=estimate_us,
        limit_us=draw(st.sampled_from([None, None, 4 * TICK_US])) if fates else None,
        checkpoint=Checkpoint(draw(st.sampled_from([None, 2 * TICK_US])), draw(st.sampled_from([0, TICK_US]))),
    )  # fmt: skip
    return TraceJob(job, run_us, draw(st.sampled_from(["succeeded", "failed"])) if fates else "succeeded")


@st.composite
def windows_of(draw: st.DrawFn, cluster: Cluster, most: int = 2) -> tuple[MaintenanceWindow, ...]:
    """Maintenance windows of some nodes; each one ends."""
    created = []
    for w in range(draw(st.integers(0, most))):
        nodes = draw(st.lists(st.sampled_from([n.id for n in cluster.nodes]), min_size=1, max_size=2, unique=True))
        start = draw(st.integers(0, 40))
        created.append(
            MaintenanceWindow(f"w{w}", tuple(nodes), start * TICK_US, (start + draw(st.integers(1, 20))) * TICK_US)
        )
    return tuple(created)


@st.composite
def incidents_of(draw: st.DrawFn, cluster: Cluster, most: int = 3) -> tuple[tuple[int, Event], ...]:
    """Cards that fail and nodes that are drained; all of them recover."""
    cards = [card.id for node in cluster.nodes for card in node.cards]
    created: list[tuple[int, Event]] = []
    things = [(NodeChanged, node.id) for node in cluster.nodes] + [(CardChanged, card) for card in cards]
    for kind, name in draw(st.lists(st.sampled_from(things), max_size=most, unique=True)):
        start = draw(st.integers(0, 40))
        created.append((start * TICK_US, kind(name, False)))
        created.append(((start + draw(st.integers(1, 20))) * TICK_US, kind(name, True)))
    return tuple(created)


@st.composite
def loads(draw: st.DrawFn, cluster: st.SearchStrategy[Cluster] | None = None,
          request: st.SearchStrategy[Request] = requests, *, most: int = 10,
          windows: bool = False, incidents: bool = False, **job_options: Any) -> Load:  # fmt: skip
    """A cluster with jobs and, on request, maintenance windows and incidents."""
    chosen = draw(clusters() if cluster is None else cluster)
    jobs = tuple(draw(traces(i, request, **job_options)) for i in range(draw(st.integers(1, most))))
    return Load(
        chosen, jobs,
        draw(windows_of(chosen)) if windows else (),
        draw(incidents_of(chosen)) if incidents else (),
    )  # fmt: skip


# -- explicit jobs -------------------------------------------------------------------------------------------------


def gang(name: str, cards: int, run: float, at: float = 0, *, estimate: float | None = None, **rest: Any) -> TraceJob:
    """A job with ``cards`` one-card tasks; times in seconds."""
    roles = (Role("worker", cards, Request(gpus=1)),)
    return make_trace(name, roles, run, at, estimate=estimate, **rest)


def make_trace(name: str, roles: Sequence[Role] | Request, run: float, at: float = 0, *, estimate: float | None = None,
         **rest: Any) -> TraceJob:  # fmt: skip
    """A job with these roles, or with one task of this request; times in seconds."""
    roles = (Role("task", 1, roles),) if isinstance(roles, Request) else tuple(roles)
    estimate_us = round((run if estimate is None else estimate) * 1e6)
    return TraceJob(Job(name, roles, round(at * 1e6), estimate_us=estimate_us, **rest), round(run * 1e6))


def starts_s(result: SimulationResult) -> dict[str, float | None]:
    """Start time of each job, in seconds."""
    return {o.job.id: None if o.started_us is None else o.started_us / 1e6 for o in result.outcomes}
