"""How much of each resource a pod takes, as kube-scheduler and the kubelet count it.

While its containers run it takes their sum. Init containers run before them, one after the other, so a pod needs no
less than the largest of them; one that is to keep running beside the others (a sidecar, ``restartPolicy: Always``) is
added to the sum and to every init container after it. ``spec.resources`` of the pod, where given, stand for the sum
of cpu, memory and huge pages. What the sandbox costs (``spec.overhead``) comes on top.
Source: k8s.io/component-helpers/resource v0.37.1, and the sidecar enhancement (KEP 753).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import parse_quantity

Amounts = dict[str, int]
"""Billionths of each resource."""

_HUGE_PAGES = "hugepages-"
_OF_WHOLE_PODS = ("cpu", "memory")
_MOST_NAMES = 64


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for, and when it runs."""

    name: str
    amounts: Amounts
    is_init: bool = False
    """It runs before the others."""
    stays: bool = True
    """It goes on running beside those that start after it."""


def asked_by(pod: Object) -> tuple[ContainerRequest, ...]:
    """Of every container, in the order of their start."""
    spec = pod["spec"]
    starting = [
        ContainerRequest(each["name"], _requests(each), is_init=True, stays=each.get("restartPolicy") == "Always")
        for each in spec.get("initContainers") or ()
    ]
    return (*starting, *(ContainerRequest(each["name"], _requests(each)) for each in spec.get("containers") or ()))


def effective(pod: Object, asked: Sequence[ContainerRequest]) -> Amounts:
    """What the pod takes of a node, of each resource, at the worst moment of its life."""
    beside: Amounts = {}
    most: Amounts = {}
    for each in asked:
        if each.stays:
            _add(beside, each.amounts)
        elif each.amounts:
            now = dict(beside)
            _add(now, each.amounts)
            _raise(most, now)
    _raise(most, beside)
    spec = pod["spec"]
    if spec.get("resources"):
        most |= _of_whole_pod(spec["resources"])
    if spec.get("overhead"):
        _add(most, _list(spec["overhead"], "spec.overhead"))
    return most


def _requests(container: Object) -> Amounts:
    """Where a container says a limit alone, that is what it asks for: the API server's own rule."""
    resources = container.get("resources")
    if not resources:
        return {}
    path = f"{container['name']}.resources"
    return _list(resources.get("limits"), f"{path}.limits") | _list(resources.get("requests"), f"{path}.requests")


def _of_whole_pod(resources: Object) -> Amounts:
    asked = _list(resources.get("requests"), "spec.resources.requests")
    return {name: amount for name, amount in asked.items() if name in _OF_WHOLE_PODS or name.startswith(_HUGE_PAGES)}


def _list(given: Mapping[str, object] | None, path: str) -> Amounts:
    if not given:
        return {}
    if not isinstance(given, Mapping) or len(given) > _MOST_NAMES:
        raise MalformedField(path, f"{short(given)} is not a list of at most {_MOST_NAMES} resources")
    return {name: parse_quantity(value, path, name) for name, value in given.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if amount > total.get(name, -1):
            total[name] = amount
