"""What is done to pods, against a server that answers late, wrongly or not at all."""

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
from gpusquad.kube.names import CARDS, DEADLINE, JOB, KNOWN, WEIGHT
from gpusquad.kube.objects import Object, annotations_of
from gpusquad.model.job import Slo
from gpusquad.model.sharing_params import SharingParams
from tests.engines.kubernetes.parse import making
from tests.engines.kubernetes.virtual_time import run_virtually

PLACE = TaskLocation("node1", ("GPU-1",))
TROUBLE = st.sampled_from(["away", "lost answer", "busy", "broken", "broken but done"])


class FakeApi:
    """One pod, and troubles that are used up one request at a time."""

    def __init__(self, pod: Object | None, troubles: list[str] | None = None) -> None:
        self.pod = copy.deepcopy(pod)
        self.troubles = list(troubles or [])
        self.asked: list[str] = []
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

    def _do(self, what: str, work: Callable[[], Object]) -> Object:
        self.asked.append(what)
        trouble = self.troubles.pop(0) if self.troubles else ""
        if trouble == "away":
            raise ApiUnreachable("no route", may_be_done=False)
        if trouble == "busy":
            raise ApiRefused(429, "TooManyRequests", "later")
        if trouble == "broken":
            raise ApiRefused(500, "InternalError", "etcd")
        if trouble.isdecimal():
            raise ApiRefused(int(trouble), "Forbidden", "you may not")
        answer = work()
        if trouble == "lost answer":
            raise ApiUnreachable("no answer in time")
        if trouble == "broken but done":
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
    run_virtually(actions.bind(api, pod, PLACE, "job1", 3, wanted))  # type: ignore[arg-type]


def test_what_is_known_of_its_speed_is_written_with_the_binding() -> None:
    pod = making.pod()
    assert KNOWN not in actions.binding_of(pod, PLACE, "job1", 3)["metadata"]["annotations"]
    assert told(pod, SharingParams(app="a"))[KNOWN] == '{"app":"a","curve":[],"solo_per_s":0.0,"beside":{},"costs":{}}'


def told(pod: Object, sharing_params: SharingParams) -> dict[str, str]:
    return actions.binding_of(pod, replace(PLACE, sharing_params=sharing_params), "job1", 3)["metadata"]["annotations"]


def test_weight_and_deadline_are_the_schedulers_word() -> None:
    pod = making.pod()
    assert told(pod, SharingParams())[WEIGHT] == "1.0"
    assert DEADLINE not in told(pod, SharingParams())
    worth = told(pod, SharingParams(weight=2.5, slo=Slo(deadline_us=3_000_001)))
    assert (worth[WEIGHT], worth[DEADLINE]) == ("2.5", "1970-01-01T00:00:03.000001+00:00")
    made_up = told(making.pod(annotations={WEIGHT: "1000000", DEADLINE: "1970-01-01", KNOWN: "{}"}), SharingParams())
    assert (made_up[WEIGHT], made_up[DEADLINE], made_up[KNOWN]) == ("1.0", "", "")


@given(st.lists(TROUBLE | st.just("409"), max_size=6))
def test_an_annotation_is_written_whatever_happens_on_the_way(troubles: list[str]) -> None:
    pod = making.pod()
    api = FakeApi(pod, troubles)
    assert annotate(api) == ""
    assert api.content == {"metadata": {"uid": pod["metadata"]["uid"], "annotations": {WEIGHT: None}}}


def annotate(api: FakeApi) -> str:
    return run_virtually(actions.annotate(api, making.pod(), {WEIGHT: None}))  # type: ignore[arg-type]


@pytest.mark.parametrize("trouble", ["away", "busy", "broken", "409"])
def test_a_pod_that_cannot_be_annotated_is_given_up_after_some_tries(trouble: str) -> None:
    api = FakeApi(making.pod(), [trouble] * 1000)
    assert annotate(api)
    assert 3 < len(api.asked) < 20


def test_a_refusal_to_annotate_is_an_answer_and_a_pod_that_is_gone_is_none() -> None:
    api = FakeApi(making.pod(), ["403"])
    assert "you may not" in annotate(api)
    assert api.asked == ["patch"]
    assert annotate(FakeApi(None)) == ""


@given(st.lists(TROUBLE, max_size=6))
def test_a_pod_is_bound_whatever_happens_on_the_way(troubles: list[str]) -> None:
    pod = making.pod()
    api = FakeApi(pod, troubles)
    bind(api, pod)
    assert api.pod is not None
    assert api.pod["spec"]["nodeName"] == "node1"
    assert annotations_of(api.pod)[CARDS] == '{"main":["GPU-1"]}'
    assert annotations_of(api.pod)[JOB] == "job1"
    assert annotations_of(api.pod)["gpusquad.io/attempt"] == "3"


@given(st.lists(TROUBLE, max_size=6), st.integers(0, 6))
def test_when_it_is_not_wanted_any_more_the_outcome_is_the_truth(troubles: list[str], tries: int) -> None:
    pod = making.pod()
    api = FakeApi(pod, troubles)
    try:
        bind(api, pod, lambda: api.asked.count("post") < tries)
        said_bound = True
    except actions.NotBound:
        said_bound = False
    assert api.pod is not None
    assert said_bound == (api.pod["spec"].get("nodeName") == "node1")


@given(st.lists(TROUBLE, max_size=4))
def test_another_pod_of_the_same_name_is_not_bound(troubles: list[str]) -> None:
    pod, other = making.pod(), making.pod()
    other["metadata"]["uid"] = "another"
    api = FakeApi(other, troubles)
    with pytest.raises(actions.NotBound) as raised:
        bind(api, pod)
    assert raised.value.pod_is_gone
    assert api.pod is not None
    assert "nodeName" not in api.pod["spec"]


def test_a_pod_that_is_gone_or_going_is_no_reason_to_give_the_gang_up() -> None:
    pod = making.pod()
    going = copy.deepcopy(pod)
    going["metadata"]["deletionTimestamp"] = "now"
    for there in (None, going):
        with pytest.raises(actions.NotBound) as raised:
            bind(FakeApi(there), pod)
        assert raised.value.pod_is_gone


def test_a_pod_that_somebody_else_bound_is_not_ours_even_on_that_node() -> None:
    pod = making.pod()
    for node in ("node1", "node2"):
        with pytest.raises(actions.NotBound, match="another scheduler bound it") as raised:
            bind(FakeApi(making.pod(nodeName=node)), pod)
        assert not raised.value.pod_is_gone


def test_a_refusal_is_told_in_the_servers_words() -> None:
    with pytest.raises(actions.NotBound, match="you may not") as raised:
        bind(FakeApi(making.pod(), ["403"]), making.pod())
    assert not raised.value.pod_is_gone


def test_cards_that_do_not_suit_the_pod_are_no_crash() -> None:
    api = FakeApi(making.pod("one", making.container(gpus=2)))
    with pytest.raises(actions.NotBound, match="1 cards for a pod that needs 2"):
        bind(api, making.pod("one", making.container(gpus=2)))
    assert api.asked == []


@given(st.lists(TROUBLE | st.just("403"), max_size=6))
def test_a_deletion_is_tried_until_the_pod_is_gone(troubles: list[str]) -> None:
    api = FakeApi(making.pod(), troubles)
    run_virtually(actions.delete(api, making.pod(), 2.6))  # type: ignore[arg-type]
    assert api.pod is None
    assert api.content["preconditions"] == {"uid": "uid-of-one"}
    assert api.content["gracePeriodSeconds"] == 3


def test_a_mark_that_always_fails_does_not_keep_the_pod() -> None:
    api = FakeApi(making.pod(), ["away", "busy"] * 20 + ["broken"] * 1000)
    run_virtually(actions.mark_disrupted(api, making.pod(), "preempted"))  # type: ignore[arg-type]
    assert 2 <= len(api.asked) - 40 < 20, "a server that is away or busy is waited for"


def test_a_mark_that_is_not_allowed_does_not_keep_the_pod() -> None:
    api = FakeApi(making.pod(), ["broken", "403"])
    run_virtually(actions.mark_disrupted(api, making.pod(), "x" * 2000))  # type: ignore[arg-type]
    assert api.asked == ["patch", "patch"]
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
def test_what_an_owner_says_of_itself(status: Object, verdict: str) -> None:
    assert actions.verdict_on({"metadata": {"uid": "u"}, "status": status}, "u") == verdict


def test_an_owner_that_is_gone_or_another_one_makes_no_more_pods() -> None:
    assert actions.verdict_on(None, "u") == "gone"
    assert actions.verdict_on({"metadata": {"uid": "v"}}, "u") == "gone"
    assert actions.verdict_on({"metadata": {"uid": "u", "deletionTimestamp": "now"}}, "u") == "gone"


def test_while_the_server_is_away_nothing_is_said() -> None:
    async def for_a_while() -> None:
        api = FakeApi(making.pod(), ["lost answer", *["away"] * 1000])
        task = asyncio.create_task(actions.bind(api, making.pod(), PLACE, "job1", 0, lambda: len(api.asked) < 3))  # type: ignore[arg-type]
        await asyncio.sleep(600)
        assert not task.done()
        assert api.asked[-1] == "get"
        api.troubles.clear()
        await task

    run_virtually(for_a_while())
