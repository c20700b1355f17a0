"""Tests of the device plugin with a fake kubelet."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pods import Container, Pod
from gpusquad.agent.kubernetes.slots import cards_of
from tests.agent.kubernetes.fake_kubelet import FakeKubelet, Refused, pod

CARDS = [f"SIM-{number}" for number in range(4)]
ONE = [Container("main", 1)]
NOWHERE = Path("/nonexistent")


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    """Pods of one to three containers, pinned or not, some of them init containers."""
    drawn = []
    for pod_number in range(draw(st.integers(1, 12))):
        containers = [
            Container(f"c{number}", draw(st.integers(1, 2)), is_init)
            for number, is_init in enumerate(
                sorted(draw(st.lists(st.booleans(), min_size=1, max_size=3)), reverse=True)
            )
        ]
        pin = {
            container.name: draw(st.lists(st.sampled_from(CARDS), min_size=container.count, max_size=container.count))
            for container in containers
            if not container.is_init
        }
        drawn.append(pod(f"p{pod_number}", containers, pin if pin and draw(st.booleans()) else None))
    return drawn


@given(pods(), st.integers(1, 4), st.integers(0, 99), st.data())
@settings(deadline=None)
def test_pods_get_their_pinned_cards_or_are_refused_and_no_slot_is_used_twice(
    drawn: list[Pod], slots: int, seed: int, data: st.DataObject
):
    kubelet = FakeKubelet(len(CARDS), slots, NOWHERE, seed)
    for next_pod in drawn:
        kubelet.pods.bind(next_pod, is_cached=data.draw(st.booleans()))
    for next_pod in drawn:
        try:
            kubelet.admit(next_pod)
        except Refused:
            assert next_pod.uid not in kubelet.given
            continue
        for container in next_pod.containers:
            given = cards_of(kubelet.given[next_pod.uid][container.name])
            assert given.total() == container.count
            assert kubelet.envs[next_pod.uid, container.name]["NVIDIA_VISIBLE_DEVICES"].split(",") == sorted(given)
            if next_pod.pin is not None and not container.is_init:
                assert sorted(given.elements()) == sorted(next_pod.pin[container.name])
        assert len(set(kubelet.used())) == len(kubelet.used())
        if data.draw(st.booleans()):
            kubelet.end(next_pod)
            ended = pod(next_pod.name, next_pod.containers, next_pod.pin, has_ended=True)
            kubelet.pods.bind(ended, is_cached=data.draw(st.booleans()))


@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=16), st.integers(0, 99))
@settings(deadline=None)
def test_equal_pods_are_distinguished_and_only_a_full_card_is_refused(cards: list[str], seed: int):
    kubelet = FakeKubelet(len(CARDS), 4, NOWHERE, seed)
    waiting = [pod(f"p{number}", ONE, {"main": [card]}) for number, card in enumerate(cards)]
    for next_pod in waiting:
        kubelet.pods.bind(next_pod)
    for number, (next_pod, card) in enumerate(zip(waiting, cards, strict=True)):
        if cards[:number].count(card) < 4:
            kubelet.admit(next_pod)
            assert list(cards_of(kubelet.given[next_pod.uid]["main"])) == [card]
        else:
            with pytest.raises(Refused, match=f"card {card} has no free slot"):
                kubelet.admit(next_pod)


def test_reused_pod_name_is_another_pod(tmp_path: Path):
    """The watch is late and still shows the first pod; the pin of the second is used."""
    kubelet = FakeKubelet(4, 2, tmp_path)
    first, second = (pod("p", ONE, {"main": [card]}, uid=card) for card in ("SIM-1", "SIM-2"))
    kubelet.pods.bind(first)
    kubelet.admit(first)
    kubelet.pods.bind(second, is_cached=False)
    kubelet.admit(second)
    assert list(cards_of(kubelet.given["SIM-2"]["main"])) == ["SIM-2"]


def test_cached_pin_is_used_when_the_api_server_is_down(tmp_path: Path):
    kubelet = FakeKubelet(4, 1, tmp_path)
    cached, uncached = pod("heard", ONE, {"main": ["SIM-3"]}), pod("unheard", ONE, {"main": ["SIM-2"]})
    kubelet.pods.bind(cached)
    kubelet.pods.bind(uncached, is_cached=False)
    kubelet.pods.is_down = True
    kubelet.admit(cached)
    assert list(cards_of(kubelet.given[cached.uid]["main"])) == ["SIM-3"]
    with pytest.raises(Refused, match="away"):
        kubelet.admit(uncached)


def test_unpinned_pod_avoids_cards_pinned_by_other_pods(tmp_path: Path):
    kubelet = FakeKubelet(4, 1, tmp_path)
    for number in (0, 2, 3):  # bound, but not admitted yet
        kubelet.pods.bind(pod(f"later{number}", ONE, {"main": [f"SIM-{number}"]}), is_cached=False)
    unpinned = pod("free", ONE)
    kubelet.pods.bind(unpinned)
    kubelet.admit(unpinned)
    assert list(cards_of(kubelet.given[unpinned.uid]["main"])) == ["SIM-1"]


def test_devices_against_the_pin_are_refused_and_counted(tmp_path: Path):
    """The kubelet passes the devices of the init container on, against the pin of the main container."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    both = [Container("first", 1, is_init=True), Container("main", 1)]
    pinned = pod("p", both, {"first": ["SIM-0"], "main": ["SIM-1"]})
    kubelet.pods.bind(pinned)
    with pytest.raises(Refused, match="'main' is pinned to SIM-1, but the kubelet gives it SIM-0"):
        kubelet.admit(pinned)
    assert kubelet.counts["mismatches"] == 1


def test_slots_of_a_faulty_card_are_listed_as_unhealthy(tmp_path: Path):
    kubelet = FakeKubelet(2, 3, tmp_path)
    kubelet.cards.start()
    (tmp_path / "sim-faults.json").write_text('{"SIM-1": "fell off the bus"}')
    kubelet.cards.look(())
    listed = {device.ID: device.health for device in kubelet.plugin.device_list().devices}
    assert listed == {f"SIM-{card}::{slot}": ("Healthy", "Unhealthy")[card] for card in (0, 1) for slot in range(3)}


def test_ambiguous_pods_are_refused(tmp_path: Path):
    """Kubelets admit one pod at a time; if one does not, no pod gets a wrong card."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    ambiguous = [pod(name, ONE, {"main": [card]}) for name, card in (("a", "SIM-0"), ("b", "SIM-1"))]
    for next_pod in ambiguous:
        kubelet.pods.bind(next_pod)
    kubelet._active[ambiguous[0].uid] = ambiguous[0]
    with pytest.raises(Refused, match=r"several pods wait .* default/a, default/b"):
        kubelet.admit(ambiguous[1])


def test_refused_pod_that_is_still_listed_does_not_block_others(tmp_path: Path):
    """Kubelets before 1.34 list it until the API server has its status."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    invalid, valid = pod("wrong", ONE, {"main": ["unknown"]}), pod("right", ONE, {"main": ["SIM-1"]})
    for next_pod in (invalid, valid):
        kubelet.pods.bind(next_pod)
    with pytest.raises(Refused, match="unknown"):
        kubelet.admit(invalid)
    kubelet._active[invalid.uid] = invalid
    kubelet.admit(valid)
    assert list(cards_of(kubelet.given[valid.uid]["main"])) == ["SIM-1"]


def test_started_pod_without_devices_does_not_block_others(tmp_path: Path):
    """A kubelet that lost its checkpoint always lists it without devices."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    lost = pod("lost", ONE, {"main": ["SIM-0"]}, is_started=True)
    fresh = pod("fresh", ONE, {"main": ["SIM-1"]})
    kubelet.pods.bind(lost)
    kubelet.pods.bind(fresh, is_cached=False)
    kubelet._active[lost.uid] = lost
    kubelet.admit(fresh)
    assert list(cards_of(kubelet.given[fresh.uid]["main"])) == ["SIM-1"]


def test_replaced_pod_does_not_use_the_admission_of_its_successor(tmp_path: Path):
    """The kubelet still admits the first pod when the API server has only the second."""
    kubelet = FakeKubelet(4, 2, tmp_path)
    first, second = (pod("p", ONE, {"main": ["SIM-1"]}, uid=uid) for uid in ("first", "second"))
    kubelet.pods.bind(second)
    kubelet.admit(first)
    kubelet.end(first)
    kubelet.admit(second)
    assert list(cards_of(kubelet.given["second"]["main"])) == ["SIM-1"]
