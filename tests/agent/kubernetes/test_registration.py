"""Tests of registering with the kubelet, with a small registration service in its own folder."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from gpusquad.agent.kubernetes import messages
from gpusquad.agent.kubernetes.pod_resources import KubeletPodResources, ListedPod, PodResourcesUnavailable
from gpusquad.agent.kubernetes.registration import KUBELET, Registration
from tests.agent.kubernetes.fake_kubelet import FakeKubelet

WAIT_S = 30.0
RESOURCE = "nvidia.com/gpu"


class RegistrationServer:
    """Accepts registrations and calls back at once, as the real one does; also lists pod resources."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.registrations: list[Any] = []
        self.lists: list[dict[str, str]] = []
        self.changed = threading.Condition()
        self._server: grpc.Server | None = None
        self.refusals = 0
        self.exhausted = 0

    def start(self) -> None:
        for socket in self.folder.glob("*.sock"):
            socket.unlink()
        self._server = grpc.server(ThreadPoolExecutor(4))
        register = grpc.unary_unary_rpc_method_handler(
            self._register, messages.RegisterRequest.FromString, messages.Empty.SerializeToString
        )
        list_pods = grpc.unary_unary_rpc_method_handler(
            self._list, messages.ListPodResourcesRequest.FromString, messages.ListPodResourcesResponse.SerializeToString
        )
        self._server.add_generic_rpc_handlers((
            grpc.method_handlers_generic_handler("v1beta1.Registration", {"Register": register}),
            grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": list_pods}),
        ))  # fmt: skip
        self._server.add_insecure_port(f"unix:{self.folder / KUBELET}")
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop(grace=None).wait()
        (self.folder / KUBELET).unlink(missing_ok=True)

    def wait_for(self, count: int, lists: int = 0) -> None:
        with self.changed:
            assert self.changed.wait_for(
                lambda: len(self.registrations) >= count and len(self.lists) >= lists, timeout=WAIT_S
            ), (self.registrations, self.lists)

    def _register(self, request: Any, context: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            context.abort(grpc.StatusCode.UNKNOWN, "device plugin already connected")
        with self.changed:
            self.registrations.append(request)
            self.changed.notify_all()
        threading.Thread(target=self._follow, args=(request.endpoint,), daemon=True).start()
        return messages.Empty()

    def _follow(self, endpoint: str) -> None:
        channel = grpc.insecure_channel(f"unix:{self.folder / endpoint}")
        stream = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch", messages.Empty.SerializeToString,
            messages.ListAndWatchResponse.FromString,
        )(messages.Empty())  # fmt: skip
        try:
            for answer in stream:
                with self.changed:
                    self.lists.append({device.ID: device.health for device in answer.devices})
                    self.changed.notify_all()
        except grpc.RpcError:
            pass

    def _list(self, request: Any, context: Any) -> Any:
        if self.exhausted:
            self.exhausted -= 1
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
        answer = messages.ListPodResourcesResponse()
        container = answer.pod_resources.add(name="p", namespace="n").containers.add(name="main")
        for slot in ("A::0", "B::0"):
            container.devices.add(resource_name=RESOURCE, device_ids=[slot])
        container.devices.add(resource_name="other", device_ids=["x"])
        return answer


@pytest.fixture
def short_path() -> Iterator[Path]:
    """A short folder: a socket path has at most 107 characters, and tmp_path of parallel tests is longer."""
    with tempfile.TemporaryDirectory(prefix="gpusquad-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def kubelet(short_path: Path) -> Iterator[RegistrationServer]:
    server = RegistrationServer(short_path)
    yield server
    server.stop()


@pytest.fixture
def plugin(kubelet: RegistrationServer) -> Iterator[FakeKubelet]:
    """The plugin, with a registration that runs until the test ends."""
    fake = FakeKubelet(1, 2, kubelet.folder)
    fake.cards.start()
    registration = Registration(lambda: fake.plugin, RESOURCE, kubelet.folder)
    thread = threading.Thread(target=registration.run)
    thread.start()
    yield fake
    registration.stop()
    thread.join(timeout=WAIT_S)
    assert not thread.is_alive()
    assert list(kubelet.folder.glob("gpusquad-*")) == []


def test_plugin_registers_and_reports_devices_and_their_changes(kubelet: RegistrationServer, plugin: FakeKubelet):
    kubelet.start()
    kubelet.wait_for(1, lists=1)
    [request] = kubelet.registrations
    assert (request.version, request.resource_name) == ("v1beta1", RESOURCE)
    assert request.options.get_preferred_allocation_available
    assert kubelet.lists == [{"SIM-0::0": "Healthy", "SIM-0::1": "Healthy"}]
    (kubelet.folder / "sim-faults.json").write_text('{"SIM-0": "lost"}')
    plugin.cards.look(())
    kubelet.wait_for(1, lists=2)
    (kubelet.folder / "sim-faults.json").unlink()
    plugin.cards.look(())
    kubelet.wait_for(1, lists=3)
    assert [set(found.values()) for found in kubelet.lists] == [{"Healthy"}, {"Unhealthy"}, {"Healthy"}]


def test_plugin_registers_again_when_the_kubelet_restarts(kubelet: RegistrationServer, short_path: Path):
    plugins = [FakeKubelet(1, 1, short_path) for _ in range(2)]
    fresh = iter(plugins)
    kubelet.start()
    registration = Registration(lambda: next(fresh).plugin, RESOURCE, short_path)
    thread = threading.Thread(target=registration.run)
    thread.start()
    kubelet.wait_for(1, lists=1)
    kubelet.stop()
    kubelet.start()
    kubelet.wait_for(2, lists=2)
    first, second = (request.endpoint for request in kubelet.registrations)
    assert first != second
    registration.stop()
    thread.join(timeout=WAIT_S)
    assert not thread.is_alive()


def test_registration_is_retried_when_the_kubelet_refuses(kubelet: RegistrationServer, plugin: FakeKubelet):
    kubelet.refusals = 2
    kubelet.start()
    kubelet.wait_for(1)
    assert kubelet.refusals == 0


def test_sockets_of_a_killed_agent_are_removed(kubelet: RegistrationServer):
    stale = kubelet.folder / "gpusquad-nvidia.com_gpu-dead.sock"
    stale.touch()
    registration = Registration(lambda: FakeKubelet(1, 1, kubelet.folder).plugin, RESOURCE, kubelet.folder)
    registration.stop()
    registration.run()
    assert not stale.exists()


def test_pod_resources_are_requested_again_when_rate_limited(kubelet: RegistrationServer):
    kubelet.start()
    resources = KubeletPodResources(kubelet.folder / KUBELET, RESOURCE)
    kubelet.exhausted = 2
    assert resources.list() == [ListedPod("n", "p", {"main": ("A::0", "B::0")})]
    kubelet.exhausted = 1000
    with pytest.raises(PodResourcesUnavailable, match="rate limit"):
        resources.list()
    resources.close()
