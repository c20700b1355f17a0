"""Tests of the amounts of a pod: the maximum of its containers at any time."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.parse.container_requests import container_requests, pod_amounts
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import UNIT_NANOS
from tests.engines.kubernetes.parse.builders import container, pod, requesting

NAMES = ("cpu", "memory", "nvidia.com/gpu", "rdma/hca")
amounts = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=4)
inits = st.lists(st.tuples(st.booleans(), amounts), max_size=5)


def amounts_of(item: Object) -> dict[str, int]:
    return pod_amounts(item, container_requests(item))


def whole_amounts(item: Object) -> dict[str, int]:
    return {name: amount // UNIT_NANOS for name, amount in amounts_of(item).items() if amount}


def maximum(running: Sequence[dict[str, int]], starting: Sequence[tuple[bool, dict[str, int]]]) -> dict[str, int]:
    """Maximum over the pod's life: init containers in order, with sidecars that stay, then all main containers."""
    totals: list[dict[str, int]] = []
    sidecars: list[dict[str, int]] = []
    for stays, requests in starting:
        totals.append(total([*sidecars, requests]))
        if stays:
            sidecars.append(requests)
    totals.append(total([*sidecars, *running]))
    return {name: most for name in NAMES if (most := max(total_then.get(name, 0) for total_then in totals))}


def total(requests: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(amounts.get(name, 0) for amounts in requests) for name in NAMES}


def built_pod(running: Sequence[dict[str, int]], starting: Sequence[tuple[bool, dict[str, int]]]) -> Object:
    texts = [{name: str(amount) for name, amount in amounts.items()} for amounts in running]
    init = [
        requesting(f"init-{i}", requests={name: str(amount) for name, amount in amounts.items()})
        | ({"restartPolicy": "Always"} if stays else {})
        for i, (stays, amounts) in enumerate(starting)
    ]
    return pod("p", *[requesting(f"c-{i}", requests=amounts) for i, amounts in enumerate(texts)], initContainers=init)


@given(st.lists(amounts, min_size=1, max_size=4), inits)
def test_pod_amounts_are_the_maximum_over_its_life(
    running: list[dict[str, int]], starting: list[tuple[bool, dict[str, int]]]
):
    assert whole_amounts(built_pod(running, starting)) == maximum(running, starting)


@given(st.lists(amounts, min_size=1, max_size=3), inits, amounts)
def test_overhead_is_added(running: list[dict[str, int]], starting: list[tuple[bool, dict[str, int]]], overhead: dict):
    item = built_pod(running, starting)
    item["spec"]["overhead"] = {name: str(amount) for name, amount in overhead.items()}
    expected = maximum(running, starting)
    assert whole_amounts(item) == {
        name: most for name in NAMES if (most := expected.get(name, 0) + overhead.get(name, 0))
    }


def test_pod_level_requests_replace_the_sum_of_supported_resources():
    item = pod("p", container(cpu=1, memory="1Gi", gpus=2), container("side", cpu=2))
    item["spec"]["resources"] = {"requests": {"cpu": "8", "hugepages-2Mi": "64Mi", "nvidia.com/gpu": "9"}}
    item["spec"]["overhead"] = {"cpu": "1"}
    assert whole_amounts(item) == {"cpu": 9, "memory": 2**30, "nvidia.com/gpu": 2, "hugepages-2Mi": 64 * 2**20}


def test_limit_is_used_when_a_request_is_missing():
    item = pod("p", requesting(limits={"nvidia.com/gpu": "4", "cpu": "8"}, requests={"cpu": "2"}))
    assert whole_amounts(item) == {"nvidia.com/gpu": 4, "cpu": 2}


def test_sums_are_rounded_once():
    item = pod("p", *(requesting(f"c{i}", requests={"cpu": "100u"}) for i in range(3)))
    assert amounts_of(item) == {"cpu": 300_000}
