"""The role of a pod in its gang, and its order within the role."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpusquad.kube.names import FIRST_RANK, INDEX, KAI_SUBGROUP, ROLE
from gpusquad.kube.objects import Object, annotations_of, labels_of, name_of, uid_of

WORKER = "worker"
LEADER = "leader"
HEAD = "head"

Place = tuple[int, str, tuple[int, ...], tuple[tuple[int, int, str], ...], str]

LWS_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
RAY_TYPE = "ray.io/node-type"
RAY_GROUP = "ray.io/group"
REPLICA_TYPE = "training.kubeflow.org/replica-type"
JOB_ROLE = "training.kubeflow.org/job-role"
REPLICATED_JOB = "jobset.sigs.k8s.io/replicatedjob-name"
TASK = "volcano.sh/task-spec"

_FIRST = (HEAD, LEADER, "launcher", "master", "chief", "scheduler")
"""Roles that other roles connect to come first."""
_INDEXES = (
    "jobset.sigs.k8s.io/job-index",
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    LWS_INDEX,
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
    "kueue.x-k8s.io/pod-group-pod-index",
    INDEX,
)
_MAX_TEXT = 63


def role_of(pod: Object) -> str:
    """From the labels of the pod's owner; ``worker`` if there are none."""
    for read in _ROLES:
        role = "".join(filter(str.isprintable, read(pod)[:_MAX_TEXT])).strip()
        if role:
            return role.lower()
    return WORKER


def place_of(pod: Object) -> Place:
    """Sort key that gives pods a stable order, independent of their arrival."""
    role, first = role_of(pod), first_rank(pod)
    return (rank_of(role) if first is None else first, role, index_of(pod), _by_numbers(name_of(pod)), uid_of(pod))


def rank_of(role: str) -> int:
    return _FIRST.index(role) if role in _FIRST else len(_FIRST)


def first_rank(pod: Object) -> int | None:
    text = annotations_of(pod).get(FIRST_RANK, "")
    return int(text) if _is_number(text) else None


def _lws_role(pod: Object) -> str:
    index = labels_of(pod).get(LWS_INDEX)
    return "" if index is None else (LEADER if index == "0" else WORKER)


def _ray_role(pod: Object) -> str:
    kind = labels_of(pod).get(RAY_TYPE)
    return HEAD if kind == HEAD else labels_of(pod).get(RAY_GROUP, "")


def _label(name: str) -> Callable[[Object], str]:
    return lambda pod: labels_of(pod).get(name) or annotations_of(pod).get(name, "")


_ROLES = (
    _lws_role,
    _ray_role,
    _label(REPLICA_TYPE),
    _label(JOB_ROLE),
    _label(REPLICATED_JOB),
    _label(TASK),
    _label(KAI_SUBGROUP),
    _label(ROLE),
)


def index_of(pod: Object) -> tuple[int, ...]:
    """The pod's index within its role, by any convention."""
    texts = (labels_of(pod).get(name) or annotations_of(pod).get(name, "") for name in _INDEXES)
    return tuple(int(text) for text in texts if _is_number(text))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


def _by_numbers(name: str) -> tuple[tuple[int, int, str], ...]:
    """``worker-10`` comes after ``worker-9``."""
    pieces = re.findall(r"\d{1,18}|\D+", name, re.ASCII)
    return tuple((0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in pieces)
