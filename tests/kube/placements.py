"""Pods pinned to cards of the real node, and the cards that their containers report."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpusquad.agent.kubernetes import messages
from gpusquad.agent.kubernetes.api import RIGHTS
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.plugin import Plugin, PluginContext
from gpusquad.agent.kubernetes.registration import Registration
from gpusquad.agent.kubernetes.slots import distinct_cards, in_order
from gpusquad.agent.simulated import SimulatedInventory
from tests.kube.api import Object
from tests.kube.daemons import Daemon
from tests.kube.image import IMAGE
from tests.kube.node import RealNode
from tests.kube.plane import RESTRICTED, ControlPlane
from tests.kube.pods import PODS, bind

CARDS = "gpusquad.io/cards"
GPU = "nvidia.com/gpu"
NODE = f"/api/v1/nodes/{RealNode.name}"
SHOW = "echo CARDS=$GPUSQUAD_CARDS; echo NVIDIA=$NVIDIA_VISIBLE_DEVICES; ls /dev; echo END"
ENDED = ("Succeeded", "Failed")
BATCH = 40
WAIT_S = 120.0
_UNUSED = ("pods", "resources", "admission", "tenants", "device_nodes", "counts")  # by StockPlugin
_numbers = itertools.count()
_SOURCE = Path(__file__).parents[2] / "src"


class Agent:
    """The node agent as a process, with simulated cards and only the rights that it declares."""

    def __init__(self, plane: ControlPlane, cards: int, slots: int = 1, name: str = "agent", more: Sequence[str] = (),
                 path: str = "/usr/bin:/bin") -> None:  # fmt: skip
        assert plane.node is not None, "the plane has no real node"
        self.folder = plane.folder / name
        self.folder.mkdir(exist_ok=True)
        self._plane = plane
        options: Mapping[str, object] = {
            "node": RealNode.name, "kubeconfig": plane.kubeconfig(RESTRICTED), "simulate": cards, "slots": slots,
            "folder": self.folder, "pod-resources": plane.node.pod_resources, "every": 0.2, "reconcile-every": 2,
            "recover-after": 0.5,
        }  # fmt: skip
        flags = [f"--{option}={value}" for option, value in options.items()]
        command = [sys.executable, "-m", "gpusquad.agent.kubernetes", *flags, *more]
        self.daemon = Daemon(name, command, plane.folder, {"PYTHONPATH": str(_SOURCE), "PATH": path})

    def start(self) -> None:
        self.daemon.start()

    def fail(self, cards: Mapping[str, str]) -> None:
        """Set the failed cards with their causes. All other cards are healthy again."""
        (self.folder / "sim-faults.json").write_text(json.dumps(cards))

    def lines(self, message: str) -> list[Object]:
        """Return the log entries with this message."""
        found = [json.loads(line) for line in self.daemon.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in found if line["message"] == message]


@contextlib.contextmanager
def agent_on(
    plane: ControlPlane, cards: int, slots: int = 1, more: Sequence[str] = (), path: str = "/usr/bin:/bin"
) -> Iterator[Agent]:
    """Run an agent that is registered with the kubelet."""
    plane.allow(RIGHTS)
    agent = Agent(plane, cards, slots, more=more, path=path)
    agent.start()
    try:
        wait_for_devices(plane, cards * slots, agent)
        yield agent
    finally:
        agent.daemon.stop()


def wait_for_devices(plane: ControlPlane, count: int, agent: Agent | None = None) -> None:
    """Wait until the node offers ``count`` devices."""
    try:
        plane.admin.until(
            "/api/v1/nodes",
            lambda nodes: all(node["status"]["allocatable"].get(GPU, "0") == str(count) for node in nodes),
            timeout_s=60.0,
            fieldSelector=f"metadata.name={RealNode.name}",
        )
    except TimeoutError as error:
        raise TimeoutError(f"{error}\n{agent.daemon.log_tail() if agent else ''}") from error


@dataclass(frozen=True)
class ContainerCards:
    """Cards and devices that a container printed."""

    cards: tuple[str, ...]
    visible: tuple[str, ...]
    devices: tuple[str, ...]

    def is_exactly(self, cards: Sequence[str]) -> bool:
        numbers = sorted(f"gpusquad{card.removeprefix('SIM-')}" for card in cards)
        return sorted(self.cards) == sorted(cards) == sorted(self.visible) and sorted(self.devices) == numbers


def container(name: str = "main", gpus: int = 1, command: str = SHOW) -> Object:
    resources = {"limits": {GPU: str(gpus)}} if gpus else {}
    return {"name": name, "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", command],
            "resources": resources}  # fmt: skip


def make(
    plane: ControlPlane, containers: Sequence[Object] | None = None, name: str | None = None, **spec: object
) -> str:
    """Create a pod that is not bound yet, and return its name."""
    name = name or f"placed-{next(_numbers)}"
    content = {
        "containers": list(containers or [container()]), "schedulerName": "gpusquad", "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": False, "enableServiceLinks": False, **spec,
    }  # fmt: skip
    plane.admin.post(PODS, {"metadata": {"name": name}, "spec": content})
    return name


def place(plane: ControlPlane, name: str, pin: Mapping[str, Sequence[str]] | None) -> None:
    """Bind the pod with its cards in one request, as the scheduler does."""
    bind(plane.admin, name, RealNode.name, None if pin is None else {CARDS: json.dumps(pin)})


def place_at_once(plane: ControlPlane, pins: Mapping[str, Mapping[str, Sequence[str]] | None]) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: place(plane, name, pins[name]), pins))


def wait_for(plane: ControlPlane, names: Sequence[str], phases: Sequence[str] = ENDED) -> dict[str, Object]:
    """Wait until all pods are in one of the phases, and return them."""
    wanted = set(names)

    def all_there(pods: list[Object]) -> bool:
        found = [pod for pod in pods if pod["metadata"]["name"] in wanted]
        return len(found) == len(wanted) and all(pod["status"].get("phase") in phases for pod in found)

    pods = plane.admin.until(PODS, all_there, timeout_s=WAIT_S)
    return {pod["metadata"]["name"]: pod for pod in pods if pod["metadata"]["name"] in wanted}


def cards_of(plane: ControlPlane, name: str, container_name: str = "main") -> ContainerCards:
    """Read the cards from the log of a container that ran ``SHOW``."""
    lines: list[str] = []
    deadline_s = time.monotonic() + WAIT_S
    while lines[-1:] != ["END"]:
        assert time.monotonic() < deadline_s, f"{name} did not print its cards: {lines}"
        lines = plane.admin.text(f"{PODS}/{name}/log", container=container_name).splitlines()
    named = dict(line.split("=", 1) for line in lines if "=" in line)
    devices = tuple(line for line in lines if line.startswith("gpusquad"))
    return ContainerCards(
        tuple(filter(None, named["CARDS"].split(","))), tuple(filter(None, named["NVIDIA"].split(","))), devices
    )


def clear(plane: ControlPlane, names: Sequence[str]) -> None:
    for name in names:
        plane.admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def place_many(plane: ControlPlane, count: int, cards: int = 8, slots: int = 5, seed: int = 0) -> list[str]:
    """Place identical pods on random cards, in batches. Return one line for each wrong placement."""
    rng = random.Random(seed)
    errors: list[str] = []
    started_s = time.monotonic()
    with agent_on(plane, cards, slots):
        for start in range(0, count, BATCH):
            size = min(BATCH, count - start, cards * slots)
            free = [f"SIM-{card}" for card in range(cards) for _ in range(slots)]
            drawn = rng.sample(free, size)
            pins = {make(plane): {"main": [card]} for card in drawn}
            place_at_once(plane, pins)
            errors += _wrong_placements(plane, pins)
            clear(plane, list(pins))
            print(f"{start + size} placed after {time.monotonic() - started_s:.0f} s, {len(errors)} wrong", flush=True)
    return errors


def _wrong_placements(plane: ControlPlane, pins: Mapping[str, Mapping[str, Sequence[str]]]) -> list[str]:
    found = []
    for name, pod in wait_for(plane, list(pins)).items():
        if pod["status"]["phase"] != "Succeeded":
            found.append(f"{name}: {pod['status'].get('message', pod['status'])}")
        elif not (reported := cards_of(plane, name)).is_exactly(pins[name]["main"]):
            found.append(f"{name}: pinned to {pins[name]['main']}, got {reported}")
    return found


class StockPlugin(Plugin):
    """Baseline: a device plugin without preferred allocation. The kubelet chooses any free devices."""

    def options(self, request: Any, context: Any) -> Any:
        return messages.DevicePluginOptions()

    def allocate(self, request: Any, context: Any) -> Any:
        answer = messages.AllocateResponse()
        for entry in request.container_requests:
            ids = ",".join(distinct_cards(in_order(entry.devices_ids)))
            answer.container_responses.add().envs.update({"GPUSQUAD_CARDS": ids, "NVIDIA_VISIBLE_DEVICES": ids})
        return answer


@contextlib.contextmanager
def stock_plugin_on(plane: ControlPlane, cards: int, slots: int) -> Iterator[None]:
    """Run the stock plugin in place of the agent."""
    node_cards = NodeCards(SimulatedInventory(cards, plane.folder))
    context = PluginContext(cards=node_cards, slots=slots, **dict.fromkeys(_UNUSED))  # pyright: ignore[reportArgumentType]
    registration = Registration(lambda: StockPlugin(context), GPU)
    thread = threading.Thread(target=registration.run, daemon=True)
    thread.start()
    try:
        wait_for_devices(plane, cards * slots)
        yield
    finally:
        registration.stop()
        thread.join()
        wait_for_devices(plane, 0)


def pairs_on_pinned_cards(plane: ControlPlane, runs: int, cards: int = 4, slots: int = 2, seed: int = 0) -> list[bool]:
    """Pin two containers at a time to random cards. Return for each run whether both got their cards."""
    rng = random.Random(seed)
    on_pinned_cards = []
    for _ in range(runs):
        wanted = rng.sample([f"SIM-{card}" for card in range(cards) for _ in range(slots)], 2)
        pins = {make(plane): {"main": [card]} for card in wanted}
        place_at_once(plane, pins)
        wait_for(plane, list(pins), ["Succeeded"])
        on_pinned_cards.append(all(cards_of(plane, name).cards == tuple(pin["main"]) for name, pin in pins.items()))
        clear(plane, list(pins))
    return on_pinned_cards
