"""The share of a pod: the rules that one container alone cannot show. The parser itself is ``kube.share``.

A share needs ``nvidia.com/gpu: 1`` in one container. Without it the kubelet never calls the device plugin, and the
container would see no card.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.engines.kubernetes.parse.cards import cards_in
from gpusquad.engines.kubernetes.parse.container_requests import Amounts, ContainerRequest
from gpusquad.kube.annotations import text_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import GPU, KAI_CONTAINER, SHARE_RESOURCES
from gpusquad.kube.objects import Object, annotations_of
from gpusquad.kube.share import SHARE_LIMITS, share_request
from gpusquad.model.job import Share

_CURE = f"request {GPU}: 1 in the same container, as request and limit"


def pod_share(pod: Object, containers: Sequence[ContainerRequest]) -> Share | None:
    """The share that a pod requests; None: whole cards, or none."""
    annotations = annotations_of(pod)
    request = share_request(_amounts(containers), annotations)
    if request is None:
        return None
    _check_containers(containers, text_of(annotations, KAI_CONTAINER))
    return request.share


def _check_containers(containers: Sequence[ContainerRequest], named: str) -> None:
    """One container requests one card, and that container requests the share."""
    cards = cards_in(containers)
    if not cards:
        raise UnsupportedField(
            "share", f"requests a share of a GPU without {GPU}, so its container would get no card", _CURE
        )
    if len(cards) > 1:
        names = ", ".join(name for name, _ in cards)
        raise UnsupportedField(
            "share", f"several containers request GPUs ({names})", "request the share in one container only"
        )
    holder, count = cards[0]
    if count != 1:
        raise UnsupportedField(
            "share", f"requests {count} GPUs and a share of each", f"request {GPU}: 1, or whole GPUs"
        )
    for each in containers:
        if each.name != holder and any(map(each.amounts.get, SHARE_RESOURCES)):
            raise UnsupportedField("share", f"container {each.name} requests a share of a GPU without {GPU}", _CURE)
    if named and named != holder:
        raise UnsupportedField("share", f"{KAI_CONTAINER} is {named}, but {holder} requests the GPU", _CURE)


def _amounts(containers: Sequence[ContainerRequest]) -> Amounts:
    """Requests of all containers. ``_check_containers`` verifies that only one of them requests a share."""
    result: Amounts = {}
    for each in containers:
        for name, amount in each.amounts.items():
            if name in SHARE_LIMITS:
                result[name] = max(result.get(name, 0), amount)
    return result
