"""API of pods: the job of a pod, and the token in its own header."""

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


def test_job_of_a_pod_is_found(rig: Rig, pods: FakePods) -> None:
    job = rig.submit("ann")
    pods.jobs["vision", "train-0"] = job["id"]
    assert rig.get("pods/vision/train-0/job", "ann").json()["id"] == job["id"]


@pytest.mark.parametrize("path", ["pods/vision/train-1/job", "pods/default/train-0/job"])
def test_pod_without_a_job_is_not_found(rig: Rig, pods: FakePods, path: str) -> None:
    pods.jobs["vision", "train-0"] = rig.submit("ann")["id"]
    answer = rig.get(path, "ann")
    assert answer.status_code == 404
    assert error_of(answer)["code"] == "not_found"


def test_pod_of_another_tenants_job_is_not_found(rig: Rig, pods: FakePods) -> None:
    pods.jobs["vision", "train-0"] = rig.submit("ann")["id"]
    assert rig.get("pods/vision/train-0/job", "bob").status_code == 404


def test_pod_is_not_found_without_a_cluster(rig: Rig) -> None:
    assert rig.get("pods/vision/train-0/job", "ann").status_code == 404


def test_invalid_pod_name_is_refused(rig: Rig) -> None:
    assert rig.get("pods/vision/Train_0/job", "ann").status_code == 422


def test_token_is_accepted_in_its_own_header(rig: Rig) -> None:
    """The proxy of a Kubernetes API server removes the Authorization header."""
    headers = {"Gpusquad-Token": rig.tokens["ann"]}
    assert rig.call("GET", "/api/v1/me", None, headers=headers).json()["user"] == "ann"
    for wrong in ("", "x", "gsq_" + "a" * 52, f"Bearer {rig.tokens['ann']}"):
        assert rig.call("GET", "/api/v1/me", None, headers={"Gpusquad-Token": wrong}).status_code == 401
