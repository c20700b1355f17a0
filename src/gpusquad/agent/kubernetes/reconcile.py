"""Compares the cards that containers have with their pins, and publishes the cards that other pods use.

The kubelet's list is authoritative. Annotations are never adapted to it: a pod on a card that it is not pinned to takes
that card from another pod, so it is evicted.
"""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gpusquad.agent.kubernetes.admission import Admission
from gpusquad.agent.kubernetes.api import KubeApi, Object
from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pod_cache import PodLister
from gpusquad.agent.kubernetes.pod_resources import ListedPod, PodResources, PodResourcesUnavailable
from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.kubernetes.slots import cards_of, distinct_cards, in_order
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import CARDS, UNPINNED

_GONE = (404, 409)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A container with other cards than it is pinned to."""

    pod: Pod
    container: str
    has: tuple[str, ...]
    pinned: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"container {self.container!r} has {', '.join(self.has)}, "
            f"but is pinned to {', '.join(self.pinned) or 'no cards'}"
        )


def find_mismatches(pods: Mapping[str, Pod], listed: Sequence[ListedPod]) -> list[Mismatch]:
    """For pods with a pin. The list does not show which of them still wait for devices."""
    found = []
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is None or pod.pin is None or pod.has_ended:
            continue
        for container, slots in sorted(entry.slots.items()):
            pinned = pod.pin.get(container, ())
            if cards_of(slots) != Counter(pinned):
                found.append(Mismatch(pod, container, tuple(distinct_cards(in_order(slots))), pinned))
    return found


def unpinned_cards(pods: Mapping[str, Pod], listed: Sequence[ListedPod]) -> dict[str, list[str]]:
    """Cards by namespace/name. Unknown pods count too, because their cards are in use."""
    found: dict[str, list[str]] = {}
    for entry in listed:
        pod = pods.get(entry.key)
        slots = in_order(slot for ids in entry.slots.values() for slot in ids)
        if slots and (pod is None or pod.pin is None):
            found[entry.key] = distinct_cards(slots)
    return dict(sorted(found.items()))


class Reconciler:
    """Used by one thread."""

    def __init__(
        self,
        api: KubeApi,
        node: str,
        pods: PodLister,
        resources: PodResources,
        cards: NodeCards,
        admission: Admission,
        clients: CardClients,
        counts: EventCounters,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._node = node
        self._pods = pods
        self._resources = resources
        self._cards = cards
        self._admission = admission
        self._clients = clients
        self._counts = counts
        self._now_s = now_s
        self._published: dict[str, str] = {}
        self._seen: set[str] = set()
        self._evicted: set[str] = set()
        self.listed: list[ListedPod] = []
        """The last list of the kubelet."""
        self.has_listed = False

    def step(self) -> None:
        """Does everything once. What fails is repeated in the next step."""
        try:
            self.listed = self._resources.list()
            self.has_listed = True
        except PodResourcesUnavailable as error:
            _log.warning("cannot reconcile", extra={"why": str(error)})
            self._publish({CARDS: _json(self._cards.description())})
            return
        knows_all = self._pods.has_listed  # read first: the cache may become complete in between
        known = {pod.key: pod for pod in self._pods.list_cached()}
        self._publish({CARDS: _json(self._cards.description()), UNPINNED: _json(unpinned_cards(known, self.listed))})
        for mismatch in find_mismatches(known, self.listed):
            self._act_on(mismatch)
        if knows_all:
            self._forget(known.values())

    def publish_cards(self) -> None:
        """Before the kubelet counts the devices, so that no scheduler sees devices of unknown cards."""
        self._publish({CARDS: _json(self._cards.description())})

    def _publish(self, annotations: Mapping[str, str]) -> None:
        news = {name: text for name, text in annotations.items() if self._published.get(name) != text}
        if not news:
            return
        try:
            self._api.merge(f"/api/v1/nodes/{self._node}", {"metadata": {"annotations": news}})
            self._published.update(news)
        except (ApiRefused, ApiUnreachable) as error:
            _log.warning("cannot publish the cards", extra={"why": str(error)})

    def _act_on(self, mismatch: Mismatch) -> None:
        """Checks both sides again first: another pod of the same name may have replaced it."""
        pod = mismatch.pod
        if pod.uid in self._evicted:
            return
        try:
            fresh, listed = self._pods.fetch(pod.key), self._resources.list()
            if fresh is None or fresh.uid != pod.uid or not find_mismatches({pod.key: fresh}, listed):
                return
            if pod.uid not in self._seen:
                self._seen.add(pod.uid)
                self._counts.add("mismatches")
                _log.error("mismatch", extra={"pod": pod.key, "why": str(mismatch)})
            self._evict(pod, str(mismatch))
        except (ApiRefused, ApiUnreachable, PodResourcesUnavailable) as error:
            _log.warning("cannot evict yet", extra={"pod": pod.key, "why": str(error)})

    def _evict(self, pod: Pod, why: str) -> None:
        try:
            path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
            self._api.delete(path, {"preconditions": {"uid": pod.uid}})
        except ApiRefused as error:
            if error.status not in _GONE:
                raise
        else:
            self._counts.add("evictions")
        self._evicted.add(pod.uid)
        self._api.post(f"/api/v1/namespaces/{pod.namespace}/events", self._event(pod, why))

    def _event(self, pod: Pod, why: str) -> Object:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now_s()))
        return {
            "metadata": {"generateName": f"{pod.name[:200]}.", "namespace": pod.namespace},
            "involvedObject": {
                "kind": "Pod", "apiVersion": "v1", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid,
            },
            "type": "Warning", "reason": "WrongCards", "message": f"evicted: {why}", "count": 1,
            "firstTimestamp": at, "lastTimestamp": at,
            "source": {"component": "gpusquad-agent", "host": self._node},
        }  # fmt: skip

    def _forget(self, pods: Collection[Pod]) -> None:
        uids = {pod.uid for pod in pods}
        self._seen &= uids
        self._evicted &= uids
        self._admission.forget_all_but(uids)
        self._clients.follow(pods)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
