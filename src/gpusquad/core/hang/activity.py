"""Turns samples of a run's cards into evidence: when they last worked, and since when they only spin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gpusquad.core.hang.hang import Evidence, HangRules
from gpusquad.model.units import US_PER_S

_GAP_US = 60 * US_PER_S
"""Maximum gap between two samples. After a longer one (suspend, clock change, no agent) the evidence starts again."""


@dataclass(frozen=True, slots=True)
class CardActivity:
    """A sample of one of the run's cards. None: unknown."""

    utilisation_ratio: float | None
    power_w: float | None = None
    idle_power_w: float | None = None
    power_limit_w: float | None = None


@dataclass(frozen=True, slots=True)
class RunActivity:
    """Activity of one run, from the samples so far. Immutable: every sample gives a new value."""

    seen_us: int | None = None
    watched_since_us: int | None = None
    last_activity_us: int | None = None
    spinning_since_us: int | None = None
    cards: tuple[CardActivity, ...] = ()

    def after(
        self,
        now_us: int,
        cards: Sequence[CardActivity],
        rules: HangRules,
        *,
        gpu_ratio: float | None = None,
        cpu_ratio: float | None = None,
    ) -> RunActivity:
        """Add a sample. ``gpu_ratio``: utilisation by the run itself, without its neighbours, if known."""
        restarts = self.seen_us is None or not 0 <= now_us - self.seen_us <= _GAP_US
        before = RunActivity(watched_since_us=now_us) if restarts else self
        stuck = _wait_for_each_other(cards, rules)
        works = _works(cards, gpu_ratio, cpu_ratio, rules)
        return replace(
            before,
            seen_us=now_us,
            last_activity_us=now_us if works else before.last_activity_us,
            spinning_since_us=(before.spinning_since_us or now_us) if stuck else None,
            cards=tuple(cards),
        )

    def evidence(
        self,
        started_us: int,
        *,
        last_output_us: int | None = None,
        last_progress_us: int | None = None,
        high_us: int | None = None,
    ) -> Evidence:
        """Combine with other facts about the run. Requires at least one sample."""
        return Evidence(
            now_us=self.seen_us if self.seen_us is not None else started_us,
            started_us=started_us,
            watched_since_us=self.watched_since_us,
            last_output_us=last_output_us,
            last_progress_us=last_progress_us,
            last_activity_us=self.last_activity_us,
            spinning_since_us=self.spinning_since_us,
            utilisation_ratio=_mean([card.utilisation_ratio for card in self.cards]),
            power_w=_mean([card.power_w for card in self.cards]),
            power_limit_w=_mean([card.power_limit_w for card in self.cards]),
            high_us=high_us,
        )


def spins(card: CardActivity, rules: HangRules) -> bool:
    """Whether the card is busy but draws little power, as with kernels that wait for each other."""
    if None in (card.utilisation_ratio, card.power_w, card.power_limit_w):
        return False
    assert card.utilisation_ratio is not None
    assert card.power_w is not None
    assert card.power_limit_w is not None
    most_w = rules.idle_power_most_ratio * card.power_limit_w
    idle_w = most_w if card.idle_power_w is None else min(card.idle_power_w, most_w)
    little_w = idle_w + rules.spinning_power_ratio * (card.power_limit_w - idle_w)
    return card.utilisation_ratio >= rules.spinning_utilisation_ratio and card.power_w <= little_w


def _wait_for_each_other(cards: Sequence[CardActivity], rules: HangRules) -> bool:
    """Whether some cards spin and the others are idle: one rank is missing and its peers wait for it."""
    idle = [_is_idle(card.utilisation_ratio, rules) for card in cards]
    spinning = [spins(card, rules) for card in cards]
    return any(spinning) and all(a or b for a, b in zip(idle, spinning, strict=True))


def _works(cards: Sequence[CardActivity], gpu_ratio: float | None, cpu_ratio: float | None, rules: HangRules) -> bool:
    """Whether the run works. With cards only their activity counts, since CPUs are busy while waiting. Unknown: yes."""
    if not cards:
        return not _is_idle(cpu_ratio, rules)
    if gpu_ratio is not None:
        return not _is_idle(gpu_ratio, rules)
    return not all(_is_idle(card.utilisation_ratio, rules) for card in cards)


def _is_idle(ratio: float | None, rules: HangRules) -> bool:
    return ratio is not None and ratio < rules.active_ratio


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
