"""The request of one pod.

Parsed here: requests and limits of containers, init containers, sidecars and the pod; overhead; GPUs and shares; cards
and models in HAMi's annotations; gpusquad's minimum card memory. Refused here: what the scheduler would have to act on
and does not support (``_REFUSED``): resource claims, device modes, cards and models to avoid.

The package ``filters`` handles node selectors and node affinity (for example ``nvidia.com/gpu.product``), taints, pod
affinity, topology spread, volumes and host ports. It sets ``Request.where`` and ``Request.most_per_node``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusquad.engines.kubernetes.parse.cards import MAX_CARDS, cards_in
from gpusquad.engines.kubernetes.parse.container_requests import Amounts, container_requests, pod_amounts
from gpusquad.engines.kubernetes.parse.shares import pod_share
from gpusquad.kube.annotations import at, text_of
from gpusquad.kube.errors import MalformedField, UnsupportedField, short
from gpusquad.kube.names import (
    GPU,
    GPU_MIN_MEMORY,
    GPU_SHARED,
    HAMI_AVOID_CARD,
    HAMI_AVOID_MODEL,
    HAMI_MODE,
    HAMI_NUMA_BIND,
    HAMI_USE_CARD,
    HAMI_USE_MODEL,
    SHARE_RESOURCES,
)
from gpusquad.kube.objects import Object, annotations_of
from gpusquad.kube.quantity import milli_from_nanos, units_from_nanos
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Request, Share
from gpusquad.model.units import parse_bytes

PODS = "pods"
"""Pseudo resource: a node has a limited number of pods; each pod takes one."""

_MAX_MODELS = 64
_MAX_AMOUNT = 2**53
"""Of any resource on one node. The core sums requests of gangs in 64 bits."""
_NO_EXTRA = frozenset(("cpu", "memory", GPU, GPU_SHARED, *SHARE_RESOURCES))
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,127}", re.ASCII)
_REFUSED = {
    HAMI_AVOID_CARD: "cards to avoid are not supported",
    HAMI_AVOID_MODEL: "models to avoid are not supported",
}
_REFUSED_WHEN = {
    HAMI_NUMA_BIND: ("true", "binding GPUs to one NUMA node is not supported"),
    HAMI_MODE: ("mig", "MIG slices on demand are not supported"),
}


def is_gated(pod: Object) -> bool:
    """A controller, for example for quotas, holds the pod back."""
    return bool(pod["spec"].get("schedulingGates"))


def request_of_pod(pod: Object) -> Request:
    """The pod's request without its allowed nodes. Raises ``MalformedField`` or ``UnsupportedField``."""
    _check_supported(pod)
    asked = container_requests(pod)
    amounts = _possible(pod_amounts(pod, asked))
    cards = cards_in(asked)
    share = pod_share(pod, asked)
    gpus = 0 if share else units_from_nanos(amounts.get(GPU, 0))
    if gpus > MAX_CARDS:
        raise UnsupportedField(f"resources[{GPU}]", f"{gpus} GPUs for one pod", f"request at most {MAX_CARDS}")
    if not cards:
        _check_nothing_named(pod)
    return Request(
        gpus=gpus,
        share=share,
        cpu_milli=milli_from_nanos(amounts.get("cpu", 0)),
        memory_bytes=units_from_nanos(amounts.get("memory", 0)),
        gpu_models=_models(pod),
        min_card_memory_bytes=_min_memory_bytes(pod) if gpus else 0,
        card=_card(pod, gpus, share),
        extras=_extras(amounts),
        gpus_together=_together(cards, gpus),
    )


def _together(cards: Sequence[tuple[str, int]], gpus: int) -> int:
    """The largest number of cards that one container sees; 0 if it sees all of them."""
    most = max((count for _, count in cards), default=0)
    return most if most < gpus else 0


def _possible(amounts: Amounts) -> Amounts:
    for name, amount in amounts.items():
        if milli_from_nanos(amount) > _MAX_AMOUNT if name == "cpu" else units_from_nanos(amount) > _MAX_AMOUNT:
            raise UnsupportedField(
                f"resources[{name[:64]}]", f"{units_from_nanos(amount):,} is more than any node can have"
            )
    return amounts


def _extras(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    extras = {name: units_from_nanos(amount) for name, amount in amounts.items() if amount and name not in _NO_EXTRA}
    if PODS in extras:
        raise UnsupportedField(f"resources[{PODS}]", "every pod takes exactly one", "leave it out")
    return tuple(sorted({**extras, PODS: 1}.items()))


def _card(pod: Object, gpus: int, share: Share | None) -> str | None:
    names = _names(pod, HAMI_USE_CARD)
    if len(names) > 1:
        raise UnsupportedField(at(HAMI_USE_CARD), f"names {len(names)} cards to choose from", "name one card")
    name = next(iter(names), None)
    if name is None:
        return None
    if _CARD.fullmatch(name) is None:
        raise MalformedField(at(HAMI_USE_CARD), f"{short(name)} is not the UUID of a GPU")
    if share is None and gpus != 1:
        raise UnsupportedField(at(HAMI_USE_CARD), f"names one card for {gpus} GPUs", f"request {GPU}: 1")
    return name


def _min_memory_bytes(pod: Object) -> int:
    text = text_of(annotations_of(pod), GPU_MIN_MEMORY)
    try:
        return parse_bytes(text, at(GPU_MIN_MEMORY)) if text else 0
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None


def _models(pod: Object) -> tuple[str, ...]:
    models = _names(pod, HAMI_USE_MODEL)
    if len(models) > _MAX_MODELS:
        raise UnsupportedField(at(HAMI_USE_MODEL), f"names {len(models)} models", f"name at most {_MAX_MODELS}")
    return models


def _names(pod: Object, annotation: str) -> tuple[str, ...]:
    """A list separated by commas, sorted and without duplicates, so that equal pods have equal requests."""
    return tuple(sorted({name.strip() for name in text_of(annotations_of(pod), annotation).split(",")} - {""}))


def _check_nothing_named(pod: Object) -> None:
    for name in (HAMI_USE_CARD, HAMI_USE_MODEL):
        if _names(pod, name):
            raise UnsupportedField(at(name), "names a GPU, but no container requests one", f"request {GPU}: 1")


def _check_supported(pod: Object) -> None:
    spec = pod["spec"]
    if spec.get("resourceClaims") or any((each.get("resources") or {}).get("claims") for each in spec["containers"]):
        raise UnsupportedField(
            "spec.resourceClaims", "resource claims (DRA) are not supported", f"request {GPU} instead"
        )
    if spec.get("workloadRef"):
        cure = "use spec.schedulingGroup (Kubernetes 1.36 and later) or a gpusquad.io/group"
        raise UnsupportedField("spec.workloadRef", "the alpha form of Workloads is not supported", cure)
    annotations = annotations_of(pod)
    for name, problem in _REFUSED.items():
        if text_of(annotations, name):
            raise UnsupportedField(at(name), problem, f"name what it may use with {HAMI_USE_CARD} or {HAMI_USE_MODEL}")
    for name, (value, problem) in _REFUSED_WHEN.items():
        if text_of(annotations, name) == value:
            raise UnsupportedField(at(name), problem, "leave it out")
