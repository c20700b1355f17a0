"""Control protocol of a card daemon: one JSON object per line, one line back.

``{"do": "policy", "policy": "slo"}`` · ``{"do": "attach", "client": {"id": "a", "quota_bytes": 8000000000}}`` ·
``{"do": "change", "client": {"id": "a", "weight": 2}}`` · ``{"do": "detach", "id": "a"}`` ·
``{"do": "latencies", "id": "a", "us": [4100, 3900]}`` · ``{"do": "processes", "listed": […], "ours": […]}`` ·
``{"do": "hold", "id": "a", "for_us": 5000000}`` · ``{"do": "status"}`` · ``{"do": "hello"}`` · ``{"do": "stop"}``

Attaching a client that is already attached changes it and returns the same answer: the caller may have restarted, or
not have received the first answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields, replace
from typing import Any

from gpusquad.gpu.daemon.client import UNKNOWN_CURVE, GpuClientSpec
from gpusquad.gpu.daemon.squad_loop import SquadLoop
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.gpu.daemon.wire import MAX_HOLD_US
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.fields import Fields
from gpusquad.model.job import Slo
from gpusquad.model.known_rates import curve_from, speeds_from
from gpusquad.model.units import number, whole

Answer = dict[str, object]
_FACTS = tuple(one.name for one in fields(GpuClientSpec))
_SLO = tuple(one.name for one in fields(Slo))
_LINE = ("do", "policy", "tenant", "id", "us", "listed", "ours", "uid", "gid", "for_us")
_MAX_ROWS = 100_000


class Control:
    """Answers lines. ``place`` returns the files of a slot, ``keep`` is called when clients changed, and ``about`` is
    the answer to ``hello``. ``stop`` ends the daemon after its answer."""

    def __init__(
        self,
        squads: SquadLoop,
        place: Callable[[int], Mapping[str, str]] = lambda slot: {},
        keep: Callable[[], None] = lambda: None,
        about: Mapping[str, object] | None = None,
    ) -> None:
        self._squads, self._place, self._keep, self._about = squads, place, keep, dict(about or {})
        self.is_stopped = False
        self._verbs: dict[str, Callable[[Fields, int], Answer]] = {
            "policy": self._policy, "attach": self._attach, "change": self._change, "detach": self._detach,
            "latencies": self._latencies, "processes": self._processes, "status": self._status,
            "hold": self._hold, "hello": self._hello, "stop": self._stop,
        }  # fmt: skip

    def answer(self, line: str, now_us: int) -> str:
        """Always returns one line."""
        try:
            said = json.loads(line)
            if not isinstance(said, dict):
                raise Invalid("line", "is not a JSON object")
            asked = Fields(said, "", _LINE)
            verb = self._verbs.get(asked.text("do", required=True))
            if verb is None:
                raise Invalid("do", f"{said['do']!r} is unknown", f"choose from {', '.join(self._verbs)}")
            return json.dumps({"ok": True, **verb(asked, now_us)})
        except Invalid as error:
            return json.dumps(refusal(error))
        except OSError as error:  # the folder is full, or the owner of a file cannot be changed
            return json.dumps({"ok": False, "field": "folder", "error": str(error), "cure": "look at the daemon's log"})
        except ValueError as error:
            return json.dumps({"ok": False, "field": "line", "error": f"is not valid JSON: {error}", "cure": ""})

    def _policy(self, asked: Fields, now_us: int) -> Answer:
        before = self._squads.policy
        self._squads.set_policy(asked.text("policy", required=True))
        return {"policy": self._squads.policy, "before": before}

    def _attach(self, asked: Fields, now_us: int) -> Answer:
        said = asked.raw("tenant")
        facts = facts_from(said, None)
        ids = {name: whole(asked.raw(name), name) for name in ("uid", "gid") if name in asked}
        known = (slot for slot, one in self._squads.clients().items() if one.id == facts.id)
        slot = next(known, None)
        if slot is None:
            slot = self._squads.attach(facts, now_us, **ids)
        else:
            self._squads.change(facts_from(said, self._squads.facts(facts.id)), now_us)
        self._keep()
        return {"slot": slot, **self._place(slot)}

    def _change(self, asked: Fields, now_us: int) -> Answer:
        said = asked.raw("tenant")
        name = said.get("id") if isinstance(said, dict) else None
        self._squads.change(facts_from(said, self._squads.facts(str(name))), now_us)
        self._keep()
        return {}

    def _detach(self, asked: Fields, now_us: int) -> Answer:
        self._squads.detach(asked.text("id", required=True))
        self._keep()
        return {}

    def _latencies(self, asked: Fields, now_us: int) -> Answer:
        values = asked.raw("us")
        if not isinstance(values, list) or len(values) > _MAX_ROWS:
            raise Invalid("us", "must be a list of latencies", "write for example [4100, 3900]")
        self._squads.report(asked.text("id", required=True), [number(value, "us") for value in values], now_us)
        return {}

    def _processes(self, asked: Fields, now_us: int) -> Answer:
        listed = [
            UnmanagedProcess(
                whole(row.get("pid"), "listed.pid"), str(row.get("name", "")), int(row.get("memory_bytes") or 0)
            )
            for row in (asked.rows("listed", _MAX_ROWS) if asked.raw("listed") else ())
            if isinstance(row, dict)
        ]
        said = asked.raw("ours")
        ours = {whole(pid, "ours") for pid in said} if isinstance(said, list) else set()
        return {"strangers": [one.pid for one in self._squads.processes(listed, ours)]}

    def _hold(self, asked: Fields, now_us: int) -> Answer:
        for_us = whole(asked.raw("for_us"), "for_us", high=MAX_HOLD_US)
        self._squads.hold(asked.text("id", required=True), now_us + for_us)
        return {}

    def _hello(self, asked: Fields, now_us: int) -> Answer:
        return self._about

    def _stop(self, asked: Fields, now_us: int) -> Answer:
        self.is_stopped = True
        return {}

    def _status(self, asked: Fields, now_us: int) -> Answer:
        return {**self._squads.status(now_us), "context_bytes": self._about.get("context_bytes", 0)}


def refusal(error: Invalid) -> Answer:
    """``later``: the request is valid and may succeed later."""
    told = {"ok": False, "field": error.field, "error": error.problem, "cure": error.cure}
    return {**told, "later": True} if isinstance(error, NotReady) else told


def facts_from(said: object, before: GpuClientSpec | None) -> GpuClientSpec:
    """Checked spec of a new client, or of a known one with these changes."""
    if not isinstance(said, dict):
        raise Invalid("tenant", "is missing", 'write for example {"id": "a"}')
    given = Fields(said, "tenant", _FACTS)
    values: dict[str, Any] = {"id": given.text("id", required=True)}
    for name in ("priority", "remaining_us", "deadline_in_us", "quota_bytes", "sm_milli", "within"):
        if name in said:
            low = -1000 if name == "priority" else 0
            values[name] = None if given.raw(name) is None else whole(given.raw(name), f"tenant.{name}", low=low)
    for name in ("weight", "work_us", "solo_per_s"):
        if name in given:
            values[name] = number(given.raw(name), f"tenant.{name}")
    if "is_time_sliced" in given:
        values["is_time_sliced"] = given.flag("is_time_sliced", False)
    if "slo" in said:
        values["slo"] = _slo(given.raw("slo"))
    if "app" in given:
        values["app"] = given.text("app")
    if "curve" in said:
        curve = given.raw("curve")
        values["curve"] = UNKNOWN_CURVE if curve is None else curve_from(curve, "tenant.curve")
    for name in ("beside", "costs"):
        if name in given:
            values[name] = speeds_from(given.raw(name), f"tenant.{name}")
    return GpuClientSpec(**values) if before is None else replace(before, **values)


def plain(facts: GpuClientSpec) -> dict[str, object]:
    """The form that ``facts_from`` reads; unknown values are left out."""
    return {name: value for name, value in asdict(facts).items() if value != {} and value != ""}


def _slo(said: object) -> Slo | None:
    if said is None:
        return None
    if not isinstance(said, dict):
        raise Invalid("tenant.slo", "must be an object", 'write for example {"latency_us": 20000}')
    given = Fields(said, "tenant.slo", _SLO)
    values = {name: number(given.raw(name), f"tenant.slo.{name}") for name in _SLO if given.raw(name) is not None}
    for name in ("deadline_us", "latency_us"):
        if name in values:
            values[name] = int(values[name])
    return Slo(**values)  # type: ignore[arg-type]
