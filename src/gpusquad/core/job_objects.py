"""Jobs that somebody asks for here and that have to be made elsewhere: on a cluster, as objects of its own.

The service does not queue such a job. It has the objects made, and the engine then finds them like anybody else's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpusquad.model.job import Job


@dataclass(frozen=True, slots=True)
class TaskProgram:
    """What the tasks of one role run."""

    command: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobObjectRequest:
    """One job, complete."""

    job: Job
    """What it asks for and how it is to be treated. Its id is not its own yet: that follows from what is made."""
    mark: str
    """Tells it from every other; the same if the same submission is sent again."""
    programs: tuple[TaskProgram, ...]
    """Role by role."""
    image: str = ""
    """Empty: the usual one."""
    workdir: str = ""
    grace_s: float = 30.0
    retries: int = 0
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables and their values."""


class JobObjectCreator(Protocol):
    """Called from any thread."""

    def job_id(self, wanted: JobObjectRequest) -> str:
        """Under which it will be found. Raises ``Invalid`` for a job that cannot be made there."""
        ...

    def make(self, wanted: Sequence[JobObjectRequest]) -> None:
        """All of them or none. What is there already from the same submission is left as it is. Raises ``Invalid``
        where it is refused, ``ConnectionError`` where there was no answer."""
        ...

    def lacks(self, job_id: str) -> str:
        """What the job waits for to be found, in words; empty: nothing is known of it."""
        ...

    def note(self, job_id: str, job: Job) -> None:
        """It is to be treated otherwise from now on: written where whoever finds it again reads it. Does not wait."""
        ...
