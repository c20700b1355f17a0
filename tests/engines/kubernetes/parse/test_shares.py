"""Tests of shares requested in any of three ways, and of unsupported shares."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.container_requests import container_requests
from gpusquad.engines.kubernetes.parse.requests import request_of_pod
from gpusquad.engines.kubernetes.parse.shares import pod_share
from gpusquad.kube.errors import MalformedField, UnsupportedField
from gpusquad.kube.names import GPU
from gpusquad.kube.objects import Object
from gpusquad.model.job import Share
from tests.engines.kubernetes.parse.builders import container, pod, requesting


def limits(**amounts: object) -> dict[str, str]:
    """Limits by short names, such as ``gpu``."""
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


def pod_with(annotations: dict[str, str] | None = None, **amounts: object) -> Object:
    return pod("p", requesting(limits=limits(**amounts)), annotations=annotations)


SHARES: dict[str, tuple[Object, Share]] = {
    "gpusquad memory": (pod_with(gpu=1, memory="8Gi"), Share(8 * 2**30, 0)),
    "gpusquad sm": (pod_with(gpu=1, sm=25), Share(0, 250)),
    "gpusquad memory and sm": (pod_with(gpu=1, memory="500M", sm=100), Share(500_000_000, 1000)),
    "gpusquad percentages": (pod_with(gpu=1, of_memory=30, sm=50), Share(0, 500, memory_milli=300)),
    "gpusquad memory percentage": (pod_with(gpu=1, of_memory=30), Share(memory_milli=300)),
    "memory of HAMi": (pod_with(gpu=1, gpumem=3000), Share(3000 * 2**20, 0)),
    "memory and cores": (pod_with(gpu=1, gpumem="4k", gpucores=30), Share(4000 * 2**20, 300)),
    "cores alone": (pod_with(gpu=1, gpucores=50), Share(0, 500)),
    "no cores": (pod_with(gpu=1, gpumem=1, gpucores=0), Share(2**20, 0)),
    "a percentage": (pod_with(gpu=1, percentage=20), Share(memory_milli=200)),
    "percentage and cores": (pod_with(gpu=1, percentage=20, gpucores=60), Share(0, 600, memory_milli=200)),
    "a fraction": (pod_with({"gpu-fraction": "0.5"}, gpu=1), Share(0, 500)),
    "a third": (pod_with({"gpu-fraction": "0.3333"}, gpu=1), Share(0, 333)),
    "a tiny fraction": (pod_with({"gpu-fraction": "0.0001"}, gpu=1), Share(0, 1, memory_milli=1)),
    "memory of KAI": (pod_with({"gpu-memory": "2000"}, gpu=1), Share(2000 * 2**20, 0)),
    "one device": (pod_with({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "1"}, gpu=1), Share(0, 500)),
    "a slot": (pod_with(shared=1), Share(sm_milli=1)),
    "a slot with memory": (pod_with(shared=1, gpumem=1000), Share(1000 * 2**20, 0)),
    "isolated": (pod_with({"gpusquad.io/isolation": "isolated"}, gpu=1, sm=25), Share(0, 250, "isolated")),
    "an isolated slot": (pod_with({"gpusquad.io/isolation": "isolated"}, shared=1), Share(0, 1, "isolated")),
    "said to be shared": (pod_with({"gpusquad.io/isolation": "shared", "gpu-memory": "1"}, gpu=1), Share(2**20, 0)),
    "beside a sidecar": (pod("p", requesting(limits=limits(gpu=1, sm=10)), container("logs", cpu=1)), Share(0, 100)),
}


@pytest.mark.parametrize("name", SHARES)
def test_share_is_read_from_the_pod(name: str):
    item, share = SHARES[name]
    request = request_of_pod(item)
    assert (request.share, request.gpus) == (share, 0)
    assert request.extras == (("pods", 1),), "a share requests no extra resources of the node"


@pytest.mark.parametrize(
    "item",
    [
        pod_with(gpu=1, percentage=100),
        pod_with(gpu=1, of_memory=100),
        pod_with({"gpu-fraction": "1.0"}, gpu=1),
        pod_with({"gpu-fraction": "0.9996"}, gpu=1),
        pod_with(gpu=1),
    ],
)
def test_full_share_is_a_whole_card(item: Object):
    request = request_of_pod(item)
    assert (request.share, request.gpus) == (None, 1)


def test_whole_cards_have_no_share():
    item = pod("p", container(gpus=2), container("b", gpus=1))
    assert pod_share(item, container_requests(item)) is None


REFUSED: dict[str, tuple[Object, str]] = {
    "no card": (pod_with(memory="8Gi"), "nvidia.com/gpu: 1"),
    "no card, KAI": (pod_with({"gpu-fraction": "0.5"}), "nvidia.com/gpu: 1"),
    "no card, HAMi": (pod_with(gpumem=10), "nvidia.com/gpu: 1"),
    "of each of two": (pod_with(gpu=2, gpumem=1000), "2 GPUs"),
    "two slots": (pod_with(shared=2), "2 GPUs"),
    "slot and card": (pod_with(shared=1, gpu=1), "2 GPUs"),
    "two ways": (pod_with({"gpu-fraction": "0.5"}, gpu=1, sm=50), "2 ways"),
    "three ways": (pod_with({"gpu-memory": "5"}, gpu=1, sm=50, gpumem=1), "3 ways"),
    "memory twice, gpusquad": (pod_with(gpu=1, memory="8Gi", of_memory=1), "at once"),
    "memory twice, HAMi": (pod_with(gpu=1, gpumem=1, percentage=1), "at once"),
    "memory twice, KAI": (pod_with({"gpu-fraction": "0.5", "gpu-memory": "5"}, gpu=1), "at once"),
    "several devices": (pod_with({"gpu-fraction": "0.5", "gpu-fraction-num-devices": "2"}, gpu=1), "several"),
    "another container, KAI": (
        pod_with({"gpu-fraction": "0.5", "gpu-fraction-container-name": "b"}, gpu=1),
        "but main",
    ),
    "two containers": (pod("p", requesting(limits=limits(gpu=1, sm=10)), container("b", gpus=1)), "several containers"),
    "in another container": (pod("p", container(gpus=1), requesting("b", limits=limits(sm=10))), "container b"),
    "too many percent": (pod_with(gpu=1, sm=101), "100"),
    "half a percent": (pod_with(gpu=1, sm="500m"), "whole number"),
    "too much memory": (pod_with(gpu=1, gpumem="8Gi"), "counted in MiB"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_share_is_refused(name: str):
    item, text = REFUSED[name]
    with pytest.raises(UnsupportedField) as error:
        request_of_pod(item)
    assert text in str(error.value)


def test_share_is_refused_when_an_init_container_has_its_own_card():
    item = pod("p", requesting(limits=limits(gpu=1, sm=10)), initContainers=[container("warm-up", gpus=1)])
    with pytest.raises(UnsupportedField, match="several containers"):
        request_of_pod(item)


@pytest.mark.parametrize("text", ["0", "-0.5", "1.5", "half", "0.5GPU", ".", "1e-1", "٠.٥", "0.0000000001"])
def test_invalid_fraction_is_malformed(text: str):
    with pytest.raises(MalformedField):
        request_of_pod(pod_with({"gpu-fraction": text}, gpu=1))


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "2Gi", "9" * 11])
def test_invalid_number_of_mebibytes_is_malformed(text: str):
    with pytest.raises(MalformedField):
        request_of_pod(pod_with({"gpu-memory": text}, gpu=1))


@pytest.mark.parametrize("amounts", [{"gpu": 1, "sm": 10}, {"gpu": 1}])
@pytest.mark.parametrize("text", ["alone", "Isolated", "shared,isolated"])
def test_invalid_isolation_is_rejected_with_a_cure(text: str, amounts: dict[str, int]):
    with pytest.raises(MalformedField) as error:
        request_of_pod(pod_with({"gpusquad.io/isolation": text}, **amounts))
    assert "gpusquad.io/isolation" in error.value.field
    assert error.value.cure == 'write "shared" or "isolated"'
