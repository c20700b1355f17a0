"""What one pod asks for, as the core understands it.

Read here: requests and limits of containers, init containers, sidecars and the whole pod; overhead; GPUs and parts of
GPUs; a card or models named in HAMi's annotations; the least memory of a card, in ours. Refused here, with a reason:
what the scheduler would have to act on and does not (``_REFUSED``): resource claims, device modes, things to keep away
from.

Handled elsewhere, in the sub-package ``where``: node selectors and node affinity (``nvidia.com/gpu.product`` among
them), taints, affinity to other pods, topology spread, volumes, host ports. It sets ``Request.where`` and
``Request.most_per_node`` with ``dataclasses.replace``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpusquad.engines.kubernetes.parse.cards import MOST_CARDS, cards_in
from gpusquad.engines.kubernetes.parse.container_requests import Amounts, asked_by, effective
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
"""A node holds so many pods; each takes one."""

_MOST_MODELS = 64
_MOST_AMOUNT = 2**53
"""Of anything, on one node: the core adds up what gangs ask for in 64 bits."""
_NO_EXTRA = frozenset(("cpu", "memory", GPU, GPU_SHARED, *SHARE_RESOURCES))
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,127}", re.ASCII)
_REFUSED = {
    HAMI_AVOID_CARD: "cards to keep away from are not supported",
    HAMI_AVOID_MODEL: "models to keep away from are not supported",
}
_REFUSED_WHEN = {
    HAMI_NUMA_BIND: ("true", "binding GPUs to one NUMA node is not supported"),
    HAMI_MODE: ("mig", "MIG slices made on demand are not supported"),
}


def is_gated(pod: Object) -> bool:
    """Somebody holds it back (a quota controller, say): it is not ready to be considered."""
    return bool(pod["spec"].get("schedulingGates"))


def ask_of(pod: Object) -> Request:
    """What the pod asks for, but for where it may run. Raises ``Malformed`` or ``Unsupported``."""
    _check_supported(pod)
    asked = asked_by(pod)
    amounts = _possible(effective(pod, asked))
    cards = cards_in(asked)
    share = pod_share(pod, asked)
    gpus = 0 if share else units_from_nanos(amounts.get(GPU, 0))
    if gpus > MOST_CARDS:
        raise UnsupportedField(f"resources[{GPU}]", f"{gpus} GPUs for one pod", f"keep it to {MOST_CARDS}")
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
    """What the container with most of them sees; 0 if that is all."""
    most = max((count for _, count in cards), default=0)
    return most if most < gpus else 0


def _possible(amounts: Amounts) -> Amounts:
    for name, amount in amounts.items():
        if milli_from_nanos(amount) > _MOST_AMOUNT if name == "cpu" else units_from_nanos(amount) > _MOST_AMOUNT:
            raise UnsupportedField(
                f"resources[{name[:64]}]", f"{units_from_nanos(amount):,} is more than any node can have"
            )
    return amounts


def _extras(amounts: Amounts) -> tuple[tuple[str, int], ...]:
    extras = {name: units_from_nanos(amount) for name, amount in amounts.items() if amount and name not in _NO_EXTRA}
    if PODS in extras:
        raise UnsupportedField(f"resources[{PODS}]", "every pod takes one, and none takes more", "leave it out")
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
        raise UnsupportedField(at(HAMI_USE_CARD), f"names one card for {gpus} GPUs", f"ask for {GPU}: 1")
    return name


def _min_memory_bytes(pod: Object) -> int:
    text = text_of(annotations_of(pod), GPU_MIN_MEMORY)
    try:
        return parse_bytes(text, at(GPU_MIN_MEMORY)) if text else 0
    except Invalid as error:
        raise MalformedField(error.field, error.problem, error.cure) from None


def _models(pod: Object) -> tuple[str, ...]:
    models = _names(pod, HAMI_USE_MODEL)
    if len(models) > _MOST_MODELS:
        raise UnsupportedField(at(HAMI_USE_MODEL), f"names {len(models)} models", f"name at most {_MOST_MODELS}")
    return models


def _names(pod: Object, annotation: str) -> tuple[str, ...]:
    """A list with commas, each name once, in order: alike pods then ask for alike things."""
    return tuple(sorted({name.strip() for name in text_of(annotations_of(pod), annotation).split(",")} - {""}))


def _check_nothing_named(pod: Object) -> None:
    for name in (HAMI_USE_CARD, HAMI_USE_MODEL):
        if _names(pod, name):
            raise UnsupportedField(at(name), "names a GPU, but no container asks for one", f"ask for {GPU}: 1")


def _check_supported(pod: Object) -> None:
    spec = pod["spec"]
    if spec.get("resourceClaims") or any((each.get("resources") or {}).get("claims") for each in spec["containers"]):
        raise UnsupportedField(
            "spec.resourceClaims", "resource claims (DRA) are not supported", f"ask for {GPU} instead"
        )
    if spec.get("workloadRef"):
        cure = "use spec.schedulingGroup (Kubernetes 1.36 and later) or a gpusquad.io/group"
        raise UnsupportedField("spec.workloadRef", "the first form of Workloads is not supported", cure)
    said = annotations_of(pod)
    for name, problem in _REFUSED.items():
        if text_of(said, name):
            raise UnsupportedField(at(name), problem, f"name what it may use with {HAMI_USE_CARD} or {HAMI_USE_MODEL}")
    for name, (value, problem) in _REFUSED_WHEN.items():
        if text_of(said, name) == value:
            raise UnsupportedField(at(name), problem, "leave it out")
