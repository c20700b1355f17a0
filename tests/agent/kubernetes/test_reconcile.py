from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpusquad.agent.kubernetes.admission import Admission
from gpusquad.agent.kubernetes.card_clients import CardClients
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_cards import NodeCards
from gpusquad.agent.kubernetes.pod_resources import ListedPod, PodResourcesUnavailable
from gpusquad.agent.kubernetes.pods import Container
from gpusquad.agent.kubernetes.reconcile import Reconciler, find_mismatches, unpinned_cards
from gpusquad.agent.simulated import SimulatedInventory
from gpusquad.gpu.api import NoSharing
from gpusquad.kube.errors import ApiRefused
from gpusquad.kube.names import CARDS, UNPINNED
from tests.agent.kubernetes.fake_kubelet import FakePods, pod

ONE = [Container("main", 1)]


class Api:
    """Notes what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[str, str, Any]] = []
        self.refuses: ApiRefused | None = None

    def __getattr__(self, method: str) -> Any:
        def write(path: str, content: Any) -> None:
            if self.refuses is not None:
                raise self.refuses
            self.written.append((method, path, content))

        return write

    def annotations(self) -> list[dict[str, Any]]:
        found = [content["metadata"]["annotations"] for method, _, content in self.written if method == "merge"]
        return [{name: json.loads(text) for name, text in entry.items()} for entry in found]


class Resources:
    def __init__(self, *listed: ListedPod) -> None:
        self.listed: list[ListedPod] | None = list(listed)

    def list(self) -> list[ListedPod]:
        if self.listed is None:
            raise PodResourcesUnavailable("the kubelet is away")
        return self.listed


class World:
    def __init__(self, folder: Path, *listed: ListedPod, quota: NoSharing | None = None) -> None:
        self.api, self.pods, self.resources, self.counts = Api(), FakePods(), Resources(*listed), EventCounters()
        self.folder = folder
        self.cards = NodeCards(SimulatedInventory(2, folder), well_for_s=0.0)
        self.admission = Admission(self.pods, self.resources)
        api: Any = self.api
        self.reconciler = Reconciler(
            api,
            "node",
            self.pods,
            self.resources,
            self.cards,
            self.admission,
            CardClients([quota or NoSharing()]),
            self.counts,
            lambda: 0.0,
        )

    def deletions(self) -> list[tuple[str, Any]]:
        return [(path, content) for method, path, content in self.api.written if method == "delete"]


def has(name: str, *slots: str) -> ListedPod:
    return ListedPod("default", name, {"main": slots} if slots else {})


def test_only_other_cards_than_promised_are_a_mismatch():
    pods = [
        pod("right", ONE, {"main": ["A"]}), pod("wrong", ONE, {"main": ["A"]}), pod("waits", ONE, {"main": ["A"]}),
        pod("free", ONE), pod("over", ONE, {"main": ["A"]}, has_ended=True), pod("extra", ONE, {"side": ["A"]}),
        pod("twice", ONE, {"main": ["A", "A"]}),
    ]  # fmt: skip
    listed = [has("right", "A::3"), has("wrong", "B::0"), has("waits"), has("free", "B::1"), has("over", "B::2"),
              has("extra", "A::0"), has("twice", "A::1", "A::2"), has("stranger", "C::0")]  # fmt: skip
    found = find_mismatches({entry.key: entry for entry in pods}, listed)
    assert [str(mismatch) for mismatch in found] == [
        "container 'main' has B, but is pinned to A",
        "container 'main' has A, but is pinned to no cards",
    ]
    assert unpinned_cards({entry.key: entry for entry in pods}, listed) == {
        "default/free": ["B"], "default/stranger": ["C"],
    }  # fmt: skip


def test_a_mismatch_is_counted_once_told_and_evicted(tmp_path: Path):
    world = World(tmp_path, has("p", "SIM-1::0"))
    world.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    world.reconciler.step()
    world.reconciler.step()
    assert world.deletions() == [("/api/v1/namespaces/default/pods/p", {"preconditions": {"uid": "uid-of-p"}})]
    [event] = [content for method, path, content in world.api.written if path.endswith("/events")]
    assert event["message"] == "evicted: container 'main' has SIM-1, but is pinned to SIM-0"
    assert event["involvedObject"]["uid"] == "uid-of-p"
    assert (world.counts["mismatches"], world.counts["evictions"]) == (1, 1)


def test_a_pod_of_the_same_name_is_not_evicted_for_the_one_before(tmp_path: Path):
    world = World(tmp_path, has("p", "SIM-1::0"))
    world.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}, uid="first"))
    world.pods.bind(pod("p", ONE, {"main": ["SIM-1"]}, uid="second"), is_heard=False)
    world.reconciler.step()
    assert world.deletions() == []
    assert world.counts["mismatches"] == 0


def test_an_eviction_that_is_refused_is_tried_again(tmp_path: Path):
    world = World(tmp_path, has("p", "SIM-1::0"))
    world.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    world.api.refuses = ApiRefused(500, message="not now")
    world.reconciler.step()
    world.api.refuses = None
    world.reconciler.step()
    assert len(world.deletions()) == 1


def test_the_node_is_written_to_only_when_something_changed(tmp_path: Path):
    world = World(tmp_path, has("free", "SIM-1::0"))
    world.pods.bind(pod("free", ONE))
    world.cards.start()
    world.reconciler.step()
    world.reconciler.step()
    [first] = world.api.annotations()
    assert first[UNPINNED] == {"default/free": ["SIM-1"]}
    assert [(card["id"], card["ok"]) for card in first[CARDS]] == [("SIM-0", True), ("SIM-1", True)]
    assert set(first[CARDS][0]) == {"id", "model", "memory_bytes", "sms", "domain", "ok"}
    (tmp_path / "sim-faults.json").write_text('{"SIM-0": "too hot"}')
    world.cards.look(())
    world.resources.listed = []
    world.reconciler.step()
    second = world.api.annotations()[1]
    assert second[UNPINNED] == {}
    assert [card["ok"] for card in second[CARDS]] == [False, True]


def test_what_was_not_published_is_published_later(tmp_path: Path):
    world = World(tmp_path)
    world.api.refuses = ApiRefused(403, message="no")
    world.reconciler.step()
    world.api.refuses = None
    world.reconciler.step()
    assert len(world.api.annotations()) == 1


def test_without_the_kubelet_cards_are_told_and_nobody_is_evicted(tmp_path: Path):
    world = World(tmp_path)
    world.resources.listed = None
    world.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    world.reconciler.step()
    assert [list(entry) for entry in world.api.annotations()] == [[CARDS]]
    assert world.deletions() == []


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_went_by_itself_is_no_trouble(tmp_path: Path, status: int):
    world = World(tmp_path, has("p", "SIM-1::0"))
    world.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))

    def gone(path: str, content: Any) -> None:
        raise ApiRefused(status, message="gone")

    world.api.__dict__["delete"] = gone
    world.reconciler.step()
    world.reconciler.step()
    assert world.counts["mismatches"] == 1
    assert world.counts["evictions"] == 0


class Owners(NoSharing):
    """Notes who is kept."""

    def __init__(self) -> None:
        self.kept: list[set[str]] = []

    def release_all_but(self, owners: set[str]) -> None:
        self.kept.append(owners)


def test_before_all_pods_were_heard_of_nobody_is_forgotten(tmp_path: Path):
    """One of them may be known by then, because the kubelet asked for its cards."""
    quota = Owners()
    world = World(tmp_path, quota=quota)
    world.pods.has_heard = False
    world.pods.bind(pod("asked", ONE, {"main": ["SIM-0"]}))
    world.reconciler.step()
    assert quota.kept == []
    world.pods.has_heard = True
    world.reconciler.step()
    world.pods.heard.clear()
    world.reconciler.step()
    assert quota.kept == [{"uid-of-asked"}, set()]
