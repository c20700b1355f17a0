"""Answers the kubelet: the node's devices, those that a container should get, and what comes with them."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import grpc

from gpusquad.agent.kubernetes import messages
from gpusquad.agent.kubernetes.admission import Admission, AmbiguousContainer, PendingContainer
from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.device_nodes import DeviceNodes
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pinning import (
    AllocationRefused,
    PinnedCards,
    card_uses,
    pinned_cards_of,
    slots_anywhere,
    slots_on,
)
from gpusquad.agent.kubernetes.pod_cache import PodLister
from gpusquad.agent.kubernetes.pod_resources import PodResources, PodResourcesUnavailable
from gpusquad.agent.kubernetes.sharing_settings import card_of
from gpusquad.agent.kubernetes.slots import distinct_cards, in_order, slots_of
from gpusquad.kube.errors import ApiUnreachable
from gpusquad.kube.share import container_share
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical

HEALTHY, UNHEALTHY = "Healthy", "Unhealthy"
_WAIT_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PluginContext:
    """Sources of the answers."""

    cards: NodeCards
    slots: int
    pods: PodLister
    resources: PodResources
    admission: Admission
    clients: CardClients
    device_nodes: DeviceNodes
    counts: EventCounters
    on_allocated: Callable[[], None] = lambda: None


class Plugin:
    """One registration with a kubelet."""

    def __init__(self, sources: PluginContext) -> None:
        self._sources = sources
        self._pending: dict[frozenset[str], PendingContainer] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def handler(self) -> grpc.GenericRpcHandler:
        """For a gRPC server."""
        unary = grpc.unary_unary_rpc_method_handler
        answers = {
            "GetDevicePluginOptions": (unary, self.options, messages.Empty),
            "ListAndWatch": (grpc.unary_stream_rpc_method_handler, self.devices, messages.Empty),
            "GetPreferredAllocation": (unary, self.prefer, messages.PreferredAllocationRequest),
            "Allocate": (unary, self.allocate, messages.AllocateRequest),
            "PreStartContainer": (unary, self.pre_start, messages.PreStartContainerRequest),
        }
        methods = {
            name: kind(answer, request_deserializer=asked.FromString, response_serializer=_serialised)
            for name, (kind, answer, asked) in answers.items()
        }
        return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)

    def close(self) -> None:
        """Ends the streams."""
        self._is_closed = True
        self._sources.cards.wake()

    # -- the kubelet's calls -----------------------------------------------------------------------------------------

    def options(self, request: Any, context: grpc.ServicerContext) -> Any:
        del request, context
        return messages.DevicePluginOptions(get_preferred_allocation_available=True)

    def devices(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """All slots, sent again whenever the health of a card changes."""
        del request
        context.add_callback(self._sources.cards.wake)
        sent = -1
        while context.is_active() and not self._is_closed:
            version = self._sources.cards.version
            if version != sent:
                sent = version
                yield self.device_list()
            self._sources.cards.wait(sent, _WAIT_S)

    def prefer(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The kubelet follows the preference as long as devices have no topology, which ours never have."""
        answer = messages.PreferredAllocationResponse()
        for entry in request.container_requests:
            began_s = time.monotonic()
            slots = self._or_refuse(context, lambda entry=entry: self._choose(entry))
            answer.container_responses.add(deviceIDs=slots)
            _log.info("preferred", extra={"slots": slots, "took_ms": round((time.monotonic() - began_s) * 1000, 2)})
        return answer

    def allocate(self, request: Any, context: grpc.ServicerContext) -> Any:
        answer = messages.AllocateResponse()
        for entry in request.container_requests:
            slots = in_order(entry.devices_ids)
            pending = self._or_refuse(context, lambda slots=slots: self._checked(slots))
            attached = self._or_refuse(context, lambda slots=slots, pending=pending: self._attach(pending, slots))
            answer.container_responses.append(attached)
            self._sources.admission.served(pending)
            self._sources.counts.add("allocations")
            _log.info("allocated", extra={"pod": pending.pod.key, "container": pending.container.name, "slots": slots})
        self._sources.on_allocated()
        return answer

    def pre_start(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Never called, because the options do not request it."""
        del request, context
        return messages.PreStartContainerResponse()

    # -- answers -----------------------------------------------------------------------------------------------------

    def device_list(self) -> Any:
        answer = messages.ListAndWatchResponse()
        for card in self._sources.cards.facts:
            health = HEALTHY if self._sources.cards.is_ok(card.id) else UNHEALTHY
            for slot in slots_of(card.id, self._sources.slots):
                answer.devices.add(ID=slot, health=health)
        return answer

    def _choose(self, entry: Any) -> list[str]:
        available, must = list(entry.available_deviceIDs), list(entry.must_include_deviceIDs)
        pending = self._sources.admission.find_container(entry.allocation_size)
        with self._recording_refusals(pending):
            pin = self._pin(pending)
            if pin is not None:
                slots = slots_on(pin, available, must)
            else:
                slots = slots_anywhere(entry.allocation_size, available, must, self._uses(pending), list(self._cards))
        with self._lock:
            self._pending = {frozenset(slots): pending}
        return slots

    def _checked(self, slots: Sequence[str]) -> PendingContainer:
        """The container of these slots. Checks that they are on its pinned cards, whatever was preferred."""
        with self._lock:
            pending = self._pending.pop(frozenset(slots), None)
        # The kubelet passes devices of an ended init container on without asking for a preference.
        pending = pending or self._sources.admission.find_container(len(slots))
        with self._recording_refusals(pending):
            pin = self._pin(pending)
            if pin is not None and not pin.matches(slots):
                self._sources.counts.add("mismatches")
                raise AllocationRefused(
                    f"{pending.pod.key}: container {pending.container.name!r} is pinned to {pin}, "
                    f"but the kubelet gives it {', '.join(distinct_cards(slots))}"
                )
        return pending

    def _attach(self, pending: PendingContainer, slots: Sequence[str]) -> Any:
        """Everything that the container gets with its cards."""
        pod, container = pending.pod, pending.container
        facts = [self._cards[card] for card in distinct_cards(slots)]
        cards = [card_of(card) for card in facts]
        share = container_share(container.limits, pod.annotations)
        attachment = self._sources.clients.attach(pod, container, cards, share)
        for note in attachment.notes:
            _log.info("attached", extra={"pod": pod.key, "container": container.name, "note": note})
        ids = ",".join(card.id for card in cards)
        real = ",".join(dict.fromkeys(physical(card.id) for card in cards))  # ids that NVIDIA's runtime knows
        answer = messages.AllocateResponse().container_responses.add()
        answer.envs.update({**attachment.env, "NVIDIA_VISIBLE_DEVICES": real, "GPUSQUAD_CARDS": ids})
        for mount in attachment.mounts:
            answer.mounts.add(container_path=mount.inside, host_path=mount.outside, read_only=mount.read_only)
        for node in (*self._sources.device_nodes.of(facts), *attachment.devices):
            answer.devices.add(container_path=node.inside, host_path=node.outside, permissions=node.permissions)
        return answer

    @contextlib.contextmanager
    def _recording_refusals(self, pending: PendingContainer) -> Iterator[None]:
        try:
            yield
        except AllocationRefused:
            self._sources.admission.refused(pending)
            raise

    def _pin(self, pending: PendingContainer) -> PinnedCards | None:
        return pinned_cards_of(pending.pod, pending.container, self._cards)

    def _uses(self, pending: PendingContainer) -> dict[str, Any]:
        """Read from the API server, because a pod that was bound a moment ago has a pin too."""
        others = [pod for pod in self._sources.pods.fetch_all() if pod.uid != pending.pod.uid]
        listed = {entry.key: [slot for ids in entry.slots.values() for slot in ids]
                  for entry in self._sources.resources.list()}  # fmt: skip
        return card_uses(others, listed)

    @property
    def _cards(self) -> Any:
        return self._sources.cards.by_id

    def _or_refuse(self, context: grpc.ServicerContext, answer: Callable[[], Any]) -> Any:
        """On an error the kubelet refuses the pod and shows the text in its status."""
        try:
            return answer()
        except (
            AllocationRefused,
            AmbiguousContainer,
            ApiUnreachable,
            PodResourcesUnavailable,
            Invalid,
            OSError,
        ) as error:
            self._sources.counts.add("refusals")
            _log.warning("refused", extra={"why": str(error)})
            _abort(context, str(error))


def _abort(context: grpc.ServicerContext, why: str) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
    raise AssertionError("abort does not return")


def _serialised(answer: Any) -> bytes:
    return answer.SerializeToString()
