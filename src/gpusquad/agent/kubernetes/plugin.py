"""Answers the kubelet: which devices there are, which of them a container should get, and what comes with them."""

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
    promise_to,
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
    """What the answers are made from."""

    cards: NodeCards
    slots: int
    pods: PodLister
    resources: PodResources
    admission: Admission
    tenants: CardClients
    device_nodes: DeviceNodes
    counts: EventCounters
    on_allocated: Callable[[], None] = lambda: None


class Plugin:
    """One conversation with a kubelet."""

    def __init__(self, parts: PluginContext) -> None:
        self._parts = parts
        self._asking: dict[frozenset[str], PendingContainer] = {}
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
        self._parts.cards.wake()

    # -- the kubelet's calls -----------------------------------------------------------------------------------------

    def options(self, request: Any, context: grpc.ServicerContext) -> Any:
        del request, context
        return messages.DevicePluginOptions(get_preferred_allocation_available=True)

    def devices(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        """All slots, and all again whenever the health of a card changes: for the worse or for the better."""
        del request
        context.add_callback(self._parts.cards.wake)
        sent = -1
        while context.is_active() and not self._is_closed:
            version = self._parts.cards.version
            if version != sent:
                sent = version
                yield self.device_list()
            self._parts.cards.wait(sent, _WAIT_S)

    def prefer(self, request: Any, context: grpc.ServicerContext) -> Any:
        """The kubelet follows what is preferred as long as devices carry no topology, which ours never do."""
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
            asking = self._or_refuse(context, lambda slots=slots: self._checked(slots))
            attached = self._or_refuse(context, lambda slots=slots, asking=asking: self._attach(asking, slots))
            answer.container_responses.append(attached)
            self._parts.admission.served(asking)
            self._parts.counts.add("allocations")
            _log.info("allocated", extra={"pod": asking.pod.key, "container": asking.container.name, "slots": slots})
        self._parts.on_allocated()
        return answer

    def pre_start(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Not asked for."""
        del request, context
        return messages.PreStartContainerResponse()

    # -- what they say -----------------------------------------------------------------------------------------------

    def device_list(self) -> Any:
        answer = messages.ListAndWatchResponse()
        for card in self._parts.cards.facts:
            health = HEALTHY if self._parts.cards.is_ok(card.id) else UNHEALTHY
            for slot in slots_of(card.id, self._parts.slots):
                answer.devices.add(ID=slot, health=health)
        return answer

    def _choose(self, entry: Any) -> list[str]:
        available, must = list(entry.available_deviceIDs), list(entry.must_include_deviceIDs)
        asking = self._parts.admission.who(entry.allocation_size)
        with self._noting_refusals(asking):
            promise = self._promise(asking)
            if promise is not None:
                slots = slots_on(promise, available, must)
            else:
                slots = slots_anywhere(entry.allocation_size, available, must, self._uses(asking), list(self._cards))
        with self._lock:
            self._asking = {frozenset(slots): asking}
        return slots

    def _checked(self, slots: Sequence[str]) -> PendingContainer:
        """Who these are for; that they are the promised ones is seen here, whatever was preferred."""
        with self._lock:
            asking = self._asking.pop(frozenset(slots), None)
        # Devices of a container that has done its work are passed on to the next without asking what we prefer.
        asking = asking or self._parts.admission.who(len(slots))
        with self._noting_refusals(asking):
            promise = self._promise(asking)
            if promise is not None and not promise.is_kept_by(slots):
                self._parts.counts.add("mismatches")
                raise AllocationRefused(
                    f"{asking.pod.key}: container {asking.container.name!r} was promised {promise}, "
                    f"but the kubelet gives it {', '.join(distinct_cards(slots))}"
                )
        return asking

    def _attach(self, asking: PendingContainer, slots: Sequence[str]) -> Any:
        """Everything that the container gets with its cards."""
        pod, container = asking.pod, asking.container
        facts = [self._cards[card] for card in distinct_cards(slots)]
        cards = [card_of(card) for card in facts]
        share = container_share(container.limits, pod.annotations)
        attachment = self._parts.tenants.attach(pod, container, cards, share)
        for note in attachment.notes:
            _log.info("attached", extra={"pod": pod.key, "container": container.name, "note": note})
        ids = ",".join(card.id for card in cards)
        real = ",".join(dict.fromkeys(physical(card.id) for card in cards))  # what NVIDIA's runtime knows
        answer = messages.AllocateResponse().container_responses.add()
        answer.envs.update({**attachment.env, "NVIDIA_VISIBLE_DEVICES": real, "GPUSQUAD_CARDS": ids})
        for mount in attachment.mounts:
            answer.mounts.add(container_path=mount.inside, host_path=mount.outside, read_only=mount.read_only)
        for node in (*self._parts.device_nodes.of(facts), *attachment.devices):
            answer.devices.add(container_path=node.inside, host_path=node.outside, permissions=node.permissions)
        return answer

    @contextlib.contextmanager
    def _noting_refusals(self, asking: PendingContainer) -> Iterator[None]:
        try:
            yield
        except AllocationRefused:
            self._parts.admission.refused(asking)
            raise

    def _promise(self, asking: PendingContainer) -> PinnedCards | None:
        return promise_to(asking.pod, asking.container, self._cards)

    def _uses(self, asking: PendingContainer) -> dict[str, Any]:
        """As things are now: a pod that was bound a moment ago has a promise too."""
        others = [pod for pod in self._parts.pods.all_fresh() if pod.uid != asking.pod.uid]
        listed = {entry.key: [slot for ids in entry.slots.values() for slot in ids]
                  for entry in self._parts.resources.list()}  # fmt: skip
        return card_uses(others, listed)

    @property
    def _cards(self) -> Any:
        return self._parts.cards.by_id

    def _or_refuse(self, context: grpc.ServicerContext, answer: Callable[[], Any]) -> Any:
        """An error here makes the kubelet refuse the pod, with our words in its status."""
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
            self._parts.counts.add("refusals")
            _log.warning("refused", extra={"why": str(error)})
            _abort(context, str(error))


def _abort(context: grpc.ServicerContext, why: str) -> NoReturn:
    context.abort(grpc.StatusCode.FAILED_PRECONDITION, why)
    raise AssertionError("abort does not return")


def _serialised(answer: Any) -> bytes:
    return answer.SerializeToString()
