"""Environment variables by which the tasks of a gang find each other, in the conventions of the frameworks.

The same on one machine and on Kubernetes. A job of one task gets no rank and no address: a program that finds
``LOCAL_RANK``, ``WORLD_SIZE`` or ``TF_CONFIG`` takes them as a sign that its processes were started for it, and starts
none itself.
docs/guide/frameworks.md lists which framework reads which variable.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

LOOPBACK = "127.0.0.1"
HOSTFILE, MACHINEFILE = "hostfile", "machinefile"
"""File names: ``HOST slots=N`` of Open MPI, DeepSpeed and Horovod, and ``HOST:N`` of MPICH and Intel MPI."""

_RANKS = ("RANK", "JAX_PROCESS_ID")
_NODE_RANKS = ("NODE_RANK", "GROUP_RANK", "PET_NODE_RANK")
_CHIEF, _WORKER, _EVALUATOR = "chief", "worker", "evaluator"
_TENSORFLOW_TYPES = (_CHIEF, _WORKER, "ps", _EVALUATOR)
_ONE_WORLD = {_CHIEF, "master", _WORKER}
_MAX_LISTED = 256
"""Of larger gangs the addresses are not listed: each task has a copy, and the kernel and Kubernetes limit its size."""


@dataclass(frozen=True, slots=True)
class Member:
    """One task of a gang as the others see it."""

    role: str
    host: str
    port: int
    """Free for a server of this task."""
    cards: int = 0


@dataclass(frozen=True, slots=True)
class TensorFlowTask:
    """Type and index of a task in ``TF_CONFIG``."""

    type: str
    index: int


@dataclass(frozen=True, slots=True)
class Alone:
    """The only task of a job, or one that forms no world with the others of its gang, on a machine with other tasks."""

    master_port: int

    def variables(self) -> dict[str, str]:
        """Only a free port for torchrun, which otherwise uses the same one in every task."""
        return {"PET_MASTER_PORT": str(self.master_port)}


@dataclass(frozen=True)
class Gang:
    """The tasks of a gang by rank."""

    members: Sequence[Member]
    master_port: int
    folder: str
    """Contains the `files`, as the tasks see it."""

    def variables(self, rank: int) -> dict[str, str]:
        """All variables of a task."""
        config = self.tensorflow_head(rank)
        return {
            **self.without_rank(rank),
            **({} if self.is_one_world else Alone(self.members[rank].port).variables()),
            **dict.fromkeys(self.rank_names, str(rank)),
            **({"TF_CONFIG": f"{config}{self.tensorflow_tasks[rank].index}}}}}"} if config else {}),
        }

    def without_rank(self, rank: int) -> dict[str, str]:
        """Those that are equal for all tasks of a role."""
        return {**self._of_all, **(self._of_world(self.members[rank].cards) if self.is_one_world else {})}

    @property
    def rank_names(self) -> tuple[str, ...]:
        """Variables that hold the rank."""
        return (*_RANKS, *_NODE_RANKS) if self.is_one_world else _RANKS

    @cached_property
    def is_one_world(self) -> bool:
        """All tasks train one model. In a gang of several roles, such as learner and actors, only the programs know
        which tasks form a world, and a launcher that waited for all of them would wait indefinitely.
        """
        roles = {member.role.lower() for member in self.members}
        return len(roles) == 1 or roles <= _ONE_WORLD

    @cached_property
    def _of_all(self) -> dict[str, str]:
        first, count = self.members[0], str(len(self.members))
        return {
            "MASTER_ADDR": first.host,
            "MASTER_PORT": str(self.master_port),
            "WORLD_SIZE": count,
            "JAX_COORDINATOR_ADDRESS": f"{first.host}:{first.port}",
            "JAX_NUM_PROCESSES": count,
            **self._host_files,
        }

    def _of_world(self, cards: int) -> dict[str, str]:
        """Every task counts as a node, because it sees only its own cards, from device 0.

        A task with several cards is expected to start a process for each. Lightning does so only without
        ``LOCAL_RANK``.
        """
        count = str(len(self.members))
        found = {
            "PET_NNODES": count,
            "PET_MASTER_ADDR": self.members[0].host,
            "PET_MASTER_PORT": str(self.master_port),
            "PL_TRAINER_NUM_NODES": count,
            "LT_NUM_NODES": count,
        }
        if cards > 1:
            return {**found, "PET_NPROC_PER_NODE": str(cards)}
        return {**found, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}

    # -- TensorFlow ----------------------------------------------------------------------------------------------------

    @cached_property
    def tensorflow_tasks(self) -> list[TensorFlowTask]:
        """By rank. TensorFlow knows four types of tasks, refuses others, and allows one chief."""
        roles = [member.role.lower() for member in self.members]
        known = {*_TENSORFLOW_TYPES} - ({_CHIEF} if roles.count(_CHIEF) > 1 else set())
        counts: dict[str, int] = {}
        found = []
        for role in (role if role in known else _WORKER for role in roles):
            found.append(TensorFlowTask(role, counts.get(role, 0)))
            counts[role] = counts.get(role, 0) + 1
        return found

    def tensorflow_head(self, rank: int) -> str:
        """``TF_CONFIG`` up to the index of the task, which on Kubernetes is known only in the pod; ``}}`` follows it.
        Empty for large gangs."""
        cluster = self._tensorflow_cluster
        return cluster and f'{cluster}, "task": {{"type": "{self.tensorflow_tasks[rank].type}", "index": '

    @cached_property
    def _tensorflow_cluster(self) -> str:
        """Evaluators are not part of the training cluster."""
        if len(self.members) > _MAX_LISTED:
            return ""
        cluster: dict[str, list[str]] = {}
        for member, task in zip(self.members, self.tensorflow_tasks, strict=True):
            if task.type != _EVALUATOR:
                cluster.setdefault(task.type, []).append(f"{member.host}:{member.port}")
        return f'{{"cluster": {json.dumps(cluster)}'

    # -- MPI -----------------------------------------------------------------------------------------------------------

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Content of the host files by name. Empty for large gangs."""
        if len(self.members) > _MAX_LISTED:
            return {}
        slots: dict[str, int] = {}
        for member in self.members:
            host = "localhost" if member.host == LOOPBACK else member.host
            slots[host] = slots.get(host, 0) + max(1, member.cards)
        hostfile = "".join(f"{host} slots={count}\n" for host, count in slots.items())
        machinefile = "".join(f"{host}:{count}\n" for host, count in slots.items())
        return {HOSTFILE: hostfile, MACHINEFILE: machinefile}

    @cached_property
    def _host_files(self) -> dict[str, str]:
        """MPI's own defaults are set only if the gang has several hosts. With one, ``mpirun`` needs no list, and with a
        list it would start fewer processes than it does by itself.
        """
        if not self.files:
            return {}
        hostfile, machinefile = f"{self.folder}/{HOSTFILE}", f"{self.folder}/{MACHINEFILE}"
        found = {"GPUSQUAD_HOSTFILE": hostfile, "GPUSQUAD_MACHINEFILE": machinefile}
        if len({member.host for member in self.members}) == 1:
            return found
        return {
            **found,
            "OMPI_MCA_orte_default_hostfile": hostfile,
            "PRTE_MCA_prte_default_hostfile": hostfile,
            "HYDRA_HOST_FILE": machinefile,
            "I_MPI_HYDRA_HOST_FILE": machinefile,
        }
