"""A simulated card: kernels of GPU clients under the real squad loop and a real policy, in virtual time.

Kernels of one client run one after another without interruption. Kernels of several clients run concurrently, at the
speeds that ``effective`` gives for the shares of the running clients. The gate and lending work as in the shim: a
client launches while it has credit, or while all its neighbours are idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from gpusquad.gpu.daemon.client import GpuClientSpec
from gpusquad.gpu.daemon.squad_loop import LoopTiming, SquadLoop
from gpusquad.gpu.region.pages import ClientPage, Grant
from gpusquad.model.squad import EffectiveRate, GpuClient, ShareableCard
from tests.gpu.daemon.memory_region import MemoryRegion

_TINY = 1e-6
_SLOWLY = 0.2
_BATCH = 16
"""Kernels per iteration of a batch job."""


@dataclass(frozen=True)
class Load:
    """The work of a GPU client."""

    facts: GpuClientSpec
    kernel_us: float = 100.0
    """Duration of a kernel alone on the whole card."""
    work_us: float = inf
    """Total work of a batch job, after which it ends."""
    arrivals_us: tuple[int, ...] | None = None
    """Arrival times of a service's requests; None for a batch job."""
    request_kernels: int = 10
    gap_us: float = 0.0
    """Time of the program between two launches."""
    max_queued: int = 256
    """Maximum number of kernels queued on the card."""
    start_us: int = 0


@dataclass
class _Kernel:
    left_us: float
    mask: int
    predicted_us: float
    request: int
    started_us: float = -1.0


@dataclass
class Outcome:
    """Results of a GPU client."""

    done_us: float = 0.0
    """Work done, as time alone on the whole card."""
    kernels: int = 0
    ended_us: float | None = None
    latencies_us: list[float] = field(default_factory=list)
    longest_wait_us: float = 0.0
    """Longest wait at the gate with nothing queued on the card."""


class _Program:
    """The client side: the program, the gate, and its queue on the card."""

    def __init__(self, load: Load, slot: int) -> None:
        self.load, self.slot = load, slot
        self.queue: deque[_Kernel] = deque()
        self.outcome = Outcome()
        self._predicted_us: dict[int, float] = {}
        self.requested_us = self.done_us = 0.0
        self.launches = 0
        self.left_us = load.work_us if load.arrivals_us is None else 0.0
        self.requests: deque[tuple[int, int]] = deque()
        self._arrivals = deque(load.arrivals_us or ())
        self._ready_us = 0.0
        self._open: dict[int, list] = {}
        self.waiting = False
        self.busy_us = -inf
        self.starved_us: float | None = None
        self.finished: list[float] = []
        self.facts = GpuClient(slot, load.facts.id, curve=load.facts.curve)

    @property
    def is_idle(self) -> bool:
        return not self.queue and not self.waiting

    @property
    def has_work(self) -> bool:
        return self.left_us > _TINY or bool(self.requests)

    def arrive(self, now_us: float) -> None:
        while self._arrivals and self._arrivals[0] <= now_us + _TINY:
            at_us = self._arrivals.popleft()
            self.requests.append((at_us, self.load.request_kernels))
            self._open[at_us] = [self.load.request_kernels, at_us]

    def next_us(self, now_us: float) -> float:
        """Time of its next arrival or launch."""
        arrival_us = self._arrivals[0] if self._arrivals else inf
        launch_us = self._ready_us if self.has_work and self._ready_us > now_us + _TINY else inf
        return min(arrival_us, launch_us)

    @property
    def queued_us(self) -> float:
        return sum(kernel.predicted_us for kernel in self.queue)

    def launch(self, now_us: float, grant: Grant, free: bool, loan_us: int) -> bool:
        """Launch one kernel if there is work and the gate is open. Returns whether it did."""
        if not self.has_work or self._ready_us > now_us + _TINY or len(self.queue) >= self.load.max_queued:
            self.waiting = False
            return False
        held = self.requested_us >= grant.credit_us
        if held and free:  # a borrower may have up to its loan queued
            held = self.queued_us >= loan_us
        self.waiting = held
        if held:
            return False
        masked = not free and (not grant.restricted_us or self.requested_us < grant.restricted_us)
        mask = grant.mask if masked else grant.virtual_card_mask
        predicted_us = self._predicted_us.get(mask.bit_count(), self.load.kernel_us)
        self.queue.append(_Kernel(self._take(), mask, predicted_us, self._request()))
        self.requested_us += predicted_us
        self.launches += 1
        self._ready_us = now_us + self.load.gap_us
        return True

    def _take(self) -> float:
        work_us = self.load.kernel_us if self.load.arrivals_us is not None else min(self.load.kernel_us, self.left_us)
        self.left_us -= work_us if self.load.arrivals_us is None else 0.0
        return work_us

    def _request(self) -> int:
        if not self.requests:
            return -1
        at_us, left = self.requests.popleft()
        if left > 1:
            self.requests.appendleft((at_us, left - 1))
        return at_us

    def complete(self, now_us: float) -> None:
        kernel = self.queue.popleft()
        took_us = now_us - kernel.started_us
        self.done_us += kernel.predicted_us
        groups = kernel.mask.bit_count()  # kernels take longer on fewer groups, so predictions are per number of groups
        before_us = self._predicted_us.get(groups, took_us)
        self._predicted_us[groups] = before_us + _SLOWLY * (took_us - before_us)
        self.outcome.kernels += 1
        if kernel.request >= 0:
            entry = self._open[kernel.request]
            entry[0] -= 1
            if entry[0] == 0:
                self.finished.append(now_us - entry[1])
                self.outcome.latencies_us.append(now_us - entry[1])
                del self._open[kernel.request]
        if not self.queue and self.left_us <= _TINY and self.load.arrivals_us is None:
            self.outcome.ended_us = now_us

    def is_busy(self, now_us: float, linger_us: int) -> bool:
        """Whether neighbours regard it as busy."""
        self.busy_us = now_us if not self.is_idle else self.busy_us
        return now_us - self.busy_us < max(linger_us, _TINY)

    def page(self) -> ClientPage:
        """The client page as the shim writes it: whole microseconds, completion per batch."""
        mask = self.queue[0].mask if self.queue else 0
        return ClientPage(
            int(self.requested_us), int(self.done_us), self.launches,
            self.outcome.kernels // (_BATCH if self.load.arrivals_us is None else self.load.request_kernels),
            min(len(self.queue), 4), int(self.waiting), mask_now=mask, pids=(1000 + self.slot,),
        )  # fmt: skip


class CardSim:
    """``CardSim(loads, "jct", card, effective).run(1_000_000)``"""

    def __init__(
        self,
        loads: Sequence[Load],
        policy: str,
        card: ShareableCard,
        effective: EffectiveRate,
        pace: LoopTiming | None = None,
    ) -> None:
        self.card, self.effective = card, effective
        self.region = MemoryRegion()
        self.squads = SquadLoop(self.region, card, policy, effective, pace=pace)
        self.now_us = 0.0
        self.bubble_us = 0.0
        """Time in which the card was idle while a client waited at the gate."""
        self.longest_bubble_us = 0.0
        self.busy_us = 0.0
        self.programs: dict[int, _Program] = {}
        self.outcomes: dict[str, Outcome] = {}
        self._pending = sorted(loads, key=lambda load: load.start_us)
        self._next_step_us = 0.0
        self._bubble_now_us = 0.0

    def run(self, until_us: float, switches: Mapping[int, str] | None = None) -> CardSim:
        """``switches``: policy changes by time."""
        due = sorted((switches or {}).items())
        while self.now_us < until_us - _TINY and (self.programs or self._pending):
            self._arrivals()
            while due and due[0][0] <= self.now_us + _TINY:
                self.squads.set_policy(due.pop(0)[1])
                self._next_step_us = self.now_us
            if self._next_step_us <= self.now_us + _TINY:
                self._step()
            self._launch_all()
            self._advance(min(self._next_us(), until_us, due[0][0] if due else inf))
        return self

    def _arrivals(self) -> None:
        while self._pending and self._pending[0].start_us <= self.now_us + _TINY:
            load = self._pending.pop(0)
            slot = self.squads.attach(load.facts, int(self.now_us))
            self.programs[slot] = _Program(load, slot)
            self.outcomes[load.facts.id] = self.programs[slot].outcome
            self._next_step_us = self.now_us
        for program in self.programs.values():
            program.arrive(self.now_us)

    def _step(self) -> None:
        for slot, program in self.programs.items():
            self.region.pages[slot] = program.page()
            if program.finished:
                self.squads.report(program.load.facts.id, program.finished, int(self.now_us))
                program.finished = []
        self._next_step_us = self.now_us + self.squads.step(int(self.now_us))

    def _launch_all(self) -> None:
        """Launch until no client can. The clients alternate, because a launch gates the neighbours again."""
        has_launched = True
        while has_launched:
            has_launched = False
            for slot, program in self.programs.items():
                grant = self.region.grants[slot]
                loan_us = grant.loan_us or self.card.loan_us
                has_launched |= program.launch(self.now_us, grant, self._is_free(slot), loan_us)

    def _is_free(self, slot: int) -> bool:
        grant = self.region.grants[slot]
        neighbours = [self.programs[other] for other in self.programs if grant.neighbours >> other & 1]
        return grant.borrows and all(neighbour.is_idle for neighbour in neighbours)

    def _yields(self, slot: int) -> bool:
        """Whether the client waits between two kernels because a client on its yield list is busy."""
        grant, program = self.region.grants[slot], self.programs[slot]
        preferred = [self.programs[other] for other in self.programs if grant.yield_to >> other & 1]
        busy = [client.is_busy(self.now_us, grant.linger_us) for client in preferred]
        return program.queue[0].started_us < 0 and any(busy)

    def _linger_end_us(self) -> float:
        """Earliest time at which a yielding client may continue without another event."""
        earliest_us = inf
        for slot, program in self.programs.items():
            grant = self.region.grants[slot]
            for other in self.programs:
                ends_us = self.programs[other].busy_us + grant.linger_us
                if program.queue and grant.yield_to >> other & 1 and ends_us > self.now_us + _TINY:
                    earliest_us = min(earliest_us, ends_us)
        return earliest_us

    def _running(self) -> Iterator[tuple[_Program, float]]:
        """The clients with a running kernel, with their speeds."""
        heads = [program for slot, program in self.programs.items() if program.queue and not self._yields(slot)]
        shares = [(program.facts, self.card.share_milli(program.queue[0].mask.bit_count())) for program in heads]
        for at, program in enumerate(heads):
            others = shares[:at] + shares[at + 1 :]
            yield program, max(self.effective(shares[at][0], shares[at][1], others), 1e-3)

    def _next_us(self) -> float:
        own_us = min((program.next_us(self.now_us) for program in self.programs.values()), default=inf)
        arrival_us = self._pending[0].start_us if self._pending else inf
        return min(own_us, arrival_us, self._next_step_us, self._linger_end_us())

    def _advance(self, to_us: float) -> None:
        running = list(self._running())
        end_us = min((self.now_us + program.queue[0].left_us / speed for program, speed in running), default=inf)
        to_us = max(min(to_us, end_us), self.now_us)
        self._count(to_us - self.now_us, bool(running))
        for program, speed in running:
            kernel = program.queue[0]
            kernel.started_us = self.now_us if kernel.started_us < 0 else kernel.started_us
            worked_us = (to_us - self.now_us) * speed
            kernel.left_us -= worked_us
            program.outcome.done_us += worked_us
        self.now_us = to_us
        for program, _ in running:
            if program.queue[0].left_us <= _TINY:
                program.complete(to_us)
        self._departures()

    def _count(self, passed_us: float, busy: bool) -> None:
        held = any(program.waiting or program.queue for program in self.programs.values())
        self._bubble_now_us = self._bubble_now_us + passed_us if held and not busy else 0.0
        self.bubble_us += passed_us if held and not busy else 0.0
        self.longest_bubble_us = max(self.longest_bubble_us, self._bubble_now_us)
        self.busy_us += passed_us if busy else 0.0
        for slot, program in self.programs.items():
            starved = self._yields(slot) if program.queue else program.waiting
            program.starved_us = (program.starved_us or 0.0) + passed_us if starved else None
            program.outcome.longest_wait_us = max(program.outcome.longest_wait_us, program.starved_us or 0.0)

    def _departures(self) -> None:
        for slot, program in list(self.programs.items()):
            if program.outcome.ended_us is not None:
                self.squads.detach(program.load.facts.id)
                del self.programs[slot]
                self._next_step_us = self.now_us


def mean_jct_us(outcomes: Mapping[str, Outcome], loads: Sequence[Load]) -> float:
    """Mean JCT of the batch jobs that ended."""
    times = [
        ended - load.start_us for load in loads if (ended := outcomes[load.facts.id].ended_us) is not None
    ]  # fmt: skip
    return sum(times) / len(times)


def with_remaining(load: Load) -> Load:
    """A batch job whose remaining work is predicted exactly."""
    return replace(load, facts=replace(load.facts, remaining_us=int(load.work_us)))
