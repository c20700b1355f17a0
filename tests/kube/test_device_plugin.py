"""The node's agent with a real kubelet: every container has exactly the cards that its pod is pinned to."""

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
    clear,
    container,
    got,
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


def test_twenty_equal_pods_at_once_each_get_their_own_card(plane: ControlPlane, agent: Agent):
    cards = [f"SIM-{(7 * number) % CARDS}" for number in range(20)]
    pins = {make(plane): {"main": [card]} for card in cards}
    place_at_once(plane, pins)
    pods = wait_for(plane, list(pins))
    assert {name: pod["status"]["phase"] for name, pod in pods.items()} == dict.fromkeys(pins, "Succeeded")
    for name, pin in pins.items():
        assert got(plane, name).is_exactly(pin["main"]), name
    assert agent.lines("refused") == []
    clear(plane, list(pins))


def test_a_pod_without_a_promise_gets_a_card_that_nobody_was_promised(plane: ControlPlane, agent: Agent):
    pins = {hold(plane): {"main": [f"SIM-{number}"]} for number in (0, 1, 2, 5, 6, 7)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Running"])
    free = [hold(plane), hold(plane)]
    place_at_once(plane, dict.fromkeys(free))
    wait_for(plane, free, ["Running"])
    cards = {name: got(plane, name).cards for name in free}
    assert sorted(cards.values()) == [("SIM-3",), ("SIM-4",)]
    told = {f"default/{name}": list(card) for name, card in cards.items()}
    assert wait_for_annotation(plane, UNPINNED, lambda found: found == told) == told
    clear(plane, [*pins, *free])
    wait_for_annotation(plane, UNPINNED, lambda found: found == {})


def test_every_container_of_a_pod_gets_its_own(plane: ControlPlane, agent: Agent):
    """What one that only initialises had goes to the next that stays, as the kubelet has it: first to the helper, then
    to the left one."""
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
        assert got(plane, name, holder).is_exactly(cards), holder
    [card] = got(plane, name, "fourth").cards
    assert card in pin["left"]
    clear(plane, [name])


def test_the_limits_are_in_a_file_that_cannot_be_changed(plane: ControlPlane, agent: Agent):
    asks = container(command="cat /run/gpusquad/quota.json; echo {} > /run/gpusquad/quota.json || echo read-only")
    asks["resources"]["limits"] |= {"gpusquad.io/gpu-memory": "8Gi", "gpusquad.io/gpu-sm-percent": "25"}
    name = make(plane, [asks])
    place_at_once(plane, {name: {"main": ["SIM-5"]}})
    uid = wait_for(plane, [name])[name]["metadata"]["uid"]
    said = plane.admin.text(f"{PODS}/{name}/log").splitlines()
    limits = next(line for line in said if line.startswith("{"))  # what the shell complains of may come before it
    assert json.loads(limits) == {
        "job": "", "owner": uid, "part": "main",
        "cards": [{"card": "SIM-5", "memory_bytes": 8 * 2**30, "sm_milli": 250}],
    }  # fmt: skip
    assert "read-only" in said
    clear(plane, [name])


@pytest.mark.parametrize(
    ("pin", "told"),
    [
        ({"main": ["GPU-unknown"]}, "this node has no card 'GPU-unknown'"),
        ({"main": ["SIM-0", "SIM-1"]}, "requests 1 cards, but the annotation gpusquad.io/cards names 2"),
        ({"other": ["SIM-0"]}, "names no cards for container 'main'"),
    ],
)
def test_a_promise_that_cannot_be_kept_is_refused(
    plane: ControlPlane, agent: Agent, pin: dict[str, list[str]], told: str
):
    name = make(plane)
    place_at_once(plane, {name: pin})
    status = wait_for(plane, [name])[name]["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    assert told in status["message"]
    clear(plane, [name])


def test_a_full_card_is_refused_to_one_more(plane: ControlPlane, agent: Agent):
    pins = {hold(plane): {"main": ["SIM-2"]} for _ in range(SLOTS)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Running"])
    late = make(plane)
    place_at_once(plane, {late: {"main": ["SIM-2"]}})
    status = wait_for(plane, [late])[late]["status"]
    assert "card SIM-2 has no free slot" in status["message"]
    clear(plane, [*pins, late])


def test_a_card_that_fails_is_taken_out_and_comes_back(plane: ControlPlane, agent: Agent):
    held = hold(plane)
    place_at_once(plane, {held: {"main": ["SIM-3"]}})
    wait_for(plane, [held], ["Running"])
    agent.fail({"SIM-3": "it fell off the bus"})
    wait_for_devices(plane, (CARDS - 1) * SLOTS, agent)
    bad = [card["id"] for card in wait_for_annotation(plane, CARDS_ON_NODE, _has_a_bad_one) if not card["ok"]]
    assert bad == ["SIM-3"]
    late = make(plane)
    place_at_once(plane, {late: {"main": ["SIM-3"]}})
    assert "is unhealthy" in wait_for(plane, [late])[late]["status"]["message"]
    assert plane.admin.get(f"{PODS}/{held}")["status"]["phase"] == "Running"
    agent.fail({})
    wait_for_devices(plane, CARDS * SLOTS, agent)
    wait_for_annotation(plane, CARDS_ON_NODE, lambda cards: not _has_a_bad_one(cards))
    again = make(plane)
    place_at_once(plane, {again: {"main": ["SIM-3"]}})
    wait_for(plane, [again], ["Succeeded"])
    assert got(plane, again).is_exactly(["SIM-3"])
    clear(plane, [held, late, again])


def test_a_pod_that_has_other_cards_than_promised_is_evicted(plane: ControlPlane, agent: Agent):
    """Here the promise is changed behind our back; the kubelet itself never gave a wrong card."""
    name = hold(plane)
    place_at_once(plane, {name: {"main": ["SIM-1"]}})
    wait_for(plane, [name], ["Running"])
    plane.admin.patch(f"{PODS}/{name}", {"metadata": {"annotations": {CARDS_ON_NODE: json.dumps({"main": ["SIM-4"]})}}})
    plane.admin.until(PODS, lambda pods: not pods, fieldSelector=f"metadata.name={name}")
    [event] = plane.admin.until(  # told after it was done
        "/api/v1/namespaces/default/events", bool, fieldSelector=f"involvedObject.name={name},reason=WrongCards"
    )
    told = event["message"]
    assert told == "evicted: container 'main' has SIM-1, but is pinned to SIM-4"


def test_a_killed_agent_comes_back_and_nothing_was_lost(plane: ControlPlane, agent: Agent):
    held = hold(plane)
    place_at_once(plane, {held: {"main": ["SIM-7"]}})
    before = wait_for(plane, [held], ["Running"])[held]["status"]["containerStatuses"]
    agent.daemon.stop()
    wait_for_devices(plane, 0, agent)
    agent.start()
    wait_for_devices(plane, CARDS * SLOTS, agent)
    _the_pinning_works_on(plane)
    assert plane.admin.get(f"{PODS}/{held}")["status"]["containerStatuses"] == before
    clear(plane, [held])


def test_a_kubelet_that_restarts_is_told_again_and_pods_run_on(plane: ControlPlane, agent: Agent):
    held, free = hold(plane), hold(plane)
    place_at_once(plane, {held: {"main": ["SIM-7"]}, free: None})
    pods = wait_for(plane, [held, free], ["Running"])
    before = {name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in pods.items()}
    registered = len(agent.lines("registered"))
    plane.daemons["kubelet"].stop()
    plane.daemons["kubelet"].start()
    agent.daemon.wait_for("registered again", lambda: len(agent.lines("registered")) > registered, 60.0)
    wait_for_devices(plane, CARDS * SLOTS, agent)
    _the_pinning_works_on(plane)
    after = wait_for(plane, [held, free], ["Running"])
    assert {name: pod["status"]["containerStatuses"][0]["containerID"] for name, pod in after.items()} == before
    clear(plane, [held, free])


def test_a_crowd_of_all_kinds_at_once(plane: ControlPlane, agent: Agent):
    """Wrong promises, none, and pods that go at once do not lead to a wrong card for the others."""
    right = {make(plane): {"main": [f"SIM-{number % CARDS}"]} for number in range(16)}
    wrong = {make(plane): {"main": ["GPU-unknown"]} for _ in range(6)}
    going = {make(plane): {"main": ["SIM-0"]} for _ in range(6)}
    free = {make(plane): None for _ in range(4)}
    all_of_them = list({**right, **wrong, **going, **free}.items())
    random.Random(0).shuffle(all_of_them)
    place_at_once(plane, dict(all_of_them))
    clear(plane, list(going))
    pods = wait_for(plane, [*right, *wrong, *free])
    for name, pin in right.items():
        assert pods[name]["status"]["phase"] == "Succeeded", pods[name]["status"]
        assert got(plane, name).is_exactly(pin["main"]), name
    assert {pods[name]["status"]["phase"] for name in wrong} == {"Failed"}
    assert {pods[name]["status"]["phase"] for name in free} == {"Succeeded"}
    clear(plane, [*right, *wrong, *free])


def test_a_name_that_comes_again_at_once_is_another_pod(plane: ControlPlane, agent: Agent):
    """As pods of a StatefulSet do: deleted while it runs, made anew and bound to another card before anybody looks."""
    for number in range(8):
        card = f"SIM-{number % CARDS}"
        name = hold(plane, name="again")
        place_at_once(plane, {name: {"main": [card]}})
        wait_for(plane, [name], ["Running"])
        assert got(plane, name).is_exactly([card])
        clear(plane, [name])


def hold(plane: ControlPlane, name: str | None = None) -> str:
    """A pod that says what it got and stays."""
    return make(plane, [container(command=f"{SHOW}; exec sleep 1000")], name)


def wait_for_annotation(plane: ControlPlane, name: str, is_so: Callable[[Any], bool]) -> Any:
    """What the node says under this name, once it is as wanted."""

    def read(node: Object) -> Any:
        return json.loads(node["metadata"].get("annotations", {}).get(name, "null"))

    [node] = plane.admin.until(
        "/api/v1/nodes", lambda nodes: all(is_so(read(node)) for node in nodes),
        fieldSelector=f"metadata.name={RealNode.name}",
    )  # fmt: skip
    return read(node)


def _has_a_bad_one(cards: list[Object]) -> bool:
    return any(not card["ok"] for card in cards)


def _the_pinning_works_on(plane: ControlPlane) -> None:
    pins = {make(plane): {"main": [f"SIM-{number}"]} for number in (6, 2, 2, 4)}
    place_at_once(plane, pins)
    wait_for(plane, list(pins), ["Succeeded"])
    for name, pin in pins.items():
        assert got(plane, name).is_exactly(pin["main"]), name
    clear(plane, list(pins))
