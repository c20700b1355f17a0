"""A pod takes what its containers take at the worst moment of its life."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.parse.container_requests import container_requests, pod_amounts
from gpusquad.kube.objects import Object
from gpusquad.kube.quantity import UNIT_NANOS
from tests.engines.kubernetes.parse.making import asking, container, pod

NAMES = ("cpu", "memory", "nvidia.com/gpu", "rdma/hca")
asks = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 9), max_size=4)
inits = st.lists(st.tuples(st.booleans(), asks), max_size=5)


def taken(item: Object) -> dict[str, int]:
    return pod_amounts(item, container_requests(item))


def whole_amounts(item: Object) -> dict[str, int]:
    return {name: amount // UNIT_NANOS for name, amount in taken(item).items() if amount}


def worst_moment(running: Sequence[dict[str, int]], starting: Sequence[tuple[bool, dict[str, int]]]) -> dict[str, int]:
    """By living the pod's life: one init container after the other, sidecars staying, then all the rest at once."""
    moments: list[dict[str, int]] = []
    beside: list[dict[str, int]] = []
    for stays, asked in starting:
        moments.append(total([*beside, asked]))
        if stays:
            beside.append(asked)
    moments.append(total([*beside, *running]))
    return {name: most for name in NAMES if (most := max(moment.get(name, 0) for moment in moments))}


def total(asked: Sequence[dict[str, int]]) -> dict[str, int]:
    return {name: sum(each.get(name, 0) for each in asked) for name in NAMES}


def built(running: Sequence[dict[str, int]], starting: Sequence[tuple[bool, dict[str, int]]]) -> Object:
    texts = [{name: str(amount) for name, amount in asked.items()} for asked in running]
    init = [
        asking(f"init-{i}", requests={name: str(amount) for name, amount in asked.items()})
        | ({"restartPolicy": "Always"} if stays else {})
        for i, (stays, asked) in enumerate(starting)
    ]
    return pod("p", *[asking(f"c-{i}", requests=each) for i, each in enumerate(texts)], initContainers=init)


@given(st.lists(asks, min_size=1, max_size=4), inits)
def test_the_worst_moment_of_its_life(running: list[dict[str, int]], starting: list[tuple[bool, dict[str, int]]]):
    assert whole_amounts(built(running, starting)) == worst_moment(running, starting)


@given(st.lists(asks, min_size=1, max_size=3), inits, asks)
def test_overhead_comes_on_top(running: list[dict[str, int]], starting: list[tuple[bool, dict[str, int]]], over: dict):
    item = built(running, starting)
    item["spec"]["overhead"] = {name: str(amount) for name, amount in over.items()}
    worst = worst_moment(running, starting)
    assert whole_amounts(item) == {name: most for name in NAMES if (most := worst.get(name, 0) + over.get(name, 0))}


def test_what_is_said_of_the_whole_pod_stands_for_the_sum_of_what_may_be_said_of_it():
    item = pod("p", container(cpu=1, memory="1Gi", gpus=2), container("side", cpu=2))
    item["spec"]["resources"] = {"requests": {"cpu": "8", "hugepages-2Mi": "64Mi", "nvidia.com/gpu": "9"}}
    item["spec"]["overhead"] = {"cpu": "1"}
    assert whole_amounts(item) == {"cpu": 9, "memory": 2**30, "nvidia.com/gpu": 2, "hugepages-2Mi": 64 * 2**20}


def test_a_limit_stands_in_for_a_request_that_is_not_made():
    item = pod("p", asking(limits={"nvidia.com/gpu": "4", "cpu": "8"}, requests={"cpu": "2"}))
    assert whole_amounts(item) == {"nvidia.com/gpu": 4, "cpu": 2}


def test_sums_are_rounded_once():
    item = pod("p", *(asking(f"c{i}", requests={"cpu": "100u"}) for i in range(3)))
    assert taken(item) == {"cpu": 300_000}
