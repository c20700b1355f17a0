"""SLOs of jobs and their attainment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Annotated

from fastapi import APIRouter, Query

from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import Svc, to_s
from gpusquad.server.permissions import Reader, may_see
from gpusquad.server.routers.slo_states import Slos
from gpusquad.server.schemas.goals import GoalsView
from gpusquad.server.services.sharing.slo import NO_REPORT, Goal, SloReport, SloService, SloSnapshot, goals
from gpusquad.server.views import Plain
from gpusquad.server.wiring import Services
from gpusquad.store import goal_samples, people, policy
from gpusquad.store.goal_samples import GoalSample

router = APIRouter(tags=["goals"])
MAX_HOURS = 24 * 31
MAX_SHOWN, MAX_POINTS, MAX_REVISIONS = 1_000, 20_000, 100
SPANS = 48
_US_PER_HOUR = 3600 * US_PER_S


@router.get("/goals", response_model=GoalsView)
async def get_goals(
    who: Reader, svc: Svc, service: Slos,
    hours: Annotated[int, Query(ge=1, le=MAX_HOURS, description="Hours before now")] = 24,
) -> Answer:  # fmt: skip
    """Show weights, SLOs and their attainment, by tenant and job; for administrators of all tenants, otherwise of the
    caller's. Deadlines are judged by the store. Attainment of latency, throughput and availability is reported by the
    card daemons: stored once a minute, and more often kept while it is requested."""
    return Answer(await svc.slow.run(lambda: _goals(svc, who, service, hours)))


def _goals(svc: Services, who: Who, service: SloService, hours: int) -> Plain:
    now_us = svc.clock.now_us()
    since_us = max(0, now_us - hours * _US_PER_HOUR)
    with svc.database.read() as c:
        every, has_more = goals(c, since_us)
        weights = {row.name: row.weight for row in people.tenants(c)}
        revisions = policy.all(c, MAX_REVISIONS)
        record = goal_samples.since(c, since_us, MAX_POINTS)
    # For all jobs, because the snapshots serve all callers.
    snapshots = service.snapshots(every, svc.scheduler.node_service.cards())
    seen, now = [goal for goal in every if may_see(who, goal)], snapshots[-1].jobs if snapshots else {}
    points = _attainment([*_on_record(record), *snapshots], {goal.id for goal in seen}, since_us)
    return {
        "since_s": since_us / US_PER_S,
        "until_s": now_us / US_PER_S,
        "span_s": (now_us - since_us) / SPANS / US_PER_S,
        "tenants": _tenants(seen, now, weights, now_us),
        "jobs": [_job(goal, now.get(goal.id, NO_REPORT), now_us) for goal in seen[:MAX_SHOWN]],
        "deadlines": _deadlines(seen, since_us, now_us),
        "attainment": points[-MAX_POINTS:],
        "policies": [
            {"at_s": row.at_us / US_PER_S, "revision": row.revision, "mode": row.settings.get("mode"),
             "settings": row.settings}
            for row in _holding(revisions, since_us)
        ],
        "truncated": has_more or len(seen) > MAX_SHOWN or len(points) > MAX_POINTS,
    }  # fmt: skip


def _job(goal: Goal, seen: SloReport, now_us: int) -> Plain:
    slo = goal.slo
    return {
        "job": goal.id,
        "name": goal.name,
        "tenant": goal.tenant,
        "state": goal.state,
        "goal": {
            "deadline_s": to_s(goal.deadline_us),
            "latency_s": slo.get("latency"),
            "throughput_per_s": slo.get("throughput"),
            "availability_ratio": slo.get("availability"),
        },
        "deadline_met": goal.is_met(now_us),
        "attainment_ratio": seen.attainment,
        "weight": seen.weight,
    }


def _tenants(
    seen: Sequence[Goal], now: Mapping[str, SloReport], weights: Mapping[str, float], now_us: int
) -> list[Plain]:
    own: defaultdict[str, list[Goal]] = defaultdict(list)
    for goal in seen:
        own[goal.tenant].append(goal)
    return [_tenant(name, own[name], now, weights.get(name), now_us) for name in sorted(own)]


def _tenant(name: str, own: Sequence[Goal], now: Mapping[str, SloReport], weight: float | None, now_us: int) -> Plain:
    judged = Counter(goal.is_met(now_us) for goal in own)
    met, missed = judged[True], judged[False]
    services = [goal for goal in own if goal.is_service and goal.state == "running"]
    attained = [now.get(goal.id, NO_REPORT).attainment for goal in services]
    reported = [attainment for attainment in attained if attainment is not None]
    return {
        "tenant": name,
        "weight": weight,
        "jobs": len(own),
        "deadlines_met": met,
        "deadlines_missed": missed,
        "deadline_ratio": met / (met + missed) if met + missed else None,
        "attainment_ratio": sum(reported) / len(reported) if reported else None,
        "unknown": len(services) - len(reported),
    }


def _deadlines(seen: Sequence[Goal], since_us: int, now_us: int) -> list[Plain]:
    span_us = max(1, (now_us - since_us) // SPANS)
    counts: defaultdict[tuple[int, str], Counter[bool]] = defaultdict(Counter)
    for goal in seen:
        met = goal.is_met(now_us)
        if met is not None and goal.judged_us() >= since_us:
            counts[(goal.judged_us() - since_us) // span_us, goal.tenant][met] += 1
    return [
        {"at_s": (since_us + at * span_us) / US_PER_S, "tenant": tenant, "met": judged[True], "missed": judged[False]}
        for (at, tenant), judged in sorted(counts.items())
    ]


def _on_record(record: Sequence[GoalSample]) -> list[SloSnapshot]:
    return [SloSnapshot(one.at_us, {one.job_id: SloReport(one.attainment, one.weight)}) for one in record]


def _attainment(snapshots: Sequence[SloSnapshot], wanted: set[str], since_us: int) -> list[Plain]:
    found = [
        {"at_s": snapshot.at_us / US_PER_S, "job": job, "attainment_ratio": seen.attainment, "weight": seen.weight}
        for snapshot in snapshots
        if snapshot.at_us >= since_us
        for job, seen in snapshot.jobs.items()
        if job in wanted
    ]
    return sorted(found, key=lambda point: point["at_s"])


def _holding(revisions: Sequence[policy.PolicyRow], since_us: int) -> list[policy.PolicyRow]:
    """Those set since then, and the one in use before; oldest first."""
    found = []
    for row in revisions:
        found.append(row)
        if row.at_us < since_us:
            break
    return found[::-1]
