"""Tests of actions on pods, with a server that answers late, with errors or not at all."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.observed import TaskLocation
from gpusquad.engines.kubernetes import actions
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import CARDS, DEADLINE, JOB, KNOWN, PRIORITY, WEIGHT
from gpusquad.kube.objects import Object, annotations_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.parse import builders
from tests.engines.kubernetes.virtual_time import run_virtually

LOCATION = TaskLocation("node1", ("GPU-1",))
FAULTS = st.sampled_from(["away", "lost answer", "busy", "broken", "broken but done"])


class FakeApi:
    """One pod, and a list of faults, one for each request."""

    def __init__(self, pod: Object | None, faults: list[str] | None = None) -> None:
        self.pod = copy.deepcopy(pod)
        self.faults = list(faults or [])
        self.requests: list[str] = []
        self.content: Any = None

    async def post(self, path: str, content: Object) -> Object:
        return self._do("post", lambda: self._bind(content))

    async def get(self, path: str) -> Object:
        return self._do("get", self._read)

    async def delete(self, path: str, options: Object) -> Object:
        self.content = options
        return self._do("delete", self._delete)

    async def patch(self, path: str, content: Object, kind: str) -> Object:
        self.content = content
        return self._do("patch", self._read)

    def _do(self, method: str, work: Callable[[], Object]) -> Object:
        self.requests.append(method)
        fault = self.faults.pop(0) if self.faults else ""
        if fault == "away":
            raise ApiUnreachable("no route", may_be_done=False)
        if fault == "busy":
            raise ApiRefused(429, "TooManyRequests", "later")
        if fault == "broken":
            raise ApiRefused(500, "InternalError", "etcd")
        if fault.isdecimal():
            raise ApiRefused(int(fault), "Forbidden", "you may not")
        answer = work()
        if fault == "lost answer":
            raise ApiUnreachable("no answer in time")
        if fault == "broken but done":
            raise ApiRefused(504, "Timeout", "it took too long")
        return answer

    def _read(self) -> Object:
        if self.pod is None:
            raise ApiRefused(404, "NotFound", "no such pod")
        return copy.deepcopy(self.pod)

    def _bind(self, content: Object) -> Object:
        pod = self._read()
        if pod["metadata"]["uid"] != content["metadata"]["uid"]:
            raise ApiRefused(409, "Conflict", "another uid")
        if pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            raise ApiRefused(409, "Conflict", "already assigned, or being deleted")
        assert self.pod is not None
        self.pod["spec"]["nodeName"] = content["target"]["name"]
        self.pod["metadata"]["annotations"].update(content["metadata"]["annotations"])
        return {}

    def _delete(self) -> Object:
        self._read()
        self.pod = None
        return {}


def bind(api: FakeApi, pod: Object, wanted: Callable[[], bool] = lambda: True) -> None:
    run_virtually(actions.bind(api, pod, LOCATION, "job1", 3, wanted))  # type: ignore[arg-type]


def test_known_rates_are_written_with_the_binding() -> None:
    pod = builders.pod()
    assert KNOWN not in actions.binding_of(pod, LOCATION, "job1", 3)["metadata"]["annotations"]
    assert (
        annotations_with(pod, SharingParams(app="a"))[KNOWN]
        == '{"app":"a","curve":[],"solo_per_s":0.0,"beside":{},"costs":{}}'
    )


def annotations_with(pod: Object, sharing_params: SharingParams) -> dict[str, str]:
    return actions.binding_of(pod, replace(LOCATION, sharing_params=sharing_params), "job1", 3)["metadata"][
        "annotations"
    ]


def test_binding_overrides_weight_and_deadline_of_the_user() -> None:
    pod = builders.pod()
    assert annotations_with(pod, SharingParams())[WEIGHT] == "1.0"
    assert DEADLINE not in annotations_with(pod, SharingParams())
    annotations = annotations_with(pod, SharingParams(weight=2.5, slo=Slo(deadline_us=3_000_001)))
    assert (annotations[WEIGHT], annotations[DEADLINE]) == ("2.5", "1970-01-01T00:00:03.000001+00:00")
    overridden = annotations_with(
        builders.pod(annotations={WEIGHT: "1000000", DEADLINE: "1970-01-01", KNOWN: "{}"}), SharingParams()
    )
    assert (overridden[WEIGHT], overridden[DEADLINE], overridden[KNOWN]) == ("1.0", "", "")


def test_binding_lowers_a_priority_above_that_of_the_job() -> None:
    pod = builders.pod(annotations={PRIORITY: "urgent"})
    assert annotations_with(pod, SharingParams())[PRIORITY] == "normal"
    assert PRIORITY not in annotations_with(pod, SharingParams(priority=2))
    assert PRIORITY not in actions.binding_of(pod, LOCATION, "job1", 3)["metadata"]["annotations"]


@given(st.lists(FAULTS | st.just("409"), max_size=6))
def test_annotation_is_written_despite_faults(faults: list[str]) -> None:
    pod = builders.pod()
    api = FakeApi(pod, faults)
    assert annotate(api) == ""
    assert api.content == {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {WEIGHT: None}}}


def annotate(api: FakeApi) -> str:
    return run_virtually(actions.annotate(api, builders.pod(), {WEIGHT: None}))  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", ["away", "busy", "broken", "409"])
def test_annotation_fails_after_a_limited_number_of_tries(fault: str) -> None:
    api = FakeApi(builders.pod(), [fault] * 1000)
    assert annotate(api)
    assert 3 < len(api.requests) < 20


def test_annotation_reports_a_refusal_but_not_a_deleted_pod() -> None:
    api = FakeApi(builders.pod(), ["403"])
    assert "you may not" in annotate(api)
    assert api.requests == ["patch"]
    assert annotate(FakeApi(None)) == ""


@given(st.lists(FAULTS, max_size=6))
def test_pod_is_bound_despite_faults(faults: list[str]) -> None:
    pod = builders.pod()
    api = FakeApi(pod, faults)
    bind(api, pod)
    assert api.pod is not None
    assert api.pod["spec"]["nodeName"] == "node1"
    assert annotations_of(api.pod)[CARDS] == '{"main":["GPU-1"]}'
    assert annotations_of(api.pod)[JOB] == "job1"
    assert annotations_of(api.pod)["gpusquad.io/attempt"] == "3"


@given(st.lists(FAULTS, max_size=6), st.integers(0, 6))
def test_abandoned_binding_reports_the_actual_outcome(faults: list[str], tries: int) -> None:
    pod = builders.pod()
    api = FakeApi(pod, faults)
    try:
        bind(api, pod, lambda: api.requests.count("post") < tries)
        is_bound = True
    except actions.NotBound:
        is_bound = False
    assert api.pod is not None
    assert is_bound == (api.pod["spec"].get("nodeName") == "node1")


@given(st.lists(FAULTS, max_size=4))
def test_another_pod_of_the_same_name_is_not_bound(faults: list[str]) -> None:
    pod, other = builders.pod(), builders.pod()
    other["metadata"]["uid"] = "another"
    api = FakeApi(other, faults)
    with pytest.raises(actions.NotBound) as raised:
        bind(api, pod)
    assert raised.value.pod_is_gone
    assert api.pod is not None
    assert "nodeName" not in api.pod["spec"]


def test_binding_of_a_deleted_pod_reports_that_it_is_gone() -> None:
    pod = builders.pod()
    terminating = copy.deepcopy(pod)
    terminating["metadata"]["deletionTimestamp"] = "now"
    for existing in (None, terminating):
        with pytest.raises(actions.NotBound) as raised:
            bind(FakeApi(existing), pod)
        assert raised.value.pod_is_gone


def test_pod_bound_by_another_scheduler_is_not_bound() -> None:
    pod = builders.pod()
    for node in ("node1", "node2"):
        with pytest.raises(actions.NotBound, match="another scheduler bound it") as raised:
            bind(FakeApi(builders.pod(nodeName=node)), pod)
        assert not raised.value.pod_is_gone


def test_refused_binding_has_the_servers_message() -> None:
    with pytest.raises(actions.NotBound, match="you may not") as raised:
        bind(FakeApi(builders.pod(), ["403"]), builders.pod())
    assert not raised.value.pod_is_gone


def test_wrong_number_of_cards_is_not_bound() -> None:
    api = FakeApi(builders.pod("one", builders.container(gpus=2)))
    with pytest.raises(actions.NotBound, match="1 cards for a pod that needs 2"):
        bind(api, builders.pod("one", builders.container(gpus=2)))
    assert api.requests == []


@given(st.lists(FAULTS | st.just("403"), max_size=6))
def test_deletion_is_retried_until_the_pod_is_gone(faults: list[str]) -> None:
    api = FakeApi(builders.pod(), faults)
    run_virtually(actions.delete(api, builders.pod(), 2.6))  # type: ignore[arg-type]
    assert api.pod is None
    assert api.content["preconditions"] == {"uid": "uid-of-one"}
    assert api.content["gracePeriodSeconds"] == 3


def test_disruption_mark_is_abandoned_when_it_always_fails() -> None:
    api = FakeApi(builders.pod(), ["away", "busy"] * 20 + ["broken"] * 1000)
    run_virtually(actions.mark_disrupted(api, builders.pod(), "preempted"))  # type: ignore[arg-type]
    assert 2 <= len(api.requests) - 40 < 20, "it waits while the server is unreachable or busy"


def test_disruption_mark_is_abandoned_when_it_is_forbidden() -> None:
    api = FakeApi(builders.pod(), ["broken", "403"])
    run_virtually(actions.mark_disrupted(api, builders.pod(), "x" * 2000))  # type: ignore[arg-type]
    assert api.requests == ["patch", "patch"]
    (condition,) = api.content["status"]["conditions"]
    assert condition["type"] == "DisruptionTarget"
    assert len(condition["message"]) == 1024


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ({}, "active"),
        ({"conditions": [{"type": "Failed", "status": "False"}]}, "active"),
        ({"conditions": [{"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "True"}]}, "failed"),
        ({"conditions": [{"type": "Complete", "status": "True"}]}, "succeeded"),
    ],
)
def test_verdict_comes_from_the_conditions_of_the_owner(status: Object, verdict: str) -> None:
    assert actions.verdict_on({"metadata": {"uid": "u"}, "status": status}, "u") == verdict


def test_verdict_is_gone_for_a_deleted_or_replaced_owner() -> None:
    assert actions.verdict_on(None, "u") == "gone"
    assert actions.verdict_on({"metadata": {"uid": "v"}}, "u") == "gone"
    assert actions.verdict_on({"metadata": {"uid": "u", "deletionTimestamp": "now"}}, "u") == "gone"


def test_binding_waits_while_the_server_is_unreachable() -> None:
    async def wait_for_server() -> None:
        api = FakeApi(builders.pod(), ["lost answer", *["away"] * 1000])
        task = asyncio.create_task(
            actions.bind(api, builders.pod(), LOCATION, "job1", 0, lambda: len(api.requests) < 3)  # type: ignore[arg-type]
        )
        await asyncio.sleep(600)
        assert not task.done()
        assert api.requests[-1] == "get"
        api.faults.clear()
        await task

    run_virtually(wait_for_server())
