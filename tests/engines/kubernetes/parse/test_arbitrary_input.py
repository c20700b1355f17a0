"""Tests of arbitrary labels, annotations and amounts: a result or a refusal, never another error."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from gpusquad.engines.kubernetes.parse.conventions import coscheduling, kueue, leader_worker_set, volcano
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, IncompleteGang, gang_of
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.engines.kubernetes.parse.pins import pin_of
from gpusquad.kube.names import (
    CARDS,
    CHECKPOINT_EVERY,
    ESTIMATE,
    GANG,
    GROUP,
    GROUP_SIZE,
    KAI_POD_GROUP,
    LANE,
    LIMIT,
    PREEMPTIBLE,
    QUEUE,
    SLO,
    USER,
)
from gpusquad.model.errors import Invalid
from tests.engines.kubernetes.parse.builders import nothing_exists, pod, requesting

NAMES = [
    coscheduling.LABEL, coscheduling.OLD_LABEL, coscheduling.OLDEST_NAME, coscheduling.OLDEST_SIZE, *volcano.NAMES,
    kueue.NAME, kueue.TOTAL, KAI_POD_GROUP, GROUP, "volcano.sh/task-spec",
    GROUP_SIZE, leader_worker_set.NAME, leader_worker_set.INDEX, GANG, CARDS,
    CHECKPOINT_EVERY, ESTIMATE, LANE, LIMIT, PREEMPTIBLE, QUEUE, SLO, USER, "gpu-fraction", "gpu-memory",
    "nvidia.com/use-gpuuuid", "nvidia.com/use-gputype", "training.kubeflow.org/replica-index", "ray.io/group",
]  # fmt: skip
RESOURCES = ["cpu", "memory", "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/gpumem", "gpusquad.io/gpu-memory",
             "gpusquad.io/gpu-sm-percent", "nvidia.com/gpucores", "pods", "a.b/c"]  # fmt: skip
texts = st.text(max_size=300) | st.sampled_from(
    ["", "1", "2", "0.5", "g", "true", "false", "2h", "1e9", "9" * 30, "p99=20ms", "deadline=1e9"]
)
annotations = st.dictionaries(st.sampled_from(NAMES), texts, max_size=6)
amounts = st.dictionaries(
    st.sampled_from(RESOURCES), st.sampled_from(["0", "1", "2", "50", "8Gi", "1m"]) | texts, max_size=4
)


@given(annotations, annotations, amounts)
def test_arbitrary_pods_are_parsed_or_refused(
    labels: dict[str, str], annotations: dict[str, str], requests: dict[str, str]
):
    item = pod("p", requesting(requests=requests), labels=labels, annotations=annotations)
    with contextlib.suppress(Invalid):
        result = gang_of(membership_of(item, nothing_exists), [item])
        assert isinstance(result, (CompleteGang, IncompleteGang, Invalid))
    with contextlib.suppress(Invalid):
        pin_of(item)
