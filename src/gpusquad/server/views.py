"""Rows and answers as plain data in the form of ``schemas``. Not validated, because it is our own data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from gpusquad.core.transitions import JobState
from gpusquad.model.job import Slo
from gpusquad.model.reasons import ReasonCode
from gpusquad.model.slo_text import slo_from
from gpusquad.model.units import US_PER_S, WHOLE_MILLI
from gpusquad.model.views import RunTimePrediction
from gpusquad.server.answers import (
    AutomaticStatus,
    CardStatus,
    CardUser,
    EndAnswer,
    HangStatus,
    HeldEntry,
    NodeStatus,
    PolicyStatus,
    QueueEntry,
    RunTimeAccuracy,
    TaskPlace,
    Who,
    WindowStatus,
)
from gpusquad.server.params import MAX_TIME_S, to_s
from gpusquad.server.permissions import may_see
from gpusquad.store.events import PRIVATE, EventRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.samples import SampleRow

Plain = dict[str, Any]
_UUIDS = ("GPU-", "MIG-")
_MAX_US = int(MAX_TIME_S * US_PER_S)


def job_view(row: JobRow) -> Plain:
    return {
        "id": row.id,
        "name": row.name,
        "tenant": row.tenant,
        "user": row.user,
        "queue": row.queue,
        "group": row.group_id,
        "state": str(row.state),
        "attempt": row.attempt,
        "priority": row.priority,
        "lane": row.lane,
        "gpus": row.gpus,
        "share": _share_of(row),
        "tasks": tasks_of(row),
        "submitted_s": row.submitted_us / US_PER_S,
        "eligible_s": None if row.state == JobState.HELD else _eligible_s(row),
        "started_s": to_s(row.started_us),
        "ended_s": to_s(row.ended_us),
        "cause": row.cause,
        "placement": _placement(row.placement),
        "result": _result(row.result),
        "progress": _progress(row.progress),
        "forecast": _forecast(row.forecast),
        "retries_left": row.retries_left,
        "losses": len(row.losses or ()),
        "next_attempt_s": to_s(row.release_us) if row.state == JobState.HELD and not row.stop else None,
        "preemptions": row.preemptions,
        "after": [{"job": wait["job"], "on": wait["on"]} for wait in row.after],
    }


def _eligible_s(row: JobRow) -> float:
    return max(row.submitted_us / US_PER_S, float(row.core.get("held_until") or 0))


def _share_of(row: JobRow) -> Plain | None:
    """Of one card, for each task. None also if tasks request different shares."""
    first, *others = row.core.get("roles") or [row.core]
    share = first.get("share")
    if share is None or any(role.get("share") != share for role in others):
        return None
    return {"sm": share.get("sm"), "memory": share.get("memory"), "isolation": share.get("isolation", "shared")}


def changed_view(row: JobRow) -> Plain:
    """Includes the amount that ``peak`` stood for."""
    roles = row.core.get("roles") or [row.core]
    parts = {(role.get("share") or {}).get("memory") for role in roles}
    return job_view(row) | {"memory": parts.pop() if len(parts) == 1 else None}


def tasks_of(row: JobRow) -> int:
    """Number requested."""
    roles = row.core.get("roles")
    return sum(role.get("count", 1) for role in roles) if roles else row.core.get("count", 1)


def queued_view(row: JobRow, entry: QueueEntry) -> Plain:
    return job_view(row) | {
        "position": entry.position,
        "eta_s": instant_s(entry.eta_us),
        "eta_high_s": instant_s(entry.eta_high_us),
        "promised_s": instant_s(entry.promised_us),
        "reason": {"code": str(entry.code), "message": entry.message} if entry.code else None,
    }


def held_view(row: JobRow, entry: HeldEntry, held_us: int | None) -> Plain:
    reason = {"code": str(ReasonCode.HELD), "message": entry.message} if entry.message else None
    return job_view(row) | {"held_s": to_s(held_us), "reason": reason}


def running_view(row: JobRow, end: EndAnswer | None, hangs: Iterable[HangStatus]) -> Plain:
    return job_view(row) | {"end": end_view(end), "hang_warnings": hangs_view(hangs)}


def hangs_view(hangs: Iterable[HangStatus]) -> list[Plain]:
    return [
        {"rule": one.rule, "message": one.message, "cure": one.cure, "since_s": one.since_us / US_PER_S,
         "warned_s": one.warned_us / US_PER_S, "stops_s": to_s(one.stops_us)}
        for one in hangs
    ]  # fmt: skip


def goals_view(row: JobRow, state: Plain) -> Plain:
    """The fields ``slo``, ``estimate_s`` and ``limit_s`` of a job. ``state``: of its SLO."""
    core = row.core
    slo = _slo_view(slo_from(core["slo"], "slo", row.submitted_us)) | state if core.get("slo") else None
    return {"slo": slo, "estimate_s": core.get("estimate"), "limit_s": core.get("limit")}


def _slo_view(slo: Slo) -> Plain:
    return {"deadline_s": to_s(slo.deadline_us), "latency_s": to_s(slo.latency_us),
            "throughput": slo.throughput_per_s, "availability": slo.availability_ratio}  # fmt: skip


def end_view(end: EndAnswer | None) -> Plain | None:
    """Predicted end. None if not known."""
    if end is None:
        return None
    return {"mid_s": instant_s(end.mid_us), "high_s": instant_s(end.high_us), "source": end.source}


def run_view(forecast: RunTimePrediction | None, confidence: float | None = None) -> Plain | None:
    """A predicted run time. None if unknown."""
    if forecast is None or forecast.mid_us >= _MAX_US:
        return None
    text = {"mid_s": instant_s(forecast.mid_us), "high_s": instant_s(forecast.high_us), "source": forecast.source}
    return text | {"confidence": confidence}


def record_view(record: RunTimeAccuracy | None) -> Plain | None:
    return None if record is None else asdict(record)


def places_view(places: Iterable[TaskPlace]) -> list[Plain]:
    return [{"task": place.task, "node": place.node, "cards": list(place.cards)} for place in places]


def event_view(row: EventRow, *, private: bool) -> Plain:
    """``private``: with lines of the job's output, for those who may read its logs."""
    data = row.data
    if not private and isinstance(data, dict):
        data = {name: value for name, value in data.items() if name != PRIVATE}
    return {
        "id": row.id,
        "at_s": row.at_us / US_PER_S,
        "kind": row.kind,
        "state": str(row.state),
        "attempt": row.attempt,
        "cause": row.cause,
        "actor": row.actor,
        "data": data,
    }


def node_view(node: NodeStatus, who: Who) -> Plain:
    return {
        "id": node.id,
        "rack": node.rack,
        "up": not node.drained,
        "drained": node.drained,
        "cpu_milli": node.cpu_milli,
        "cpu_free_milli": node.cpu_free_milli,
        "memory_bytes": node.memory_bytes,
        "memory_free_bytes": node.memory_free_bytes,
        "cards": [card_view(card, who) for card in node.cards],
        "windows": [window_view(window) for window in node.windows],
    }


def card_view(card: CardStatus, who: Who) -> Plain:
    return {
        "id": card.id,
        "uuid": uuid_of(card.id),
        "model": card.model,
        "memory_bytes": card.memory_bytes,
        "index": card.index,
        "state": card.state,
        "cause": card.cause,
        "jobs": [_card_user(user, who) for user in card.jobs],
        "sample": _sample(card.sample, who),
        "simulated": card.simulated,
        "self_test": _self_test(card.self_test),
    }


def _self_test(result: Mapping[str, Any] | None) -> Plain | None:
    if result is None:
        return None
    return {"at_s": result["at_us"] / US_PER_S, "passed": result["passed"], "detail": result["detail"],
            "took_s": result["took_s"]}  # fmt: skip


def uuid_of(card: str) -> str | None:
    """If the card is named by its UUID; simulated cards have none."""
    return card if card.startswith(_UUIDS) else None


def sample_view(row: SampleRow) -> Plain:
    """In the form of a card's live ``sample``."""
    return {
        "at_s": row.at_us / US_PER_S,
        "utilisation_ratio": row.busy_ratio,
        "memory_utilisation_ratio": row.memory_busy_ratio,
        "memory_used_bytes": row.memory_bytes,
        "power_w": row.power_w,
        "temperature_c": row.temperature_c,
        "sm_clock_mhz": row.clock_mhz,
    }


def window_view(window: WindowStatus) -> Plain:
    return {
        "id": window.id,
        "nodes": list(window.nodes),
        "start_s": window.start_us / US_PER_S,
        "end_s": to_s(window.end_us),
        "by": window.by,
        "cause": window.cause,
    }


def policy_view(policy: PolicyStatus, who: Who) -> Plain:
    def seen(tenant: str) -> str:
        return tenant if who.is_admin or tenant == who.tenant else "another"

    return {
        "revision": policy.revision,
        "mode": policy.mode,
        "order": policy.order,
        "plan": policy.plan,
        "place": policy.place,
        "divide": policy.divide,
        "preemption": dict(policy.preemption),
        "automatic": _automatic_view(policy.automatic),
        "lanes": [asdict(lane) | {"tenants": [*map(seen, lane.tenants)]} for lane in policy.lanes],
        "modes": list(policy.modes),
        "since_s": policy.at_us / US_PER_S,
        "by": policy.by,
        "note": policy.note,
    }


def _automatic_view(automatic: AutomaticStatus | None) -> Plain | None:
    if automatic is None:
        return None
    return {
        "mode": automatic.mode,
        "since_s": automatic.since_us / US_PER_S,
        "why": automatic.why,
        "changes": automatic.changes,
        "max_changes": automatic.max_changes,
        "next_mode": automatic.next_mode,
        "next_s": instant_s(automatic.next_us),
        "next_why": automatic.next_why,
    }


def instant_s(us: int | None) -> float | None:
    """In seconds. The core's "never" becomes null."""
    return None if us is None or us >= _MAX_US else us / US_PER_S


def page(items: list[Plain], next_cursor: str | None = None) -> Plain:
    return {"items": items, "next": next_cursor}


def _sample(sample: Mapping[str, Any] | None, who: Who) -> Plain | None:
    """Card utilisation. Its processes are visible to administrators only, because they can be any user's."""
    if sample is None:
        return None
    return {name: value for name, value in sample.items() if who.is_admin or name != "processes"}


def _card_user(user: CardUser, who: Who) -> Plain:
    """Jobs of other tenants appear only by the space they use."""
    seen = may_see(who, user)
    whole = user.sm_milli is None and user.memory_bytes is None
    sm_ratio = None if user.sm_milli is None else user.sm_milli / WHOLE_MILLI
    share = {"sm": sm_ratio, "memory_bytes": user.memory_bytes, "isolation": user.isolation}
    return {
        "id": user.job_id if seen else None,
        "name": user.name if seen else None,
        "user": user.user if seen else None,
        "share": None if whole else share,
    }


def _placement(placement: Mapping[str, Any] | None) -> list[Plain]:
    tasks = placement.get("tasks", ()) if placement else ()
    return [{"task": index, "node": task["node"], "cards": task["cards"]} for index, task in enumerate(tasks)]


def _result(result: Mapping[str, Any] | None) -> Plain | None:
    if not result:
        return None
    text = {name: result.get(name) for name in ("task", "exit_code", "signal")}
    return text | {"oom": bool(result.get("oom"))}


def _progress(progress: Mapping[str, Any] | None) -> Plain | None:
    if not progress:
        return None
    at_us = progress.get("at_us")
    at_s = None if at_us is None else at_us / US_PER_S
    return {**{name: progress.get(name) for name in ("step", "total", "ratio")}, "at_s": at_s}


def _forecast(forecast: Mapping[str, Any] | None) -> Plain | None:
    if not forecast:
        return None
    return run_view(
        RunTimePrediction(forecast["mid_us"], forecast["high_us"], forecast["source"]), forecast.get("confidence")
    )
