"""Applies the hang rules to running jobs: warnings, stops, and suspicion of cards on which several jobs hung."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpusquad.core.hang.activity import CardActivity, RunActivity
from gpusquad.core.hang.hang import HangAction, HangRules, HangWatch, RuleName
from gpusquad.core.hang.rules import judge
from gpusquad.core.ports import GangStopping
from gpusquad.core.transitions import JobState
from gpusquad.model.prediction import PRIOR
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.server.answers import HangStatus
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.outcomes import Outcomes
from gpusquad.server.services.runtime.records import cards_of
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.store.events import PRIVATE
from gpusquad.store.jobs import JobRow

Suspect = Callable[[str, str], None]
"""Called with a card and the reason to test it."""
CARD_RULES: frozenset[RuleName] = frozenset({"silent", "spinning", "stopped"})
"""Hangs that a card can cause. It does not make a program print the same line."""
REMEMBERED_US = 24 * 3600 * US_PER_S
MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _RunState:
    """Activity of one run."""

    pulse: RunActivity = field(default_factory=RunActivity)
    watch: HangWatch = field(default_factory=HangWatch)


class HangWatcher:
    """Called by the agent's reader thread with each sample of a run."""

    def __init__(
        self, context: SchedulerContext, outcomes: Outcomes, tenants: TenantCache, rules: HangRules, suspect: Suspect
    ) -> None:
        self._context = context
        self._outcomes = outcomes
        self._tenants = tenants
        # The use of CPUs stands for that of simulated cards, with its short blips.
        least = max(rules.active_ratio, rules.active_cores) if context.simulated else rules.active_ratio
        self._rules = replace(rules, active_ratio=least)
        self._suspect = suspect
        self._runs: dict[tuple[str, int], _RunState] = {}
        self._hung: dict[str, dict[str, int]] = {}
        """Card to the jobs that were stopped on it, with the time."""

    def see(self, row: JobRow, run: Mapping[str, Any], cards: Mapping[str, Any], at_us: int) -> None:
        """Judge a run by a sample of it and of its cards."""
        seen = self._runs.get((row.id, row.attempt), _RunState())
        activity = [CardActivity(None)] if run.get("unknown") else _card_activity(row, cards)
        pulse = seen.pulse.after(at_us, activity, self._rules, gpu_ratio=run.get("gpu_ratio"),
                                 cpu_ratio=run.get("cpu_ratio"), log_bytes=run.get("log_bytes") or 0,
                                 disk_bytes=run.get("disk_bytes"))  # fmt: skip
        forecast = row.forecast or {}
        evidence = pulse.evidence(
            at_us if row.started_us is None else row.started_us, run, high_us=forecast.get("high_us"),
            is_prior=forecast.get("source") == PRIOR, simulated=self._context.simulated,
        )  # fmt: skip
        stops = self._tenants.stops_hung(row.tenant)
        watch, actions = seen.watch.step(at_us, judge(evidence, self._rules), self._rules, stop=stops)
        self._runs[row.id, row.attempt] = _RunState(pulse, watch)
        for action in actions:
            self._act(row, action)

    def warnings(self, row: JobRow) -> list[HangStatus]:
        """What it warns about now, of a running job. From any thread."""
        seen = self._runs.get((row.id, row.attempt))
        if seen is None or row.state != JobState.RUNNING:
            return []
        stops = self._tenants.stops_hung(row.tenant) and not seen.watch.stopped
        return [
            HangStatus(one.rule, one.since_us, one.at_us, one.message, one.cure,
                       one.stops_us(self._rules) if stops else None)
            for one in seen.watch.warned.values()
        ]  # fmt: skip

    def forget_ended(self) -> None:
        for key in [key for key in self._runs if key[0] not in self._context.rows]:
            del self._runs[key]

    def _act(self, row: JobRow, action: HangAction) -> None:
        if action.kind == "warn":
            self._context.observer.hung(action.rule)

        def handle() -> None:
            now = self._context.rows.get(row.id)
            if now is None or now.attempt != row.attempt or now.state != JobState.RUNNING:
                return
            text = self._text(now.tenant, action)
            kind = "recovered" if action.kind == "clear" else "hung"
            self._context.unit.record(row.id, kind, text, data=_data_of(action))
            if action.kind == "stop":
                self._stop(now, action)

        self._context.loop.post(handle)

    def _text(self, tenant: str, action: HangAction) -> str:
        """What the story says, and what follows."""
        if action.kind == "stop":
            return action.message
        text = f"{action.message}; {action.cure}" if action.cure else action.message
        if action.kind == "warn" and action.may_stop and self._tenants.stops_hung(tenant):
            text += f"; it is stopped in {show_us(round(self._rules.stop_after_s * US_PER_S))} unless that ends"
        return text

    def _stop(self, row: JobRow, action: HangAction) -> None:
        unit, cause = self._context.unit, f"hung by rule {action.rule}: {action.message}"
        cards = cards_of(row)
        self._context.driver.apply(unit.now_us, GangStopping(row.id))
        self._outcomes.request_stop(unit, row.id, JobState.STOPPING, "failed", cause, hung_on=cards)
        if action.rule in CARD_RULES:
            self._count(row.id, cards, unit.now_us)

    def _count(self, job_id: str, cards: Sequence[str], now_us: int) -> None:
        for card in cards:
            hung = self._hung.setdefault(card, {})
            hung[job_id] = now_us
            for old in [job for job, at_us in hung.items() if now_us - at_us > REMEMBERED_US]:
                del hung[old]
            if len(hung) > 1:
                del self._hung[card]
                self._suspect(card, f"{len(hung)} jobs hung on it: {', '.join(sorted(hung))}")
        while len(self._hung) > MAX_REMEMBERED:
            del self._hung[next(iter(self._hung))]


def _data_of(action: HangAction) -> dict[str, Any]:
    """Lines of output and stacks are shown only to those who may read the job's logs."""
    return {"rule": action.rule, "action": action.kind, **({PRIVATE: list(action.shown)} if action.shown else {})}


def _card_activity(row: JobRow, cards: Mapping[str, Any]) -> list[CardActivity]:
    mine = [cards[card] for card in cards_of(row) if card in cards]
    return [
        CardActivity(card.get("utilisation_ratio"), card.get("power_w"), card.get("idle_power_w"),
                     card.get("power_limit_w"), card.get("received_bytes_s"), card.get("idle_received_bytes_s"),
                     card.get("computes"))
        for card in mine
    ]  # fmt: skip
