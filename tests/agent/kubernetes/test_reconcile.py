"""Tests of comparing allocated with pinned cards, evictions and node annotations."""

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


class FakeApi:
    """Records what is written."""

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


class FakePodResources:
    def __init__(self, *listed: ListedPod) -> None:
        self.listed: list[ListedPod] | None = list(listed)

    def list(self) -> list[ListedPod]:
        if self.listed is None:
            raise PodResourcesUnavailable("the kubelet is away")
        return self.listed


class ReconcilerSetup:
    def __init__(self, folder: Path, *listed: ListedPod, quota: NoSharing | None = None) -> None:
        self.api, self.pods, self.resources, self.counts = (
            FakeApi(),
            FakePods(),
            FakePodResources(*listed),
            EventCounters(),
        )
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


def listed_pod(name: str, *slots: str) -> ListedPod:
    return ListedPod("default", name, {"main": slots} if slots else {})


def test_mismatch_is_a_card_other_than_the_pinned_ones():
    pods = [
        pod("right", ONE, {"main": ["A"]}), pod("wrong", ONE, {"main": ["A"]}), pod("waits", ONE, {"main": ["A"]}),
        pod("free", ONE), pod("over", ONE, {"main": ["A"]}, has_ended=True), pod("extra", ONE, {"side": ["A"]}),
        pod("twice", ONE, {"main": ["A", "A"]}),
    ]  # fmt: skip
    listed = [
        listed_pod("right", "A::3"), listed_pod("wrong", "B::0"), listed_pod("waits"), listed_pod("free", "B::1"),
        listed_pod("over", "B::2"), listed_pod("extra", "A::0"), listed_pod("twice", "A::1", "A::2"),
        listed_pod("stranger", "C::0"),
    ]  # fmt: skip
    found = find_mismatches({entry.key: entry for entry in pods}, listed)
    assert [str(mismatch) for mismatch in found] == [
        "container 'main' has B, but is pinned to A",
        "container 'main' has A, but is pinned to no cards",
    ]
    assert unpinned_cards({entry.key: entry for entry in pods}, listed) == {
        "default/free": ["B"], "default/stranger": ["C"],
    }  # fmt: skip


def test_mismatched_pod_is_counted_once_reported_and_evicted(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path, listed_pod("p", "SIM-1::0"))
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    setup.reconciler.step()
    setup.reconciler.step()
    assert setup.deletions() == [("/api/v1/namespaces/default/pods/p", {"preconditions": {"uid": "uid-of-p"}})]
    [event] = [content for method, path, content in setup.api.written if path.endswith("/events")]
    assert event["message"] == "evicted: container 'main' has SIM-1, but is pinned to SIM-0"
    assert event["involvedObject"]["uid"] == "uid-of-p"
    assert (setup.counts["mismatches"], setup.counts["evictions"]) == (1, 1)


def test_new_pod_of_the_same_name_is_not_evicted(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path, listed_pod("p", "SIM-1::0"))
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}, uid="first"))
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-1"]}, uid="second"), is_cached=False)
    setup.reconciler.step()
    assert setup.deletions() == []
    assert setup.counts["mismatches"] == 0


def test_refused_eviction_is_retried(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path, listed_pod("p", "SIM-1::0"))
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    setup.api.refuses = ApiRefused(500, message="not now")
    setup.reconciler.step()
    setup.api.refuses = None
    setup.reconciler.step()
    assert len(setup.deletions()) == 1


def test_node_annotations_are_written_only_when_they_changed(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path, listed_pod("free", "SIM-1::0"))
    setup.pods.bind(pod("free", ONE))
    setup.cards.start()
    setup.reconciler.step()
    setup.reconciler.step()
    [first] = setup.api.annotations()
    assert first[UNPINNED] == {"default/free": ["SIM-1"]}
    assert [(card["id"], card["ok"]) for card in first[CARDS]] == [("SIM-0", True), ("SIM-1", True)]
    assert set(first[CARDS][0]) == {"id", "model", "memory_bytes", "sms", "domain", "ok", "annotations"}
    (tmp_path / "sim-faults.json").write_text('{"SIM-0": "too hot"}')
    setup.cards.look(())
    setup.resources.listed = []
    setup.reconciler.step()
    second = setup.api.annotations()[1]
    assert second[UNPINNED] == {}
    assert [card["ok"] for card in second[CARDS]] == [False, True]


def test_refused_node_annotations_are_written_later(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path)
    setup.api.refuses = ApiRefused(403, message="no")
    setup.reconciler.step()
    setup.api.refuses = None
    setup.reconciler.step()
    assert len(setup.api.annotations()) == 1


def test_only_cards_are_published_when_the_kubelet_is_down(tmp_path: Path):
    setup = ReconcilerSetup(tmp_path)
    setup.resources.listed = None
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))
    setup.reconciler.step()
    assert [list(entry) for entry in setup.api.annotations()] == [[CARDS]]
    assert setup.deletions() == []


@pytest.mark.parametrize("status", [404, 409])
def test_eviction_of_a_deleted_pod_is_not_counted(tmp_path: Path, status: int):
    setup = ReconcilerSetup(tmp_path, listed_pod("p", "SIM-1::0"))
    setup.pods.bind(pod("p", ONE, {"main": ["SIM-0"]}))

    def gone(path: str, content: Any) -> None:
        raise ApiRefused(status, message="gone")

    setup.api.__dict__["delete"] = gone
    setup.reconciler.step()
    setup.reconciler.step()
    assert setup.counts["mismatches"] == 1
    assert setup.counts["evictions"] == 0


class RecordingQuota(NoSharing):
    """Records the owners that are kept."""

    def __init__(self) -> None:
        self.kept: list[set[str]] = []

    def release_all_but(self, owners: set[str]) -> None:
        self.kept.append(owners)


def test_no_client_is_released_before_all_pods_are_listed(tmp_path: Path):
    """A pod may be cached before the first list, because the kubelet asked for its cards."""
    quota = RecordingQuota()
    setup = ReconcilerSetup(tmp_path, quota=quota)
    setup.pods.has_listed = False
    setup.pods.bind(pod("asked", ONE, {"main": ["SIM-0"]}))
    setup.reconciler.step()
    assert quota.kept == []
    setup.pods.has_listed = True
    setup.reconciler.step()
    setup.pods.cached.clear()
    setup.reconciler.step()
    assert quota.kept == [{"uid-of-asked"}, set()]
