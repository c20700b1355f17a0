"""Keeps jobs that damage cards, or are lost again and again, from holding cards: who is suspected and who is held."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from gpusquad.core.containment.ledger import CardFault, FaultLedger, Group, Suspect, Suspicion, alone
from gpusquad.core.containment.losses import Loss, Losses, after_loss, is_exhausted, losses_from
from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.core.transitions import JobState
from gpusquad.model.card_faults import FaultClass, class_of_trouble
from gpusquad.model.program_family import family
from gpusquad.model.units import US_PER_S, show_count
from gpusquad.model.virtual import physical
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.unit_of_work import UnitOfWork
from gpusquad.store.jobs import JobRow

CONTAINED = "contained"
"""Kind of a hold by the scheduler that ends only when a user releases the job."""
_MAX_NAMED = 4
_LEFT_WITHIN_US = 30 * US_PER_S
_CARD_FAULT = re.compile(r"card (\S+): (.+)")
"""Cause of a loss by a fault of a card."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a job is held, and the cards whose faults it is blamed for."""

    reason: str
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FaultDecision:
    """What follows from a fault of a card."""

    takes_out: bool
    """The card is out of use until it has passed a self-test, or recovered."""
    is_new: bool = True
    """False: another report of the same fault. Each part of a divided card makes its own."""
    blame: Mapping[str, float] = field(default_factory=dict)
    """Job on the card to its share of the blame."""


@dataclass
class Containment:
    """Judges faults and losses. Called inside a pass only."""

    context: SchedulerContext
    on_suspected: Callable[[UnitOfWork, Group, Verdict], None] = lambda unit, group, verdict: None
    """Called when the jobs of a group are suspected together."""
    on_exonerated: Callable[[Iterable[str]], None] = lambda cards: None
    """Called with cards whose faults no longer count, because a job is blamed for them."""
    on_to_test: Callable[[Iterable[str]], None] = lambda cards: None
    """Called with cards that shall pass a self-test when they are idle next, because jobs are blamed for them."""

    def __post_init__(self) -> None:
        self.rules: ContainmentRules = self.context.containment
        self.ledger = FaultLedger(self.rules)
        self._verdicts: dict[str, Verdict] = {}
        """Job on cards to why it is held when its attempt has ended."""
        self._reasons: dict[Group, Verdict] = {}
        self._taken: dict[str, str] = {}
        """Physical card that waits for its self-test to the tenant on whose account."""
        self._decisions: dict[str, bool] = {}
        """Physical card to whether its last fault took it out of use."""
        self._events: set[str] = set()
        """Physical cards whose last fault is of the class ``card`` and was reported once. They answer well since."""

    # -- faults ----------------------------------------------------------------------------------------------------

    def fault(self, unit: UnitOfWork, card: str, cause: str, kind: FaultClass, rows: Sequence[JobRow], *,
              is_event: bool = False) -> FaultDecision:  # fmt: skip
        """A physical card has a fault while these jobs run on it. ``is_event``: it was reported once, and the card may
        answer well. Otherwise the card shows it whenever it is read, and is out of use whatever ran on it."""
        self._note_good_runs(unit)
        suspects = tuple(Suspect(row.id, groups_of(row), _ran_us(unit, row), row.tenant, row.attempt) for row in rows)
        fault = CardFault(unit.now_us, card, cause, kind, suspects)
        blame = {one.job: fault.weight_of(one, self.rules.early_us) for one in suspects}
        self._note_kind(card, kind, is_event)
        if not self.ledger.add(fault) and card in self._decisions and (is_event or kind != "card"):
            return FaultDecision(self._decisions[card], is_new=False, blame=blame)
        takes_out = (kind == "card" and not is_event) or (kind != "program" and self._may_take_out(card, rows))
        if kind == "card" and not is_event:
            self._taken.pop(card, None)  # nobody is to blame for a card that is really broken
        elif takes_out and (tenant := _tenant_of(rows)) is not None:
            self._taken[card] = tenant
        self._decisions[card] = takes_out
        for row in rows:
            self._judge(unit, row)
        if card in self._events:
            self._test_soon(card, rows, takes_out)
        return FaultDecision(takes_out, blame=blame)

    def _test_soon(self, card: str, rows: Sequence[JobRow], takes_out: bool) -> None:
        """Cards that stay in use, and all cards of an attempt with one event on several: its job, or the node, may have
        caused it."""
        together = [cards for row in rows if len(cards := self.ledger.cards_of(row.id, row.attempt)) > 1]
        cards = self._events & frozenset[str]().union(*together)
        if cards or not takes_out:
            self.on_to_test(cards | {card})

    def _note_kind(self, card: str, kind: FaultClass, is_event: bool) -> None:
        if kind == "card" and is_event:
            self._events.add(card)
        elif kind != "program":
            self._events.discard(card)

    def is_cleared_by_test(self, card: str) -> bool:
        """Whether a passed self-test ends the last fault of the card, of the class ``card``."""
        return card in self._events

    def _may_take_out(self, card: str, rows: Sequence[JobRow]) -> bool:
        """Not for the jobs of suspects, nor for those of a tenant that has enough cards out of use."""
        are_suspected = bool(rows) and all(self.ledger.is_suspected(identities_of(row)) for row in rows)
        return not are_suspected and not self._is_at_limit(card, rows)

    def restore(self, rows: Iterable[JobRow]) -> None:
        """Remember faults from before a restart by the losses of the jobs, each with its share of the blame. The losses
        of neighbours on a shared card are one fault. Those of held jobs do not count against cards."""
        faults: list[CardFault] = []
        for row in rows:
            if is_contained(row) and (row.stop or {}).get("cards"):
                self.ledger.suspect(row.id, None, self.context.clock.now_us())
            for attempt, loss in enumerate(losses_from(row.losses)):
                found = _CARD_FAULT.fullmatch(loss.cause) if loss.kind == "fault" else None
                if found is None or (loss.blame is None and self._is_unclear(row, found[2])):
                    continue
                suspect = Suspect(row.id, groups_of(row), 0, row.tenant, attempt, loss.blame)
                fault = CardFault(loss.at_us, physical(found[1]), found[2], class_of_trouble(found[2]), (suspect,))
                _join(faults, fault)
        for fault in sorted(faults, key=lambda one: one.at_us):
            self.ledger.add(fault)

    def _is_unclear(self, row: JobRow, cause: str) -> bool:
        """Whether a loss alone does not show the blame: because of neighbours on a shared card, or of a fault that only
        the card can have, which may have come late in the run."""
        return self.context.job(row.id).has_shares or class_of_trouble(cause) == "card"

    def _note_good_runs(self, unit: UnitOfWork) -> None:
        """Programs that have run for long without a fault until now."""
        for row in unit.rows.values():
            if row.state == JobState.RUNNING and not self.is_early(_ran_us(unit, row)):
                self.ran_well(row, unit.now_us - 1)

    def _is_at_limit(self, card: str, rows: Sequence[JobRow]) -> bool:
        """Whether the only tenant on the card has enough others out of use."""
        tenant, limit = _tenant_of(rows), self.rules.tenant_cards
        taken = sum(of == tenant for other, of in self._taken.items() if other != card)
        return tenant is not None and 0 < limit <= taken

    def card_back(self, card: str) -> None:
        """The card no longer waits for a self-test."""
        self._taken.pop(physical(card), None)
        self._events.discard(physical(card))

    def card_failed(self, card: str) -> None:
        """The card was to blame for its faults."""
        self.ledger.forget_card(card)
        for job_id, verdict in list(self._verdicts.items()):
            if self.is_void(verdict.cards, card):
                del self._verdicts[job_id]
                self.ledger.absolve(alone(job_id))
        for group, verdict in list(self._reasons.items()):
            if self.is_void(verdict.cards, card):
                del self._reasons[group]
                self.ledger.absolve(group)
        for row in filter(is_contained, self.context.rows.values()):
            if self.is_void((row.stop or {}).get("cards", ()), card):
                self.ledger.absolve(alone(row.id))

    def is_void(self, cards: Sequence[str], failed: str) -> bool:
        """Whether a suspicion by faults of these cards no longer holds when one of them failed its self-test."""
        return failed in cards and len(cards) - 1 < self.rules.suspect_cards

    def _judge(self, unit: UnitOfWork, row: JobRow) -> None:
        groups = groups_of(row)
        by_itself = self.ledger.suspicion_of_job(row.id)
        if by_itself is not None:
            self._verdicts[row.id] = Verdict(_reason(by_itself), by_itself.cards)
            self._blame(row, None, unit.now_us)
        together = self.ledger.suspicion_of_group(groups)
        if together is not None and together.group is not None and not self.ledger.is_suspected((together.group,)):
            verdict = self._reasons[together.group] = Verdict(_reason(together), together.cards)
            self._blame(row, together.group, unit.now_us)
            self.on_suspected(unit, together.group, verdict)
        if row.id not in self._verdicts and (earlier := self._reason_of(row)) is not None:
            self._verdicts[row.id] = earlier

    def _blame(self, row: JobRow, group: Group | None, now_us: int) -> None:
        """The job, or its group, is suspected: let cards that have only faults of it return soon."""
        cards = self.ledger.suspect(row.id, group, now_us)
        self.on_exonerated(cards)
        self.on_to_test(cards & self._events)

    # -- ends of attempts ------------------------------------------------------------------------------------------

    def take_verdict(self, row: JobRow) -> Verdict | None:
        """Why the job is to be held now that its attempt has ended. None: nothing is known against it. The fault that
        ended the attempt may have come before the one that its program is suspected for."""
        verdict = self._verdicts.pop(row.id, None)
        return verdict or (self._reason_of(row) if (row.stop or {}).get("blame") else None)

    def _reason_of(self, row: JobRow) -> Verdict | None:
        """Why the job or its groups are suspected now. None: they are not."""
        suspected = (group for group in identities_of(row) if self.ledger.is_suspected((group,)))
        return next((self._reasons[group] for group in suspected if group in self._reasons), None)

    def ran_well(self, row: JobRow, now_us: int) -> None:
        """A run ended by itself, or long after its start: its program does not damage cards at once."""
        self.ledger.clear_groups(groups_of(row), now_us)
        self._forget_reasons(groups_of(row))

    def is_early(self, ran_us: int) -> bool:
        return ran_us <= self.rules.early_us

    def after_loss(self, row: JobRow, loss: Loss, ran_us: int) -> Losses:
        """The recent losses of the job with this one."""
        before = losses_from(row.losses)
        losses = after_loss(before, loss, ran_us, self.rules)
        if before and len(losses) == 1:
            self.ledger.clear_job(row.id, loss.at_us - 1)
        return losses

    def exhausted(self, losses: Losses) -> Verdict | None:
        """Why it is not retried any more. None: it is."""
        if not is_exhausted(len(losses), self.rules):
            return None
        return Verdict(
            f"lost {show_count(len(losses), 'time')} without progress, the last time because: {losses[-1].cause}. "
            "Look at its story and logs, then use gpusquad release"
        )

    def released(self, row: JobRow, now_us: int) -> None:
        """Its user has looked at it."""
        self.ledger.forgive_groups(identities_of(row), now_us)
        self._forget_reasons(identities_of(row))

    def _forget_reasons(self, groups: Iterable[Group]) -> None:
        for group in groups:
            self._reasons.pop(group, None)


def _join(faults: list[CardFault], fault: CardFault) -> None:
    """Add it, or its jobs to the same fault. Neighbours leave the card within moments."""
    for at, known in enumerate(faults):
        is_near = abs(known.at_us - fault.at_us) <= _LEFT_WITHIN_US
        if is_near and (known.card, known.cause) == (fault.card, fault.cause):
            faults[at] = replace(known, on_card=(*known.on_card, *fault.on_card))
            return
    faults.append(fault)


def groups_of(row: JobRow) -> tuple[Group, ...]:
    """A batch, and all jobs of a user with the same app and command, numbers aside: users try variants of a program."""
    program = (row.core.get("app") or "", family(row.core.get("command") or row.name))
    of_user: Group = ("program", row.tenant, row.user, *program)
    return (("batch", row.group_id), of_user) if row.group_id else (of_user,)


def identities_of(row: JobRow) -> tuple[Group, ...]:
    """The job and its groups."""
    return (alone(row.id), *groups_of(row))


def is_contained(row: JobRow) -> bool:
    return (row.stop or {}).get("how") == CONTAINED


def _tenant_of(rows: Sequence[JobRow]) -> str | None:
    """None: of none or of several."""
    tenants = {row.tenant for row in rows}
    return tenants.pop() if len(tenants) == 1 else None


def _ran_us(unit: UnitOfWork, row: JobRow) -> int:
    return 0 if row.started_us is None else unit.now_us - row.started_us


def _reason(suspicion: Suspicion) -> str:
    named = [f"{fault.cause} on {fault.card} at {clock_time(fault.at_us)}" for fault in suspicion.faults[:_MAX_NAMED]]
    more = f" and {len(suspicion.faults) - _MAX_NAMED} more" if len(suspicion.faults) > _MAX_NAMED else ""
    who = "it" if suspicion.group is None else "jobs of the same program or batch"
    return (
        f"suspected of causing card faults: {who} ran on {show_count(len(suspicion.faults), 'card')} when they failed "
        f"({', '.join(named)}{more}). Look at the program and its logs, then use gpusquad release"
    )


def clock_time(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / US_PER_S, UTC):%H:%M:%S} UTC"


def is_waiting(row: JobRow) -> bool:
    """Whether the job may start without its user: it is pending, or held until its next attempt."""
    state = JobState(row.state)
    return state is JobState.PENDING or (state is JobState.HELD and not row.stop)
