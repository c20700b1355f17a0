"""Tests that the scheduler and the agent read the same share from a pod, or both refuse it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pods import read_pod
from gpusquad.engines.kubernetes.parse.container_requests import container_requests
from gpusquad.engines.kubernetes.parse.shares import pod_share
from gpusquad.kube.names import (
    GPU,
    GPU_SHARED,
    ISOLATION,
    KAI_DEVICES,
    KAI_FRACTION,
    KAI_MEMORY_MIB,
    SHARE_RESOURCES,
)
from gpusquad.kube.objects import Object
from gpusquad.kube.share import container_share
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Share
from tests.engines.kubernetes.parse.builders import pod, requesting

numbers = st.one_of(
    st.integers(0, 2**34).map(str),
    st.integers(0, 110).map(str),
    st.decimals(0, 2, places=4).map(str),
    st.integers(9900, 10100).map(lambda tenth_milli: f"{tenth_milli / 10000:.4f}"),
    st.builds(
        "{}{}".format, st.integers(0, 10**4), st.sampled_from(["n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "e2"])
    ),
)
texts = st.one_of(
    numbers, numbers.map(" {} ".format), st.text(max_size=8), st.sampled_from(["", " ", "-1", "+1", "1."])
)
limits = st.dictionaries(st.sampled_from(SHARE_RESOURCES), texts, max_size=3)
annotations = st.dictionaries(st.sampled_from([KAI_FRACTION, KAI_MEMORY_MIB, KAI_DEVICES]), texts, max_size=2)
isolations = st.one_of(st.none(), st.sampled_from(["shared", "isolated", " isolated ", "alone"]), st.text(max_size=8))


def read_by_scheduler(item: Object) -> Share | str | None:
    try:
        return pod_share(item, container_requests(item))
    except Invalid:
        return "refused"


def read_by_agent(item: Object, resource: str) -> Share | str | None:
    try:
        (container,) = read_pod(item, resource).containers
        return container_share(container.limits, item["metadata"]["annotations"])
    except Invalid:
        return "refused"


@given(st.sampled_from([GPU, GPU_SHARED]), limits, annotations, isolations)
@example(GPU, {}, {KAI_FRACTION: "0.9996"}, None)
@example(GPU, {}, {KAI_FRACTION: "0.9995"}, None)
@example(GPU, {}, {KAI_FRACTION: "1e-1"}, None)
@example(GPU, {SHARE_RESOURCES[5]: "400"}, {}, None)
@example(GPU, {SHARE_RESOURCES[2]: "500m"}, {}, None)
@example(GPU, {SHARE_RESOURCES[0]: "1Gi", SHARE_RESOURCES[4]: "50"}, {}, None)
@example(GPU, {SHARE_RESOURCES[2]: "50"}, {KAI_FRACTION: "0.5"}, "isolated")
def test_agent_share_equals_scheduler_share_or_both_refuse(
    resource: str, limits: dict[str, str], annotations: dict[str, str], isolation: str | None
):
    all_annotations = annotations | ({} if isolation is None else {ISOLATION: isolation})
    item = pod("p", requesting(limits={resource: "1", **limits}), annotations=all_annotations)
    assert read_by_agent(item, resource) == read_by_scheduler(item)


@pytest.mark.parametrize("fraction", ["0.9995", "0.9996", "0.9999", "1"])
def test_fraction_is_a_whole_card_when_it_rounds_to_1000_thousandths(fraction: str):
    item = pod("p", requesting(limits={GPU: "1"}), annotations={KAI_FRACTION: fraction})
    assert (read_by_scheduler(item), read_by_agent(item, GPU)) == (None, None)


def test_fraction_is_a_share_when_it_rounds_to_999_thousandths():
    item = pod("p", requesting(limits={GPU: "1"}), annotations={KAI_FRACTION: "0.9994"})
    assert read_by_scheduler(item) == read_by_agent(item, GPU) == Share(0, 999)
