"""Which job a pod is part of, and the token in a header of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from tests.server.rig import Rig, error_of


@dataclass
class FakePods:
    jobs: dict[tuple[str, str], str] = field(default_factory=dict)

    def job_of_pod(self, namespace: str, name: str) -> str:
        return self.jobs.get((namespace, name), "")


@pytest.fixture
def pods(rig: Rig) -> FakePods:
    made = FakePods()
    object.__setattr__(rig.services, "pods", made)
    return made


def test_the_job_of_a_pod(rig: Rig, pods: FakePods) -> None:
    job = rig.submit("ann")
    pods.jobs["vision", "train-0"] = job["id"]
    assert rig.get("pods/vision/train-0/job", "ann").json()["id"] == job["id"]


@pytest.mark.parametrize("path", ["pods/vision/train-1/job", "pods/default/train-0/job"])
def test_a_pod_without_a_job_is_not_found(rig: Rig, pods: FakePods, path: str) -> None:
    pods.jobs["vision", "train-0"] = rig.submit("ann")["id"]
    answer = rig.get(path, "ann")
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


def test_jobs_of_other_tenants_are_not_found(rig: Rig, pods: FakePods) -> None:
    pods.jobs["vision", "train-0"] = rig.submit("ann")["id"]
    assert rig.get("pods/vision/train-0/job", "bob").status_code == 404


def test_where_jobs_are_no_pods_there_are_none(rig: Rig) -> None:
    assert rig.get("pods/vision/train-0/job", "ann").status_code == 404


def test_a_name_that_no_pod_has_is_refused(rig: Rig) -> None:
    assert rig.get("pods/vision/Train_0/job", "ann").status_code == 422


def test_a_token_may_come_in_a_header_of_its_own(rig: Rig) -> None:
    """Behind the proxy of an API server, which takes Authorization away."""
    headers = {"Gpusquad-Token": rig.tokens["ann"]}
    assert rig.call("GET", "/api/v1/me", None, headers=headers).json()["user"] == "ann"
    for wrong in ("", "x", "gsq_" + "a" * 52, f"Bearer {rig.tokens['ann']}"):
        assert rig.call("GET", "/api/v1/me", None, headers={"Gpusquad-Token": wrong}).status_code == 401
