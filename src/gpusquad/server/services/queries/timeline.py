"""Past, present and planned use of cards, limited to what the caller may see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import EndAnswer, Who, WindowStatus
from gpusquad.server.permissions import OwnedResource, may_see
from gpusquad.server.services.queries.past_bars import AttemptBar, bars, windows_over
from gpusquad.server.services.queries.plan_forecast import PlanForecast, PlanForecaster, PlannedReservation, PlannedRun
from gpusquad.server.views import Plain, end_view, instant_s, window_view
from gpusquad.server.wiring import Services
from gpusquad.store.marks import MarkRow

Cards = frozenset[str] | None


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """Time span of a query."""

    now_us: int
    from_us: int
    to_us: int

    def touches(self, start_us: int, end_us: int | None) -> bool:
        return start_us < self.to_us and (end_us is None or end_us > self.from_us)


class _NamedResource(OwnedResource, Protocol):
    @property
    def name(self) -> str: ...


def timeline(svc: Services, who: Who, forecaster: PlanForecaster | None, span: TimelineSpan, cards: Cards) -> Plain:
    """``cards``: only these. None: all."""
    with svc.database.read() as c:
        past, has_more = bars(c, span.from_us, span.to_us, span.now_us, cards)
        over = windows_over(c, span.from_us, span.to_us, span.now_us)
    shows_plan = forecaster is not None and span.to_us > span.now_us
    plan = forecaster.plan() if forecaster is not None and shows_plan else None
    reserved = forecaster.reservations() if forecaster is not None and shows_plan else []
    ends = forecaster.ends() if forecaster is not None else {}
    return {
        "now_s": span.now_us / US_PER_S,
        "from_s": span.from_us / US_PER_S,
        "to_s": span.to_us / US_PER_S,
        "bars": [_bar(one, ends, who) for one in past],
        "truncated": has_more,
        "reservations": [_reservation(one, who) for one in reserved
                         if span.touches(one.start_us, one.end_us) and _is_shown(one.owner, one.cards, cards, who)],
        "planned": _planned(plan, span, cards, who),
        "planned_at_s": None if plan is None else plan.at_us / US_PER_S,
        "planned_unknown": 0 if plan is None else plan.unknown,
        "windows": _windows(svc, over, span, cards),
    }  # fmt: skip


def _is_shown(owner: OwnedResource, held: Iterable[str], cards: Cards, who: Who) -> bool:
    """A job without cards belongs to no node; of other tenants it would only reveal that a job is pending."""
    held = tuple(held)
    if cards is not None and not any(card in cards for card in held):
        return False
    return bool(held) or may_see(who, owner)


def _bar(bar: AttemptBar, ends: Mapping[str, EndAnswer], who: Who) -> Plain:
    seen, is_open = may_see(who, bar), bar.ended_us is None
    end = ends.get(bar.job_id) if is_open else None
    return {
        "job": bar.job_id if seen else None,
        "name": bar.name if seen else None,
        "tenant": bar.tenant if seen else None,
        "user": bar.user if seen else None,
        "attempt": bar.attempt if seen else 0,
        "cards": bar.cards,
        "start_s": bar.started_us / US_PER_S,
        "end_s": instant_s(bar.ended_us),
        "state": bar.state if seen else "running" if is_open else "over",
        "share_ratio": bar.share_ratio,
        "expected": end_view(end),
    }


def _reservation(one: PlannedReservation, who: Who) -> Plain:
    return _named(one.owner.id, one.owner, who) | {
        "gpus": one.owner.gpus,
        "start_s": one.start_us / US_PER_S,
        "latest_s": one.latest_us / US_PER_S,
        "end_s": instant_s(one.end_us),
        "cards": list(one.cards),
    }


def _planned(plan: PlanForecast | None, span: TimelineSpan, cards: Cards, who: Who) -> list[Plain]:
    runs = () if plan is None else plan.runs
    return [
        _planned_run(one, who)
        for one in runs
        if span.touches(one.start_us, one.end_us) and _is_shown(one.owner, one.cards, cards, who)
    ]


def _planned_run(one: PlannedRun, who: Who) -> Plain:
    return _named(one.owner.id, one.owner, who) | {
        "gpus": one.owner.gpus,
        "position": one.position,
        "start_s": one.start_us / US_PER_S,
        "start_high_s": instant_s(one.high_us),
        "end_s": instant_s(one.end_us),
        "end_high_s": instant_s(one.end_high_us),
        "cards": list(one.cards),
    }


def _named(job_id: str, owner: _NamedResource, who: Who) -> Plain:
    seen = may_see(who, owner)
    return {
        "job": job_id if seen else None,
        "name": owner.name if seen else None,
        "tenant": owner.tenant if seen else None,
    }


def _windows(svc: Services, over: Iterable[MarkRow], span: TimelineSpan, cards: Cards) -> list[Plain]:
    past = [WindowStatus(row.id, tuple(row.target.split(",")), row.start_us, row.end_us, row.by, row.cause)
            for row in over]  # fmt: skip
    known = {
        one.id: one for one in [*past, *svc.scheduler.node_service.windows()] if span.touches(one.start_us, one.end_us)
    }
    if cards is None:
        return [window_view(one) for one in known.values()]
    nodes = {card.node for card in svc.scheduler.node_service.cards() if card.id in cards}
    return [window_view(one) for one in known.values() if nodes & set(one.nodes)]
