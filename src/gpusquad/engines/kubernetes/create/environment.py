"""Environment variables of a container: the user's, its secrets, and those about its gang.

The names are those of the local engine, except for what has no meaning in a pod: the service has no folder there for
checkpoints, and the device plugin names the cards.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.kubernetes.create.names import host_name
from gpusquad.kube.objects import Object

MASTER_PORT = 29500
"""Torchrun's default. Every pod has its own address, so all gangs can use the same port."""
_TASK_PORT = 2222
_MAX_TF_CONFIG_TASKS = 256
"""For larger gangs the list of all addresses would exceed the size limit of a variable."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_NUMBERED = 'RANK=$(({first}+JOB_COMPLETION_INDEX)); GPUSQUAD_TASK=$RANK; export RANK GPUSQUAD_TASK; exec "$@"'


@dataclass(frozen=True, slots=True)
class RoleRanks:
    """Tasks of one role; ``first`` is the rank of the first one."""

    role: str
    job: str
    first: int
    count: int


def literal(text: str) -> str:
    """Escapes text, because the kubelet expands ``$(NAME)`` and turns ``$$`` into ``$``."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def command_of(ranks: RoleRanks, command: Sequence[str]) -> list[str]:
    """The command as given. If a rank has to be computed, a shell starts it, which the image must contain."""
    words = [literal(word) for word in command]
    if not _adds_up(ranks):
        return words
    return ["/bin/sh", "-c", literal(_NUMBERED.format(first=ranks.first)), "sh", *words]


def variables(wanted: JobObjectRequest, job_id: str, ranks: RoleRanks, all_ranks: Sequence[RoleRanks], group: str,
              env: Mapping[str, str], secret: str) -> list[Object]:  # fmt: skip
    """gpusquad's variables take precedence over the user's, as on one machine."""
    ours = {**_about_job(wanted, job_id, ranks), **_about_gang(ranks, all_ranks, group)}
    given = {"PYTHONUNBUFFERED": "1", **{name: literal(value) for name, value in env.items()}}
    return [
        {"name": "GPUSQUAD_INDEX", **_INDEX_FIELD},  # first, because others refer to it
        *({"name": name, "value": value} for name, value in given.items() if name not in ours),
        *({"name": name, "valueFrom": {"secretKeyRef": {"name": secret, "key": name}}} for name in wanted.secrets),
        *({"name": name, **what} for name, what in ours.items()),
    ]


_INDEX_FIELD: Object = {"valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}


def _about_job(wanted: JobObjectRequest, job_id: str, ranks: RoleRanks) -> dict[str, Object]:
    rank = _rank(ranks)
    return {
        "GPUSQUAD_JOB": _is(job_id),
        "GPUSQUAD_JOB_NAME": _is(literal(wanted.job.name)),
        "GPUSQUAD_ROLE": _is(literal(ranks.role)),
        **({} if rank is None else {"GPUSQUAD_TASK": rank}),
    }


def _about_gang(ranks: RoleRanks, all_ranks: Sequence[RoleRanks], group: str) -> dict[str, Object]:
    rank, tasks = _rank(ranks), sum(other.count for other in all_ranks)
    found = {
        "WORLD_SIZE": _is(str(tasks)),
        "LOCAL_RANK": _is("0"),  # a pod sees only its own cards
        "LOCAL_WORLD_SIZE": _is("1"),
        "MASTER_ADDR": _is(host_name(all_ranks[0].job, 0, group) if tasks > 1 else "127.0.0.1"),
        "MASTER_PORT": _is(str(MASTER_PORT)),
        **({} if rank is None else {"RANK": rank}),
    }
    return {**found, "TF_CONFIG": _is(_tensorflow(ranks, all_ranks, group))} if tasks <= _MAX_TF_CONFIG_TASKS else found


def _tensorflow(ranks: RoleRanks, all_ranks: Sequence[RoleRanks], group: str) -> str:
    cluster: dict[str, list[str]] = {}
    for other in all_ranks:
        hosts = [f"{host_name(other.job, index, group)}:{_TASK_PORT}" for index in range(other.count)]
        cluster.setdefault(other.role, []).extend(hosts)
    text = literal(json.dumps({"cluster": cluster, "task": {"type": ranks.role}}))
    return f'{text[:-2]}, "index": $(GPUSQUAD_INDEX)}}}}'


def _rank(ranks: RoleRanks) -> Object | None:
    """None: the shell computes it."""
    if _adds_up(ranks):
        return None
    return _is(str(ranks.first)) if ranks.count == 1 else _INDEX_FIELD


def _adds_up(ranks: RoleRanks) -> bool:
    return ranks.first > 0 and ranks.count > 1


def _is(value: str) -> Object:
    return {"value": value}
