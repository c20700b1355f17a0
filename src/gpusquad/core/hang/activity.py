"""Turns samples of a run's cards, processes and output into evidence: when it last worked, and since when it only
spins or floods its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpusquad.core.hang.hang import Evidence, HangRules
from gpusquad.model.units import US_PER_S

_GAP_US = 60 * US_PER_S
"""Maximum gap between two samples. After a longer one (suspend, clock change, no agent) the evidence starts again."""
_FLOOD_WINDOW_US = 60 * US_PER_S
_DISK_BYTES_S = 2**16
"""Slower, it may be a log of its own."""
_DISK_WINDOW_US = 60 * US_PER_S
"""At least this much of the time between two readings counts: a rare burst is work."""
_UNFED_TIMES = 1.5
"""Traffic to a card that receives no kernels, over the least of the idle card: measurements vary by a third."""


@dataclass(frozen=True, slots=True)
class CardActivity:
    """A sample of one of the run's cards. None: unknown."""

    utilisation_ratio: float | None
    power_w: float | None = None
    idle_power_w: float | None = None
    power_limit_w: float | None = None
    received_bytes_s: float | None = None
    """Over its bus."""
    idle_received_bytes_s: float | None = None
    """The same while it was idle: the traffic of measuring it."""
    computes: bool | None = None
    """Whether its arithmetic units or its memory work, by its hardware counters."""


@dataclass(frozen=True, slots=True)
class RunActivity:
    """Activity of one run, from the samples so far. Immutable: every sample gives a new value."""

    seen_us: int | None = None
    watched_since_us: int | None = None
    last_activity_us: int | None = None
    last_cpu_us: int | None = None
    mean_cores: float = 0.0
    """Use of CPUs over about a minute."""
    last_mean_cpu_us: int | None = None
    """When that was last as high as that of a program that computes, or unknown."""
    spinning_since_us: int | None = None
    unfed_since_us: int | None = None
    flood_since_us: int | None = None
    window: tuple[int, int] | None = None
    """Start and first byte of the current window of output."""
    disk: int | None = None
    """Bytes read and written so far."""
    disk_us: int | None = None
    """When that last changed. The agent reads it less often than it samples."""
    last_disk_us: int | None = None
    cards: tuple[CardActivity, ...] = ()

    def after(
        self,
        now_us: int,
        cards: Sequence[CardActivity],
        rules: HangRules,
        *,
        gpu_ratio: float | None = None,
        cpu_ratio: float | None = None,
        log_bytes: int = 0,
        disk_bytes: int | None = None,
    ) -> RunActivity:
        """Add a sample. ``gpu_ratio``: utilisation by the run itself, without its neighbours, if known."""
        restarts = self.seen_us is None or not 0 <= now_us - self.seen_us <= _GAP_US
        before = RunActivity(watched_since_us=now_us) if restarts else self
        stuck = _wait_for_each_other(cards, rules)
        unfed = stuck and all(_is_unfed(card) for card in cards if spins(card, rules))
        works = _works(cards, gpu_ratio, cpu_ratio, rules)
        computes = cpu_ratio is not None and cpu_ratio >= rules.active_cores
        mean_cores = _mean_cores(before, now_us, cpu_ratio, rules)
        idles = cpu_ratio is not None and mean_cores < rules.active_cores
        window, flood_since_us = _output_window(before, now_us, log_bytes, rules)
        return replace(
            before,
            seen_us=now_us,
            last_activity_us=now_us if works else before.last_activity_us,
            last_cpu_us=now_us if computes else before.last_cpu_us,
            mean_cores=mean_cores,
            last_mean_cpu_us=before.last_mean_cpu_us if idles else now_us,
            spinning_since_us=(before.spinning_since_us or now_us) if stuck else None,
            unfed_since_us=(before.unfed_since_us or now_us) if unfed else None,
            flood_since_us=flood_since_us,
            window=window,
            disk=disk_bytes,
            disk_us=before.disk_us if disk_bytes == before.disk else now_us,
            last_disk_us=now_us if _uses_disk(before, now_us, disk_bytes) else before.last_disk_us,
            cards=tuple(cards),
        )

    def evidence(self, started_us: int, run: Mapping[str, Any], *, high_us: int | None = None, is_prior: bool = False,
                 simulated: bool = False) -> Evidence:  # fmt: skip
        """Combine with the agent's report of the run. Requires at least one sample."""
        return Evidence(
            now_us=self.seen_us if self.seen_us is not None else started_us,
            started_us=started_us,
            has_cards=bool(self.cards),
            watched_since_us=self.watched_since_us,
            last_output_us=run.get("last_output_us"),
            new_output_us=run.get("new_us"),
            repeated=run.get("repeated") or 0,
            troubles=run.get("troubles") or 0,
            succeeds=bool(run.get("succeeds")),
            crashes=run.get("crashes") or 0,
            retry_us=run.get("retry_us"),
            retries=run.get("retries") or 0,
            alike_us=run.get("alike_us"),
            alike=run.get("alike") or 0,
            last_progress_us=run.get("progress_at_us"),
            last_reported_us=run.get("reported_us"),
            same_step_us=run.get("same_step_us"),
            same_step=run.get("same_step") or 0,
            longest_step_us=run.get("longest_step_us"),
            improved_us=run.get("improved_us"),
            ahead_us=run.get("ahead_us"),
            falls=run.get("falls") or 0,
            restarts=run.get("restarts") or 0,
            nan_us=run.get("nan_us"),
            nan_lines=run.get("nan_lines") or 0,
            nan_doubtful=bool(run.get("nan_doubtful")),
            last_activity_us=self.last_activity_us,
            last_card_us=None if simulated or not self.cards else self.last_activity_us,
            last_cpu_us=self.last_cpu_us,
            last_mean_cpu_us=self.last_mean_cpu_us,
            last_disk_us=self.last_disk_us,
            spinning_since_us=self.spinning_since_us,
            unfed_since_us=self.unfed_since_us,
            utilisation_ratio=_mean([card.utilisation_ratio for card in self.cards]),
            power_w=_mean([card.power_w for card in self.cards]),
            power_limit_w=_mean([card.power_limit_w for card in self.cards]),
            flood_since_us=self.flood_since_us,
            stopped_us=run.get("stopped_us"),
            stopped_detail=run.get("stopped_detail") or "",
            waits=run.get("waits"),
            waits_detail=run.get("waits_detail") or "",
            sample=tuple(run.get("sample") or ()),
            stacks=tuple(run.get("stacks") or ()),
            high_us=high_us,
            is_prior=is_prior,
        )


def spins(card: CardActivity, rules: HangRules) -> bool:
    """Whether the card is busy but draws little power, as with kernels that wait for each other."""
    if card.computes:
        return False  # a kernel of few blocks draws as little
    if None in (card.utilisation_ratio, card.power_w, card.power_limit_w):
        return False
    assert card.utilisation_ratio is not None
    assert card.power_w is not None
    assert card.power_limit_w is not None
    most_w = rules.idle_power_most_ratio * card.power_limit_w
    idle_w = most_w if card.idle_power_w is None else min(card.idle_power_w, most_w)
    little_w = idle_w + rules.spinning_power_ratio * (card.power_limit_w - idle_w)
    return card.utilisation_ratio >= rules.spinning_utilisation_ratio and card.power_w <= little_w


def _is_unfed(card: CardActivity) -> bool:
    """Whether no kernel is sent to it. A small model that trains draws as little power as a kernel that hangs."""
    if card.received_bytes_s is None or card.idle_received_bytes_s is None:
        return False
    return card.received_bytes_s <= _UNFED_TIMES * card.idle_received_bytes_s


def _wait_for_each_other(cards: Sequence[CardActivity], rules: HangRules) -> bool:
    """Whether some cards spin and the others are idle: one rank is missing and its peers wait for it."""
    idle = [_is_idle(card.utilisation_ratio, rules) for card in cards]
    spinning = [spins(card, rules) for card in cards]
    return any(spinning) and all(a or b for a, b in zip(idle, spinning, strict=True))


def _works(cards: Sequence[CardActivity], gpu_ratio: float | None, cpu_ratio: float | None, rules: HangRules) -> bool:
    """Whether the run works. With cards only their activity counts, since CPUs are busy while waiting. Unknown: yes."""
    if not cards:
        return cpu_ratio is None or cpu_ratio >= rules.active_cores
    if gpu_ratio is not None:
        return not _is_idle(gpu_ratio, rules)
    return not all(_is_idle(card.utilisation_ratio, rules) for card in cards)


def _mean_cores(before: RunActivity, now_us: int, cpu_ratio: float | None, rules: HangRules) -> float:
    if before.seen_us is None or cpu_ratio is None:
        return before.mean_cores
    weight = min((now_us - before.seen_us) / (max(rules.repeats_s, 1.0) / 10 * US_PER_S), 1.0)
    # Limited, so that the many cores of its start are forgotten soon.
    return before.mean_cores + weight * (min(cpu_ratio, 10 * rules.active_cores) - before.mean_cores)


def _uses_disk(before: RunActivity, now_us: int, disk_bytes: int | None) -> bool:
    if before.disk is None or disk_bytes is None or before.disk_us is None:
        return False
    passed_us = min(max(now_us - before.disk_us, 1), _DISK_WINDOW_US)
    return (disk_bytes - before.disk) * US_PER_S >= _DISK_BYTES_S * passed_us


def _output_window(before: RunActivity, now_us: int, log_bytes: int, rules: HangRules
                   ) -> tuple[tuple[int, int], int | None]:  # fmt: skip
    """The window of output that contains this sample, and since when all windows were floods."""
    if before.window is None or log_bytes < before.window[1]:
        return (now_us, log_bytes), None
    begun_us, first_byte = before.window
    passed_us = now_us - begun_us
    if passed_us < _FLOOD_WINDOW_US:
        return before.window, before.flood_since_us
    is_flood = (log_bytes - first_byte) * US_PER_S >= rules.flood_bytes_s * passed_us
    since_us = begun_us if before.flood_since_us is None else before.flood_since_us
    return (now_us, log_bytes), since_us if is_flood else None


def _is_idle(ratio: float | None, rules: HangRules) -> bool:
    return ratio is not None and ratio < rules.active_ratio


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
