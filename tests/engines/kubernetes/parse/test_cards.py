"""Tests of assigning cards to containers, and of the annotation with the assignment."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.parse.cards import assign_cards, cards_by_container
from gpusquad.engines.kubernetes.parse.pins import pin_of, pin_text
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.kube.errors import MalformedField
from gpusquad.kube.names import CARDS
from tests.engines.kubernetes.parse.builders import container, pod, requesting

counts = st.lists(st.integers(0, 3), min_size=1, max_size=4)
inits = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), max_size=4)
names = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
cards = st.lists(st.from_regex(r"GPU-[0-9a-f]{4,12}", fullmatch=True), min_size=1, max_size=8, unique=True)


def test_containers_with_cards_are_in_start_order():
    item = pod("p", container("a", gpus=2), container("b", cpu=1), container("c", gpus=1))
    item["spec"]["initContainers"] = [container("warm-up", gpus=1)]
    assert cards_by_container(item) == [("warm-up", 1), ("a", 2), ("c", 1)]
    assert cards_by_container(pod("p", requesting(limits={"nvidia.com/gpu.shared": "1"}))) == [("main", 1)]


@given(counts, inits)
def test_concurrent_containers_get_different_cards(running: list[int], starting: list[tuple[bool, int]]):
    item = pod("p", *(container(f"c{i}", gpus=count) for i, count in enumerate(running)))
    item["spec"]["initContainers"] = [
        container(f"i{i}", gpus=count) | ({"restartPolicy": "Always"} if stays else {})
        for i, (stays, count) in enumerate(starting)
    ]
    all_cards = [f"GPU-{i}" for i in range(request_of_pod(item).gpus)]
    assigned = assign_cards(item, all_cards)
    assert {name: len(ids) for name, ids in assigned.items()} == dict(cards_by_container(item))
    in_use: set[str] = set()
    for i, (stays, _) in enumerate(starting):
        own = set(assigned.get(f"i{i}", ()))
        assert not own & in_use
        in_use |= own if stays else set()
    for i in range(len(running)):
        own = set(assigned.get(f"c{i}", ()))
        assert not own & in_use
        in_use |= own
    if assigned:
        assert pin_of(pod(annotations={CARDS: pin_text(assigned)})) == assigned


@pytest.mark.parametrize("ids", [[], ["GPU-1"], ["GPU-1", "GPU-2", "GPU-3"]])
def test_wrong_number_of_cards_is_rejected(ids: list[str]):
    with pytest.raises(ValueError, match="cards for a pod"):
        assign_cards(pod("p", container(gpus=2)), ids)


@given(st.dictionaries(names, cards, max_size=5))
def test_pin_is_read_as_written(pin: dict[str, list[str]]):
    text = pin_text(pin)
    assert pin_of(pod(annotations={CARDS: text})) == {name: tuple(ids) for name, ids in pin.items()}
    assert pin_text(dict(reversed(pin.items()))) == text


def test_pod_without_the_annotation_has_no_pin():
    assert pin_of(pod()) is None


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "3", '{"main": "GPU-1"}', "{}{}",
     '{"main": []}', '{"main": [1]}', '{"main": ["a b"]}', '{"A": ["x"]}',
     '{"": ["x"]}', '{"main": ["x", "x"]}', '{"main": ["' + "x" * 200 + '"]}', "[" * 60_000, " " * 70_000,
     json.dumps({f"c{i}": ["x"] for i in range(200)}), json.dumps({"main": [f"x{i}" for i in range(2000)]})],
)  # fmt: skip
def test_invalid_pin_is_malformed(text: str):
    with pytest.raises(MalformedField) as error:
        pin_of(pod(annotations={CARDS: text}))
    assert len(str(error.value)) < 500
