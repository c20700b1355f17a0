"""The job file as people write it (``JobFile``), and one concrete job of it (``JobSpec``).

Both hold values as they were written: ``estimate`` may be ``7200`` or ``"2h"``. What they mean is worked out by
``spec.convert``. Made by ``spec.check`` and ``spec.expand``, which also check what concerns several fields at once.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from gpusquad.model.errors import Invalid
from gpusquad.model.job_codec import MOST_ROLES
from gpusquad.spec.amounts import Duration, Priority, RetryCount
from gpusquad.spec.base import choice, lengthened
from gpusquad.spec.job_parts import (
    CheckpointSpec,
    DependencySpec,
    OfflineEstimateSpec,
    ProfileSpec,
    RetrySpec,
    SecretSpec,
    SloSpec,
)
from gpusquad.spec.labels import Command, Env, Label, LongLabel, Name, Path, Reference, SecretName
from gpusquad.spec.params import MOST_PARAMS, MOST_VALUE_CHARS, PARAM_NAME, Scalar, check_params
from gpusquad.spec.paths import short
from gpusquad.spec.roles import ResourcesSpec, RoleSpec
from gpusquad.spec.sweep import MOST_POINTS, Sweep, check_sweep

# Lists stop at their first bad entry (fail_fast): only one is told, and a long list of bad ones would cost seconds.
MOST_SECRETS = 128
MOST_AFTER = 256
MOST_NOTICES = 16

Notice = Literal[
    "queued", "started", "finished", "succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "hung",
    "delayed", "eta_moved",
]  # fmt: skip
"""What notices are called, and the states of jobs that mean the same."""

AnySecret = Annotated[
    SecretSpec, lengthened("name", "the name of a secret, or {name: …, as: …}", str, schema=SecretName | SecretSpec)
]
AnyAfter = Annotated[
    DependencySpec,
    lengthened("job", "the id or name of a job, or {job: …, on: …}", str, schema=Reference | DependencySpec),
]
AnyRetries = Annotated[
    RetrySpec,
    lengthened("count", "a number, or {count: …, backoff: …}", int, float, str, schema=RetryCount | RetrySpec),
]


class JobFields(ResourcesSpec):
    """What a job file and a concrete job have in common."""

    name: Name = Field("", description="What you call it; need not be unique.", examples=["train-resnet"])
    command: Command | None = Field(
        None,
        description="What each task runs: a list runs as it is, a text is run by /bin/sh -c.",
        examples=[["python3", "train.py", "--lr", "0.1"], "python3 train.py | tee out.txt"],
    )
    roles: tuple[RoleSpec, ...] | None = Field(
        None,
        min_length=1,
        fail_fast=True,
        max_length=MOST_ROLES,
        description="For a job whose tasks differ: what each kind of task asks for and runs. All start together.",
        examples=[[{"name": "learner", "gpus": 4}, {"name": "actor", "count": 16, "cpu": 4}]],
    )
    image: LongLabel = Field(
        "",
        description="The container image it runs in, on a cluster. On one machine tasks are its own processes.",
        examples=["pytorch/pytorch:latest"],
    )
    tenant: Label = Field("", description="Whose quota it counts against. Left out: yours.", examples=["vision"])
    queue: Label = Field("", description="The queue of the tenant it waits in.", examples=["nightly"])
    priority: Priority = Field("normal", description="Its class among others.", examples=["normal", "high"])
    lane: Label = Field("", description="How it is treated; left out: chosen by rule.", examples=["batch"])
    app: LongLabel = Field("", description="The application: alike jobs carry the same label.", examples=["resnet50"])
    estimate: Duration | None = Field(
        None, description="How long you think it runs. Helps planning, never stops the job.", examples=["2h"]
    )
    limit: Duration | None = Field(None, description="After this long it is stopped.", examples=["4h"])
    slo: SloSpec | None = Field(None, description="A goal for it.", examples=[{"p99": "20ms", "throughput": 100}])
    profile: ProfileSpec | None = Field(
        None, description="What it is expected to use of a card.", examples=[{"utilisation": 0.4, "memory": "6GiB"}]
    )
    expect: OfflineEstimateSpec | None = Field(
        None,
        description="What was worked out before it ran: a source of forecasts, never a limit.",
        examples=[{"run": "2h", "run_high": "3h", "memory": "12GiB"}],
    )
    checkpoint: CheckpointSpec | None = Field(
        None, description="How it survives being stopped.", examples=[{"every": "10m", "grace": "30s"}]
    )
    env: Env = Field(default_factory=dict, description="Variables for every task.", examples=[{"SEED": "1"}])
    secrets: tuple[AnySecret, ...] = Field(
        (),
        fail_fast=True,
        max_length=MOST_SECRETS,
        description="Secrets by name; each becomes a variable of every task.",
        examples=[["WANDB_API_KEY", {"name": "hub-token", "as": "HF_TOKEN"}]],
    )
    workdir: Path = Field("", description="The folder the tasks start in.", examples=["/data/project"])
    after: tuple[AnyAfter, ...] = Field(
        (),
        fail_fast=True,
        max_length=MOST_AFTER,
        description="Jobs that must end before this one may start.",
        examples=[["prepare"], [{"job": "train", "on": "any"}]],
    )
    retries: AnyRetries | None = Field(
        None,
        description="How many times it is tried again when it does not succeed.",
        examples=[3, {"count": 3, "backoff": "1m", "on": ["lost"]}],
    )
    notify: tuple[Annotated[Notice, choice(Notice)], ...] = Field(
        (),
        fail_fast=True,
        max_length=MOST_NOTICES,
        description="What you want to be told.",
        examples=[["succeeded", "failed"]],
    )

    @model_validator(mode="after")
    def _distinct_variables(self) -> JobFields:
        seen = dict.fromkeys(self.env, "env")
        for role_index, role in enumerate(self.roles or ()):
            seen.update(dict.fromkeys(role.env, f"roles[{role_index}].env"))
        for index, secret in enumerate(self.secrets):
            if secret.env_name in seen:
                where = seen[secret.env_name]
                raise Invalid(f"secrets[{index}]", f"{secret.env_name} is also set by {where}", "keep one of them")
            seen[secret.env_name] = f"secrets[{index}]"
        return self


def _version(value: object) -> int:
    if isinstance(value, bool) or value != 1:
        raise Invalid("", f"{short(value)} is not known", "write version: 1")
    return 1


def _open_params(value: object) -> dict[str, Scalar | None]:
    return check_params(value, may_be_open=True)


_SCALAR = {"type": ["string", "number", "boolean"], "maxLength": MOST_VALUE_CHARS}
_NAMES: dict[str, Any] = {"propertyNames": {"pattern": rf"^{PARAM_NAME.pattern}$"}, "maxProperties": MOST_PARAMS}
_VALUES = {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MOST_POINTS}
_AXES = {"type": "object", "additionalProperties": _VALUES, "minProperties": 1, **_NAMES}
_POINT = {"type": "object", "additionalProperties": _SCALAR, **_NAMES}
_SWEEP = {
    "anyOf": [
        _AXES | {"properties": {"zip": {"anyOf": [_AXES, _VALUES], "description": "Lists that go side by side."}}},
        {"type": "array", "items": _POINT, "minItems": 1, "maxItems": MOST_POINTS},
    ]
}
_OPEN_PARAMS = {"type": "object", "additionalProperties": {**_SCALAR, "type": [*_SCALAR["type"], "null"]}, **_NAMES}


class JobFile(JobFields):
    """A job for gpusquad: what to run, what it needs, and how it should be treated.

    ${name} in a text or a number stands for a parameter; $${ stands for the characters ${.
    """

    model_config = ConfigDict(title="gpusquad job file")

    version: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})] = Field(
        1, description="The version of this format.", examples=[1]
    )
    params: Annotated[dict[str, Scalar | None], PlainValidator(_open_params), WithJsonSchema(_OPEN_PARAMS)] = Field(
        default_factory=dict,
        description="Parameters with their defaults. One without a value must be given when the job is submitted.",
        examples=[{"lr": 0.1, "data": None}],
    )
    sweep: Annotated[Sweep, PlainValidator(check_sweep), WithJsonSchema(_SWEEP)] | None = Field(
        None,
        description="Many jobs from one file: every combination of the lists; lists under zip go side by side; "
        "a list of points is taken as it is. ${sweep.index} is the number of the point.",
        examples=[
            {"lr": [0.1, 0.01], "seed": [1, 2, 3]},
            {"zip": {"lr": [0.1, 0.01], "steps": [10, 100]}},
            [{"lr": 1}],
        ],
    )


class JobSpec(JobFields):
    """One concrete job: no parameter and no sweep is left in it."""
