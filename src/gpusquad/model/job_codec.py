"""Conversion between jobs and the data that users write, with checks.

A job with one role may omit ``roles``::

    {"id": "train", "tenant": "vision", "gpus": 8, "count": 4, "cpu": 64, "memory": "512GiB", "estimate": "6h"}

A part of a card is a ``share``; several roles are a list::

    {"id": "serve", "share": {"memory": "10GiB", "sm": 0.25, "isolation": "isolated"}, "slo": {"latency": "50ms"}}
    {"id": "rl", "roles": [{"name": "learner", "gpus": 4}, {"name": "actor", "count": 16, "cpu": 4}]}

Times are seconds or have a unit. ``submitted`` is relative to the zero of the clock, ``slo.deadline`` to the
submission. The service adds ``held_until``, by the same clock, and ``ran_before``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import cast

from gpusquad.model.errors import Invalid
from gpusquad.model.fields import MAX_TEXT, Fields, checked_text, cores, seconds
from gpusquad.model.job import (
    Checkpoint,
    Isolation,
    Job,
    OfflineEstimate,
    Profile,
    ProfileSource,
    Request,
    Role,
    Share,
    Slo,
)
from gpusquad.model.slo_text import slo_from
from gpusquad.model.units import WHOLE_MILLI, whole

FLAT_ROLE = "task"
"""Role name of a job without roles."""
MAX_ROLES = 256
MAX_TASKS = 1_000_000
MAX_GPUS = 4096
MAX_MODELS = 64
MAX_SIZES = 64
"""Maximum number of entries in by_gpus."""

_ASKS = ("gpus", "share", "cpu", "memory", "gpu_model", "gpu_memory", "card", "extras", "where", "most_per_node",
         "gpus_together")  # fmt: skip
_ROLE = ("name", "count", "min", "max", *_ASKS)
_TEXTS = ("name", "tenant", "user", "queue", "lane", "app", "command")
_JOB = (
    "version", "id", *_TEXTS, "priority", "submitted", "estimate", "limit", "slo", "profile", "checkpoint", "expect",
    "held_until", "ran_before", "avoid_cards", "roles", *_ROLE[1:],
)  # fmt: skip
_ISOLATIONS = ("shared", "isolated")
_SOURCES = ("declared", "measured", "predicted")


def job_from_dict(data: dict, where: str = "") -> Job:
    """A checked job. ``where``: path of ``data``, for errors."""
    fields = Fields(data, where, _JOB)
    fields.version()
    submitted_us = fields.us("submitted")
    job_id = fields.text("id", required=True)
    texts = {name: fields.text(name, "default" if name == "tenant" else "") for name in _TEXTS}
    if not texts["tenant"]:
        raise Invalid(fields.at("tenant"), "is empty", "omit it for the default tenant")
    return Job(
        id=job_id,
        roles=_roles(fields),
        submitted_us=submitted_us,
        **texts,
        priority=fields.priority("priority"),
        estimate_us=fields.optional_us("estimate"),
        limit_us=fields.optional_us("limit"),
        slo=_slo(fields, submitted_us),
        profile=_profile(fields),
        checkpoint=_checkpoint(fields),
        expected=_expected(fields),
        held_until_us=fields.optional_us("held_until"),
        ran_before_us=fields.us("ran_before"),
        avoid_cards=_avoid_cards(fields),
    )


def job_to_dict(job: Job) -> dict:
    """Plain data that ``job_from_dict`` reads back to an equal job. Omits fields at their defaults."""
    result: dict = {"id": job.id}
    for name in _TEXTS:
        if getattr(job, name) != ("default" if name == "tenant" else ""):
            result[name] = getattr(job, name)
    if job.priority != "normal":
        result["priority"] = job.priority
    result["submitted"] = seconds(job.submitted_us)
    if job.estimate_us is not None:
        result["estimate"] = seconds(job.estimate_us)
    if job.limit_us is not None:
        result["limit"] = seconds(job.limit_us)
    if len(job.roles) == 1 and job.roles[0].name == FLAT_ROLE:
        flat = _role_to_dict(job.roles[0])
        result |= {name: value for name, value in flat.items() if name != "name"}
    else:
        result["roles"] = [_role_to_dict(role) for role in job.roles]
    if job.slo is not None:
        result["slo"] = _slo_to_dict(job.slo, job.submitted_us)
    if job.profile is not None:
        result["profile"] = _profile_to_dict(job.profile)
    if job.checkpoint != Checkpoint():
        result["checkpoint"] = _checkpoint_to_dict(job.checkpoint)
    if job.expected is not None:
        result["expect"] = _expected_to_dict(job.expected)
    if job.held_until_us is not None:
        result["held_until"] = seconds(job.held_until_us)
    if job.ran_before_us:
        result["ran_before"] = seconds(job.ran_before_us)
    if job.avoid_cards:
        result["avoid_cards"] = list(job.avoid_cards)
    return result


def _avoid_cards(fields: Fields) -> tuple[str, ...]:
    rows = [] if fields.raw("avoid_cards") is None else fields.rows("avoid_cards", MAX_GPUS)
    return tuple(checked_text(row, f"{fields.at('avoid_cards')}[{index}]") for index, row in enumerate(rows))


def _roles(fields: Fields) -> tuple[Role, ...]:
    if fields.raw("roles") is None:
        return (_role(fields, FLAT_ROLE),)
    flat = [name for name in _ROLE[1:] if name in fields]
    if flat:
        raise Invalid(fields.at(flat[0]), "cannot be combined with roles", "move it into each role that needs it")
    roles: list[Role] = []
    for index, row in enumerate(fields.rows("roles", MAX_ROLES)):
        inner = Fields(row, f"{fields.at('roles')}[{index}]", _ROLE)
        name = inner.text("name", required=True)
        if any(role.name == name for role in roles):
            raise Invalid(inner.at("name"), f"{name!r} is used twice", "give each role its own name")
        roles.append(_role(inner, name))
    tasks = sum(role.bounds[1] for role in roles)
    if tasks > MAX_TASKS:
        raise Invalid(fields.at("roles"), f"{tasks} tasks in one job", f"keep it to {MAX_TASKS}")
    return tuple(roles)


def _role(fields: Fields, name: str) -> Role:
    low, high = (fields.optional_whole(bound, low=1, high=MAX_TASKS) for bound in ("min", "max"))
    count = fields.whole("count", low or 1, low=1, high=MAX_TASKS)
    request = _request(fields)
    try:
        return Role(name, count, request, low, high)
    except Invalid as error:
        raise error.under(fields.where) if fields.where else error from None


def _request(fields: Fields) -> Request:
    if not any(name in fields for name in ("gpus", "share", "cpu", "memory", "extras")):
        raise Invalid(
            fields.at("gpus"), "is missing, and no other resource is requested", "set gpus, share, cpu or memory"
        )
    share = _share(fields)
    if share is not None and "gpus" in fields:
        raise Invalid(
            fields.at("share"), "a task asks for whole GPUs or for a share of one, not both", "leave out gpus or share"
        )
    gpus = fields.whole("gpus", 0, high=MAX_GPUS, cure="for a part of one GPU write share: {sm: 0.5}")
    models = _models(fields)
    min_memory = fields.bytes("gpu_memory")
    if models and not gpus and share is None:
        raise Invalid(fields.at("gpu_model"), "requires a GPU", "add gpus or share")
    if min_memory and not gpus:
        raise Invalid(fields.at("gpu_memory"), "requires whole GPUs", "for a part of a card write share: {memory: …}")
    card = fields.text("card", required=True) if "card" in fields else None
    if card is not None and share is None and gpus != 1:
        raise Invalid(fields.at("card"), "requires one card", "use gpus: 1 or a share")
    cpu_milli, memory_bytes = fields.cpu_milli("cpu"), fields.bytes("memory")
    return _one_request(
        gpus, share, cpu_milli, memory_bytes, models, min_memory, card, fields.amounts("extras"),
        fields.text("where"), fields.whole("most_per_node", 0, high=MAX_TASKS),
        fields.whole("gpus_together", 0, high=MAX_GPUS),
    )  # fmt: skip


_one_request = lru_cache(maxsize=4096)(Request)
"""Equal requests are one object, so that the core compares shapes cheaply."""


def _share(fields: Fields) -> Share | None:
    if "share" not in fields:
        return None
    inner = Fields(fields.raw("share"), fields.at("share"), ("memory", "sm", "isolation"))
    (memory, memory_milli), sm = inner.bytes_or_milli("memory"), inner.milli("sm")
    isolation = cast(Isolation, inner.choice("isolation", "shared", _ISOLATIONS))
    if not (memory or sm or memory_milli):
        raise Invalid(inner.where, "requests no resources", "set memory, sm or both")
    return Share(memory, sm, isolation, memory_milli)


def _models(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("gpu_model")
    if value is None:
        return ()
    if isinstance(value, str):
        return (checked_text(value, fields.at("gpu_model")),)
    rows = fields.rows("gpu_model", MAX_MODELS)
    return tuple(checked_text(row, f"{fields.at('gpu_model')}[{index}]") for index, row in enumerate(rows))


def _slo(fields: Fields, submitted_us: int) -> Slo | None:
    return slo_from(fields.raw("slo"), fields.at("slo"), submitted_us) if "slo" in fields else None


def _profile(fields: Fields) -> Profile | None:
    if "profile" not in fields:
        return None
    inner = Fields(fields.raw("profile"), fields.at("profile"), ("utilisation", "memory", "bandwidth", "source"))
    return Profile(
        utilisation_ratio=inner.ratio("utilisation", 1.0) or 0.0,
        memory_bytes=inner.bytes("memory"),
        bandwidth_ratio=inner.ratio("bandwidth", 0.0) or 0.0,
        source=cast(ProfileSource, inner.choice("source", "declared", _SOURCES)),
    )


def _checkpoint(fields: Fields) -> Checkpoint:
    if "checkpoint" not in fields:
        return Checkpoint()
    inner = Fields(fields.raw("checkpoint"), fields.at("checkpoint"), ("every", "restart", "preemptible"))
    every_us = inner.optional_us("every")
    if every_us == 0:
        raise Invalid(inner.at("every"), "is zero", "omit it if there are no checkpoints")
    return Checkpoint(every_us, inner.us("restart"), inner.flag("preemptible", True))


def _expected(fields: Fields) -> OfflineEstimate | None:
    if "expect" not in fields:
        return None
    names = ("run", "run_high", "memory", "by_gpus", "cpu", "host_memory")
    inner = Fields(fields.raw("expect"), fields.at("expect"), names)
    given = inner.optional_us("run"), inner.optional_us("run_high"), inner.bytes("memory"), _by_gpus(inner)
    try:
        return OfflineEstimate(*given, inner.cpu_milli("cpu"), inner.bytes("host_memory"))
    except Invalid as error:
        raise error.under(fields.where) if fields.where else error from None


def _by_gpus(fields: Fields) -> tuple[tuple[int, int], ...]:
    if "by_gpus" not in fields:
        return ()
    data = fields.raw("by_gpus")
    sizes = tuple(data) if isinstance(data, dict) else ()
    if len(sizes) > MAX_SIZES:
        raise Invalid(fields.at("by_gpus"), f"has {len(sizes)} entries, more than {MAX_SIZES}")
    inner = Fields(data, fields.at("by_gpus"), sizes)
    found: dict[int, int] = {}
    for name in sizes:
        gpus = gpu_count(name, inner.at(str(name)[:MAX_TEXT]))
        if gpus in found:
            raise Invalid(inner.at(str(name)), "is given twice", "keep one of them")
        if name in inner:
            found[gpus] = inner.us(name)
    return tuple(sorted(found.items()))


def gpu_count(name: object, where: str) -> int:
    """A number of GPUs used as a key, which is text in JSON."""
    text = str(name)
    if isinstance(name, bool) or not (text.isascii() and text.isdecimal() and len(text) < 6 and int(text) > 0):
        raise Invalid(where, "is not a number of GPUs", 'write for example by_gpus: {"1": 8h, "2": 5h}')
    return whole(int(text), where, low=1, high=MAX_GPUS)


def _role_to_dict(role: Role) -> dict:
    result: dict = {"name": role.name, "count": role.count}
    if role.min_count is not None:
        result["min"] = role.min_count
    if role.max_count is not None:
        result["max"] = role.max_count
    return result | _request_to_dict(role.request)


def _memory_of(share: Share) -> int | str:
    percent = share.named_memory_milli * 100 / WHOLE_MILLI
    return f"{percent:g}%" if percent else share.memory_bytes


def _request_to_dict(request: Request) -> dict:
    result: dict = {}
    if request.share is None:
        result["gpus"] = request.gpus
    else:
        share = {"memory": _memory_of(request.share), "sm": request.share.sm_milli / WHOLE_MILLI}
        result["share"] = {name: value for name, value in share.items() if value}
        if request.share.isolation != "shared":
            result["share"]["isolation"] = request.share.isolation
    optional = {
        "cpu": cores(request.cpu_milli),
        "memory": request.memory_bytes,
        "gpu_model": list(request.gpu_models),
        "gpu_memory": request.min_card_memory_bytes,
        "card": request.card,
        "extras": dict(request.extras),
        "where": request.where,
        "most_per_node": request.most_per_node,
        "gpus_together": request.gpus_together,
    }
    return result | {name: value for name, value in optional.items() if value}


def _slo_to_dict(slo: Slo, submitted_us: int) -> dict:
    given = {
        "deadline": None if slo.deadline_us is None else seconds(slo.deadline_us - submitted_us),
        "latency": None if slo.latency_us is None else seconds(slo.latency_us),
        "throughput": slo.throughput_per_s,
        "availability": slo.availability_ratio,
    }
    return {name: value for name, value in given.items() if value is not None}


def _profile_to_dict(profile: Profile) -> dict:
    return {
        "utilisation": profile.utilisation_ratio,
        "memory": profile.memory_bytes,
        "bandwidth": profile.bandwidth_ratio,
        "source": profile.source,
    }


def _checkpoint_to_dict(checkpoint: Checkpoint) -> dict:
    result: dict = {"restart": seconds(checkpoint.restart_us), "preemptible": checkpoint.preemptible}
    if checkpoint.every_us is not None:
        result["every"] = seconds(checkpoint.every_us)
    return result


def _expected_to_dict(expected: OfflineEstimate) -> dict:
    given = {
        "run": None if expected.run_us is None else seconds(expected.run_us),
        "run_high": None if expected.run_high_us is None else seconds(expected.run_high_us),
        "memory": expected.memory_bytes or None,
        "by_gpus": {str(gpus): seconds(run_us) for gpus, run_us in expected.by_gpus} or None,
        "cpu": cores(expected.cpu_milli) if expected.cpu_milli else None,
        "host_memory": expected.host_memory_bytes or None,
    }
    return {name: value for name, value in given.items() if value is not None}
