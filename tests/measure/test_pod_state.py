"""What a pod's status says to who waits for it, by statuses as a kubelet writes them."""

from __future__ import annotations

from typing import Any

import pytest

from gpusquad.measure.pod_state import failure_reason, is_ready, pending_reason

PLACED = {"type": "PodScheduled", "status": "True"}


def _waiting(reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return {"status": {"phase": "Pending", "conditions": [PLACED], "containerStatuses": [{"state": state}]}}


@pytest.mark.parametrize(
    ("pod", "told"),
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
def test_what_will_never_come_up(pod: dict[str, Any], told: str):
    assert failure_reason(pod) == told
    assert not is_ready(pod)


def test_last_words_of_a_container_that_ended():
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": "No module named gpusquad\n"}}
    pod = {"status": {"phase": "Failed", "containerStatuses": [{"state": ended}]}}
    assert failure_reason(pod) == "it ended: Error: No module named gpusquad"


@pytest.mark.parametrize(
    ("pod", "told"),
    [
        ({}, "no scheduler has considered it yet"),
        ({"status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "no card is free"}]}},
         "no card is free"),
        ({"status": {"conditions": [PLACED]}}, "its node has not started it yet"),
        (_waiting("ErrImagePull", "connection refused"), "ErrImagePull: connection refused"),
    ],
)  # fmt: skip
def test_what_it_waits_for(pod: dict[str, Any], told: str):
    assert pending_reason(pod) == told


def test_ready():
    assert is_ready({"status": {"conditions": [PLACED, {"type": "Ready", "status": "True"}]}})
    assert not is_ready({"status": {"conditions": [PLACED, {"type": "Ready", "status": "False"}]}})
