"""The cluster and the pods that all contenders get."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass

from bench.kubernetes.bars import Bars
from bench.kubernetes.metrics import fetch, writes
from bench.kubernetes.wire import ApiServer, Request, send
from tests.kube.plane import PODGROUPS, ControlPlane, Settings, fake_node, ready_names

PODS = "/api/v1/namespaces/default/pods"
GROUPS = f"{PODGROUPS}/namespaces/default/podgroups"
NODES = "/api/v1/nodes"
LABEL = "scheduling.x-k8s.io/pod-group"  # the coscheduling plugin's, which others read too
GANG = "gang-"
CREATORS = 32
NODES_S = 300.0
QUIET_S = 2.0
LEASE_S = 400
"""Ten times that of a kubelet. Otherwise the fake nodes would be considered dead on a fully busy machine, and their
heartbeats would cost the slower scheduler more than the faster one."""


@dataclass(frozen=True)
class Size:
    """More cards than pods: else the end of a run would measure the search for the last free card."""

    nodes: int = 1500
    gpus_per_node: int = 8
    pods: int = 10_000
    gang: int = 8

    @property
    def gangs(self) -> int:
        return self.pods // self.gang


@contextlib.contextmanager
def cluster(size: Size, bars: Bars, *, pods_run: bool = False) -> Iterator[ControlPlane]:
    """A fresh control plane with its fake nodes."""
    with ControlPlane(Settings(kwok=True, pods_run=pods_run, fake_lease_s=LEASE_S)) as plane:
        server = admin(plane)
        names = [f"node-{number}" for number in range(size.nodes)]
        requests = ((name, server.post(NODES, fake_node(name, size.gpus_per_node, {}))) for name in names)
        with bars.bar("nodes", size.nodes) as bar:
            send(server, requests, CREATORS, bar.one)
        _wait_for_nodes(plane, size.nodes, bars)
        yield plane


def admin(plane: ControlPlane) -> ApiServer:
    return ApiServer(plane.url, plane.certificate, plane.token())


def singles(server: ApiServer, scheduler: str, count: int) -> Iterator[Request]:
    for number in range(count):
        name = f"pod-{number}"
        yield name, server.post(PODS, pod(name, scheduler))


def gangs(server: ApiServer, scheduler: str, count: int, each: int, *, native: bool) -> Iterator[Request]:
    """The pods of each gang in order, after the PodGroup if it is native."""
    for number in range(count):
        group = f"{GANG}{number}"
        for member in range(each):
            name = f"{group}-{member}"
            yield name, server.post(PODS, pod(name, scheduler, group, native=native))


def groups(server: ApiServer, count: int, each: int) -> Iterator[Request]:
    """Kubernetes' own groups."""
    for number in range(count):
        spec = {"schedulingPolicy": {"gang": {"minCount": each}}}
        yield f"{GANG}{number}", server.post(GROUPS, {"metadata": {"name": f"{GANG}{number}"}, "spec": spec})


def bindings(server: ApiServer, pods: list[str], nodes: int) -> Iterator[Request]:
    """Round the nodes."""
    for number, name in enumerate(pods):
        target = {"kind": "Node", "name": f"node-{number % nodes}"}
        content = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
        yield name, server.post(f"{PODS}/{name}/binding", content)


def pod(name: str, scheduler: str, group: str = "", *, native: bool = False) -> dict:
    """One card. Nothing would pull its image: no such node has a kubelet."""
    container = {"name": "main", "image": "fake", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec: dict = {"schedulerName": scheduler, "restartPolicy": "Never", "containers": [container]}
    metadata: dict = {"name": name}
    if native:
        spec["schedulingGroup"] = {"podGroupName": group}
    elif group:
        metadata["labels"] = {LABEL: group}
    return {"metadata": metadata, "spec": spec}


def _wait_for_nodes(plane: ControlPlane, count: int, bars: Bars) -> None:
    deadline_s = time.monotonic() + NODES_S
    with bars.bar("nodes ready", count) as bar:
        while (ready := len(ready_names(plane.admin.get(NODES)["items"]))) < count:
            assert time.monotonic() < deadline_s, f"{ready} of {count} nodes are ready after {NODES_S:g} s"
            bar.at(ready)
            time.sleep(1.0)
    written = -1
    while written != (written := _node_writes(plane)) and time.monotonic() < deadline_s:
        time.sleep(QUIET_S)


def _node_writes(plane: ControlPlane) -> int:
    """Whoever lags behind still writes to nodes that are ready already."""
    server = admin(plane)
    counts = writes(fetch(f"{server.url}/metrics", server.tls(), server.token))
    return sum(count for what, count in counts.items() if "/nodes" in what)
