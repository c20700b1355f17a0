"""What pods of others hold on a node."""

from __future__ import annotations

import json
from typing import Any

from gpusquad.engines.kubernetes.nodes.node import foreign_on
from gpusquad.kube.names import CARDS, GPU
from gpusquad.model.cluster import Card, Node

NODE = Node("n", tuple(Card(f"GPU-{number}") for number in range(4)), 8000, 2**30)
ITEM: dict[str, Any] = {"metadata": {"name": "n"}}


def pod(gpus: int, pin: Any = None) -> dict[str, Any]:
    annotations = {} if pin is None else {CARDS: pin if isinstance(pin, str) else json.dumps(pin)}
    container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
    return {"metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": annotations},
            "spec": {"containers": [container]}}  # fmt: skip


def cards_of(*pods: dict[str, Any], item: dict[str, Any] = ITEM, ours: frozenset[str] = frozenset()) -> tuple[str, ...]:
    return foreign_on(NODE, item, pods, ours).cards


def test_whose_cards_nobody_knows_has_the_last_ones():
    assert cards_of(pod(2), ours=frozenset({"GPU-3"})) == ("GPU-1", "GPU-2")


def test_a_pod_that_was_pinned_has_what_it_was_pinned_to():
    assert cards_of(pod(1, {"main": ["GPU-0"]})) == ("GPU-0",)


def test_nobody_claims_more_cards_than_it_asks_for():
    assert cards_of(pod(1, {"main": ["GPU-0", "GPU-1", "GPU-2"]})) == ("GPU-0",)
    assert cards_of(pod(0, {"main": ["GPU-0"]})) == ()


def test_a_pin_that_cannot_be_read_is_none():
    assert cards_of(pod(1, "{")) == ("GPU-3",)
