"""Fake kubelet with device allocation, and a fake pod cache whose watch may lag behind the API server.

The kubelet admits pods one at a time, passes devices of init containers on to the next container, and follows the
preferred allocation."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc

from gpusquad.agent.kubernetes import messages
from gpusquad.agent.kubernetes.admission import Admission
from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.device_nodes import NoDeviceNodes
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.plugin import HEALTHY, Plugin, PluginContext
from gpusquad.agent.kubernetes.pod_resources import ListedPod
from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.agent.virtual import divided
from gpusquad.gpu.api import Mount, NoSharing
from gpusquad.kube.errors import ApiUnreachable


def pod(name: str, containers: Sequence[Container], pin: Mapping[str, Sequence[str]] | None = None, **more: Any) -> Pod:
    pinned = None if pin is None else {container: tuple(cards) for container, cards in pin.items()}
    return Pod("default", name, more.pop("uid", f"uid-of-{name}"), tuple(containers), pinned, **more)


class Refused(Exception):
    """The plugin ended the call with an error."""


class Context:
    """Context of a gRPC call."""

    def abort(self, code: grpc.StatusCode, details: str) -> None:
        assert code is grpc.StatusCode.FAILED_PRECONDITION
        raise Refused(details)


class FakePods:
    """``cached`` is what the watch has delivered so far, ``real`` what the API server has."""

    def __init__(self) -> None:
        self.real: dict[str, Pod] = {}
        self.cached: dict[str, Pod] = {}
        self.is_down = False
        self.has_listed = True

    def bind(self, pod: Pod, is_cached: bool = True) -> None:
        self.real[pod.key] = pod
        if is_cached:
            self.cached[pod.key] = pod

    def get_cached(self, key: str) -> Pod | None:
        return self.cached.get(key)

    def list_cached(self) -> list[Pod]:
        return list(self.cached.values())

    def fetch(self, key: str) -> Pod | None:
        if self.is_down:
            raise ApiUnreachable("the API server is away")
        return self.real.get(key)

    def fetch_all(self) -> list[Pod]:
        if self.is_down:
            raise ApiUnreachable("the API server is away")
        return list(self.real.values())


class FakeKubelet:
    """Kubelet with gpusquad's device plugin for simulated cards."""

    def __init__(
        self, cards: int, slots: int, folder: Path, seed: int = 0, clients: CardClients | None = None, virtual: int = 1
    ) -> None:
        self.pods = FakePods()
        self.cards = NodeCards(divided(SimulatedInventory(cards, folder), virtual), well_for_s=0.0)
        self.counts = EventCounters()
        self.admission = Admission(self.pods, self)
        clients = clients or CardClients([NoSharing()])
        context = PluginContext(
            self.cards, slots, self.pods, self, self.admission, clients, NoDeviceNodes(), self.counts
        )
        self.plugin = Plugin(context)
        self.given: dict[str, dict[str, list[str]]] = {}
        """By uid and container."""
        self.envs: dict[tuple[str, str], dict[str, str]] = {}
        self.mounts: dict[tuple[str, str], dict[str, Mount]] = {}
        """By the path in the container."""
        self._active: dict[str, Pod] = {}
        self._init: dict[str, set[str]] = {}
        self._dice = random.Random(seed)
        self._context: Any = Context()

    def list(self) -> list[ListedPod]:
        """Pod resources, without init containers."""
        return [
            ListedPod(pod.namespace, pod.name,
                   {name: tuple(slots) for name, slots in self.given.get(uid, {}).items()
                    if slots and name not in self._init.get(uid, ())})
            for uid, pod in self._active.items()
        ]  # fmt: skip

    def admit(self, pod: Pod) -> None:
        """Admit the pod, or raise ``Refused`` if it got no devices."""
        self._active[pod.uid] = pod
        self._init[pod.uid] = {container.name for container in pod.containers if container.is_init}
        reusable: set[str] = set()
        try:
            for container in pod.containers:
                slots = self._allocate(pod, container, reusable)
                reusable = reusable | slots if container.is_init else reusable - slots
        except Refused:
            self.end(pod)
            raise

    def end(self, pod: Pod) -> None:
        self._active.pop(pod.uid, None)
        self.given.pop(pod.uid, None)

    def used(self) -> list[str]:
        """All slots in use; a slot that was passed on inside a pod counts once."""
        return [slot for held in self.given.values() for slot in set().union(*map(set, held.values()))]

    def _allocate(self, pod: Pod, container: Container, reusable: set[str]) -> set[str]:
        chosen = set(self._some(reusable, container.count))
        if len(chosen) < container.count:
            chosen |= self._ask(container.count, chosen)
        request = messages.AllocateRequest()
        request.container_requests.add(devices_ids=self._some(chosen, len(chosen)))
        [answer] = self.plugin.allocate(request, self._context).container_responses
        self.given.setdefault(pod.uid, {})[container.name] = sorted(chosen)
        self.envs[pod.uid, container.name] = dict(answer.envs)
        mounts = [Mount(each.container_path, each.host_path, each.read_only) for each in answer.mounts]
        self.mounts[pod.uid, container.name] = {mount.inside: mount for mount in mounts}
        return chosen

    def _ask(self, count: int, must: set[str]) -> set[str]:
        healthy = {device.ID for device in self.plugin.device_list().devices if device.health == HEALTHY}
        available = healthy - set(self.used())
        if len(available) < count - len(must):
            raise Refused("requested number of devices unavailable")
        request = messages.PreferredAllocationRequest()
        request.container_requests.add(
            available_deviceIDs=self._some(available | must, len(available | must)),
            must_include_deviceIDs=sorted(must), allocation_size=count,
        )  # fmt: skip
        [answer] = self.plugin.prefer(request, self._context).container_responses
        preferred = (set(answer.deviceIDs) & available) - must
        return set(self._some(preferred, count - len(must)))

    def _some(self, slots: Iterable[str], count: int) -> list[str]:
        """``count`` slots in random order, as Go's sets return them."""
        found = sorted(slots)
        self._dice.shuffle(found)
        return found[:count]
