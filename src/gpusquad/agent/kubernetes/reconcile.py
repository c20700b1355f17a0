"""Holds what containers have against what they were promised, and says which cards others use.

The truth is the kubelet's. Annotations are never adapted to it: a pod on a card that was not promised to it takes that
card from somebody else, so it has to go.
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
    """A container with other cards than it was promised."""

    pod: Pod
    container: str
    has: tuple[str, ...]
    promised: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"container {self.container!r} has {', '.join(self.has)}, "
            f"but was promised {', '.join(self.promised) or 'no cards'}"
        )


def find_mismatches(pods: Mapping[str, Pod], listed: Sequence[ListedPod]) -> list[Mismatch]:
    """Of pods that were promised cards. Which of them wait for devices still is not told by the list."""
    found = []
    for entry in listed:
        pod = pods.get(entry.key)
        if pod is None or pod.pin is None or pod.has_ended:
            continue
        for container, slots in sorted(entry.slots.items()):
            promised = pod.pin.get(container, ())
            if cards_of(slots) != Counter(promised):
                found.append(Mismatch(pod, container, tuple(distinct_cards(in_order(slots))), promised))
    return found


def unpinned_cards(pods: Mapping[str, Pod], listed: Sequence[ListedPod]) -> dict[str, list[str]]:
    """By namespace/name; a pod that we know nothing of counts too, for its cards are taken."""
    found: dict[str, list[str]] = {}
    for entry in listed:
        pod = pods.get(entry.key)
        slots = in_order(slot for ids in entry.slots.values() for slot in ids)
        if slots and (pod is None or pod.pin is None):
            found[entry.key] = distinct_cards(slots)
    return dict(sorted(found.items()))


class Reconciler:
    """One step at a time, by one thread."""

    def __init__(
        self,
        api: KubeApi,
        node: str,
        pods: PodLister,
        resources: PodResources,
        cards: NodeCards,
        admission: Admission,
        tenants: CardClients,
        counts: EventCounters,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._node = node
        self._pods = pods
        self._resources = resources
        self._cards = cards
        self._admission = admission
        self._tenants = tenants
        self._counts = counts
        self._now_s = now_s
        self._published: dict[str, str] = {}
        self._seen: set[str] = set()
        self._evicted: set[str] = set()
        self.listed: list[ListedPod] = []
        """As last told by the kubelet."""
        self.has_listed = False

    def step(self) -> None:
        """Everything once; what cannot be done now is done in the next step."""
        try:
            self.listed = self._resources.list()
            self.has_listed = True
        except PodResourcesUnavailable as error:
            _log.warning("not reconciled", extra={"why": str(error)})
            self._publish({CARDS: _json(self._cards.description())})
            return
        knows_all = self._pods.has_heard  # asked first: what is known may become complete in between
        known = {pod.key: pod for pod in self._pods.all_known()}
        self._publish({CARDS: _json(self._cards.description()), UNPINNED: _json(unpinned_cards(known, self.listed))})
        for mismatch in find_mismatches(known, self.listed):
            self._act_on(mismatch)
        if knows_all:
            self._forget(known.values())

    def publish_cards(self) -> None:
        """Before the kubelet counts them, so that no scheduler sees devices of unknown cards."""
        self._publish({CARDS: _json(self._cards.description())})

    def _publish(self, annotations: Mapping[str, str]) -> None:
        news = {name: text for name, text in annotations.items() if self._published.get(name) != text}
        if not news:
            return
        try:
            self._api.merge(f"/api/v1/nodes/{self._node}", {"metadata": {"annotations": news}})
            self._published.update(news)
        except (ApiRefused, ApiUnreachable) as error:
            _log.warning("not published", extra={"why": str(error)})

    def _act_on(self, mismatch: Mismatch) -> None:
        """Only after a second look at both sides: a pod of that name may have gone and another come."""
        pod = mismatch.pod
        if pod.uid in self._evicted:
            return
        try:
            fresh, listed = self._pods.fresh(pod.key), self._resources.list()
            if fresh is None or fresh.uid != pod.uid or not find_mismatches({pod.key: fresh}, listed):
                return
            if pod.uid not in self._seen:
                self._seen.add(pod.uid)
                self._counts.add("mismatches")
                _log.error("mismatch", extra={"pod": pod.key, "why": str(mismatch)})
            self._evict(pod, str(mismatch))
        except (ApiRefused, ApiUnreachable, PodResourcesUnavailable) as error:
            _log.warning("not evicted yet", extra={"pod": pod.key, "why": str(error)})

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
        self._tenants.follow(pods)


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
