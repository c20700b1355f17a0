"""Attributes of a job from its pods: user, submit time, priority, estimate, limit, SLO, app, command."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gpusquad.engines.kubernetes.parse.cards import cards_by_container
from gpusquad.engines.kubernetes.parse.groups import Membership
from gpusquad.kube.annotations import MAX_TEXT, at, flag_of, text_of, time_of
from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.names import (
    APP,
    CHECKPOINT_EVERY,
    ESTIMATE,
    LIMIT,
    PREEMPTIBLE,
    PREFIX,
    PRIORITY,
    SLO,
    USER,
)
from gpusquad.kube.objects import Object, annotations_of, controller_of, namespace_of
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Checkpoint, Slo
from gpusquad.model.priority import URGENT_LEVEL, name_of, priority_text
from gpusquad.model.slo_text import slo_from_text
from gpusquad.model.units import US_PER_S


def job_annotations(membership: Membership, pods: Sequence[Object]) -> Mapping[str, str]:
    """gpusquad annotations of the group's object and its pods. If they differ, the first pod takes precedence over
    later pods, and these over the group's object."""
    annotations = dict(membership.annotations)
    for pod in reversed(pods):
        annotations |= {name: text for name, text in annotations_of(pod).items() if name.startswith(PREFIX)}
    return annotations


def user_of(annotations: Mapping[str, str], pods: Sequence[Object]) -> str:
    return text_of(annotations, USER) or namespace_of(pods[0])


def created_us(pod: Object) -> int:
    """Creation time of the pod in microseconds since 1970."""
    text = pod["metadata"].get("creationTimestamp")
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise MalformedField("metadata.creationTimestamp", f"{short(text)} is not a time") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * US_PER_S))


def priority_of(membership: Membership, annotations: Mapping[str, str], pods: Sequence[Object]) -> str:
    """The priority of the annotation, else the one that the cluster grants."""
    text = text_of(annotations, PRIORITY)
    if text:
        try:
            return priority_text(text, at(PRIORITY))
        except Invalid as error:
            raise MalformedField(error.field, error.problem, error.cure) from None
    return cluster_priority_of(membership, pods)


def cluster_priority_of(membership: Membership, pods: Sequence[Object]) -> str:
    """The priority that the cluster grants by a PriorityClass: the group's, else the highest of its pods."""
    value = membership.priority
    if value is None:
        value = max(map(_priority, pods))
    return name_of(value)


def _priority(pod: Object) -> int:
    """Admission resolves class names to numbers. Without admission, only the system classes are known."""
    value = pod["spec"].get("priority")
    if value is None and (pod["spec"].get("priorityClassName") or "").startswith("system-"):
        return URGENT_LEVEL
    return value or 0


def estimate_us_of(annotations: Mapping[str, str]) -> int | None:
    return time_of(annotations, ESTIMATE)


def slo_of(annotations: Mapping[str, str], submitted_us: int) -> Slo | None:
    text = text_of(annotations, SLO)
    if not text:
        return None
    try:
        return slo_from_text(text, at(SLO), submitted_us)
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None


def limit_us_of(annotations: Mapping[str, str], pods: Sequence[Object]) -> int | None:
    """The minimum of the annotation and the pods' own deadlines, at which the kubelet ends them."""
    deadlines = [pod["spec"].get("activeDeadlineSeconds") for pod in pods]
    limits = [seconds * US_PER_S for seconds in deadlines if seconds]
    limit = time_of(annotations, LIMIT)
    return min((*limits, *(() if limit is None else (limit,))), default=None)


def checkpoint_of(membership: Membership, annotations: Mapping[str, str], pods: Sequence[Object]) -> Checkpoint:
    """A gang is preemptible if all its pods have an owner that recreates them, unless the user forbids it.

    If it is not known whether the owner recreates them, the user can allow it. ``preemptionPolicy`` of a pod does not
    matter: it decides whether the pod may preempt others, not whether it can be preempted.
    """
    preemptible = flag_of(annotations, PREEMPTIBLE)
    has_owners = all(controller_of(pod) is not None for pod in pods)
    is_allowed = membership.recreates if preemptible is None else preemptible
    return Checkpoint(every_us=time_of(annotations, CHECKPOINT_EVERY), preemptible=has_owners and is_allowed)


def app_of(annotations: Mapping[str, str], pods: Sequence[Object]) -> str:
    """The app of the annotation, else the image without its version: runs of different builds are similar."""
    if name := text_of(annotations, APP):
        return _printable(name)
    image = (_main_container(pods).get("image") or "").partition("@")[0]
    path, slash, last = image.rpartition("/")
    return _printable(path + slash + last.partition(":")[0])


def command_of(pods: Sequence[Object]) -> str:
    container = _main_container(pods)
    parts = [*(container.get("command") or ()), *(container.get("args") or ())]
    return _printable(" ".join(" ".join(map(str, parts)).split()))


def _main_container(pods: Sequence[Object]) -> Object:
    """The first container with cards, or else the first one."""
    for pod in pods:
        cards = dict(cards_by_container(pod))
        for container in pod["spec"]["containers"] if cards else ():
            if container["name"] in cards:
                return container
    return pods[0]["spec"]["containers"][0]


def _printable(text: str) -> str:
    """The text without control characters, cut to ``MAX_TEXT``."""
    return "".join(filter(str.isprintable, text))[:MAX_TEXT].strip()
