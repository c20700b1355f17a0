"""Tests of pod conditions: written once, and only to pending pods."""

from __future__ import annotations

import pytest

from gpusquad.engines.kubernetes.status.conditions import Conditions, is_pending
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.status.builders import NOW, pod


def test_condition_is_written_once_and_keeps_its_transition_time() -> None:
    conditions = Conditions()
    first = conditions.patch_for(pod(), "6 are idle", NOW)
    assert first is not None
    assert first["metadata"] == {"uid": "uid-a", "resourceVersion": "1"}
    assert first["status"]["conditions"][0]["lastTransitionTime"] == "2026-03-01T12:00:00Z"
    conditions.written(pod(), "6 are idle")
    assert conditions.patch_for(pod(), "6 are idle", NOW) is None
    second = conditions.patch_for(pod(), "7 are idle", NOW)
    assert second is not None
    assert "lastTransitionTime" not in second["status"]["conditions"][0]


@pytest.mark.parametrize(
    "more",
    [
        {"spec": {"nodeName": "n"}},
        {"spec": {"schedulingGates": [{"name": "x/y"}]}},
        {"status": {"phase": "Succeeded"}},
        {"metadata": {"name": "a", "uid": "u", "deletionTimestamp": "now"}},
    ],
)
def test_only_pending_pods_get_conditions(more: Object) -> None:
    assert is_pending(pod())
    assert not is_pending(pod() | more)
