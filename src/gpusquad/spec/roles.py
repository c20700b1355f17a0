"""Resource requests and roles of tasks."""

from __future__ import annotations

from pydantic import Field

from gpusquad.spec.amounts import AutoCores, AutoSize, Gpus, Tasks
from gpusquad.spec.base import SpecModel
from gpusquad.spec.job_parts import ShareSpec
from gpusquad.spec.labels import CardName, Command, Env, Models, RequiredLabel


class ResourcesSpec(SpecModel):
    """Number of tasks, and the resources of each."""

    gpus: Gpus | None = Field(
        None, description="Whole GPUs per task, or auto to choose the number from past runs.", examples=[1, 8, "auto"]
    )
    count: Tasks | None = Field(
        None, description="Number of identical tasks. They start together or not at all. Default: 1.", examples=[1, 4]
    )
    min: Tasks | None = Field(None, description="Minimum number of tasks of an elastic job.", examples=[2])
    max: Tasks | None = Field(None, description="Maximum number of tasks of an elastic job.", examples=[8])
    share: ShareSpec | None = Field(
        None,
        description="Part of one GPU per task, instead of gpus.",
        examples=[{"memory": "10GiB", "sm": 0.25}],
    )
    cpu: AutoCores | None = Field(
        None,
        description="CPU cores per task, or auto to choose them from past runs.",
        examples=[4, 0.5, "500m", "auto"],
    )
    memory: AutoSize | None = Field(
        None, description="Main memory per task, or auto to choose it from past runs.", examples=["16GiB", "auto"]
    )
    gpu_model: Models | None = Field(
        None, description="GPU model, or a list of allowed models.", examples=["H100", ["A100", "H100"]]
    )
    gpu_memory: AutoSize | None = Field(
        None,
        description="With gpus: minimum memory of each GPU, or auto to choose it from past runs.",
        examples=["40GiB", "auto"],
    )
    card: CardName | None = Field(
        None, description="ID of the card to use, with gpus: 1 or a share.", examples=["node-1/gpu-0"]
    )


class RoleSpec(ResourcesSpec):
    """Identical tasks of a job: same command, same resources."""

    name: RequiredLabel = Field(description="Name of the role.", examples=["worker"])
    command: Command | None = Field(
        None,
        description="Command of these tasks. Default: the command of the job.",
        examples=[["python3", "worker.py"]],
    )
    env: Env = Field(
        default_factory=dict,
        description="Environment variables of these tasks, in addition to those of the job.",
        examples=[{"OMP_NUM_THREADS": "4"}],
    )
