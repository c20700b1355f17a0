"""Tests of the agent's device plugin with a real kubelet: each container gets the cards that its pod is pinned to."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gpusquad.kube.names import UNPINNED
from tests.kube.api import Object
from tests.kube.node import RealNode, need_node
from tests.kube.placements import CARDS as CARDS_ON_NODE
from tests.kube.placements import (
    SHOW,
    Agent,
    agent_on,
    cards_of,
    clear,
    container,
    make,
    place_at_once,
    wait_for,
    wait_for_devices,
)  # fmt: skip
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

CARDS = 8
SLOTS = 5


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    need_node()
    with ControlPlane(Settings(real_node=True)) as started:
        yield started


@pytest.fixture(scope="module")
def agent(plane: ControlPlane) -> Iterator[Agent]:
    with agent_on(plane, CARDS, SLOTS) as started:
        yield started


def test_equal_pods_started_together_get_their_pinned_cards(plane: ControlPlane, agent: Agent):
    cards = [f"SIM-{(7 * number) % CARDS}" for number in range(20)]
    pins = {make(plane): {"main": [card]} for card in cards}
    place_at_once(plane, pins)
    pods = wait_for(plane, list(pins))
    assert {name: pod["status"]["phase"] for name, pod in pods.items()} == dict.fromkeys(pins, "Succeeded")
    for name, pin in pins.items():
        assert cards_of(plane, name).is_exactly(pin["main"]), name
    assert agent.lines("refused") == []
    clear(plane, list(pins))


def test_unpinned_pod_gets_a_card_that_no_pod_is_pinned_to(plane: ControlPlane, agent: Agent):
    pins = {make_running_pod(plane): {"main": [f"SIM-{number}"]} for number in (0, 1, 2, 5, 6, 7)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Running"])
    unpinned = [make_running_pod(plane), make_running_pod(plane)]
    place_at_once(plane, dict.fromkeys(unpinned))
    wait_for(plane, unpinned, ["Running"])
    cards = {name: cards_of(plane, name).cards for name in unpinned}
    assert sorted(cards.values()) == [("SIM-3",), ("SIM-4",)]
    expected = {f"default/{name}": list(card) for name, card in cards.items()}
    assert wait_for_annotation(plane, UNPINNED, lambda found: found == expected) == expected
    clear(plane, [*pins, *unpinned])
    wait_for_annotation(plane, UNPINNED, lambda found: found == {})


def test_each_container_of_a_pod_gets_its_pinned_cards(plane: ControlPlane, agent: Agent):
    """The kubelet reuses the cards of init containers: first for the sidecar ``helper``, then for ``left``."""
    helper = {**container("helper", command=f"{SHOW}; sleep 1000"), "restartPolicy": "Always"}
    name = make(
        plane, [container("left", 2), container("plain", 0), container("right")],
        initContainers=[container("first"), helper, container("second"), container("third", 2), container("fourth")],
    )  # fmt: skip
    pin = {"left": ["SIM-6", "SIM-1"], "right": ["SIM-4"], "helper": ["SIM-2"]}
    place_at_once(plane, {name: pin})
    status = wait_for(plane, [name])[name]["status"]
    assert status["phase"] == "Succeeded", status.get("message")
    for holder, cards in {**pin, "first": ["SIM-2"], "second": ["SIM-6"], "third": ["SIM-6", "SIM-1"]}.items():
        assert cards_of(plane, name, holder).is_exactly(cards), holder
    [card] = cards_of(plane, name, "fourth").cards
    assert card in pin["left"]
    clear(plane, [name])


def test_quota_file_has_the_limits_and_is_read_only(plane: ControlPlane, agent: Agent):
    sharing_container = container(
        command="cat /run/gpusquad/quota.json; echo {} > /run/gpusquad/quota.json || echo read-only"
    )
    sharing_container["resources"]["limits"] |= {"gpusquad.io/gpu-memory": "8Gi", "gpusquad.io/gpu-sm-percent": "25"}
    name = make(plane, [sharing_container])
    place_at_once(plane, {name: {"main": ["SIM-5"]}})
    uid = wait_for(plane, [name])[name]["metadata"]["uid"]
    output = plane.admin.text(f"{PODS}/{name}/log").splitlines()
    limits = next(line for line in output if line.startswith("{"))  # error messages of the shell may come before it
    assert json.loads(limits) == {
        "job": "", "owner": uid, "part": "main",
        "cards": [{"card": "SIM-5", "memory_bytes": 8 * 2**30, "sm_milli": 250}],
    }  # fmt: skip
    assert "read-only" in output
    clear(plane, [name])


@pytest.mark.parametrize(
    ("pin", "message"),
    [
        ({"main": ["GPU-unknown"]}, "this node has no card 'GPU-unknown'"),
        ({"main": ["SIM-0", "SIM-1"]}, "requests 1 cards, but the annotation gpusquad.io/cards names 2"),
        ({"other": ["SIM-0"]}, "names no cards for container 'main'"),
    ],
)
def test_invalid_pin_is_refused(plane: ControlPlane, agent: Agent, pin: dict[str, list[str]], message: str):
    name = make(plane)
    place_at_once(plane, {name: pin})
    status = wait_for(plane, [name])[name]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert message in status["message"]
    clear(plane, [name])


def test_pod_is_refused_when_its_card_has_no_free_slot(plane: ControlPlane, agent: Agent):
    pins = {make_running_pod(plane): {"main": ["SIM-2"]} for _ in range(SLOTS)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Running"])
    late = make(plane)
    place_at_once(plane, {late: {"main": ["SIM-2"]}})
    status = wait_for(plane, [late])[late]["status"]
    assert "card SIM-2 has no free slot" in status["message"]
    clear(plane, [*pins, late])


def test_failed_card_is_removed_and_added_again_after_recovery(plane: ControlPlane, agent: Agent):
    held = make_running_pod(plane)
    place_at_once(plane, {held: {"main": ["SIM-3"]}})
    wait_for(plane, [held], ["Running"])
    agent.fail({"SIM-3": "it fell off the bus"})
    wait_for_devices(plane, (CARDS - 1) * SLOTS, agent)
    bad = [card["id"] for card in wait_for_annotation(plane, CARDS_ON_NODE, _has_unhealthy_card) if not card["ok"]]
    assert bad == ["SIM-3"]
    late = make(plane)
    place_at_once(plane, {late: {"main": ["SIM-3"]}})
    assert "is unhealthy" in wait_for(plane, [late])[late]["status"]["message"]
    assert plane.admin.get(f"{PODS}/{held}")["status"]["phase"] == "Running"
    agent.fail({})
    wait_for_devices(plane, CARDS * SLOTS, agent)
    wait_for_annotation(plane, CARDS_ON_NODE, lambda cards: not _has_unhealthy_card(cards))
    again = make(plane)
    place_at_once(plane, {again: {"main": ["SIM-3"]}})
    wait_for(plane, [again], ["Succeeded"])
    assert cards_of(plane, again).is_exactly(["SIM-3"])
    clear(plane, [held, late, again])


def test_pod_is_evicted_when_its_cards_differ_from_its_pin(plane: ControlPlane, agent: Agent):
    """The test changes the pin after the start, because the kubelet itself assigns the right cards."""
    name = make_running_pod(plane)
    place_at_once(plane, {name: {"main": ["SIM-1"]}})
    wait_for(plane, [name], ["Running"])
    plane.admin.patch(f"{PODS}/{name}", {"metadata": {"annotations": {CARDS_ON_NODE: json.dumps({"main": ["SIM-4"]})}}})
    plane.admin.until(PODS, lambda pods: not pods, fieldSelector=f"metadata.name={name}")
    [event] = plane.admin.until(  # written after the eviction
        "/api/v1/namespaces/default/events", bool, fieldSelector=f"involvedObject.name={name},reason=WrongCards"
    )
    message = event["message"]
    assert message == "evicted: container 'main' has SIM-1, but is pinned to SIM-4"


def test_running_pod_and_pinning_survive_an_agent_restart(plane: ControlPlane, agent: Agent):
    held = make_running_pod(plane)
    place_at_once(plane, {held: {"main": ["SIM-7"]}})
    before = wait_for(plane, [held], ["Running"])[held]["status"]["containerStatuses"]
    agent.daemon.stop()
    wait_for_devices(plane, 0, agent)
    agent.start()
    wait_for_devices(plane, CARDS * SLOTS, agent)
    _check_pinning(plane)
    assert plane.admin.get(f"{PODS}/{held}")["status"]["containerStatuses"] == before
    clear(plane, [held])


def test_agent_registers_again_when_the_kubelet_restarts(plane: ControlPlane, agent: Agent):
    held, unpinned = make_running_pod(plane), make_running_pod(plane)
    place_at_once(plane, {held: {"main": ["SIM-7"]}, unpinned: None})
    pods = wait_for(plane, [held, unpinned], ["Running"])
    before = {name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in pods.items()}
    registered = len(agent.lines("registered"))
    plane.daemons["kubelet"].stop()
    plane.daemons["kubelet"].start()
    agent.daemon.wait_for("registered again", lambda: len(agent.lines("registered")) > registered, 60.0)
    wait_for_devices(plane, CARDS * SLOTS, agent)
    _check_pinning(plane)
    after = wait_for(plane, [held, unpinned], ["Running"])
    assert {name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in after.items()} == before
    clear(plane, [held, unpinned])


def test_pinned_pods_get_their_cards_beside_invalid_and_deleted_pods(plane: ControlPlane, agent: Agent):
    """Pods with invalid pins, without pins or deleted at once do not change the cards of other pods."""
    valid = {make(plane): {"main": [f"SIM-{number % CARDS}"]} for number in range(16)}
    invalid = {make(plane): {"main": ["GPU-unknown"]} for _ in range(6)}
    deleted = {make(plane): {"main": ["SIM-0"]} for _ in range(6)}
    unpinned = {make(plane): None for _ in range(4)}
    shuffled = list({**valid, **invalid, **deleted, **unpinned}.items())
    random.Random(0).shuffle(shuffled)
    place_at_once(plane, dict(shuffled))
    clear(plane, list(deleted))
    pods = wait_for(plane, [*valid, *invalid, *unpinned])
    for name, pin in valid.items():
        assert pods[name]["status"]["phase"] == "Succeeded", pods[name]["status"]
        assert cards_of(plane, name).is_exactly(pin["main"]), name
    assert {pods[name]["status"]["phase"] for name in invalid} == {"Failed"}
    assert {pods[name]["status"]["phase"] for name in unpinned} == {"Succeeded"}
    clear(plane, [*valid, *invalid, *unpinned])


def test_pod_with_a_reused_name_gets_its_own_card(plane: ControlPlane, agent: Agent):
    """As with a StatefulSet: a running pod is deleted, created again and bound to another card at once."""
    for number in range(8):
        card = f"SIM-{number % CARDS}"
        name = make_running_pod(plane, name="again")
        place_at_once(plane, {name: {"main": [card]}})
        wait_for(plane, [name], ["Running"])
        assert cards_of(plane, name).is_exactly([card])
        clear(plane, [name])


def make_running_pod(plane: ControlPlane, name: str | None = None) -> str:
    """Create a pod that prints its cards and keeps running."""
    return make(plane, [container(command=f"{SHOW}; exec sleep 1000")], name)


def wait_for_annotation(plane: ControlPlane, name: str, condition: Callable[[Any], bool]) -> Any:
    """Return the node's annotation once it meets the condition."""

    def read(node: Object) -> Any:
        return json.loads(node["metadata"].get("annotations", {}).get(name, "null"))

    [node] = plane.admin.until(
        "/api/v1/nodes", lambda nodes: all(condition(read(node)) for node in nodes),
        fieldSelector=f"metadata.name={RealNode.name}",
    )  # fmt: skip
    return read(node)


def _has_unhealthy_card(cards: list[Object]) -> bool:
    return any(not card["ok"] for card in cards)


def _check_pinning(plane: ControlPlane) -> None:
    pins = {make(plane): {"main": [f"SIM-{number}"]} for number in (6, 2, 2, 4)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Succeeded"])
    for name, pin in pins.items():
        assert cards_of(plane, name).is_exactly(pin["main"]), name
    clear(plane, list(pins))
