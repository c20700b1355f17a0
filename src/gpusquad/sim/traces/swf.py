"""The Standard Workload Format of the Parallel Workloads Archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from gpusquad.model.cluster import Cluster, grid
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Job, Request, Role
from gpusquad.registry import register
from gpusquad.sim.traces._base import Lines, TraceJob, to_us

_US = 1_000_000
_COLUMNS = 18
_JOB, _SUBMIT, _RUN, _PROCS, _ASKED_PROCS, _ASKED_TIME, _STATUS, _USER, _GROUP, _EXECUTABLE, _QUEUE, _PARTITION = (
    0, 1, 3, 4, 7, 8, 10, 11, 12, 13, 14, 15,
)  # fmt: skip
_COMPLETED = (1, -1)
_NEVER_RAN = "leave it out, or skip bad lines"

TenantBy = Literal["none", "user", "group", "queue"]


class Processors:
    """A processor is a one-GPU task. Gangs of equal size share one object."""

    def __init__(self) -> None:
        self._request = Request(gpus=1)
        self._roles: dict[int, tuple[Role, ...]] = {}

    def __call__(self, count: int) -> tuple[Role, ...]:
        roles = self._roles.get(count)
        if roles is None:
            roles = self._roles[count] = (Role("p", count, self._request),)
        return roles


@register("reader", "swf")
@dataclass(frozen=True)
class StandardWorkloadFormat:
    """Standard Workload Format; a processor is a one-GPU task of a gang."""

    raise_estimates: bool = False
    """Lift estimates that are below the run time up to it."""
    cut_at_estimate: bool = False
    """End jobs at their estimate, as some simulators do with logs whose jobs ran over it."""
    processors: Literal["used", "requested"] = "used"
    """Which count makes the gang; where it is unknown, the other one."""
    tenant_by: TenantBy = "none"
    """Which column names the tenant."""

    def sniff(self, name: str, first_lines: list[str]) -> bool:
        if name.removesuffix(".gz").endswith(".swf"):
            return True
        data = next((line for line in first_lines if line.strip() and not line.lstrip().startswith(";")), "")
        return len(data.split()) == _COLUMNS and _is_number(data.split()[0])

    def cluster(self, first_lines: list[str]) -> Cluster | None:
        """The cluster of the header, one processor per node."""
        facts: dict[str, str] = {}
        for line in first_lines:
            if line.startswith(";"):
                name, _, value = line[1:].partition(":")
                facts[name.strip()] = value.strip()
        for name in ("MaxProcs", "MaxNodes"):
            if facts.get(name, "").isdecimal() and 0 < int(facts[name]) <= 1_000_000:
                return grid(f"{int(facts[name])}x1")
        return None

    def rows(self, lines: Lines) -> Iterator[TraceJob]:
        gang = Processors()
        for line in lines:
            text = line.strip()
            if not text or text.startswith(";"):
                continue
            try:
                yield self._job(text.split(), gang)
            except Invalid as error:
                lines.bad(f"{error.field}: {error.problem}", error.cure)

    def _job(self, cells: list[str], gang: Processors) -> TraceJob:
        if len(cells) != _COLUMNS:
            raise Invalid("line", f"has {len(cells)} columns, the format has {_COLUMNS}")
        used, asked = _whole(cells, _PROCS), _whole(cells, _ASKED_PROCS)
        procs = asked if used <= 0 or (self.processors == "requested" and asked > 0) else used
        run_s = _number(cells, _RUN)
        if run_s <= 0:
            raise Invalid("run time", f"{cells[_RUN]}: the job never ran", _NEVER_RAN)
        if procs <= 0:
            raise Invalid("processors", f"{used}, and {asked} asked for", _NEVER_RAN)
        submit_s = _number(cells, _SUBMIT)
        if submit_s < 0:
            raise Invalid("submit time", f"{cells[_SUBMIT]} is negative")
        run_us = to_us(run_s * _US, "run time")
        asked_us = to_us(_number(cells, _ASKED_TIME) * _US, "requested time")
        if self.cut_at_estimate and 0 < asked_us < run_us:
            run_us = asked_us
        user, queue = _label(cells[_USER]), _label(cells[_QUEUE]) or _label(cells[_PARTITION])
        tenants = {"user": user, "group": _label(cells[_GROUP]), "queue": queue}
        job = Job(
            id=cells[_JOB],
            roles=gang(procs),
            submitted_us=to_us(submit_s * _US, "submit time"),
            tenant=tenants.get(self.tenant_by) or "default",
            user=user,
            queue=queue,
            app=_label(cells[_EXECUTABLE]),
            estimate_us=estimate(asked_us, run_us, self.raise_estimates),
        )
        return TraceJob(job, run_us, "succeeded" if _whole(cells, _STATUS) in _COMPLETED else "failed")


def estimate(asked_us: int, run_us: int, lift: bool) -> int | None:
    """The user's estimate, if there is one."""
    if asked_us <= 0:
        return None
    return max(asked_us, run_us) if lift else asked_us


def _number(cells: list[str], column: int) -> float:
    try:
        return int(cells[column])
    except ValueError:
        pass
    if not _is_number(cells[column]):
        raise Invalid(f"column {column + 1}", f"{cells[column][:40]!r} is not a number")
    return float(cells[column])


def _whole(cells: list[str], column: int) -> int:
    value = _number(cells, column)
    if value != int(value):
        raise Invalid(f"column {column + 1}", f"{cells[column]} is not a whole number")
    return int(value)


def _is_number(text: str) -> bool:
    try:
        value = float(text)
    except ValueError:
        return False
    return abs(value) < 2**53  # false for NaN too


def _label(text: str) -> str:
    """An anonymised number as a label; -1 means unknown."""
    return "" if text.startswith("-") else text
