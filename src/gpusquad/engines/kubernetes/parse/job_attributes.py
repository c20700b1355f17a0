"""What a gang's pods say of it beyond what they ask for: who, since when, how important, for how long."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from gpusquad.engines.kubernetes.parse.cards import cards_by_container
from gpusquad.engines.kubernetes.parse.groups import Membership
from gpusquad.kube.annotations import MOST_TEXT, at, flag_of, text_of, time_of
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
from gpusquad.model.job import PRIORITY_CLASSES, Checkpoint, Slo
from gpusquad.model.slo_text import slo_from_text
from gpusquad.model.units import US_PER_S

URGENT_FROM = 1_000_000
"""Priorities of Kubernetes: below 0 is low, 0 normal, up to this one high, from here urgent."""


def said_by_all(membership: Membership, pods: Sequence[Object]) -> Mapping[str, str]:
    """Our annotations: of the group's object, then of the pods, of which the first that says something is heard."""
    said = dict(membership.said)
    for pod in reversed(pods):
        said |= {name: text for name, text in annotations_of(pod).items() if name.startswith(PREFIX)}
    return said


def user_of(said: Mapping[str, str], pods: Sequence[Object]) -> str:
    return text_of(said, USER) or namespace_of(pods[0])


def created_us(pod: Object) -> int:
    """When the API server took the pod, in microseconds since 1970."""
    text = pod["metadata"].get("creationTimestamp")
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise MalformedField("metadata.creationTimestamp", f"{short(text)} is not a time") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * US_PER_S))


def priority_of(membership: Membership, said: Mapping[str, str], pods: Sequence[Object]) -> str:
    """What is said in our words, else the group's own priority, else the highest of its pods'."""
    word = text_of(said, PRIORITY)
    if word:
        if word not in PRIORITY_CLASSES:
            raise MalformedField(at(PRIORITY), f"{short(word)} is none of {', '.join(PRIORITY_CLASSES)}")
        return word
    value = membership.priority
    if value is None:
        value = max(map(_priority, pods))
    if value < 0:
        return "low"
    if value == 0:
        return "normal"
    return "high" if value < URGENT_FROM else "urgent"


def _priority(pod: Object) -> int:
    """Admission has turned names of classes into numbers. Where it was off, only the names of the system say much."""
    value = pod["spec"].get("priority")
    if value is None and (pod["spec"].get("priorityClassName") or "").startswith("system-"):
        return URGENT_FROM
    return value or 0


def estimate_us_of(said: Mapping[str, str]) -> int | None:
    return time_of(said, ESTIMATE)


def slo_of(said: Mapping[str, str], submitted_us: int) -> Slo | None:
    text = text_of(said, SLO)
    if not text:
        return None
    try:
        return slo_from_text(text, at(SLO), submitted_us)
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None


def limit_us_of(said: Mapping[str, str], pods: Sequence[Object]) -> int | None:
    """The least of what is said and of the pods' own deadlines, at which the kubelet ends them."""
    deadlines = [pod["spec"].get("activeDeadlineSeconds") for pod in pods]
    limits = [seconds * US_PER_S for seconds in deadlines if seconds]
    limit = time_of(said, LIMIT)
    return min((*limits, *(() if limit is None else (limit,))), default=None)


def checkpoint_of(membership: Membership, said: Mapping[str, str], pods: Sequence[Object]) -> Checkpoint:
    """A gang may be preempted if every pod of it comes again, or if its user says so and somebody can make them again.

    ``preemptionPolicy`` says whom a pod may push away, not who may push it away: it has no say in this.
    """
    wish = flag_of(said, PREEMPTIBLE)
    has_makers = all(controller_of(pod) is not None for pod in pods)
    comes_again = has_makers and (membership.remakes or wish is True)
    return Checkpoint(every_us=time_of(said, CHECKPOINT_EVERY), preemptible=comes_again and wish is not False)


def app_of(said: Mapping[str, str], pods: Sequence[Object]) -> str:
    """What it is said to be, else the image without its version: runs of one program are alike, whichever build."""
    if name := text_of(said, APP):
        return _line(name)
    image = (_main(pods).get("image") or "").partition("@")[0]
    path, slash, last = image.rpartition("/")
    return _line(path + slash + last.partition(":")[0])


def command_of(pods: Sequence[Object]) -> str:
    container = _main(pods)
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return _line(" ".join(" ".join(map(str, words)).split()))


def _main(pods: Sequence[Object]) -> Object:
    """The first container that has cards, else the first of all."""
    for pod in pods:
        cards = dict(cards_by_container(pod))
        for container in pod["spec"]["containers"] if cards else ():
            if container["name"] in cards:
                return container
    return pods[0]["spec"]["containers"][0]


def _line(text: str) -> str:
    return "".join(filter(str.isprintable, text))[:MOST_TEXT].strip()
