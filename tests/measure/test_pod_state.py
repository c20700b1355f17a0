"""Tests for reading a pod's state from its status."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.measure.pod_state import failure_reason, is_ready, pending_reason

SCHEDULED = {"type": "PodScheduled", "status": "True"}


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"phase": "Pending", "conditions": [SCHEDULED], "containerStatuses": [{"state": state}]}}


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        (_waiting("ContainerCreating"), ""),
        (_waiting("ErrImagePull", "connection refused"), ""),
        (_waiting("ImagePullBackOff", "connection refused"), "ImagePullBackOff: connection refused"),
        (_waiting("InvalidImageName"), "InvalidImageName"),
        ({"status": {"phase": "Failed", "reason": "Evicted", "message": "disk"}}, "it ended: Evicted: disk"),
        ({"status": {"phase": "Succeeded"}}, "it ended"),
        ({"metadata": {"deletionTimestamp": "now"}}, "it was deleted before it was ready"),
        ({}, ""),
    ],
)
def test_failure_reason_of_pods_that_are_not_ready(pod: dict[str, Any], reason: str):
    assert failure_reason(pod) == reason
    assert not is_ready(pod)


def test_failure_reason_contains_the_message_of_an_ended_container():
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "No module named gpusquad\n"}}
    pod = {"status": {"phase": "Failed", "containerStatuses": [{"state": ended}]}}
    assert failure_reason(pod) == "it ended: Error: No module named gpusquad"


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        ({}, "no scheduler has considered it yet"),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no card is free"}]}},
         "no card is free"),
        ({"status": {"conditions": [SCHEDULED]}}, "its node has not started it yet"),
        (_waiting("ErrImagePull", "connection refused"), "ErrImagePull: connection refused"),
    ],
)  # fmt: skip
def test_pending_reason_of_pods(pod: dict[str, Any], reason: str):
    assert pending_reason(pod) == reason


def test_pod_is_ready_by_its_ready_condition():
    assert is_ready({"status": {"conditions": [SCHEDULED, {"type": "Ready", "status": "True"}]}})
    assert not is_ready({"status": {"conditions": [SCHEDULED, {"type": "Ready", "status": "False"}]}})
