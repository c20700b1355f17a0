"""Rates of jobs beside others on a card: measured if possible, else predicted, and corrected by running jobs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpusquad.model.cluster import is_model
from gpusquad.model.interference import MeasurementSeries, Sharing, SoloMeasurement
from gpusquad.model.job import Job, Profile
from gpusquad.predict.interference.combine import USUAL, Combination
from gpusquad.predict.interference.effective import EffectiveThroughput
from gpusquad.predict.interference.features import Traits, traits_of_profile
from gpusquad.predict.interference.merge import by_card
from gpusquad.predict.interference.online import Key, OnlineCorrections
from gpusquad.predict.interference.unseen import MAX_RATIO, RateEstimate, UnseenPairs, ratios_of, solo_traits

WorkloadKey = str | tuple[str, Profile | None]
"""The name of a measured workload; else a name and what the job file expects."""
_MAX_CACHED = 100_000
_MIN_SPREAD = 0.01
_GIB = 2**30
_Z95 = 1.96


@dataclass
class _Card:
    """What is known of one card model, and the pairs that were looked up."""

    gpu: str
    description: str
    """Description of the setting."""
    workloads: frozenset[str]
    measured: Mapping[tuple[str, str], RateEstimate]
    unseen: UnseenPairs
    combination: Combination
    held: Mapping[str, int]
    """Bytes of each workload alone."""
    memory_bytes: int | None
    too_much: tuple[Counter[WorkloadKey], ...] = ()
    """Groups of three or more that were measured not to fit."""
    pairs: dict[tuple[WorkloadKey, WorkloadKey], float] = field(default_factory=dict)
    before: dict[tuple[WorkloadKey, WorkloadKey], RateEstimate] = field(default_factory=dict)
    """Estimates without online corrections. A call of the model is expensive, and learning must not repeat it."""

    def key(self, job: Job) -> WorkloadKey:
        return job.app if job.app in self.workloads else (job.app, job.profile)

    def bytes_of(self, key: WorkloadKey) -> int:
        if isinstance(key, str):
            return self.held.get(key, 0)
        return key[1].memory_bytes if key[1] is not None else 0


class InterferenceTable:
    """``rate(own, others, gpu)`` for one way of sharing cards.

    Settings are never mixed: one counts for each card model, and those of the other way of sharing are ignored.
    """

    def __init__(
        self,
        measured: Iterable[MeasurementSeries] = (),
        sharing: Sharing = "time-slicing",
        memory_bytes: Mapping[str, int] | None = None,
        online: OnlineCorrections | None = None,
    ) -> None:
        """``memory_bytes``: card memory by model, if the setting does not state it."""
        self.sharing: Sharing = sharing
        self.online = online or OnlineCorrections()
        self._memory = dict(memory_bytes or {})
        self._newest = by_card(one for one in measured if one.setting.sharing == sharing)
        self.tables: Mapping[str, MeasurementSeries] = self._newest  # by card model, for display
        self._cards: dict[str, _Card] = {}
        """By requested name. Several names may mean one card."""

    @property
    def has_tables(self) -> bool:
        """Whether there are measurements under this way of sharing."""
        return bool(self._newest)

    def __call__(self, own: Job, others: Sequence[Job], gpu: str = "", /) -> float:
        return self.rate(own, others, gpu)

    def rate(self, own: Job, others: Sequence[Job], gpu: str = "") -> float:
        """Speed relative to that alone: 1 without neighbours, 0 if they do not fit together."""
        if not others:
            return 1.0
        card = self._cards.get(gpu) or self._find(gpu)
        own_key = card.key(own)
        rates = []
        for other in others:
            pair = (own_key, card.key(other))
            rate = card.pairs.get(pair)
            rates.append(self._pair(card, pair) if rate is None else rate)
        if len(rates) == 1:
            return rates[0]
        return card.combination.of(rates) if self._fit(card, own, others) else 0.0

    def estimate(self, own: Job, other: Job, gpu: str = "") -> RateEstimate:
        """The rate of a pair, with its spread and source."""
        card = self._cards.get(gpu) or self._find(gpu)
        return self._corrected(card, (card.key(own), card.key(other)))

    def knows(self, own: Job, other: Job, gpu: str = "", /) -> bool:
        """Whether the rate of this pair was measured, or learned from running jobs. Otherwise it is predicted."""
        card = self._cards.get(gpu) or self._find(gpu)
        if self._before(card, (card.key(own), card.key(other))).source == "measured":
            return True
        return bool(own.app and other.app) and self.online.get(Key(card.gpu, own.app, other.app)) is not None

    def curve(self, own: Job, gpu: str = "") -> tuple[tuple[int, float], ...]:
        """Thousandths of the SMs, and the speed alone with them. Empty: not measured."""
        solo = self._solo(own, gpu)
        return () if solo is None else tuple(solo.by_sm)

    def solo_per_s(self, own: Job, gpu: str = "") -> float:
        """Steps per second alone on the whole card. 0: not measured."""
        solo = self._solo(own, gpu)
        return 0.0 if solo is None else solo.steps_per_s.mean

    def _solo(self, own: Job, gpu: str) -> SoloMeasurement | None:
        card = self._cards.get(gpu) or self._find(gpu)
        measured = self._newest.get(card.gpu)
        return None if measured is None else measured.solo(own.app)

    def beside(self, own: Job, others: Iterable[Job], gpu: str = "") -> dict[str, float]:
        """The rate beside each of these apps as the only neighbour, without a divide policy: measured, or predicted
        from measurements.

        Online corrections are left out, because running jobs were paused for each other or protected.
        """
        card = self._cards.get(gpu) or self._find(gpu)
        found = {}
        for other in others:
            estimate = self._before(card, (card.key(own), card.key(other)))
            if own.app and other.app and estimate.rate > 0.0 and estimate.source != "default":
                found[other.app] = estimate.rate
        return found

    def explain(self, own: Job, others: Sequence[Job], gpu: str = "") -> str:
        """The rate and its evidence as text."""
        name = _name(own)
        if not others:
            return f"{name} alone runs at its full speed."
        card = self._cards.get(gpu) or self._find(gpu)
        rate = self.rate(own, others, gpu)
        parts = [self._pair_text(card, own, other) for other in others]
        where = f"on {card.gpu or gpu or 'any card'} ({card.description})"
        if len(others) == 1:
            return f"{name} {where}: {parts[0]}."
        if rate <= 0.0 and all(self.estimate(own, other, gpu).rate > 0.0 for other in others):
            held, there = self._held(card, own, others), card.memory_bytes
            of = f" of {there / _GIB:.1f} GiB" if there is not None else ""
            return f"{name} {where}: all together hold {held / _GIB:.1f} GiB{of} and do not fit."
        way = f"{card.combination.name}, {card.combination.why}"
        return f"{name} {where}: {rate:.2f} of its speed alone among {len(others)} ({way}): {'; '.join(parts)}."

    def learn(self, own: Job, others: Sequence[Job], gpu: str, ratio: float, seconds: float) -> None:
        """Learn that a job ran at this ratio of its speed alone, beside these, for ``seconds``. Jobs without an app are
        ignored.
        """
        if not others or not own.app or not all(other.app for other in others):
            return
        card = self._cards.get(gpu) or self._find(gpu)
        pairs = [(card.key(own), card.key(other)) for other in others]
        now = [self._corrected(card, pair).rate for pair in pairs]
        if min(now) <= 0.0:
            return
        names = [Key(card.gpu, own.app, other.app) for other in others]
        parts: dict[Key, float] = {}
        for place, key in enumerate(names):
            parts[key] = parts.get(key, 0.0) + card.combination.sensitivity(now, place)
        before = {key: self._before(card, pair) for key, pair in zip(names, pairs, strict=True)}
        self.online.learn(list(parts), list(before.values()), list(parts.values()), card.combination.of(now), ratio,
                          seconds)  # fmt: skip
        for pair in pairs:
            card.pairs.pop(pair, None)

    def dump(self) -> dict[str, Any]:
        """The online corrections, as plain data."""
        return self.online.dump()

    def load(self, data: object) -> None:
        """Load a ``dump``. Raises Invalid for anything else, without a change."""
        self.online = OnlineCorrections.load(data)
        for card in list(self._cards.values()):
            card.pairs.clear()

    def combination(self, gpu: str = "") -> Combination:
        """How the rates beside several neighbours are combined on a card."""
        return (self._cards.get(gpu) or self._find(gpu)).combination

    def _pair(self, card: _Card, pair: tuple[WorkloadKey, WorkloadKey]) -> float:
        if len(card.pairs) >= _MAX_CACHED:
            card.pairs.clear()
        found = card.pairs[pair] = self._corrected(card, pair).rate
        return found

    def _corrected(self, card: _Card, pair: tuple[WorkloadKey, WorkloadKey]) -> RateEstimate:
        names = [key if isinstance(key, str) else key[0] for key in pair]
        before = self._before(card, pair)
        return self.online.corrected(Key(card.gpu, *names), before) if all(names) else before

    def _before(self, card: _Card, pair: tuple[WorkloadKey, WorkloadKey]) -> RateEstimate:
        found = card.before.get(pair)
        if found is None:
            if len(card.before) >= _MAX_CACHED:
                card.before.clear()
            found = card.before[pair] = _table_or_model(card, pair)
        return found

    def _find(self, gpu: str) -> _Card:
        measured = self._newest.get(gpu) or self._like(gpu)
        name = measured.setting.gpu if measured is not None else gpu
        card = next(
            (card for card in list(self._cards.values()) if card.gpu == name), None
        )  # other threads may add cards meanwhile
        if card is None:
            limit = self._memory.get(name, self._memory.get(gpu))
            card = _card(measured, limit) if measured is not None else _unknown_card(gpu, self.sharing, limit)
        self._cards[gpu] = card
        return card

    def _like(self, gpu: str) -> MeasurementSeries | None:
        """Find by part of the card's name. If no card is named, the newest series."""
        newest = sorted(self._newest.values(), key=lambda one: -one.at_us)
        return next((one for one in newest if not gpu or is_model(one.setting.gpu, gpu) or
                     is_model(gpu, one.setting.gpu)), None)  # fmt: skip

    def _fit(self, card: _Card, own: Job, others: Sequence[Job]) -> bool:
        """Whether all fit together, given that each pair does."""
        if card.memory_bytes is not None and self._held(card, own, others) > card.memory_bytes:
            return False
        if not card.too_much:
            return True
        there = Counter(card.key(job) for job in (own, *others))
        return not any(one <= there for one in card.too_much)

    def _held(self, card: _Card, own: Job, others: Sequence[Job]) -> int:
        return card.bytes_of(card.key(own)) + sum(card.bytes_of(card.key(other)) for other in others)

    def _pair_text(self, card: _Card, own: Job, other: Job) -> str:
        pair = (card.key(own), card.key(other))
        found = self._corrected(card, pair)
        if found.rate <= 0.0:
            how = "measured" if found.source == "measured" else "by their measured memory"
            return f"does not fit beside {_name(other)} ({how})"
        learnt = self.online.get(Key(card.gpu, own.app, other.app))
        since = f", corrected by {learnt.seconds / 3600:.1f} h of running jobs" if learnt is not None else ""
        return f"{found.rate:.2f} ± {found.spread:.2f} beside {_name(other)} ({_SOURCES[found.source]}{since})"


_SOURCES = {
    "measured": "measured",
    "rows and columns": "predicted from the rates of both beside others",
    "features": "predicted from what both use alone",
    "default": "a default, because one of them is unknown",
}


def _name(job: Job) -> str:
    return job.app or job.name or job.id


def _table_or_model(card: _Card, pair: tuple[WorkloadKey, WorkloadKey]) -> RateEstimate:
    own, other = pair
    if isinstance(own, str) and isinstance(other, str) and (known := card.measured.get((own, other))) is not None:
        return known
    if card.memory_bytes is not None and card.bytes_of(own) + card.bytes_of(other) > card.memory_bytes:
        return RateEstimate(0.0, 0.0, "features")
    return card.unseen.estimate(_asked(own), _asked(other))


def _asked(key: WorkloadKey) -> str | Traits:
    if isinstance(key, str):
        return key
    return traits_of_profile(key[1]) if key[1] is not None else Traits()


def _card(measured: MeasurementSeries, memory_bytes: int | None) -> _Card:
    setting = measured.setting
    unseen = UnseenPairs(ratios_of(measured), solo_traits(measured))
    names = {solo.workload for solo in measured.solos} | {name for run in measured.co_runs for name in run.workloads}
    return _Card(
        gpu=setting.gpu,
        description=setting.sharing,
        workloads=frozenset(names - {""}),
        measured=_measured_pairs(measured),
        unseen=unseen,
        combination=EffectiveThroughput(measured, unseen).combination,
        held={solo.workload: solo.memory_bytes for solo in measured.solos},
        memory_bytes=setting.memory_bytes or memory_bytes,
        too_much=tuple(Counter(run.workloads) for run in measured.co_runs if len(run.workloads) > 2 and not run.fits),
    )


def _unknown_card(gpu: str, sharing: Sharing, memory_bytes: int | None) -> _Card:
    return _Card(gpu, f"{sharing}, nothing measured", frozenset(), {}, UnseenPairs((), {}), USUAL, {},
                 memory_bytes)  # fmt: skip


def _measured_pairs(measured: MeasurementSeries) -> dict[tuple[str, str], RateEstimate]:
    """Unrestricted pairs. 0 for pairs that did not fit, whichever of the two ran out of memory."""
    found: dict[tuple[str, str], RateEstimate] = {}
    for one in ratios_of(measured):
        spread = max(_interval_spread(measured, one.own, one.other), _MIN_SPREAD)
        found[one.own, one.other] = RateEstimate(min(max(one.ratio, 0.0), MAX_RATIO), spread, "measured")
    for own, other, run, _ in measured.pairs():
        if not run.fits and (run.is_unrestricted or (own, other) not in found):
            found[own, other] = RateEstimate(0.0, 0.0, "measured")
    return found


def _interval_spread(measured: MeasurementSeries, own: str, other: str) -> float:
    widths = [
        (run.ratios[place].high - run.ratios[place].low) / 2 / _Z95
        for first, second, run, place in measured.pairs()
        if (first, second) == (own, other) and run.fits and run.is_unrestricted
    ]
    return max(widths, default=0.0)
