"""The variables a container finds: the user's, its secrets, and what it has to know of its gang.

The same names as on one machine, as far as they mean something in a pod: there is no folder of the service to save
checkpoints to, and the cards are named by the device plugin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.kubernetes.create.names import host_name
from gpusquad.kube.objects import Object

MASTER_PORT = 29500
"""Every pod has an address of its own, so the same one will do for all: the one that torchrun takes by itself."""
_TASK_PORT = 2222
_MOST_IN_TF_CONFIG = 256
"""Of larger gangs the list of all addresses would outgrow what a variable may hold."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NUMBERED = 'RANK=$(({first}+JOB_COMPLETION_INDEX)); GPUSQUAD_TASK=$RANK; export RANK GPUSQUAD_TASK; exec "$@"'


@dataclass(frozen=True, slots=True)
class RoleRanks:
    """The tasks of one role: the first of them has the rank ``first``."""

    role: str
    job: str
    first: int
    count: int


def literal(text: str) -> str:
    """The kubelet fills in ``$(NAME)`` and takes ``$$`` for ``$``; programs are to see what their user wrote."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def command_of(seat: RoleRanks, command: Sequence[str]) -> list[str]:
    """As given. Only where a rank has to be added up is it started by a shell, which the image must have."""
    words = [literal(word) for word in command]
    if not _adds_up(seat):
        return words
    return ["/bin/sh", "-c", literal(_NUMBERED.format(first=seat.first)), "sh", *words]


def variables(wanted: JobObjectRequest, job_id: str, seat: RoleRanks, seats: Sequence[RoleRanks], group: str,
              env: Mapping[str, str], secret: str) -> list[Object]:  # fmt: skip
    """Ours win over the user's, as on one machine."""
    ours = {**_about_job(wanted, job_id, seat), **_about_gang(seat, seats, group)}
    given = {"PYTHONUNBUFFERED": "1", **{name: literal(value) for name, value in env.items()}}
    return [
        {"name": "GPUSQUAD_INDEX", **_INDEX_FIELD},  # first: others are made from it
        *({"name": name, "value": value} for name, value in given.items() if name not in ours),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in wanted.secrets),
        *({"name": name, **what} for name, what in ours.items()),
    ]


_INDEX_FIELD: Object = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}


def _about_job(wanted: JobObjectRequest, job_id: str, seat: RoleRanks) -> dict[str, Object]:
    rank = _rank(seat)
    return {
        "GPUSQUAD_JOB": _is(job_id),
        "GPUSQUAD_JOB_NAME": _is(literal(wanted.job.name)),
        "GPUSQUAD_ROLE": _is(literal(seat.role)),
        **({} if rank is None else {"GPUSQUAD_TASK": rank}),
    }


def _about_gang(seat: RoleRanks, seats: Sequence[RoleRanks], group: str) -> dict[str, Object]:
    rank, tasks = _rank(seat), sum(other.count for other in seats)
    found = {
        "WORLD_SIZE": _is(str(tasks)),
        "LOCAL_RANK": _is("0"),  # a pod sees its own cards only
        "LOCAL_WORLD_SIZE": _is("1"),
        "MASTER_ADDR": _is(host_name(seats[0].job, 0, group) if tasks > 1 else "127.0.0.1"),
        "MASTER_PORT": _is(str(MASTER_PORT)),
        **({} if rank is None else {"RANK": rank}),
    }
    return {**found, "TF_CONFIG": _is(_tensorflow(seat, seats, group))} if tasks <= _MOST_IN_TF_CONFIG else found


def _tensorflow(seat: RoleRanks, seats: Sequence[RoleRanks], group: str) -> str:
    cluster: dict[str, list[str]] = {}
    for other in seats:
        hosts = [f"{host_name(other.job, index, group)}:{_TASK_PORT}" for index in range(other.count)]
        cluster.setdefault(other.role, []).extend(hosts)
    text = literal(json.dumps({"cluster": cluster, "task": {"type": seat.role}}))
    return f'{text[:-2]}, "index": $(GPUSQUAD_INDEX)}}}}'


def _rank(seat: RoleRanks) -> Object | None:
    """None: the shell adds it up."""
    if _adds_up(seat):
        return None
    return _is(str(seat.first)) if seat.count == 1 else _INDEX_FIELD


def _adds_up(seat: RoleRanks) -> bool:
    return seat.first > 0 and seat.count > 1


def _is(value: str) -> Object:
    return {"value": value}
