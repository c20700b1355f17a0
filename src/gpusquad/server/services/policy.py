"""Policies in use, changed at run time as numbered revisions in the store. The store is the authority.

An automatic mode changes them as well: its choice is reviewed once a minute, and a change is a revision with its cause.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import structlog
from sqlalchemy import Connection

from gpusquad.core.explain.forecast import Replay
from gpusquad.core.ports import PoliciesChanged
from gpusquad.core.state.lanes import Lane
from gpusquad.core.state.live_updates import with_policies
from gpusquad.core.state.policies import Policies, PreemptionConfig
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.decision import Preempt, Start
from gpusquad.model.errors import Invalid
from gpusquad.model.prediction import QuantileLevels
from gpusquad.model.units import show_count
from gpusquad.modes import Mode, choosable, load_mode, mode_names
from gpusquad.modes.automatic import REVIEW_US
from gpusquad.modes.choice import ModeChoice, first_choice, review
from gpusquad.modes.goals import goals_of
from gpusquad.modes.read import lanes_from_dict, with_preemptible
from gpusquad.registry import create, find
from gpusquad.server.answers import AutomaticStatus, PolicyPreview, PolicyStatus, Who
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.runtime.tenants import TenantCache
from gpusquad.store import policy as revisions
from gpusquad.store import settings as stored

_log = structlog.get_logger("gpusquad.policy")
DEFAULT_MODE = "standard"
KINDS = ("order", "plan", "place")
_PREEMPT = {"by": ("none", "priority", "order"), "overstay": ("never", "checkpointed", "always")}
_STEPS = 2000
_MAX_MOVED = 100
_CHOICE = "mode_choice"
"""Key of the stored choice of an automatic mode."""


class PolicyService:
    """Reads, sets and previews policies."""

    def __init__(self, context: SchedulerContext, tenant_cache: TenantCache, default_mode: str = DEFAULT_MODE) -> None:
        self._context = context
        self._tenants = tenant_cache
        self._settings: dict[str, Any] = {"mode": default_mode}
        self._mode = Mode("")
        """The mode in force: that of the settings, or the one that an automatic mode chose."""
        self._modes: dict[str, Mode] = {}
        """The modes among which an automatic mode chooses. Empty: the mode is pinned."""
        self._named = Mode("")
        self._choice: ModeChoice | None = None
        self._reviewed_us = 0
        self.on_chosen: Callable[[], None] = lambda: None
        """Called after an automatic mode chose another mode."""
        self._about: tuple[int, int, str, str] = (0, 0, "", "")
        self._changing = threading.Lock()
        """Serialises changes, because each builds on the last. Never taken by the scheduler's thread."""

    def load(self) -> Policies:
        """At start: load the last revision, or the default."""
        with self._context.database.read() as connection:
            last, by_hand = revisions.latest(connection), revisions.latest_by_hand(connection)
            choice = stored.get(connection, _CHOICE)
        if last is not None:
            self._about = (last.revision, last.at_us, last.by, last.note)
        if by_hand is not None:
            self._settings = dict(by_hand.settings)
        self._named = _mode(self._settings)
        self._modes, self._choice = choosable(self._named), _restored(choice, self._named)
        self._mode = self._modes[self._choice.mode] if self._choice else self._named
        self._context.predictor.uses = self._mode.uses
        return self._policies(self._settings, self._mode)

    @property
    def divide(self) -> str:
        """The mode's divide policy for shared cards."""
        return self._mode.divide

    @property
    def label(self) -> str:
        """The mode, and the one that it chose if it is automatic."""
        choice = self._choice
        return self._settings["mode"] if choice is None else f"{self._settings['mode']} ({choice.mode})"

    def status(self) -> PolicyStatus:
        policies = self._context.state.policies
        revision, at_us, by, note = self._about
        return PolicyStatus(
            revision, self._settings["mode"], *(policies.names[kind] for kind in KINDS),
            preemption=asdict(policies.preemption), modes=mode_names(), at_us=at_us, by=by, note=note,
            divide=self._mode.divide, automatic=self._automatic(), lanes=policies.lanes,
        )  # fmt: skip

    def _automatic(self) -> AutomaticStatus | None:
        choice, rules = self._choice, self._named.rules
        if choice is None or rules is None:
            return None
        return AutomaticStatus(
            choice.mode, choice.since_us, choice.why, len(choice.changes_us), rules.changes_per_day, choice.wanted,
            choice.due_us, choice.wanted_why,
        )  # fmt: skip

    def set(self, wanted: Mapping[str, Any], who: Who, note: str = "") -> PolicyStatus:
        """Takes effect in the next cycle. Settings that are not named stay, unless another mode is chosen. Naming a
        mode pins it; naming an automatic mode lets it choose at once."""
        with self._changing:
            settings = self._merge(wanted)
            named = _mode(settings)
            modes = choosable(named)
            # Fails on a wrong setting before anything changes.
            checked = [self._policies(settings, mode) for mode in (named, *modes.values())]

            def change() -> None:
                for policies in checked:
                    self._check_used_lanes(policies)
                choice = self._first_choice(named) if wanted.get("mode") else self._choice
                self._use(modes[choice.mode] if choice else named, settings, "the policies changed")
                self._settings, self._named, self._modes, self._choice = settings, named, modes, choice
                self._record(who.user, settings, note)

            self._context.loop.call(change)
            return self.status()

    def review(self) -> None:
        """Let an automatic mode choose, once a minute. Called in every pass, before the cycle."""
        rules, unit, before = self._named.rules, self._context.unit, self._choice
        if rules is None or (before is not None and unit.now_us < self._reviewed_us + REVIEW_US):
            return
        self._reviewed_us = unit.now_us
        state = self._context.state
        goals = goals_of(state, unit.now_us)
        if before is None:
            before = ModeChoice(rules.otherwise, "", unit.now_us)
            choice = first_choice(rules, goals, unit.now_us)
        else:
            choice = review(rules, before, goals, unit.now_us)
        if choice.mode != before.mode and not self._change_to(choice):
            choice = before
        self._choice = choice
        if choice.mode == before.mode:
            return
        self._record(self._named.name, self._settings | {revisions.CHOSEN: choice.mode}, choice.why)
        unit.after_commit.append(self.on_chosen)
        self._context.observer.mode_chosen(choice.mode)
        _log.info("mode chosen", mode=self._named.name, chosen=choice.mode, because=choice.why)

    def _change_to(self, choice: ModeChoice) -> bool:
        """False: this mode cannot serve the jobs, for example because it lacks a lane that one of them names."""
        try:
            self._use(self._modes[choice.mode], self._settings, f"mode {choice.mode}: {choice.why}")
        except Invalid as error:
            _log.warning("mode not chosen", chosen=choice.mode, because=choice.why, error=str(error))
            return False
        return True

    def _first_choice(self, named: Mode) -> ModeChoice | None:
        if named.rules is None:
            return None
        now_us = self._context.unit.now_us
        return first_choice(named.rules, goals_of(self._context.state, now_us), now_us)

    def _use(self, mode: Mode, settings: Mapping[str, Any], why: str) -> None:
        """Plan by this mode from now on. Called in the scheduler's thread."""
        policies = self._policies(settings, mode)
        self._context.driver.apply(self._context.unit.now_us, PoliciesChanged(policies, why))
        self._mode = mode
        self._count_on(mode.uses)

    def _record(self, by: str, settings: dict[str, Any], note: str) -> None:
        """Store a revision, and the choice beside it, with the pass."""
        now_us, choice = self._context.unit.now_us, self._choice

        def write(connection: Connection) -> None:
            number = revisions.append(connection, now_us, by, settings, note)
            self._about = (number, now_us, by, note)
            if choice is not None:
                stored.put(connection, _CHOICE, {"by": self._named.name, **choice.to_dict()})

        self._context.unit.writes.append(write)

    def tenants_changed(self) -> None:
        """Read weights, guarantees and limits again."""
        with self._changing:
            self._tenants.reload()
            self._context.loop.call(lambda: self._use(self._mode, self._settings, "the tenants changed"))

    def preview(self, wanted: Mapping[str, Any]) -> PolicyPreview:
        """Compare the current queue under both policies, on copies."""
        settings = self._merge(wanted)
        named, now = _mode(settings), self._context.copy_now()
        mode = self._modes.get(self._choice.mode, named) if self._choice and not wanted.get("mode") else named
        if wanted.get("mode") and named.rules is not None:
            mode = choosable(named)[first_choice(named.rules, goals_of(now, now.now_us), now.now_us).mode]
        then = with_policies(now, self._policies(settings, mode))
        return _compare(now, then)

    def _check_used_lanes(self, policies: Policies) -> None:
        """A job that names a lane could not be scheduled without it."""
        known = {lane.name for lane in policies.lanes}
        lost = Counter(job.lane for job in self._context.jobs.values() if job.lane and job.lane not in known)
        for name, count in sorted(lost.items()):
            problem = f"leaves out {name!r}, which {show_count(count, 'unfinished job')} named"
            raise Invalid("lanes", problem, f"keep lane {name}, or change the jobs: gpusquad update JOB --lane")

    def _count_on(self, uses: QuantileLevels) -> None:
        """Predict pending jobs again if the mode uses other quantiles. Running jobs keep their predictions."""
        before, self._context.predictor.uses = self._context.predictor.uses, uses
        if uses != before:
            self._context.training.refresh_predictions()

    def _merge(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        known = {"mode", *KINDS, "preemption", "lanes", "preemptible"}
        for name in wanted:
            if name not in known:
                raise Invalid(name, "is not a policy setting", f"choose from {', '.join(sorted(known))}")
        kept = {} if wanted.get("mode") else dict(self._settings)
        given = {name: value for name, value in wanted.items() if value is not None}
        if isinstance(given.get("preemption"), Mapping):
            given_fields = {name: value for name, value in given["preemption"].items() if value is not None}
            given["preemption"] = {**(kept.get("preemption") or {}), **given_fields}
        if "lanes" in given:
            kept.pop("preemptible", None)  # was about the lanes before
        return kept | given

    def _policies(self, settings: Mapping[str, Any], mode: Mode) -> Policies:
        overrides: dict[str, Any] = {kind: settings[kind] for kind in KINDS if settings.get(kind)}
        for kind, text in overrides.items():
            create(kind, text)
        if settings.get("preemption"):
            overrides["preemption"] = _preemption(mode.preemption, settings["preemption"])
        overrides["lanes"] = _lanes(mode, settings)
        tenants = {tenant.name: tenant for tenant in (*mode.tenants, *self._tenants.for_core())}
        return mode.policies(**overrides, tenants=tuple(tenants.values()))


def _restored(choice: Any, named: Mode) -> ModeChoice | None:
    """The stored choice, if it is one of this automatic mode."""
    if named.rules is None or not choice or choice.get("by") != named.name or choice["mode"] not in named.rules.modes:
        return None
    return ModeChoice.from_dict({name: value for name, value in choice.items() if name != "by"})


def _lanes(mode: Mode, settings: Mapping[str, Any]) -> tuple[Lane, ...]:
    rows = settings.get("lanes")
    lanes = mode.lanes if rows is None else lanes_from_dict({"version": 1, "lanes": rows}, "")
    names = settings.get("preemptible")
    return lanes if names is None else with_preemptible(lanes, names, "preemptible")


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
    for name, known in _PREEMPT.items():
        if given.get(name, known[0]) not in known:
            cure = f"choose {', '.join(known[:-1])} or {known[-1]}"
            raise Invalid(f"preemption.{name}", f"is unknown: {given[name]!r}", cure)
    try:
        return replace(plain, **given)
    except TypeError as error:
        raise Invalid("preemption", str(error), "choose from by, min_run_s, most_per_job, overstay") from None


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
