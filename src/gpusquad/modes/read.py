"""Reads and checks mode files and lane rules. Errors give the file and the field."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from difflib import get_close_matches
from typing import Any, TypeVar, cast

from gpusquad import registry
from gpusquad.core.state.accounts import TenantQuota
from gpusquad.core.state.lanes import DEFAULT_LANES, Lane
from gpusquad.core.state.policies import PreemptionConfig
from gpusquad.model.errors import Invalid
from gpusquad.model.fields import Fields, checked_text
from gpusquad.model.prediction import QuantileLevels
from gpusquad.model.priority import priority_text
from gpusquad.model.units import number
from gpusquad.modes.choice import GOALS, ModeRule, ModeRules
from gpusquad.modes.mode import Mode

MAX_ROWS = 10_000
MAX_GPUS = 10_000_000
_MODE = ("version", "summary", "order", "plan", "place", "divide", "predict", "preempt", "lanes", "tenants")
_QUANTILES = ("shadow", "candidate", "reservation", "careful", "prior")
_PREDICT = ("by", *_QUANTILES, "promise")
"""``promise`` is the deprecated name of ``reservation``."""
_PREEMPT = ("by", "min_run_s", "most_per_job", "overstay", "lanes")
_LANE = ("name", "min_gpus", "max_gpus", "tenants", "priorities", "preemptible", "max_lost_s", "limit_ratio")
_TENANT = ("name", "weight", "guaranteed_gpus", "limit_gpus", "reclaim_s")
_AUTOMATIC = ("version", "summary", "choose")
_CHOOSE = ("otherwise", "settle", "leave", "dwell", "changes_per_day", "rules")
_RULE = ("goal", "mode", "least", "keep")
_BY = ("none", "priority", "order")
_OVERSTAY = ("never", "checkpointed", "always")

_log = logging.getLogger(__name__)
_warned: set[str] = set()
"""Fields with a deprecated name that were reported. A mode file is read many times."""
Named = TypeVar("Named", Lane, TenantQuota)


def mode_from_dict(data: dict, name: str) -> Mode:
    """A checked mode from the data of its file. Of an automatic mode, only the rules are read."""
    if isinstance(data, dict) and "choose" in data:
        fields = Fields(data, f"mode {name}", _AUTOMATIC)
        fields.version()
        return Mode(
            name, fields.text("summary"), rules=_rules(Fields(fields.raw("choose"), fields.at("choose"), _CHOOSE))
        )
    fields = Fields(data, f"mode {name}", _MODE)
    fields.version()
    plain = Mode(name)
    lanes = _rows(fields, "lanes", _LANE, _lane) if "lanes" in fields else DEFAULT_LANES
    preempt = Fields(fields.raw("preempt") or {}, fields.at("preempt"), _PREEMPT)
    if "lanes" in preempt:
        lanes = with_preemptible(lanes, _texts(preempt, "lanes"), preempt.at("lanes"))
    predict = Fields(fields.raw("predict") or {}, fields.at("predict"), _PREDICT)
    return Mode(
        name=name,
        summary=fields.text("summary"),
        order=_spec(fields, "order", plain.order),
        plan=_spec(fields, "plan", plain.plan),
        place=_spec(fields, "place", plain.place),
        divide=_spec(fields, "divide", plain.divide),
        predictor=_predictor(predict),
        uses=_uses(predict),
        preemption=_preemption(preempt),
        lanes=lanes,
        tenants=_rows(fields, "tenants", _TENANT, _tenant) if "tenants" in fields else (),
    )


def lanes_from_dict(data: dict, name: str) -> tuple[Lane, ...]:
    """Checked lane rules from the data of their file."""
    fields = Fields(data, name, ("version", "lanes"))
    fields.version()
    if "lanes" not in fields:
        raise Invalid(fields.at("lanes"), "is missing", "add at least one [[lanes]]")
    return _rows(fields, "lanes", _LANE, _lane)


def with_preemptible(lanes: tuple[Lane, ...], names: Collection[str], field: str) -> tuple[Lane, ...]:
    """The same rules, with exactly these lanes preemptible. Limits of what a preemption may cost stay."""
    known = [lane.name for lane in lanes]
    for name in names:
        if name not in known:
            raise Invalid(field, f"lane {name!r} does not exist", _choose(name, known))
    return tuple(replace(lane, preemptible=lane.name in names) for lane in lanes)


def _rules(fields: Fields) -> ModeRules:
    plain = ModeRules((), "")
    return ModeRules(
        rules=tuple(
            _rule(Fields(row, f"{fields.at('rules')}[{index}]", _RULE))
            for index, row in enumerate(fields.rows("rules", MAX_ROWS) if "rules" in fields else ())
        ),
        otherwise=fields.text("otherwise", required=True),
        settle_us=fields.us("settle", plain.settle_us),
        leave_us=fields.us("leave", plain.leave_us),
        dwell_us=fields.us("dwell", plain.dwell_us),
        changes_per_day=fields.whole("changes_per_day", plain.changes_per_day, low=1, high=MAX_ROWS),
    )


def _rule(fields: Fields) -> ModeRule:
    goal = cast(Any, fields.choice("goal", "", GOALS))
    read = _number if goal == "fairness" else _ratio
    least = read(fields, "least", 0.0)
    keep = read(fields, "keep", least)
    if keep > least:
        raise Invalid(fields.at("keep"), "is greater than least", "the mode would leave as soon as it came into force")
    return ModeRule(goal, fields.text("mode", required=True), least, keep)


def _ratio(fields: Fields, name: str, default: float) -> float:
    return cast(float, fields.ratio(name, default))


def _spec(fields: Fields, kind: str, default: str) -> str:
    """A policy as text. It is created once here, so that errors are found when the file is read."""
    return _made(fields, kind, kind, fields.text(kind, default))


def _made(fields: Fields, field: str, kind: str, spec: str) -> str:
    name = spec.partition(":")[0].strip()
    try:
        registry.find(kind, name)
    except Invalid as error:
        raise Invalid(fields.at(field), error.problem, _choose(name, registry.names(kind))) from None
    try:
        registry.create(kind, spec)
    except Invalid as error:
        which = error.field.removeprefix(f"{kind}.{name}.") + ": " if error.field.startswith(f"{kind}.{name}.") else ""
        raise Invalid(fields.at(field), f"{spec!r}: {which}{error.problem}", error.cure) from None
    return spec


def _predictor(fields: Fields) -> str:
    return _made(fields, "by", "predictor", fields.text("by")) if "by" in fields else ""


def _uses(fields: Fields) -> QuantileLevels:
    plain = QuantileLevels()
    given = {name: name for name in _QUANTILES} | {"reservation": _renamed(fields, "promise", "reservation")}
    try:
        return QuantileLevels(**{name: _number(fields, key, getattr(plain, name)) for name, key in given.items()})
    except Invalid as error:
        raise error if error.field.startswith(fields.where) else error.under(fields.where) from None


def _preemption(fields: Fields) -> PreemptionConfig:
    plain = PreemptionConfig()
    return PreemptionConfig(
        by=cast(Any, fields.choice("by", plain.by, _BY)),
        min_run_s=_number(fields, "min_run_s", plain.min_run_s),
        most_per_job=fields.whole("most_per_job", plain.most_per_job, high=MAX_ROWS),
        overstay=cast(Any, fields.choice("overstay", plain.overstay, _OVERSTAY)),
    )


def _lane(fields: Fields) -> Lane:
    plain = Lane("plain")
    priorities = _priorities(fields)
    return Lane(
        name=fields.text("name", required=True),
        min_gpus=fields.whole("min_gpus", plain.min_gpus, high=MAX_GPUS),
        max_gpus=fields.optional_whole("max_gpus", high=MAX_GPUS),
        tenants=_texts(fields, "tenants"),
        priorities=priorities,
        preemptible=fields.flag("preemptible", plain.preemptible),
        max_lost_s=None if fields.raw("max_lost_s") is None else _number(fields, "max_lost_s", 0.0),
        limit_ratio=cast(float, fields.ratio("limit_ratio", plain.limit_ratio)),
    )


def _priorities(fields: Fields) -> tuple[str, ...]:
    """Names or integers."""
    if "priorities" not in fields or fields.raw("priorities") == []:
        return ()
    given = fields.rows("priorities", MAX_ROWS)
    return tuple(priority_text(one, fields.at("priorities")) for one in given)


def _tenant(fields: Fields) -> TenantQuota:
    plain = TenantQuota("plain")
    return TenantQuota(
        name=fields.text("name", required=True),
        weight=_number(fields, "weight", plain.weight),
        guaranteed_gpus=fields.optional_whole("guaranteed_gpus", high=MAX_GPUS),
        limit_gpus=fields.optional_whole("limit_gpus", high=MAX_GPUS),
        reclaim_s=_number(fields, "reclaim_s", plain.reclaim_s),
    )


def _rows(fields: Fields, name: str, known: Collection[str], make: Callable[[Fields], Named]) -> tuple[Named, ...]:
    made: dict[str, Named] = {}
    for index, row in enumerate(fields.rows(name, MAX_ROWS)):
        inner = Fields(row, f"{fields.at(name)}[{index}]", known)
        try:
            one = make(inner)
        except Invalid as error:
            raise error if error.field.startswith(inner.where) else error.under(inner.where) from None
        if one.name in made:
            raise Invalid(inner.at("name"), f"{one.name!r} is used twice", "give each its own name")
        made[one.name] = one
    return tuple(made.values())


def _texts(fields: Fields, name: str) -> tuple[str, ...]:
    if name not in fields or fields.raw(name) == []:
        return ()
    rows: Iterable[object] = fields.rows(name, MAX_ROWS)
    return tuple(checked_text(row, f"{fields.at(name)}[{index}]") for index, row in enumerate(rows))


def _number(fields: Fields, name: str, default: float) -> float:
    return number(fields.raw(name), fields.at(name)) if name in fields else default


def _renamed(fields: Fields, old: str, new: str) -> str:
    """The name that the file uses. The old one is accepted with one warning per process."""
    if old not in fields:
        return new
    if new in fields:
        raise Invalid(fields.at(old), f"is the old name of {new!r}, which is given too", "remove it")
    if fields.at(old) not in _warned:
        _warned.add(fields.at(old))
        _log.warning("%s is deprecated; rename it to %s", fields.at(old), new)
    return old


def _choose(name: str, known: list[str]) -> str:
    close = get_close_matches(name[:64].lower(), known, 1)
    return (f"did you mean {close[0]!r}? " if close else "") + f"choose from {', '.join(known)}"
