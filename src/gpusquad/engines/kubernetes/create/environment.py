"""Environment variables of a container: the user's, its secrets, and those about its gang.

The names are those of the local engine, except for what has no meaning in a pod: the service has no folder there for
checkpoints, and the device plugin names the cards.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.frameworks import Gang, Member
from gpusquad.engines.kubernetes.create.names import host_name
from gpusquad.kube.objects import Object

MASTER_PORT = 29500
"""Torchrun's default. Every pod has its own address, so all gangs can use the same port."""
_TASK_PORT = 2222
HOST_FILES = "/etc/gpusquad"
"""Folder in the container with the files of `Gang.files`."""
_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_TF_HEAD = "GPUSQUAD_TF_CONFIG_HEAD"
"""``TF_CONFIG`` without what the shell of the task computes."""


@dataclass(frozen=True, slots=True)
class RoleRanks:
    """Tasks of one role; ``first`` is the rank of the first one."""

    role: str
    job: str
    first: int
    count: int
    cards: int = 0
    """Of each task."""


def literal(text: str) -> str:
    """Escapes text, because the kubelet expands ``$(NAME)`` and turns ``$$`` into ``$``."""
    return text.replace("$", "$$") if "$(" in text or "$$" in text else text


def gang_of(all_ranks: Sequence[RoleRanks], group: str) -> Gang | None:
    """The tasks as their programs see each other. None: the program runs alone."""
    members = [
        Member(ranks.role, host_name(ranks.job, index, group), _TASK_PORT, ranks.cards)
        for ranks in all_ranks
        for index in range(ranks.count)
    ]
    return Gang(members, MASTER_PORT, HOST_FILES) if len(members) > 1 else None


def command_of(ranks: RoleRanks, gang: Gang | None, command: Sequence[str], set_names: Collection[str]) -> list[str]:
    """The command as given. If a rank has to be computed, a shell starts it, which the image must contain.
    ``set_names``: variables that the user sets, which keep their values."""
    words = [literal(word) for word in command]
    if gang is None or not _adds_up(ranks):
        return words
    values = {"GPUSQUAD_TASK": f"$(({ranks.first}+JOB_COMPLETION_INDEX))"}
    values |= {name: "$GPUSQUAD_TASK" for name in gang.rank_names if name not in set_names}
    if _tensorflow_adds_up(ranks, gang) and "TF_CONFIG" not in set_names:
        first = gang.tensorflow_tasks[ranks.first].index
        values["TF_CONFIG"] = f'"${_TF_HEAD}$(({first}+JOB_COMPLETION_INDEX))}}}}"'
    script = "; ".join(f"export {name}={value}" for name, value in values.items())
    return ["/bin/sh", "-c", literal(f'{script}; exec "$@"'), "sh", *words]


def variables(wanted: JobObjectRequest, job_id: str, ranks: RoleRanks, gang: Gang | None, env: Mapping[str, str],
              secret: str) -> list[Object]:  # fmt: skip
    """The user's variables take precedence over those of frameworks, and gpusquad's own over the user's."""
    ours = _about_job(wanted, job_id, ranks)
    given = {name: literal(value) for name, value in env.items()}
    of_frameworks = {"PYTHONUNBUFFERED": _is("1"), **(_about_gang(ranks, gang) if gang is not None else {})}
    return [
        {"name": "GPUSQUAD_INDEX", **_INDEX_FIELD},  # first, because others refer to it
        *({"name": n, **what} for n, what in of_frameworks.items() if n not in given and n not in wanted.secrets),
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
        "GPUSQUAD_TASKS": _is(str(wanted.job.tasks)),
        **({} if rank is None else {"GPUSQUAD_TASK": rank}),
    }


def _about_gang(ranks: RoleRanks, gang: Gang) -> dict[str, Object]:
    rank = _rank(ranks)
    return {
        **{name: _is(literal(value)) for name, value in gang.without_rank(ranks.first).items()},
        **({} if rank is None else dict.fromkeys(gang.rank_names, rank)),
        **_tensorflow(ranks, gang),
    }


def _tensorflow(ranks: RoleRanks, gang: Gang) -> dict[str, Object]:
    head = literal(gang.tensorflow_head(ranks.first))
    if not head:
        return {}
    if _tensorflow_adds_up(ranks, gang):
        return {_TF_HEAD: _is(head)}
    first = gang.tensorflow_tasks[ranks.first].index
    index = str(first) if ranks.count == 1 else "$(GPUSQUAD_INDEX)"
    return {"TF_CONFIG": _is(f"{head}{index}}}}}")}


def _tensorflow_adds_up(ranks: RoleRanks, gang: Gang) -> bool:
    """An earlier role has the same type, so the index of a pod in its role is not that of TensorFlow."""
    head = gang.tensorflow_head(ranks.first)
    return bool(head) and gang.tensorflow_tasks[ranks.first].index > 0 and _adds_up(ranks)


def _rank(ranks: RoleRanks) -> Object | None:
    """None: the shell computes it."""
    if _adds_up(ranks):
        return None
    return _is(str(ranks.first)) if ranks.count == 1 else _INDEX_FIELD


def _adds_up(ranks: RoleRanks) -> bool:
    return ranks.first > 0 and ranks.count > 1


def _is(value: str) -> Object:
    return {"value": value}
