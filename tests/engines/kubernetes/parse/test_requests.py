"""Tests of the request of a pod, and of unsupported requests."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.requests import is_gated, request_of_pod
from gpusquad.kube.errors import MalformedField, UnsupportedField
from gpusquad.kube.objects import Object
from gpusquad.model.job import Request
from tests.engines.kubernetes.parse.builders import container, pod, read, requesting

TRAINING = """
apiVersion: v1
kind: Pod
metadata: {name: train, annotations: {nvidia.com/use-gputype: "H100, A100"}}
spec:
  schedulerName: gpusquad
  containers:
    - name: trainer
      resources:
        requests: {cpu: 3500m, memory: 64Gi, nvidia.com/gpu: 4, rdma/hca: 1, ephemeral-storage: 10G}
        limits: {memory: 64Gi, nvidia.com/gpu: 4, rdma/hca: 1}
    - name: logs
      resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {amd.com/gpu: 0}}
"""


def test_request_is_read_from_a_typical_pod():
    assert request_of_pod(read(TRAINING)) == Request(
        gpus=4,
        cpu_milli=3600,
        memory_bytes=64 * 2**30 + 64 * 2**20,
        gpu_models=("A100", "H100"),
        extras=(("ephemeral-storage", 10**10), ("pods", 1), ("rdma/hca", 1)),
    )


def test_pod_without_requests_counts_as_one_pod():
    assert request_of_pod(pod("p", {"name": "main"})) == Request(extras=(("pods", 1),))


def test_cards_of_several_containers_are_counted_separately():
    one, two, three = (container(name, gpus=count) for name, count in (("a", 1), ("b", 2), ("c", 3)))
    assert (request_of_pod(pod("p", one)).gpus_together, request_of_pod(pod("p", three)).gpus_together) == (0, 0)
    split = request_of_pod(pod("p", one, two))
    assert (split.gpus, split.gpus_together) == (3, 2)
    before = request_of_pod(pod("p", one, two, initContainers=[three]))
    assert (before.gpus, before.gpus_together) == (3, 0)


def test_gpus_of_other_vendors_are_extra_resources():
    assert request_of_pod(pod("p", requesting(limits={"amd.com/gpu": "2"}))).extras == (("amd.com/gpu", 2), ("pods", 1))


def test_card_can_be_requested_by_uuid():
    annotations = {"nvidia.com/use-gpuuuid": "GPU-5e749a00-5ffb"}
    assert request_of_pod(pod(annotations=annotations)).card == "GPU-5e749a00-5ffb"


def test_request_does_not_depend_on_the_order_of_models():
    first, second = (pod(annotations={"nvidia.com/use-gputype": text}) for text in ("A100,H100", " H100 ,A100,"))
    assert request_of_pod(first) == request_of_pod(second)


REFUSED: dict[str, tuple[Object, str]] = {
    "claims": (pod(resourceClaims=[{"name": "gpu"}]), "resourceClaims"),
    "claims of a container": (pod("p", requesting(claims=[{"name": "gpu"}])), "resourceClaims"),  # type: ignore[arg-type]
    "workload reference": (pod(workloadRef={"name": "w"}), "workloadRef"),
    "half a card": (pod("p", requesting(limits={"nvidia.com/gpu": "500m"})), "whole number"),
    "too many": (pod("p", container(gpus=5000)), "1024"),
    "too many in total": (pod("p", *(container(f"c{i}", gpus=1000) for i in range(3))), "1024"),
    "one uuid for two": (pod("p", container(gpus=2), annotations={"nvidia.com/use-gpuuuid": "GPU-1"}), "2 GPUs"),
    "two uuids": (pod(annotations={"nvidia.com/use-gpuuuid": "GPU-1,GPU-2"}), "name one"),
    "uuid without card": (pod("p", container(cpu=1), annotations={"nvidia.com/use-gpuuuid": "GPU-1"}), "no container"),
    "type without card": (pod("p", container(cpu=1), annotations={"nvidia.com/use-gputype": "T4"}), "no container"),
    "not this uuid": (pod(annotations={"nvidia.com/nouse-gpuuuid": "GPU-1"}), "avoid"),
    "not this type": (pod(annotations={"nvidia.com/nouse-gputype": "T4"}), "avoid"),
    "numa": (pod(annotations={"nvidia.com/numa-bind": "true"}), "NUMA"),
    "mig": (pod(annotations={"nvidia.com/vgpu-mode": "mig"}), "MIG"),
    "excessive memory": (pod("p", container(memory="12E")), "more than any node"),
    "excessive cpu": (pod("p", container(cpu="100P")), "more than any node"),
    "pods": (pod("p", container(pods=2)), "pods"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_request_is_refused(name: str):
    item, text = REFUSED[name]
    with pytest.raises(UnsupportedField) as error:
        request_of_pod(item)
    assert text in str(error.value)


@pytest.mark.parametrize(
    "item",
    [
        pod("p", requesting(requests={"cpu": "much"})),
        pod("p", requesting(requests={"memory": "-1Gi"})),
        pod("p", requesting(requests={f"a.b/r{i}": "1" for i in range(100)})),
        pod(annotations={"nvidia.com/use-gpuuuid": "GPU 1"}),
        pod(annotations={"nvidia.com/use-gpuuuid": "x" * 300}),
        pod(annotations={"nvidia.com/use-gputype": "a\nb"}),
    ],
)
def test_unreadable_request_is_malformed(item: Object):
    with pytest.raises(MalformedField):
        request_of_pod(item)


def test_modes_without_effect_are_accepted():
    annotations = {"nvidia.com/vgpu-mode": "hami-core", "nvidia.com/numa-bind": "false"}
    assert request_of_pod(pod(annotations=annotations)).gpus == 1


def test_pod_with_scheduling_gates_is_gated():
    assert is_gated(pod(schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]))
    assert not is_gated(pod(schedulingGates=[]))
    assert not is_gated(pod())
