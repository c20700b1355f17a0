"""Tests of the cluster observed from its nodes."""

from __future__ import annotations

import json

from gpusquad.engines.kubernetes.nodes.observer import ClusterObserver
from gpusquad.kube.objects import Object


def node(name: str, *cards: str) -> Object:
    listed = [{"id": card, "model": "A", "memory_bytes": 1 << 30, "sms": 1, "domain": 0, "ok": True} for card in cards]
    return {"metadata": {"name": name, "uid": name, "annotations": {"gpusquad.io/cards": json.dumps(listed)}},
            "spec": {}, "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10",
                                                   "nvidia.com/gpu": str(8 * len(cards))}}}  # fmt: skip


def test_card_listed_by_two_nodes_counts_for_the_first():
    observer = ClusterObserver(lambda uid: False, lambda name: frozenset())
    observer.node_seen(node("n1", "SIM-0", "SIM-1"))
    observer.node_seen(node("n2", "SIM-1", "OWN"))
    change = observer.news()
    assert change is not None
    assert change.cluster is not None
    assert [[card.id for card in each.cards] for each in change.cluster.nodes] == [["SIM-0", "SIM-1"], ["OWN"]]
