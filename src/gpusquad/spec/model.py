"""The job file (``JobFile``) and one concrete job made from it (``JobSpec``).

Both keep values as written: ``estimate`` may be ``7200`` or ``"2h"``; ``spec.convert`` interprets them. Use
``spec.check`` and ``spec.expand`` to create them, which also check constraints between fields.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, PlainValidator, WithJsonSchema, model_validator

from gpusquad.model.errors import Invalid
from gpusquad.model.job_codec import MAX_ROLES
from gpusquad.spec.amounts import Duration, Priority, RetryCount
from gpusquad.spec.base import accepts_short_form, choice
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
from gpusquad.spec.params import MAX_PARAMS, MAX_VALUE_CHARS, PARAM_NAME, Scalar, check_params
from gpusquad.spec.paths import short
from gpusquad.spec.roles import ResourcesSpec, RoleSpec
from gpusquad.spec.sweep import MAX_POINTS, Sweep, check_sweep

# fail_fast: only the first error is reported, and validating a long list of bad entries would take seconds.
MAX_SECRETS = 128
MAX_AFTER = 256
MAX_NOTICES = 16

Notice = Literal[
    "queued", "started", "finished", "succeeded", "failed", "timed_out", "cancelled", "preempted", "lost", "held",
    "retried", "hung", "overrun", "delayed", "eta_moved", "start_late",
]  # fmt: skip
"""Kinds of notices, and job states accepted as synonyms."""

AnySecret = Annotated[
    SecretSpec,
    accepts_short_form("name", "the name of a secret or {name: …, as: …}", str, schema=SecretName | SecretSpec),
]
AnyAfter = Annotated[
    DependencySpec,
    accepts_short_form("job", "the ID or name of a job or {job: …, on: …}", str, schema=Reference | DependencySpec),
]
AnyRetries = Annotated[
    RetrySpec,
    accepts_short_form("count", "a number or {count: …, backoff: …}", int, float, str, schema=RetryCount | RetrySpec),
]


class JobFields(ResourcesSpec):
    """Fields of job files and concrete jobs."""

    name: Name = Field("", description="Name of the job. It need not be unique.", examples=["train-resnet"])
    command: Command | None = Field(
        None,
        description="Command of each task: a list is executed directly, a text by /bin/sh -c.",
        examples=[["python3", "train.py", "--lr", "0.1"], "python3 train.py | tee out.txt"],
    )
    roles: tuple[RoleSpec, ...] | None = Field(
        None,
        min_length=1,
        fail_fast=True,
        max_length=MAX_ROLES,
        description="For a job whose tasks differ: resources and command of each kind of task. All start together.",
        examples=[[{"name": "learner", "gpus": 4}, {"name": "actor", "count": 16, "cpu": 4}]],
    )
    image: LongLabel = Field(
        "",
        description="Container image of the tasks, on Kubernetes. On one machine tasks are ordinary processes.",
        examples=["pytorch/pytorch:latest"],
    )
    tenant: Label = Field("", description="Tenant whose quota the job uses. Default: yours.", examples=["vision"])
    queue: Label = Field("", description="Queue of the tenant.", examples=["nightly"])
    priority: Priority = Field("normal", description="Priority class.", examples=["normal", "high"])
    lane: Label = Field("", description="Lane of the job. Default: chosen by the lane rules.", examples=["batch"])
    app: LongLabel = Field(
        "",
        description="Application name. Jobs with the same name share measurements and predictions.",
        examples=["resnet50"],
    )
    estimate: Duration | None = Field(
        None, description="Expected run time. Used for planning; it never stops the job.", examples=["2h"]
    )
    limit: Duration | None = Field(None, description="Time limit. The job is stopped after it.", examples=["4h"])
    slo: SloSpec | None = Field(None, description="SLO of the job.", examples=[{"p99": "20ms", "throughput": 100}])
    profile: ProfileSpec | None = Field(
        None, description="Expected use of a GPU.", examples=[{"utilisation": 0.4, "memory": "6GiB"}]
    )
    expect: OfflineEstimateSpec | None = Field(
        None,
        description="Offline estimate of run time and memory. A source of predictions, never a limit.",
        examples=[{"run": "2h", "run_high": "3h", "memory": "12GiB"}],
    )
    checkpoint: CheckpointSpec | None = Field(
        None,
        description="How the job saves its state, and whether it may be preempted.",
        examples=[{"every": "10m", "grace": "30s"}],
    )
    env: Env = Field(default_factory=dict, description="Environment variables of every task.", examples=[{"SEED": "1"}])
    secrets: tuple[AnySecret, ...] = Field(
        (),
        fail_fast=True,
        max_length=MAX_SECRETS,
        description="Secrets by name. Each becomes an environment variable of every task.",
        examples=[["WANDB_API_KEY", {"name": "hub-token", "as": "HF_TOKEN"}]],
    )
    workdir: Path = Field("", description="Working directory of the tasks.", examples=["/data/project"])
    after: tuple[AnyAfter, ...] = Field(
        (),
        fail_fast=True,
        max_length=MAX_AFTER,
        description="Jobs that must end before this one starts.",
        examples=[["prepare"], [{"job": "train", "on": "any"}]],
    )
    retries: AnyRetries | None = Field(
        None,
        description="Maximum number of retries if the job does not succeed.",
        examples=[3, {"count": 3, "backoff": "1m", "on": ["lost"]}],
    )
    notify: tuple[Annotated[Notice, choice(Notice)], ...] = Field(
        (),
        fail_fast=True,
        max_length=MAX_NOTICES,
        description="Events on which to send you a notice.",
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
                raise Invalid(f"secrets[{index}]", f"{secret.env_name} is also set by {where}", "remove one of them")
            seen[secret.env_name] = f"secrets[{index}]"
        return self


def _version(value: object) -> int:
    if isinstance(value, bool) or value != 1:
        raise Invalid("", f"{short(value)} is not a known version", "write version: 1")
    return 1


def _open_params(value: object) -> dict[str, Scalar | None]:
    return check_params(value, may_be_open=True)


_SCALAR = {"type": ["string", "number", "boolean"], "maxLength": MAX_VALUE_CHARS}
_NAMES: dict[str, Any] = {"propertyNames": {"pattern": rf"^{PARAM_NAME.pattern}$"}, "maxProperties": MAX_PARAMS}
_VALUES = {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_POINTS}
_AXES = {"type": "object", "additionalProperties": _VALUES, "minProperties": 1, **_NAMES}
_POINT = {"type": "object", "additionalProperties": _SCALAR, **_NAMES}
_SWEEP = {
    "anyOf": [
        _AXES
        | {
            "properties": {
                "zip": {"anyOf": [_AXES, _VALUES], "description": "Lists that are combined element by element."}
            }
        },
        {"type": "array", "items": _POINT, "minItems": 1, "maxItems": MAX_POINTS},
    ]
}
_OPEN_PARAMS = {"type": "object", "additionalProperties": {**_SCALAR, "type": [*_SCALAR["type"], "null"]}, **_NAMES}


class JobFile(JobFields):
    """A job for gpusquad: what to run, which resources it needs, and how it is scheduled.

    ${name} in a text or a number is replaced by a parameter; $${ is replaced by the characters ${.
    """

    model_config = ConfigDict(title="gpusquad job file")

    version: Annotated[int, PlainValidator(_version), WithJsonSchema({"const": 1})] = Field(
        1, description="Version of this format.", examples=[1]
    )
    params: Annotated[dict[str, Scalar | None], PlainValidator(_open_params), WithJsonSchema(_OPEN_PARAMS)] = Field(
        default_factory=dict,
        description="Parameters with their defaults. One without a value must be set when the job is submitted.",
        examples=[{"lr": 0.1, "data": None}],
    )
    sweep: Annotated[Sweep, PlainValidator(check_sweep), WithJsonSchema(_SWEEP)] | None = Field(
        None,
        description="Many jobs from one file: every combination of the lists. Lists under zip are combined element by "
        "element; a list of points is used as given. ${sweep.index} is the index of the point, from 0.",
        examples=[
            {"lr": [0.1, 0.01], "seed": [1, 2, 3]},
            {"zip": {"lr": [0.1, 0.01], "steps": [10, 100]}},
            [{"lr": 1}],
        ],
    )


class JobSpec(JobFields):
    """One concrete job, without parameters and sweep."""
