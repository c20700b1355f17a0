"""What must hold after every bad day: nothing given away twice, no half gang, nobody stuck."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.kube.api import Api, Object
from tests.kube.pods import PODS

GROUP, SIZE, CARDS = "gpusquad.io/group", "gpusquad.io/group-size", "gpusquad.io/cards"
OVER = ("Succeeded", "Failed")


def check(api: Api) -> None:
    """At any instant."""
    pods = api.get(PODS)["items"]
    live = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"].get("phase") not in OVER]
    _no_card_twice(live)
    _no_node_too_full(live, api.get("/api/v1/nodes")["items"])


def check_quiet(api: Api) -> None:
    """Once nothing is under way any more."""
    check(api)
    bound: defaultdict[tuple[str, int], int] = defaultdict(int)
    for pod in api.get(PODS)["items"]:
        said = pod["metadata"].get("annotations", {})
        if GROUP in said:
            bound[said[GROUP], int(said[SIZE])] += bool(pod["spec"].get("nodeName"))
    partial = {group: count for (group, size), count in bound.items() if 0 < count < size}
    assert not partial, f"half gangs: {partial}"


def wait_until_all_over(api: Api, names: Iterable[str], timeout_s: float = 60.0) -> list[Object]:
    """Nobody is stuck: every one of these has succeeded in the end."""
    wanted = set(names)
    return api.until(
        PODS,
        lambda pods: wanted <= {p["metadata"]["name"] for p in pods if p["status"].get("phase") == "Succeeded"},
        timeout_s,
    )


def _no_card_twice(live: list[Object]) -> None:
    held = Counter(
        card
        for pod in live
        for cards in json.loads(pod["metadata"].get("annotations", {}).get(CARDS, "{}")).values()
        for card in cards
    )
    twice = {card: count for card, count in held.items() if count > 1}
    assert not twice, f"cards given away more than once: {twice}"


def _no_node_too_full(live: list[Object], nodes: list[Object]) -> None:
    asked: Counter[str] = Counter()
    for pod in live:
        for container in pod["spec"]["containers"]:
            gpus = container.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)
            asked[pod["spec"]["nodeName"]] += int(gpus)
    room = {node["metadata"]["name"]: int(node["status"]["allocatable"].get("nvidia.com/gpu", 0)) for node in nodes}
    full = {node: (count, room.get(node)) for node, count in asked.items() if count > room.get(node, count)}
    assert not full, f"nodes with more than they have: {full}"
