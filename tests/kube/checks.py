"""Invariants of a cluster: no card assigned twice, no partly bound gang, every pod ends."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.kube.api import Api, Object
from tests.kube.pods import PODS

GROUP, SIZE, CARDS = "gpusquad.io/group", "gpusquad.io/group-size", "gpusquad.io/cards"
ENDED = ("Succeeded", "Failed")


def check(api: Api) -> None:
    """Check the invariants that hold at any time."""
    pods = api.get(PODS)["items"]
    live = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in ENDED]
    _check_cards_assigned_once(live)
    _check_nodes_not_overcommitted(live, api.get("/api/v1/nodes")["items"])


def check_settled(api: Api) -> None:
    """Check the invariants that also hold when no binding is in progress."""
    check(api)
    bound: defaultdict[tuple[str, int], int] = defaultdict(int)
    for pod in api.get(PODS)["items"]:
        annotations = pod["metadata"].get("annotations", {})
        if GROUP in annotations:
            bound[annotations[GROUP], int(annotations[SIZE])] += bool(pod["spec"].get("nodeName"))
    partial = {group: count for (group, size), count in bound.items() if 0 < count < size}
    assert not partial, f"partly bound gangs: {partial}"


def wait_until_all_succeeded(api: Api, names: Iterable[str], timeout_s: float = 60.0) -> list[Object]:
    """Wait until every named pod has succeeded."""
    wanted = set(names)
    return api.until(
        PODS,
        lambda pods: wanted <= {p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Succeeded"},
        timeout_s,
    )


def _check_cards_assigned_once(live: list[Object]) -> None:
    uses = Counter(
        card
        for pod in live
        for cards in json.loads(pod["metadata"].get("annotations", {}).get(CARDS, "{}")).values()
        for card in cards
    )
    twice = {card: count for card, count in uses.items() if count > 1}
    assert not twice, f"cards assigned more than once: {twice}"


def _check_nodes_not_overcommitted(live: list[Object], nodes: list[Object]) -> None:
    requested: Counter[str] = Counter()
    for pod in live:
        for container in pod["spec"]["containers"]:
            gpus = container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)
            requested[pod["spec"]["nodeName"]] += int(gpus)
    allocatable = {
        node["metadata"]["name"]: int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes
    }
    overcommitted = {
        node: (count, allocatable.get(node))
        for node, count in requested.items()
        if count > allocatable.get(node, count)
    }
    assert not overcommitted, f"nodes with more GPUs requested than allocatable: {overcommitted}"
