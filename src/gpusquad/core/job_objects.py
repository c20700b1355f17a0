"""Jobs that are submitted to the service and created as objects of a cluster.

The service does not queue such a job. It creates the objects, and the engine then finds them like any others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpusquad.model.job import Job


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """Command and environment of the tasks of one role."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobObjectRequest:
    """A complete job to create."""

    job: Job
    """Its request and attributes. The final ID follows from the created object."""
    mark: str
    """Idempotency key: equal if the same submission is sent again."""
    programs: tuple[TaskProgram, ...]
    """One per role."""
    image: str = ""
    """Empty: the default image."""
    workdir: str = ""
    grace_s: float = 30.0
    retries: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables with their values."""


class JobObjectCreator(Protocol):
    """Creates job objects. Called from any thread."""

    def job_id(self, wanted: JobObjectRequest) -> str:
        """The ID that the job will have. Raises ``Invalid`` if it cannot be created there."""
        ...

    def make(self, wanted: Sequence[JobObjectRequest]) -> None:
        """Create all of them or none. Keeps objects that exist already from the same submission. Raises ``Invalid`` if
        the cluster refuses, ``ConnectionError`` if there is no answer."""
        ...

    def lacks(self, job_id: str) -> str:
        """What the job still lacks to be found, for users. Empty: unknown."""
        ...

    def note(self, job_id: str, job: Job) -> None:
        """Store changed attributes of the job where a later search reads them. Does not wait."""
        ...
