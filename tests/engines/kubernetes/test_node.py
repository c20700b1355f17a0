"""Tests of the cards that pods of other schedulers use on a node."""

from __future__ import annotations

import json
from typing import Any

from gpusquad.engines.kubernetes.nodes.node import broken_cards, foreign_on
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


def test_broken_cards_have_the_cause_that_their_agent_gives():
    cards = [
        {"id": "A", "ok": True},
        {"id": "B", "ok": False},
        {"id": "C", "ok": False, "fault": "Xid 32\x1b[31m" + "x" * 1000, "fault_class": "doubtful"},
        {"id": "D", "ok": False, "fault": "lost", "fault_class": "program"},
    ]
    broken = broken_cards({"metadata": {"name": "n", "annotations": {CARDS: json.dumps(cards)}}})
    assert broken["B"] == ("its node's agent reports a fault", "card")
    assert broken["C"] == ("Xid 32 [31m" + "x" * 189, "doubtful")
    assert broken["D"] == ("lost", "card")
    assert "A" not in broken


def test_pod_without_a_pin_uses_the_last_free_cards():
    assert cards_of(pod(2), ours=frozenset({"GPU-3"})) == ("GPU-1", "GPU-2")


def test_pinned_pod_uses_its_pinned_cards():
    assert cards_of(pod(1, {"main": ["GPU-0"]})) == ("GPU-0",)


def test_pin_counts_no_more_cards_than_the_pod_requests():
    assert cards_of(pod(1, {"main": ["GPU-0", "GPU-1", "GPU-2"]})) == ("GPU-0",)
    assert cards_of(pod(0, {"main": ["GPU-0"]})) == ()


def test_unreadable_pin_is_ignored():
    assert cards_of(pod(1, "{")) == ("GPU-3",)
