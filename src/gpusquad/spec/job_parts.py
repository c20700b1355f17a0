"""Parts of a job file that are objects themselves."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field, Strict, model_validator

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Isolation, ProfileSource
from gpusquad.spec import texts
from gpusquad.spec.amounts import (
    CardPart,
    Cores,
    Duration,
    EstimatorTime,
    Grace,
    Rate,
    Ratio,
    RetryCount,
    Size,
    SmShare,
    SpansByGpus,
)
from gpusquad.spec.base import SpecModel, choice
from gpusquad.spec.labels import Command, EnvName, Reference, SecretName

RetryOn = Literal["failed", "lost"]
AfterOn = Literal["success", "failure", "any"]

DEFAULT_BACKOFF = "10s"


class ShareSpec(SpecModel):
    """Request for part of one GPU."""

    memory: CardPart | None = Field(
        None,
        description="Memory quota of the task on its GPU: amount or percentage. Default: the same fraction as sm.",
        examples=["10GiB", "8GB", "30%"],
    )
    sm: SmShare | None = Field(
        None,
        description="Guaranteed fraction of the GPU's SMs. Default: none, the task uses what is idle.",
        examples=[0.25, "25%"],
    )
    isolation: Annotated[Isolation, choice(Isolation)] = Field(
        "shared",
        description="shared: concurrent with other jobs, whose GPU faults can end this one; isolated: time-sliced.",
        examples=["isolated"],
    )


class SloSpec(SpecModel):
    """SLO: a deadline for a batch job; latency, throughput and availability for a service."""

    deadline: Duration | None = Field(
        None, description="Time from submission by which the job should end.", examples=["6h"]
    )
    latency: Duration | None = Field(
        None,
        validation_alias=AliasChoices("latency", "p99"),
        description="Target for the 99th percentile of request latency. p99 is another name.",
        examples=["20ms"],
    )
    throughput: Rate | None = Field(
        None, description="Target for requests or steps per second.", examples=[100, "100/s"]
    )
    availability: Ratio | None = Field(
        None, description="Target fraction of the time in which the service answers.", examples=["99.9%", 0.999]
    )

    @model_validator(mode="before")
    @classmethod
    def _one_latency(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("p99") is not None and data.get("latency") is not None:
            raise Invalid("p99", "is the same field as latency", "remove one of them")
        return data


class ProfileSpec(SpecModel):
    """Expected use of a GPU. A hint for placement, not a limit."""

    utilisation: Ratio | None = Field(
        None, description="Fraction of the time in which the GPU is busy.", examples=[0.4, "40%"]
    )
    memory: Size | None = Field(None, description="GPU memory that the job uses.", examples=["6GiB"])
    bandwidth: Ratio | None = Field(
        None, description="Fraction of the memory bandwidth that the job uses.", examples=[0.3]
    )
    source: Annotated[ProfileSource, choice(ProfileSource)] = Field(
        "declared", description="Origin of these numbers.", examples=["measured"]
    )


class OfflineEstimateSpec(SpecModel):
    """Offline estimate of run time and memory, for example from gpusquad.estimate."""

    run: Duration | None = Field(None, description="Median run time.", examples=["2h"])
    run_high: Duration | None = Field(None, description="90th percentile of the run time.", examples=["3h"])
    memory: Size | None = Field(None, description="Peak memory on one GPU.", examples=["12GiB"])
    by_gpus: SpansByGpus | None = Field(
        None,
        description="Run time by total number of GPUs.",
        examples=[{"1": "8h", "2": "4.5h", "4": "3h"}],
    )
    cpu: Cores | None = Field(None, description="CPU cores that one task uses.", examples=[4])
    host_memory: Size | None = Field(None, description="Peak main memory of one task.", examples=["24GiB"])
    by: Command | None = Field(
        None,
        description="Program that computes these fields before the job is queued. It runs in the environment of the "
        "job, without a GPU, and prints one JSON object.",
        examples=["python3 estimate.py", ["python3", "estimate.py", "--model", "vgg16"]],
    )
    timeout: EstimatorTime | None = Field(
        None, description="Time limit of that program. Default: 60s; at most 10m.", examples=["2m"]
    )

    @model_validator(mode="after")
    def _timeout_of_a_program(self) -> OfflineEstimateSpec:
        if self.timeout is not None and self.by is None:
            raise Invalid("timeout", "requires by", "add by, or remove timeout")
        return self


class CheckpointSpec(SpecModel):
    """Checkpoints of the job, and whether it may be preempted."""

    every: Duration | None = Field(
        None,
        description="Interval at which the job saves its state to GPUSQUAD_CHECKPOINT_DIR. "
        "Default: never, so a stop loses all work.",
        examples=["10m"],
    )
    restart: Duration | None = Field(
        None, description="Time that a restart takes to load the saved state.", examples=["30s"]
    )
    preemptible: Annotated[bool, Strict()] = Field(
        True,
        description="Whether the job may be preempted: stopped for another job and started again later.",
        examples=[True, False],
    )
    grace: Grace | None = Field(
        None,
        description="Time between SIGTERM and SIGKILL when the job is stopped. Default: 30s.",
        examples=["30s", "2m"],
    )


class RetrySpec(SpecModel):
    """Whether and when a failed job is retried."""

    count: RetryCount = Field(description="Maximum number of retries.", examples=[3])
    backoff: Duration = Field(DEFAULT_BACKOFF, description="Wait time before a retry.", examples=["10s", "1m"])
    on: tuple[Annotated[RetryOn, choice(RetryOn)], ...] = Field(
        ("failed", "lost"),
        min_length=1,
        fail_fast=True,
        max_length=2,
        description="Outcomes that cause a retry: failed (a task failed), lost (node or end of the run not seen).",
        examples=[["lost"], ["failed", "lost"]],
    )


class DependencySpec(SpecModel):
    """A job that must end before this one starts."""

    job: Reference = Field(description="ID or name of the job.", examples=["prepare"])
    on: Annotated[AfterOn, choice(AfterOn)] = Field(
        "success",
        description="Outcome that allows this job to start: success, failure or any.",
        examples=["success", "any"],
    )


class SecretSpec(SpecModel):
    """A secret by name. The service stores its value; a job file never contains it."""

    no_such_field: ClassVar[dict[str, str]] = {
        "value": "write only the name; store the value with gpusquad secret set",
    }

    name: SecretName = Field(description="Name of the secret in the service.", examples=["wandb-key"])
    variable: EnvName | None = Field(
        None,
        alias="as",
        description="Environment variable that holds the value. Default: the name of the secret.",
        examples=["WANDB_API_KEY"],
    )

    @model_validator(mode="after")
    def _has_a_variable(self) -> SecretSpec:
        if self.variable is None:
            try:
                texts.env_name(self.name)
            except Invalid as error:
                cure = f"write {{name: {self.name}, as: A_NAME}}"
                raise Invalid("as", f"is missing, and {error.problem}", cure) from None
        return self

    @property
    def env_name(self) -> str:
        return self.variable or self.name
