"""Policies in use, changed at run time as numbered revisions in the store. The store is the authority."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import Connection

from gpusquad.core.explain.forecast import Replay
from gpusquad.core.ports import PoliciesChanged
from gpusquad.core.state.live_updates import with_policies
from gpusquad.core.state.policies import Policies, PreemptionConfig
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.decision import Preempt, Start
from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import QuantileLevels
from gpusquad.modes import Mode, load_mode, mode_names
from gpusquad.registry import create, find
from gpusquad.server.answers import PolicyPreview, PolicyStatus, Who
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.store import policy as revisions

DEFAULT_MODE = "standard"
KINDS = ("order", "plan", "place")
_STEPS = 2000
_MAX_MOVED = 100


class PolicyService:
    """Reads, sets and previews policies."""

    def __init__(self, context: SchedulerContext, tenant_cache: TenantCache, default_mode: str = DEFAULT_MODE) -> None:
        self._context = context
        self._tenants = tenant_cache
        self._settings: dict[str, Any] = {"mode": default_mode}
        self._divide = Mode("").divide
        self._about: tuple[int, int, str, str] = (0, 0, "", "")
        self._changing = threading.Lock()
        """Serialises changes, because each builds on the last. Never taken by the scheduler's thread."""

    def load(self) -> Policies:
        """At start: load the last revision, or the default."""
        with self._context.database.read() as connection:
            last = revisions.latest(connection)
        if last is not None:
            self._settings = dict(last.settings)
            self._about = (last.revision, last.at_us, last.by, last.note)
        mode = _mode(self._settings)
        self._context.predictor.uses, self._divide = mode.uses, mode.divide
        return self._policies(self._settings)

    @property
    def divide(self) -> str:
        """The mode's divide policy for shared cards."""
        return self._divide

    def status(self) -> PolicyStatus:
        policies = self._context.state.policies
        revision, at_us, by, note = self._about
        return PolicyStatus(
            revision, self._settings["mode"], *(policies.names[kind] for kind in KINDS),
            preemption=asdict(policies.preemption), modes=mode_names(), at_us=at_us, by=by, note=note,
            divide=self._divide,
        )  # fmt: skip

    def set(self, wanted: Mapping[str, Any], who: Who, note: str = "") -> PolicyStatus:
        """Takes effect in the next cycle. Settings that are not named stay, unless another mode is chosen."""
        with self._changing:
            settings = self._merge(wanted)
            policies, mode = self._policies(settings), _mode(settings)

            def change() -> None:
                unit = self._context.unit
                self._context.driver.apply(unit.now_us, PoliciesChanged(policies))
                self._settings, self._divide = settings, mode.divide
                unit.writes.append(record)
                self._count_on(mode.uses)

            def record(connection: Connection) -> None:
                now_us = self._context.unit.now_us
                number = revisions.append(connection, now_us, who.user, settings, note)
                self._about = (number, now_us, who.user, note)

            self._context.loop.call(change)
            return self.status()

    def tenants_changed(self) -> None:
        """Read weights, guarantees and limits again."""
        with self._changing:
            self._tenants.reload()
            policies = self._policies(self._settings)
            self._context.loop.call(
                lambda: self._context.driver.apply(self._context.unit.now_us, PoliciesChanged(policies))
            )

    def preview(self, wanted: Mapping[str, Any]) -> PolicyPreview:
        """Compare the current queue under both policies, on copies."""
        policies = self._policies(self._merge(wanted))
        now = self._context.copy()
        then = with_policies(now, policies)
        return _compare(now, then)

    def _count_on(self, uses: QuantileLevels) -> None:
        """Predict pending jobs again if the mode uses other quantiles. Running jobs keep their predictions."""
        before, self._context.predictor.uses = self._context.predictor.uses, uses
        if uses != before:
            self._context.training.refresh_predictions()

    def _merge(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        known = {"mode", *KINDS, "preemption"}
        for name in wanted:
            if name not in known:
                raise Invalid(name, "is not a policy setting", f"choose from {', '.join(sorted(known))}")
        kept = {} if wanted.get("mode") else dict(self._settings)
        given = {name: value for name, value in wanted.items() if value is not None}
        if isinstance(given.get("preemption"), Mapping):
            given_fields = {name: value for name, value in given["preemption"].items() if value is not None}
            given["preemption"] = {**(kept.get("preemption") or {}), **given_fields}
        return kept | given

    def _policies(self, settings: Mapping[str, Any]) -> Policies:
        mode = _mode(settings)
        overrides: dict[str, Any] = {kind: settings[kind] for kind in KINDS if settings.get(kind)}
        for kind, text in overrides.items():
            create(kind, text)
        if settings.get("preemption"):
            overrides["preemption"] = _preemption(mode.preemption, settings["preemption"])
        tenants = {tenant.name: tenant for tenant in (*mode.tenants, *self._tenants.for_core())}
        return mode.policies(**overrides, tenants=tuple(tenants.values()))


def _mode(settings: Mapping[str, Any]) -> Mode:
    return load_mode(_named_mode(settings["mode"]))


def _named_mode(name: object) -> str:
    """By name only: a path from a request is never opened."""
    if not isinstance(name, str) or name not in mode_names():
        if isinstance(name, str) and _is_divide(name):
            cure = f"set it with --card: gpusquad policy set {name} --card 0, or --card all"
            raise Invalid("mode", f"{name!r} is a divide policy, not a mode", cure)
        raise Invalid("mode", f"is unknown: {name!r}", f"{_of_file(name)}choose from {', '.join(mode_names())}")
    return name


def _is_divide(spec: str) -> bool:
    try:
        find("divide", spec.partition(":")[0].strip())
    except Invalid:
        return False
    return True


def _of_file(name: object) -> str:
    if not isinstance(name, str) or not name.endswith(".toml"):
        return ""
    return "put the file into ~/.config/gpusquad/modes of the service's user and name it without .toml, or "


def _preemption(plain: PreemptionConfig, wanted: Mapping[str, Any]) -> PreemptionConfig:
    given = {name: value for name, value in wanted.items() if value is not None}
    if given.get("by", "none") not in ("none", "priority", "order"):
        raise Invalid("preemption.by", f"is unknown: {given['by']!r}", "choose none, priority or order")
    try:
        return replace(plain, **given)
    except TypeError as error:
        raise Invalid("preemption", str(error), "choose from by, min_run_s, most_per_job") from None


def _compare(now: SchedulerState, then: SchedulerState) -> PolicyPreview:
    waiting = {one.job.id for one in now.queue}
    before, after = Replay(now, "mid"), Replay(then, "mid")
    before.run(waiting, _STEPS)
    after.run(waiting, _STEPS)
    moved = [
        (job_id, before.started.get(job_id), after.started.get(job_id))
        for job_id in sorted(waiting)
        if before.started.get(job_id) != after.started.get(job_id)
    ]
    return PolicyPreview(
        tuple(d.job_id for d in after.first if isinstance(d, Start)),
        tuple(d.job_id for d in after.first if isinstance(d, Preempt)),
        tuple(moved[:_MAX_MOVED]),
    )
