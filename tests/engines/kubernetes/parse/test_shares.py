"""A part of a card, asked for in any of three ways; and what is refused because the kubelet could not give it."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.container_requests import container_requests
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.engines.kubernetes.parse.shares import pod_share
from gpusquad.kube.errors import MalformedField, UnsupportedField
from gpusquad.kube.names import GPU
from gpusquad.kube.objects import Object
from gpusquad.model.job import Share
from tests.engines.kubernetes.parse.making import asking, container, pod


def limits(**amounts: object) -> dict[str, str]:
    """``gpu`` and the other names without their prefixes."""
    prefixes = {
        "gpu": GPU,
        "shared": "nvidia.com/gpu.shared",
        "memory": "gpusquad.io/gpu-memory",
        "sm": "gpusquad.io/gpu-sm-percent",
        "of_memory": "gpusquad.io/gpu-memory-percent",
        "gpumem": "nvidia.com/gpumem",
        "percentage": "nvidia.com/gpumem-percentage",
        "gpucores": "nvidia.com/gpucores",
    }
    return {prefixes[name]: str(amount) for name, amount in amounts.items()}


def one(annotations: dict[str, str] | None = None, **amounts: object) -> Object:
    return pod("p", asking(limits=limits(**amounts)), annotations=annotations)


SHARES: dict[str, tuple[Object, Share]] = {
    "our memory": (one(gpu=1, memory="8Gi"), Share(8 * 2**30, 0)),
    "our part": (one(gpu=1, sm=25), Share(0, 250)),
    "both of ours": (one(gpu=1, memory="500M", sm=100), Share(500_000_000, 1000)),
    "percents of ours": (one(gpu=1, of_memory=30, sm=50), Share(0, 500, memory_milli=300)),
    "our part of the memory": (one(gpu=1, of_memory=30), Share(memory_milli=300)),
    "memory of HAMi": (one(gpu=1, gpumem=3000), Share(3000 * 2**20, 0)),
    "memory and cores": (one(gpu=1, gpumem="4k", gpucores=30), Share(4000 * 2**20, 300)),
    "cores alone": (one(gpu=1, gpucores=50), Share(0, 500)),
    "no cores": (one(gpu=1, gpumem=1, gpucores=0), Share(2**20, 0)),
    "a percentage": (one(gpu=1, percentage=20), Share(memory_milli=200)),
    "both parts": (one(gpu=1, percentage=20, gpucores=60), Share(0, 600, memory_milli=200)),
    "a fraction": (one({"gpu-fraction": "0.5"}, gpu=1), Share(0, 500)),
    "a third": (one({"gpu-fraction": "0.3333"}, gpu=1), Share(0, 333)),
    "a tiny fraction": (one({"gpu-fraction": "0.0001"}, gpu=1), Share(0, 1, memory_milli=1)),
    "memory of KAI": (one({"gpu-memory": "2000"}, gpu=1), Share(2000 * 2**20, 0)),
    "one device": (one({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1"}, gpu=1), Share(0, 500)),
    "a slot": (one(shared=1), Share(sm_milli=1)),
    "a slot with memory": (one(shared=1, gpumem=1000), Share(1000 * 2**20, 0)),
    "isolated": (one({"gpusquad.io/isolation": "isolated"}, gpu=1, sm=25), Share(0, 250, "isolated")),
    "an isolated slot": (one({"gpusquad.io/isolation": "isolated"}, shared=1), Share(0, 1, "isolated")),
    "said to be shared": (one({"gpusquad.io/isolation": "shared", "gpu-memory": "1"}, gpu=1), Share(2**20, 0)),
    "beside a sidecar": (pod("p", asking(limits=limits(gpu=1, sm=10)), container("logs", cpu=1)), Share(0, 100)),
}


@pytest.mark.parametrize("name", SHARES)
def test_shares(name: str):
    item, share = SHARES[name]
    request = request_of_pod(item)
    assert (request.share, request.gpus) == (share, 0)
    assert request.extras == (("pods", 1),), "nothing that a node would have to have so many of"


@pytest.mark.parametrize(
    "item",
    [
        one(gpu=1, percentage=100),
        one(gpu=1, of_memory=100),
        one({"gpu-fraction": "1.0"}, gpu=1),
        one({"gpu-fraction": "0.9996"}, gpu=1),
        one(gpu=1),
    ],
)
def test_all_of_a_card_is_the_whole_card(item: Object):
    request = request_of_pod(item)
    assert (request.share, request.gpus) == (None, 1)


def test_whole_cards_need_no_share():
    item = pod("p", container(gpus=2), container("b", gpus=1))
    assert pod_share(item, container_requests(item)) is None


REFUSED: dict[str, tuple[Object, str]] = {
    "no card": (one(memory="8Gi"), "nvidia.com/gpu: 1"),
    "no card, KAI": (one({"gpu-fraction": "0.5"}), "nvidia.com/gpu: 1"),
    "no card, HAMi": (one(gpumem=10), "nvidia.com/gpu: 1"),
    "of each of two": (one(gpu=2, gpumem=1000), "2 GPUs"),
    "two slots": (one(shared=2), "2 GPUs"),
    "slot and card": (one(shared=1, gpu=1), "2 GPUs"),
    "two ways": (one({"gpu-fraction": "0.5"}, gpu=1, sm=50), "2 ways"),
    "three ways": (one({"gpu-memory": "5"}, gpu=1, sm=50, gpumem=1), "3 ways"),
    "memory twice, ours": (one(gpu=1, memory="8Gi", of_memory=1), "at once"),
    "memory twice, HAMi": (one(gpu=1, gpumem=1, percentage=1), "at once"),
    "memory twice, KAI": (one({"gpu-fraction": "0.5", "gpu-memory": "5"}, gpu=1), "at once"),
    "several devices": (one({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, gpu=1), "several"),
    "another container, KAI": (one({"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"}, gpu=1), "but main"),
    "two containers": (pod("p", asking(limits=limits(gpu=1, sm=10)), container("b", gpus=1)), "several containers"),
    "in another container": (pod("p", container(gpus=1), asking("b", limits=limits(sm=10))), "container b"),
    "too many percent": (one(gpu=1, sm=101), "100"),
    "half a percent": (one(gpu=1, sm="500m"), "whole number"),
    "too much memory": (one(gpu=1, gpumem="8Gi"), "counted in MiB"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_honoured_is_refused(name: str):
    item, parts = REFUSED[name]
    with pytest.raises(UnsupportedField) as error:
        request_of_pod(item)
    assert parts in str(error.value)


def test_an_init_container_with_a_card_of_its_own_makes_it_several():
    item = pod("p", asking(limits=limits(gpu=1, sm=10)), initContainers=[container("warm-up", gpus=1)])
    with pytest.raises(UnsupportedField, match="several containers"):
        request_of_pod(item)


@pytest.mark.parametrize("text", ["0", "-0.5", "1.5", "half", "0.5GPU", ".", "1e-1", "٠.٥", "0.0000000001"])
def test_no_fraction(text: str):
    with pytest.raises(MalformedField):
        request_of_pod(one({"gpu-fraction": text}, gpu=1))


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "2Gi", "9" * 11])
def test_no_number_of_mebibytes(text: str):
    with pytest.raises(MalformedField):
        request_of_pod(one({"gpu-memory": text}, gpu=1))


@pytest.mark.parametrize("amounts", [{"gpu": 1, "sm": 10}, {"gpu": 1}])
@pytest.mark.parametrize("word", ["alone", "Isolated", "shared,isolated"])
def test_a_word_for_isolation_that_is_none_is_told(word: str, amounts: dict[str, int]):
    with pytest.raises(MalformedField) as error:
        request_of_pod(one({"gpusquad.io/isolation": word}, **amounts))
    assert "gpusquad.io/isolation" in error.value.field
    assert error.value.cure == 'write "shared" or "isolated"'
