"""The parts of a job file that have fields of their own."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AliasChoices, Field, Strict, model_validator

from gpusquad.model.errors import Invalid
from gpusquad.model.job import Isolation, ProfileSource
from gpusquad.spec import texts
from gpusquad.spec.amounts import CardPart, Duration, Grace, Rate, Ratio, RetryCount, Size, SmShare, SpansByGpus
from gpusquad.spec.base import SpecModel, choice
from gpusquad.spec.labels import EnvName, Reference, SecretName

RetryOn = Literal["failed", "lost"]
AfterOn = Literal["success", "failure", "any"]

DEFAULT_BACKOFF = "10s"


class ShareSpec(SpecModel):
    """A part of one card."""

    memory: CardPart | None = Field(
        None,
        description="Memory of the card for this task; left out: as large a part of it as of the multiprocessors.",
        examples=["10GiB", "8GB", "30%"],
    )
    sm: SmShare | None = Field(
        None,
        description="Part of the card's multiprocessors; left out: whatever is free.",
        examples=[0.25, "25%"],
    )
    isolation: Annotated[Isolation, choice(Isolation)] = Field(
        "shared",
        description="shared: runs beside others, and a fault of one can reach them; isolated: takes turns with them.",
        examples=["isolated"],
    )


class SloSpec(SpecModel):
    """A goal: a deadline for a batch job; latency, throughput and availability for a service."""

    deadline: Duration | None = Field(
        None, description="When it should be done, counted from its submission.", examples=["6h"]
    )
    latency: Duration | None = Field(
        None,
        validation_alias=AliasChoices("latency", "p99"),
        description="Time within which 99 of 100 requests are answered. May be written as p99.",
        examples=["20ms"],
    )
    throughput: Rate | None = Field(None, description="Requests or steps a second.", examples=[100, "100/s"])
    availability: Ratio | None = Field(
        None, description="Part of the time in which the service answers.", examples=["99.9%", 0.999]
    )

    @model_validator(mode="before")
    @classmethod
    def _one_latency(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("p99") is not None and data.get("latency") is not None:
            raise Invalid("p99", "says the same as latency", "keep one of them")
        return data


class ProfileSpec(SpecModel):
    """What the job is expected to use of a card: a hint for placing it, not a limit."""

    utilisation: Ratio | None = Field(None, description="Part of the time the card is busy.", examples=[0.4, "40%"])
    memory: Size | None = Field(None, description="Memory of the card it really uses.", examples=["6GiB"])
    bandwidth: Ratio | None = Field(None, description="Part of the memory bandwidth it uses.", examples=[0.3])
    source: Annotated[ProfileSource, choice(ProfileSource)] = Field(
        "declared", description="Where these numbers come from.", examples=["measured"]
    )


class OfflineEstimateSpec(SpecModel):
    """What was worked out before it ran, by gpusquad estimate for example: how long it runs and what it holds."""

    run: Duration | None = Field(
        None, description="How long it runs, in the middle of what is expected.", examples=["2h"]
    )
    run_high: Duration | None = Field(
        None, description="The time within which nine runs of ten are expected to end.", examples=["3h"]
    )
    memory: Size | None = Field(None, description="The most memory of one card it will hold.", examples=["12GiB"])
    by_gpus: SpansByGpus | None = Field(
        None,
        description="How long it runs with other numbers of GPUs in all.",
        examples=[{"1": "8h", "2": "4.5h", "4": "3h"}],
    )


class CheckpointSpec(SpecModel):
    """How the job survives being stopped, and what that costs."""

    every: Duration | None = Field(
        None,
        description="How often the job saves its state to GPUSQUAD_CHECKPOINT_DIR. Left out: never, a stop loses all.",
        examples=["10m"],
    )
    restart: Duration | None = Field(
        None, description="How long it takes to be back where it was after a restart.", examples=["30s"]
    )
    preemptible: Annotated[bool, Strict()] = Field(
        True, description="Whether it may be stopped for another job and started again later.", examples=[True, False]
    )
    grace: Grace | None = Field(
        None, description="Time between the signal TERM and the end by force.", examples=["30s", "2m"]
    )


class RetrySpec(SpecModel):
    """Whether a job that did not succeed is tried again."""

    count: RetryCount = Field(description="How many times at most.", examples=[3])
    backoff: Duration = Field(
        DEFAULT_BACKOFF, description="How long to wait before it is tried again.", examples=["10s", "1m"]
    )
    on: tuple[Annotated[RetryOn, choice(RetryOn)], ...] = Field(
        ("failed", "lost"),
        min_length=1,
        fail_fast=True,
        max_length=2,
        description="After which ends: failed (a task did not end well), lost (its node or its end was not seen).",
        examples=[["lost"], ["failed", "lost"]],
    )


class DependencySpec(SpecModel):
    """Another job that must end first."""

    job: Reference = Field(description="Its id or its name.", examples=["prepare"])
    on: Annotated[AfterOn, choice(AfterOn)] = Field(
        "success",
        description="Which end lets this job start: success, failure or any.",
        examples=["success", "any"],
    )


class SecretSpec(SpecModel):
    """A secret by its name; the value is kept by the service and never stands in a job file."""

    no_such_field: ClassVar[dict[str, str]] = {
        "value": "give only the name here; the service keeps the value",
    }

    name: SecretName = Field(description="Its name in the service.", examples=["wandb-key"])
    variable: EnvName | None = Field(
        None,
        alias="as",
        description="The variable that holds the value. Left out: called like the secret.",
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
