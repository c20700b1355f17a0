"""The plugin under a kubelet that does what the real one does."""

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
    """Pinned or not, of one to three containers, some that only initialise."""
    made = []
    for number in range(draw(st.integers(1, 12))):
        containers = [
            Container(f"c{place}", draw(st.integers(1, 2)), is_init)
            for place, is_init in enumerate(sorted(draw(st.lists(st.booleans(), min_size=1, max_size=3)), reverse=True))
        ]
        pin = {
            container.name: draw(st.lists(st.sampled_from(CARDS), min_size=container.count, max_size=container.count))
            for container in containers
            if not container.is_init
        }
        made.append(pod(f"p{number}", containers, pin if pin and draw(st.booleans()) else None))
    return made


@given(pods(), st.integers(1, 4), st.integers(0, 99), st.data())
@settings(deadline=None)
def test_promised_cards_or_nothing_and_no_slot_twice(made: list[Pod], slots: int, seed: int, data: st.DataObject):
    kubelet = FakeKubelet(len(CARDS), slots, NOWHERE, seed)
    for each in made:
        kubelet.pods.bind(each, is_heard=data.draw(st.booleans()))
    for each in made:
        try:
            kubelet.admit(each)
        except Refused:
            assert each.uid not in kubelet.given
            continue
        for container in each.containers:
            has = cards_of(kubelet.given[each.uid][container.name])
            assert has.total() == container.count
            assert kubelet.envs[each.uid, container.name]["NVIDIA_VISIBLE_DEVICES"].split(",") == sorted(has)
            if each.pin is not None and not container.is_init:
                assert sorted(has.elements()) == sorted(each.pin[container.name])
        assert len(set(kubelet.used())) == len(kubelet.used())
        if data.draw(st.booleans()):
            kubelet.end(each)
            ended = pod(each.name, each.containers, each.pin, has_ended=True)
            kubelet.pods.bind(ended, is_heard=data.draw(st.booleans()))


@given(st.lists(st.sampled_from(CARDS), min_size=1, max_size=16), st.integers(0, 99))
@settings(deadline=None)
def test_equal_pods_are_told_apart_and_only_a_full_card_refuses(cards: list[str], seed: int):
    kubelet = FakeKubelet(len(CARDS), 4, NOWHERE, seed)
    waiting = [pod(f"p{number}", ONE, {"main": [card]}) for number, card in enumerate(cards)]
    for each in waiting:
        kubelet.pods.bind(each)
    for number, (each, card) in enumerate(zip(waiting, cards, strict=True)):
        if cards[:number].count(card) < 4:
            kubelet.admit(each)
            assert list(cards_of(kubelet.given[each.uid]["main"])) == [card]
        else:
            with pytest.raises(Refused, match=f"card {card} has no free slot"):
                kubelet.admit(each)


def test_a_name_that_comes_again_is_another_pod(tmp_path: Path):
    """The watch is late: it still tells of the first. The pin of the second counts."""
    kubelet = FakeKubelet(4, 2, tmp_path)
    first, second = (pod("p", ONE, {"main": [card]}, uid=card) for card in ("SIM-1", "SIM-2"))
    kubelet.pods.bind(first)
    kubelet.admit(first)
    kubelet.pods.bind(second, is_heard=False)
    kubelet.admit(second)
    assert list(cards_of(kubelet.given["SIM-2"]["main"])) == ["SIM-2"]


def test_with_the_api_server_away_the_last_word_counts(tmp_path: Path):
    kubelet = FakeKubelet(4, 1, tmp_path)
    heard, unheard = pod("heard", ONE, {"main": ["SIM-3"]}), pod("unheard", ONE, {"main": ["SIM-2"]})
    kubelet.pods.bind(heard)
    kubelet.pods.bind(unheard, is_heard=False)
    kubelet.pods.is_away = True
    kubelet.admit(heard)
    assert list(cards_of(kubelet.given[heard.uid]["main"])) == ["SIM-3"]
    with pytest.raises(Refused, match="away"):
        kubelet.admit(unheard)


def test_what_another_pod_was_promised_is_left_alone(tmp_path: Path):
    kubelet = FakeKubelet(4, 1, tmp_path)
    for number in (0, 2, 3):  # bound, but their turn comes later
        kubelet.pods.bind(pod(f"later{number}", ONE, {"main": [f"SIM-{number}"]}), is_heard=False)
    free = pod("free", ONE)
    kubelet.pods.bind(free)
    kubelet.admit(free)
    assert list(cards_of(kubelet.given[free.uid]["main"])) == ["SIM-1"]


def test_a_kubelet_that_does_not_follow_is_refused_and_counted(tmp_path: Path):
    """Devices of the one that initialises are passed on, and the pin says otherwise."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    both = [Container("first", 1, is_init=True), Container("main", 1)]
    wrong = pod("p", both, {"first": ["SIM-0"], "main": ["SIM-1"]})
    kubelet.pods.bind(wrong)
    with pytest.raises(Refused, match="'main' is pinned to SIM-1, but the kubelet gives it SIM-0"):
        kubelet.admit(wrong)
    assert kubelet.counts["mismatches"] == 1


def test_all_slots_are_listed_and_those_of_a_bad_card_are_unhealthy(tmp_path: Path):
    kubelet = FakeKubelet(2, 3, tmp_path)
    kubelet.cards.start()
    (tmp_path / "sim-faults.json").write_text('{"SIM-1": "fell off the bus"}')
    kubelet.cards.look(())
    listed = {device.ID: device.health for device in kubelet.plugin.device_list().devices}
    assert listed == {f"SIM-{card}::{slot}": ("Healthy", "Unhealthy")[card] for card in (0, 1) for slot in range(3)}


def test_two_that_cannot_be_told_apart_are_refused(tmp_path: Path):
    """It does not happen while a kubelet admits one after another; if one ever does not, nobody gets a wrong card."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    two = [pod(name, ONE, {"main": [card]}) for name, card in (("a", "SIM-0"), ("b", "SIM-1"))]
    for each in two:
        kubelet.pods.bind(each)
    kubelet._active[two[0].uid] = two[0]
    with pytest.raises(Refused, match=r"several pods wait .* default/a, default/b"):
        kubelet.admit(two[1])


def test_a_refused_pod_that_is_still_listed_does_not_stand_in_the_way(tmp_path: Path):
    """Kubelets before 1.34 list it until the API server knows."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    wrong, right = pod("wrong", ONE, {"main": ["unknown"]}), pod("right", ONE, {"main": ["SIM-1"]})
    for each in (wrong, right):
        kubelet.pods.bind(each)
    with pytest.raises(Refused, match="unknown"):
        kubelet.admit(wrong)
    kubelet._active[wrong.uid] = wrong
    kubelet.admit(right)
    assert list(cards_of(kubelet.given[right.uid]["main"])) == ["SIM-1"]


def test_a_pod_that_runs_without_devices_does_not_stand_in_the_way(tmp_path: Path):
    """A kubelet that lost its notes lists it so for ever."""
    kubelet = FakeKubelet(4, 1, tmp_path)
    lost = pod("lost", ONE, {"main": ["SIM-0"]}, is_started=True)
    fresh = pod("fresh", ONE, {"main": ["SIM-1"]})
    kubelet.pods.bind(lost)
    kubelet.pods.bind(fresh, is_heard=False)
    kubelet._active[lost.uid] = lost
    kubelet.admit(fresh)
    assert list(cards_of(kubelet.given[fresh.uid]["main"])) == ["SIM-1"]


def test_a_pod_dropped_for_one_of_the_same_name_does_not_use_up_its_turn(tmp_path: Path):
    """The kubelet still admits the first when the API server knows only the second."""
    kubelet = FakeKubelet(4, 2, tmp_path)
    first, second = (pod("p", ONE, {"main": ["SIM-1"]}, uid=uid) for uid in ("first", "second"))
    kubelet.pods.bind(second)
    kubelet.admit(first)
    kubelet.end(first)
    kubelet.admit(second)
    assert list(cards_of(kubelet.given["second"]["main"])) == ["SIM-1"]
