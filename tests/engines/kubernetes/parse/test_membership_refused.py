"""Tests of groups that are refused because they are malformed or unsupported."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.kube.errors import MalformedField, UnsupportedField
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.parse.builders import finder, pod
from tests.engines.kubernetes.parse.conventions.objects import (
    INDEXED,
    KAI,
    NATIVE,
    RAY,
    VOLCANO,
    batch_job,
    pod_group,
    pod_of,
    with_spec,
)


@pytest.mark.parametrize(
    ("item", "others"),
    [
        (pod("p", annotations={"gpusquad.io/group": "g"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "0"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "100001"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g", "gpusquad.io/group-size": "4.0"}), ()),
        (pod("p", annotations={"gpusquad.io/group": "g" * 300, "gpusquad.io/group-size": "4"}), ()),
        (pod("p", annotations={"gpusquad.io/gang": "yes"}), ()),
        (pod("p", annotations={"pod-group-name": "../secrets/x"}), ()),
        (pod("p", labels={"scheduling.x-k8s.io/pod-group": "G"}), ()),
        (pod("p", labels={"kueue.x-k8s.io/pod-group-name": "g"}), ()),
        (pod_of(INDEXED), (batch_job({"parallelism": "many"}),)),
        (pod_of(INDEXED), (batch_job({"parallelism": 10**9}),)),
        (pod_of(RAY), (with_spec(RAY, workerGroupSpecs=[{"groupName": "a", "replicas": -1}]),)),
        (
            pod("p", annotations={"pod-group-name": "g"}),
            (pod_group("scheduling.run.ai/v2alpha2", {"minMember": True}),),
        ),
    ],
)
def test_unreadable_group_is_malformed(item: Object, others: tuple[Object, ...]):
    with pytest.raises(MalformedField):
        membership_of(item, finder(*others))


BIG = {"groupName": "a", "replicas": 90_000, "numOfHosts": 90_000}


@pytest.mark.parametrize(
    ("item", "other", "expected"),
    [
        (
            pod("p", schedulingGroup={"podGroupName": "g"}),
            with_spec(NATIVE, schedulingConstraints={"topology": [{"key": "rack"}]}),
            "topology",
        ),
        (
            pod("p", schedulingGroup={"podGroupName": "g"}),
            with_spec(NATIVE, parentCompositePodGroupName="x"),
            "groups of",
        ),
        (
            pod("p", annotations={"pod-group-name": "g"}),
            with_spec(KAI, topologyConstraint={"requiredTopologyLevel": "r"}),
            "top",
        ),
        (
            pod("p", annotations={"scheduling.k8s.io/group-name": "g"}),
            with_spec(VOLCANO, networkTopology={"mode": "hard"}),
            "hard",
        ),
        (
            pod_of(INDEXED, annotations={"gpusquad.io/gang": "true"}),
            with_spec(INDEXED, parallelism=2),
            "set parallelism to completions",
        ),
        (pod_of(RAY), with_spec(RAY, workerGroupSpecs=[BIG]), "100000"),
    ],
)
def test_unsupported_group_is_refused(item: Object, other: Object, expected: str):
    with pytest.raises(UnsupportedField, match=expected):
        membership_of(item, finder(other))
