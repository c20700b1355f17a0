"""Recent losses of a job, and how long it waits after each: a leaky count.

A loss is an attempt that ended without a result of its own: by a fault of a card, with its node or its processes, or
because it could not start in time. A loss counts until the job has run for a while since, or has got further than ever.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from gpusquad.core.containment.rules import ContainmentRules
from gpusquad.model.units import US_PER_S

LossKind = Literal["fault", "lost", "start"]
MAX_LOSSES = 64
"""Kept of one job, if their number is not limited."""


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss of a job."""

    at_us: int
    kind: LossKind
    cause: str
    ran_since_us: int = 0
    """Run time of the job since."""
    step: int | None = None
    """Last step that the attempt reported."""
    blame: float | None = None
    """Its share of the blame for a fault of a card. None: unknown, or no fault."""


Losses = tuple[Loss, ...]


def after_loss(losses: Losses, loss: Loss, ran_us: int, rules: ContainmentRules) -> Losses:
    """The recent losses including the one of an attempt that ran for this long."""
    steps = [one.step for one in losses if one.step is not None]
    if loss.step is not None and steps and loss.step > max(steps):
        return (loss,)
    aged = (replace(one, ran_since_us=one.ran_since_us + ran_us) for one in losses)
    kept = [one for one in aged if one.ran_since_us < rules.forgiven_after_s * US_PER_S]
    return (*kept, loss)[-MAX_LOSSES:]


def loss_backoff_s(losses: int, rules: ContainmentRules) -> float:
    """Delay before the next attempt after this many recent losses. The first one is retried at once."""
    if losses <= 1:
        return 0.0
    return min(rules.first_backoff_s * 2.0 ** min(losses - 2, 64), rules.most_backoff_s)


def spread(delay_s: float, job_id: str) -> float:
    """Up to twice the delay, by the job's id. Jobs that lost a card together would otherwise be placed together again,
    and nobody could tell which of them damages cards."""
    return delay_s * (1.0 + zlib.crc32(job_id.encode()) / 2**32)


def is_exhausted(losses: int, rules: ContainmentRules) -> bool:
    """Whether the job is held instead of being retried."""
    return 0 < rules.max_losses <= losses


def crash_backoff_s(
    attempts: int, last_run_s: float, *, fast_s: float = 60.0, first_s: float = 10.0, most_s: float = 900.0
) -> float:
    """Delay before the retry of a program that failed ``attempts`` times in a row. 0 if it ran for ``fast_s``: its
    retries are counted anyway."""
    if attempts <= 0 or last_run_s >= fast_s:
        return 0.0
    return min(first_s * 2.0 ** min(attempts - 1, 64), most_s)


def losses_from(record: Sequence[Mapping[str, Any]] | None) -> Losses:
    """From the store."""
    return tuple(Loss(**one) for one in record or ())


def losses_record(losses: Losses) -> list[dict[str, Any]]:
    """For the store."""
    return [asdict(one) for one in losses]
