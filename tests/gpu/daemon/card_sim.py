"""A simulated card: tenants' kernels run under the real loop and a real policy, in virtual time.

Kernels of a tenant run one after another and are never interrupted. Those of several tenants run at once, each as fast
as ``effective`` says for the shares of those that run at that moment. The gate and the lending of idle parts are those
of the shim: a tenant launches while its credit lasts, or while nothing holds it because all its mates are idle.
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
"""A batch job does so many kernels an iteration."""


@dataclass(frozen=True)
class Load:
    """What a tenant does on the card."""

    facts: GpuClientSpec
    kernel_us: float = 100.0
    """Alone on the whole card."""
    work_us: float = inf
    """A batch job: so much in all, then it leaves."""
    arrivals_us: tuple[int, ...] | None = None
    """A service: when its requests come. None: a batch job."""
    request_kernels: int = 10
    gap_us: float = 0.0
    """The program takes so long between two launches."""
    most_ahead: int = 256
    """Kernels queued on the card at most."""
    from_us: int = 0


@dataclass
class _Kernel:
    left_us: float
    mask: int
    predicted_us: float
    request: int
    begun_us: float = -1.0


@dataclass
class Outcome:
    """What became of a tenant."""

    done_us: float = 0.0
    """Work done, as time alone on the whole card."""
    kernels: int = 0
    ended_us: float | None = None
    latencies_us: list[float] = field(default_factory=list)
    longest_wait_us: float = 0.0
    """At the gate, with nothing on the card."""


class _Program:
    """The tenant's side: its program, the gate, and its queue on the card."""

    def __init__(self, load: Load, slot: int) -> None:
        self.load, self.slot = load, slot
        self.queue: deque[_Kernel] = deque()
        self.outcome = Outcome()
        self._predicted_us: dict[int, float] = {}
        self.asked_us = self.done_us = 0.0
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
    def wants(self) -> bool:
        return self.left_us > _TINY or bool(self.requests)

    def arrive(self, now_us: float) -> None:
        while self._arrivals and self._arrivals[0] <= now_us + _TINY:
            at_us = self._arrivals.popleft()
            self.requests.append((at_us, self.load.request_kernels))
            self._open[at_us] = [self.load.request_kernels, at_us]

    def next_us(self, now_us: float) -> float:
        """When it does something by itself."""
        arrival_us = self._arrivals[0] if self._arrivals else inf
        launch_us = self._ready_us if self.wants and self._ready_us > now_us + _TINY else inf
        return min(arrival_us, launch_us)

    @property
    def queued_us(self) -> float:
        return sum(kernel.predicted_us for kernel in self.queue)

    def launch(self, now_us: float, grant: Grant, free: bool, loan_us: int) -> bool:
        """One kernel, if it has one and may. True: it did."""
        if not self.wants or self._ready_us > now_us + _TINY or len(self.queue) >= self.load.most_ahead:
            self.waiting = False
            return False
        held = self.asked_us >= grant.credit_us
        if held and free:  # a borrower has little queued
            held = self.queued_us >= loan_us
        self.waiting = held
        if held:
            return False
        masked = not free and (not grant.restricted_us or self.asked_us < grant.restricted_us)
        mask = grant.mask if masked else grant.virtual_card_mask
        predicted_us = self._predicted_us.get(mask.bit_count(), self.load.kernel_us)
        self.queue.append(_Kernel(self._take(), mask, predicted_us, self._request()))
        self.asked_us += predicted_us
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
        took_us = now_us - kernel.begun_us
        self.done_us += kernel.predicted_us
        groups = kernel.mask.bit_count()  # fewer groups, longer kernels: foretold by how many it runs on
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
        """As others see it."""
        self.busy_us = now_us if not self.is_idle else self.busy_us
        return now_us - self.busy_us < max(linger_us, _TINY)

    def page(self) -> ClientPage:
        """The shim counts whole microseconds and knows what is done when a batch is."""
        mask = self.queue[0].mask if self.queue else 0
        return ClientPage(
            int(self.asked_us), int(self.done_us), self.launches,
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
        """The card did nothing while somebody stood at the gate."""
        self.longest_bubble_us = 0.0
        self.busy_us = 0.0
        self.programs: dict[int, _Program] = {}
        self.outcomes: dict[str, Outcome] = {}
        self._coming = sorted(loads, key=lambda load: load.from_us)
        self._look_us = 0.0
        self._bubble_now_us = 0.0

    def run(self, until_us: float, switches: Mapping[int, str] | None = None) -> CardSim:
        """``switches``: policies to change to, by time."""
        due = sorted((switches or {}).items())
        while self.now_us < until_us - _TINY and (self.programs or self._coming):
            self._arrivals()
            while due and due[0][0] <= self.now_us + _TINY:
                self.squads.set_policy(due.pop(0)[1])
                self._look_us = self.now_us
            if self._look_us <= self.now_us + _TINY:
                self._step()
            self._launches()
            self._advance(min(self._next_us(), until_us, due[0][0] if due else inf))
        return self

    def _arrivals(self) -> None:
        while self._coming and self._coming[0].from_us <= self.now_us + _TINY:
            load = self._coming.pop(0)
            slot = self.squads.attach(load.facts, int(self.now_us))
            self.programs[slot] = _Program(load, slot)
            self.outcomes[load.facts.id] = self.programs[slot].outcome
            self._look_us = self.now_us
        for program in self.programs.values():
            program.arrive(self.now_us)

    def _step(self) -> None:
        for slot, program in self.programs.items():
            self.region.pages[slot] = program.page()
            if program.finished:
                self.squads.report(program.load.facts.id, program.finished, int(self.now_us))
                program.finished = []
        self._look_us = self.now_us + self.squads.step(int(self.now_us))

    def _launches(self) -> None:
        """Until nobody can any more: a launch ends a mate's freedom, so they take turns."""
        going = True
        while going:
            going = False
            for slot, program in self.programs.items():
                grant = self.region.grants[slot]
                loan_us = grant.loan_us or self.card.loan_us
                going |= program.launch(self.now_us, grant, self._is_free(slot), loan_us)

    def _is_free(self, slot: int) -> bool:
        grant = self.region.grants[slot]
        neighbours = [self.programs[mate] for mate in self.programs if grant.neighbours >> mate & 1]
        return grant.borrows and all(mate.is_idle for mate in neighbours)

    def _stands_still(self, slot: int) -> bool:
        """Between two kernels, while one that goes first is busy."""
        grant, program = self.region.grants[slot], self.programs[slot]
        first = [self.programs[mate] for mate in self.programs if grant.yield_to >> mate & 1]
        busy = [mate.is_busy(self.now_us, grant.linger_us) for mate in first]
        return program.queue[0].begun_us < 0 and any(busy)

    def _lingers_until_us(self) -> float:
        """When somebody who stands still may go on though nothing else happens."""
        found = inf
        for slot, program in self.programs.items():
            grant = self.region.grants[slot]
            for mate in self.programs:
                ends_us = self.programs[mate].busy_us + grant.linger_us
                if program.queue and grant.yield_to >> mate & 1 and ends_us > self.now_us + _TINY:
                    found = min(found, ends_us)
        return found

    def _running(self) -> Iterator[tuple[_Program, float]]:
        """Each kernel that runs, with its speed."""
        heads = [program for slot, program in self.programs.items() if program.queue and not self._stands_still(slot)]
        shares = [(program.facts, self.card.share_milli(program.queue[0].mask.bit_count())) for program in heads]
        for at, program in enumerate(heads):
            others = shares[:at] + shares[at + 1 :]
            yield program, max(self.effective(shares[at][0], shares[at][1], others), 1e-3)

    def _next_us(self) -> float:
        own = min((program.next_us(self.now_us) for program in self.programs.values()), default=inf)
        come = self._coming[0].from_us if self._coming else inf
        return min(own, come, self._look_us, self._lingers_until_us())

    def _advance(self, to_us: float) -> None:
        running = list(self._running())
        end_us = min((self.now_us + program.queue[0].left_us / speed for program, speed in running), default=inf)
        to_us = max(min(to_us, end_us), self.now_us)
        self._count(to_us - self.now_us, bool(running))
        for program, speed in running:
            kernel = program.queue[0]
            kernel.begun_us = self.now_us if kernel.begun_us < 0 else kernel.begun_us
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
            starved = self._stands_still(slot) if program.queue else program.waiting
            program.starved_us = (program.starved_us or 0.0) + passed_us if starved else None
            program.outcome.longest_wait_us = max(program.outcome.longest_wait_us, program.starved_us or 0.0)

    def _departures(self) -> None:
        for slot, program in list(self.programs.items()):
            if program.outcome.ended_us is not None:
                self.squads.detach(program.load.facts.id)
                del self.programs[slot]
                self._look_us = self.now_us


def mean_jct_us(outcomes: Mapping[str, Outcome], loads: Sequence[Load]) -> float:
    """Of batch jobs that ended."""
    times = [
        ended - load.from_us for load in loads if (ended := outcomes[load.facts.id].ended_us) is not None
    ]  # fmt: skip
    return sum(times) / len(times)


def with_remaining(load: Load) -> Load:
    """A batch job of which it is foretold exactly how much it has to do."""
    return replace(load, facts=replace(load.facts, remaining_us=int(load.work_us)))
