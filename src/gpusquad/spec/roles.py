"""What tasks ask for and what they run."""

from __future__ import annotations

from pydantic import Field

from gpusquad.spec.amounts import CardSize, Cores, Gpus, Size, Tasks
from gpusquad.spec.base import SpecModel
from gpusquad.spec.job_parts import ShareSpec
from gpusquad.spec.labels import CardName, Command, Env, Models, RequiredLabel


class ResourcesSpec(SpecModel):
    """How many tasks, and what each of them gets."""

    gpus: Gpus | None = Field(
        None, description="Whole GPUs for each task; auto: chosen by past runs.", examples=[1, 8, "auto"]
    )
    count: Tasks | None = Field(
        None, description="How many equal tasks. They start together or not at all.", examples=[1, 4]
    )
    min: Tasks | None = Field(None, description="An elastic job may start with as few tasks as this.", examples=[2])
    max: Tasks | None = Field(None, description="An elastic job may grow to as many tasks as this.", examples=[8])
    share: ShareSpec | None = Field(
        None,
        description="A part of one GPU for each task, instead of gpus.",
        examples=[{"memory": "10GiB", "sm": 0.25}],
    )
    cpu: Cores | None = Field(None, description="Processor cores for each task.", examples=[4, 0.5, "500m"])
    memory: Size | None = Field(None, description="Main memory for each task.", examples=["16GiB"])
    gpu_model: Models | None = Field(
        None, description="A model of card, or several of which any will do.", examples=["H100", ["A100", "H100"]]
    )
    gpu_memory: CardSize | None = Field(
        None,
        description="With gpus: the least memory a card must have; auto: chosen by past runs.",
        examples=["40GiB", "auto"],
    )
    card: CardName | None = Field(
        None, description="One card by its id, with gpus: 1 or a share.", examples=["node-1/gpu-0"]
    )


class RoleSpec(ResourcesSpec):
    """Some of the tasks of a job: those that do the same and ask for the same."""

    name: RequiredLabel = Field(description="What these tasks are called.", examples=["worker"])
    command: Command | None = Field(
        None,
        description="What they run. Left out: the command of the job.",
        examples=[["python3", "worker.py"]],
    )
    env: Env = Field(
        default_factory=dict,
        description="Variables for these tasks, on top of those of the job.",
        examples=[{"OMP_NUM_THREADS": "4"}],
    )
