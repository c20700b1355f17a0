"""Recent faults of cards and the jobs that ran on them: whether the card or the program is to blame.

A job that faults on different cards is suspected, unless those cards fault with unrelated jobs as well. A card that
faults with unrelated jobs is bad, unless those jobs are suspected themselves. Jobs of one tenant are related until they
have run well. Faults that a job is blamed for do not count against cards. Faults of a card that failed its self-test do
not count against jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.model.card_faults import FaultClass

Group = tuple[str, ...]
"""Jobs that run the same program: of one batch, or of one user with the same app or command."""
MAX_FAULTS = 10_000
_SETTLED_US = 5_000_000
_SAME_EVENT_US = 10_000_000
"""Reports of one fault, of which each part of a divided card makes its own, arrive within this time."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A job that was on the card when it faulted."""

    job: str
    groups: tuple[Group, ...]
    ran_us: int
    tenant: str = ""
    attempt: int = 0
    blame: float | None = None
    """Its share of the blame, if that is known already: of a fault from before a restart."""


@dataclass(frozen=True, slots=True)
class CardFault:
    """One fault of a physical card."""

    at_us: int
    card: str
    cause: str
    kind: FaultClass
    on_card: tuple[Suspect, ...]

    def weight_of(self, suspect: Suspect, early_us: int) -> float:
        """What it says about the job. Neighbours share the blame: the later one started, the more likely it is the
        cause. A fault that only the card can have counts if it came soon after the start."""
        if suspect.blame is not None:
            return suspect.blame
        if self.kind == "card" and suspect.ran_us > early_us:
            return 0.0
        return _lateness(suspect) / sum(_lateness(one) for one in self.on_card)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Why a job, or a group of jobs, is to blame."""

    faults: tuple[CardFault, ...]
    """One per card, the first."""
    group: Group | None = None
    """None: one job alone."""

    @property
    def cards(self) -> tuple[str, ...]:
        return tuple(fault.card for fault in self.faults)


@dataclass
class FaultLedger:
    """All recent faults. Not safe for several threads."""

    rules: ContainmentRules = field(default_factory=ContainmentRules)
    _faults: list[CardFault] = field(default_factory=list)
    _convicted: list[CardFault] = field(default_factory=list)
    """Faults that jobs are blamed for. They count against the groups of these jobs only, never against cards."""
    _suspected: dict[Group, int] = field(default_factory=dict)
    """Suspected job or group to the time of the suspicion."""
    _cleared: dict[Group, int] = field(default_factory=dict)
    """Job or group to the time until which its faults are forgiven."""
    _well: dict[Group, int] = field(default_factory=dict)
    """Group to the time until which it has run well. A release is no evidence of that."""

    def add(self, fault: CardFault) -> bool:
        """False: another report of the last fault of the card."""
        self._forget(fault.at_us)
        of_card = [known for faults in (self._faults, self._convicted) for known in faults if known.card == fault.card]
        if any(_is_same(known, fault) for known in of_card):
            return False
        is_suspected = any(self.is_suspected(identities(one)) for one in fault.on_card)
        (self._convicted if is_suspected else self._faults).append(fault)
        return True

    # -- jobs ------------------------------------------------------------------------------------------------------

    def suspicion_of_job(self, job: str) -> Suspicion | None:
        """By its own attempts on different cards."""
        cleared_us = self._cleared.get(alone(job), -1)
        return self._judge([
            (fault, one) for fault in self._faults for one in fault.on_card
            if one.job == job and fault.at_us > cleared_us
        ])  # fmt: skip

    def suspicion_of_group(self, groups: Iterable[Group]) -> Suspicion | None:
        """Of one of the groups, by the faults of several of its jobs soon after their starts that took cards out of
        use."""
        for group in groups:
            cleared_us = self._cleared.get(group, -1)
            found = [
                (fault, one) for fault in (*self._convicted, *self._faults) for one in fault.on_card
                if group in one.groups and fault.kind != "program" and one.ran_us <= self.rules.early_us
                and fault.at_us > cleared_us
            ]  # fmt: skip
            suspicion = self._judge(found) if len({one.job for _, one in found}) > 1 else None
            if suspicion is not None:
                return replace(suspicion, group=group)
        return None

    def is_suspected(self, groups: Iterable[Group]) -> bool:
        """Whether one of them, jobs or groups, was suspected lately, and not cleared since."""
        return any(group in self._suspected for group in groups)

    def cards_of(self, job: str, attempt: int) -> frozenset[str]:
        """Cards with faults of this attempt."""
        mine = (job, attempt)
        faults = (*self._faults, *self._convicted)
        return frozenset(fault.card for fault in faults if any((one.job, one.attempt) == mine for one in fault.on_card))

    def suspect(self, job: str, group: Group | None, now_us: int) -> frozenset[str]:
        """The job, or the group, is to blame: its faults, also those that follow, do not count against cards. Returns
        the cards of those so far."""
        self._suspected[alone(job) if group is None else group] = now_us
        mine = [f for f in self._faults if any(one.job == job or group in one.groups for one in f.on_card)]
        self._faults = [fault for fault in self._faults if fault not in mine]
        self._convicted = sorted([*self._convicted, *mine], key=lambda fault: fault.at_us)
        return frozenset(fault.card for fault in mine)

    def clear_job(self, job: str, now_us: int) -> None:
        """The job got further than before, or its user has looked at it: its faults so far are forgiven."""
        self.forgive_groups((alone(job),), now_us)

    def clear_groups(self, groups: Sequence[Group], now_us: int) -> None:
        """A job of the groups has run well: others of them are not the cause of their faults so far either."""
        self.forgive_groups(groups, now_us)
        for group in groups:
            self._well[group] = now_us

    def forgive_groups(self, groups: Iterable[Group], now_us: int) -> None:
        """The user of a job of the groups has looked at it, and tries again. Nothing is known about the cards."""
        for group in groups:
            self.absolve(group)
            self._cleared[group] = now_us

    def absolve(self, group: Group) -> None:
        """The job or group is not suspected any more. Its faults so far still count against it."""
        self._suspected.pop(group, None)

    # -- cards -----------------------------------------------------------------------------------------------------

    def bad_card(self, card: str) -> tuple[CardFault, CardFault] | None:
        """Two doubtful faults of the card with unrelated jobs. None: there are none."""
        return self._unrelated([fault for fault in self._faults if fault.card == card and fault.kind == "doubtful"])

    def doubted_card(self, card: str) -> tuple[CardFault, CardFault] | None:
        """Two faults of any class with unrelated jobs. None: there are none."""
        return self._unrelated([fault for fault in self._faults if fault.card == card])

    def _unrelated(self, faults: Sequence[CardFault]) -> tuple[CardFault, CardFault] | None:
        used = [fault for fault in faults if fault.on_card]
        pairs = ((first, second) for at, first in enumerate(used) for second in used[at + 1 :])
        return next((pair for pair in pairs if not self._identities(pair[0]) & self._identities(pair[1])), None)

    def _identities(self, fault: CardFault) -> set[Group]:
        """Jobs on the card, their programs and tenants. A program that has run well since is not the cause, so only the
        job itself counts then. Otherwise one tenant could make any card look bad, with two programs."""
        found: set[Group] = set()
        for one in fault.on_card:
            is_well = any(self._well.get(group, -1) >= fault.at_us for group in one.groups)
            found |= {alone(one.job)} if is_well else {*identities(one), ("tenant", one.tenant)}
        return found

    def forget_card(self, card: str) -> None:
        """The card was to blame, or was repaired: its faults so far count no longer."""
        self._faults = [fault for fault in self._faults if fault.card != card]
        self._convicted = [fault for fault in self._convicted if fault.card != card]

    def _judge(self, found: Sequence[tuple[CardFault, Suspect]]) -> Suspicion | None:
        """Enough different cards that are good otherwise, or one more of any."""
        enough = self.rules.suspect_cards
        if not enough:
            return None
        first: dict[str, CardFault] = {}
        weights: dict[Group, float] = {}
        good: set[Group] = set()
        for fault, one in found:
            weight = fault.weight_of(one, self.rules.early_us)
            if not weight:
                continue
            first.setdefault(fault.card, fault)
            # What breaks several cards of a gang at once may be their node. It counts once for each attempt.
            event = ("attempt", one.job, str(one.attempt)) if fault.kind == "card" else ("card", fault.card)
            weights[event] = max(weights.get(event, 0.0), weight)
            if self.doubted_card(fault.card) is None:
                good.add(event)
        of_good_cards = sum(weight for event, weight in weights.items() if event in good)
        if len(first) >= enough and (of_good_cards >= enough or sum(weights.values()) >= enough + 1):
            return Suspicion(tuple(first.values()))
        return None

    def _forget(self, now_us: int) -> None:
        since_us = now_us - self.rules.remembered_us
        for faults in (self._faults, self._convicted):
            if len(faults) >= MAX_FAULTS or (faults and faults[0].at_us < since_us):
                faults[:] = [fault for fault in faults[-MAX_FAULTS // 2 :] if fault.at_us >= since_us]
        for times in (self._suspected, self._cleared, self._well):
            for key in [key for key, at_us in times.items() if at_us < since_us]:
                del times[key]


def _is_same(known: CardFault, fault: CardFault) -> bool:
    """The jobs of the first report may have left the card before the next one."""
    attempts = {(one.job, one.attempt) for one in known.on_card}
    is_soon = fault.at_us - known.at_us < _SAME_EVENT_US
    return is_soon and known.cause == fault.cause and all((one.job, one.attempt) in attempts for one in fault.on_card)


def _lateness(suspect: Suspect) -> float:
    return 1.0 / (suspect.ran_us + _SETTLED_US)


def alone(job: str) -> Group:
    """The job as a group of its own."""
    return ("job", job)


def identities(suspect: Suspect) -> tuple[Group, ...]:
    """The job and its groups."""
    return (alone(suspect.job), *suspect.groups)
