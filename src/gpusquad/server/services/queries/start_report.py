"""Promised starts against actual ones, and the true delay of heads of the queue, in the form of the API."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.permissions import may_see
from gpusquad.server.views import Plain, instant_s
from gpusquad.store.promises import PromiseRow

ON_TIME_US = US_PER_S
"""A start this much after the promised one is on time: processes take a moment to stop and to start."""
MAX_LATE = 20
"""Late starts that are listed."""
NOT_KNOWN = "other"


@dataclass(frozen=True, slots=True)
class _Blamed:
    """Owner of the job that delayed another, for ``may_see``."""

    tenant: str
    user: str


def start_report(rows: Sequence[PromiseRow], who: Who) -> Plain:
    """Of started jobs. Jobs of others that the caller may not see are not named."""
    promised = [row for row in rows if row.promised_us is not None]
    late = sorted((row for row in promised if _late_us(row) > ON_TIME_US), key=_late_us, reverse=True)
    followed = [row.head_delay_us for row in rows if row.head_delay_us is not None]
    return {
        "count": len(promised),
        "kept": len(promised) - len(late),
        **_times([_late_us(row) for row in late], "late"),
        "causes": _causes(late),
        "latest": [_late(row, who) for row in late[:MAX_LATE]],
        "heads": {"count": len(followed), **_times([us for us in followed if us > ON_TIME_US], "delayed")},
    }


def _late_us(row: PromiseRow) -> int:
    return (row.started_us or 0) - (row.promised_us or 0)


def _times(times_us: Sequence[int], count_name: str) -> Plain:
    return {
        count_name: len(times_us),
        "median_s": median(times_us) / US_PER_S if times_us else None,
        "worst_s": max(times_us) / US_PER_S if times_us else None,
    }


def _causes(late: Iterable[PromiseRow]) -> list[Plain]:
    """Most frequent first."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for row in late:
        found[row.cause or NOT_KNOWN].append(_late_us(row))
    ordered = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    return [{"cause": cause, **_times(times, "count")} for cause, times in ordered]


def _late(row: PromiseRow, who: Who) -> Plain:
    seen = bool(row.cause_job) and may_see(who, _Blamed(row.cause_tenant, row.cause_user))
    return {
        "job": row.job_id,
        "name": row.name,
        "tenant": row.tenant,
        "user": row.user,
        "promised_s": instant_s(row.promised_us),
        "started_s": instant_s(row.started_us),
        "late_s": _late_us(row) / US_PER_S,
        "head_delay_s": instant_s(row.head_delay_us),
        "cause": row.cause or NOT_KNOWN,
        "cause_job": row.cause_job if seen else None,
        "cause_user": row.cause_user if seen else None,
        "cause_tenant": row.cause_tenant if seen else None,
    }
