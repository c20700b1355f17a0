"""Resources that a pod takes on its node, as kube-scheduler and the kubelet count them.

The containers of a pod take their sum. Init containers run before them, one after the other, so a pod needs at least as
much as the largest of them. A sidecar (``restartPolicy: Always``) keeps running and is added to the sum and to every
init container after it. ``spec.resources`` of the pod, if given, replaces the sum of cpu, memory and huge pages.
``spec.overhead``, the cost of the sandbox, is added. Source: k8s.io/component-helpers/resource v0.37.1, and the sidecar
enhancement (KEP 753).
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
_POD_LEVEL = ("cpu", "memory")
_MAX_NAMES = 64


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Requests of one container, and when it runs."""

    name: str
    amounts: Amounts
    is_init: bool = False
    """It ends before the other containers start."""
    stays: bool = True
    """It keeps running beside containers that start later."""


def container_requests(pod: Object) -> tuple[ContainerRequest, ...]:
    """Requests of all containers, in the order of their start."""
    spec = pod["spec"]
    starting = [
        ContainerRequest(each["name"], _requests(each), is_init=True, stays=each.get("restartPolicy") == "Always")
        for each in spec.get("initContainers") or ()
    ]
    return (*starting, *(ContainerRequest(each["name"], _requests(each)) for each in spec.get("containers") or ()))


def pod_amounts(pod: Object, asked: Sequence[ContainerRequest]) -> Amounts:
    """What the pod takes of each resource at its peak."""
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
    """A limit without a request is also the request: the rule of the API server."""
    resources = container.get("resources")
    if not resources:
        return {}
    path = f"{container['name']}.resources"
    return _list(resources.get("limits"), f"{path}.limits") | _list(resources.get("requests"), f"{path}.requests")


def _of_whole_pod(resources: Object) -> Amounts:
    asked = _list(resources.get("requests"), "spec.resources.requests")
    return {name: amount for name, amount in asked.items() if name in _POD_LEVEL or name.startswith(_HUGE_PAGES)}


def _list(given: Mapping[str, object] | None, path: str) -> Amounts:
    if not given:
        return {}
    if not isinstance(given, Mapping) or len(given) > _MAX_NAMES:
        raise MalformedField(path, f"{short(given)} is not a list of at most {_MAX_NAMES} resources")
    return {name: parse_quantity(value, path, name) for name, value in given.items()}


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: Amounts, least: Amounts) -> None:
    for name, amount in least.items():
        if amount > total.get(name, -1):
            total[name] = amount
