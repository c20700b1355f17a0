"""Tests of reading pods, containers and pins from API objects."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.agent.kubernetes.pods import Container, read_pin, read_pod
from gpusquad.kube.names import CARDS

GPU = "nvidia.com/gpu"


def item(**changes: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p", "namespace": "n", "uid": "u"}, "spec": {}, "status": {}, **changes}


def container(name: str, gpus: str | None, **more: Any) -> dict[str, Any]:
    return {"name": name, "resources": {"limits": {GPU: gpus}} if gpus else {}, **more}


def test_containers_are_in_the_kubelets_order():
    spec = {
        "containers": [container("a", "2"), container("none", None), container("zero", "0"), container("b", "1")],
        "initContainers": [container("first", "1"), container("helper", "1", restartPolicy="Always")],
    }
    found = read_pod(item(spec=spec), GPU)
    assert [(entry.name, entry.count, entry.is_init) for entry in found.containers] == [
        ("first", 1, True), ("helper", 1, False), ("a", 2, False), ("b", 1, False),
    ]  # fmt: skip


def test_containers_of_another_resource_are_ignored():
    assert read_pod(item(spec={"containers": [container("a", "2")]}), "amd.com/gpu").containers == ()


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, (False, False)),
        ({"phase": "Pending"}, (False, False)),
        ({"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}, (False, True)),
        ({"phase": "Failed"}, (True, False)),
        ({"phase": "Succeeded", "startTime": "2026-01-01T00:00:00Z"}, (True, True)),
    ],
)
def test_phase_and_start_time_give_started_and_ended(status: dict[str, str], expected: tuple[bool, bool]):
    found = read_pod(item(status=status), GPU)
    assert (found.has_ended, found.is_started) == expected


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({}, (False, None)),
        ({"deletionTimestamp": "1970-01-01T00:01:40Z"}, (True, 100.0)),
        ({"deletionTimestamp": "soon"}, (True, None)),
    ],
)
def test_kill_time_is_the_deletion_timestamp(metadata: dict[str, str], expected: tuple[bool, float | None]):
    found = read_pod(item(metadata={"name": "p", "uid": "u", **metadata}), GPU)
    assert (found.is_leaving, found.killed_at_s) == expected


def test_pin_and_job_are_read_from_annotations():
    annotations = {CARDS: '{"main": ["A", "B"], "other": ["A"]}', "gpusquad.io/job": "j1"}
    found = read_pod(item(metadata={"name": "p", "namespace": "n", "uid": "u", "annotations": annotations}), GPU)
    assert found.pin == {"main": ("A", "B"), "other": ("A",)}
    assert found.pinned_cards == {"A", "B"}
    assert (found.job, found.key) == ("j1", "n/p")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"main": "A"}', '{"main": [1]}', "null", "[" * 100_000])
def test_invalid_pin_is_an_error(text: str):
    pin, error = read_pin(text)
    assert pin is None
    assert CARDS in error


@given(st.dictionaries(st.text(), st.lists(st.text())))
def test_pin_is_read_as_written(pin: dict[str, list[str]]):
    assert read_pin(json.dumps(pin)) == ({name: tuple(cards) for name, cards in pin.items()}, "")


def test_missing_annotation_is_no_pin():
    assert read_pin(None) == (None, "")
    assert Container("a", 1).limits == {}


@pytest.mark.parametrize(
    ("pod_context", "container_context", "more", "expected"),
    [
        (None, None, {}, None),
        ({"fsGroup": 7}, {}, {}, None),
        ({"runAsUser": 1}, None, {}, (1, 0)),
        ({"runAsUser": 1, "runAsGroup": 2}, {"runAsUser": 3}, {}, (3, 2)),
        ({"runAsUser": 0}, None, {}, (0, 0)),
        ({"runAsUser": 1}, None, {"hostUsers": False}, None),
    ],
)
def test_user_comes_from_the_security_contexts(
    pod_context: Any, container_context: Any, more: dict[str, Any], expected: Any
):
    spec = {
        "containers": [container("a", "1", securityContext=container_context)],
        "securityContext": pod_context,
        **more,
    }
    [found] = read_pod(item(spec=spec), GPU).containers
    assert found.run_as == expected


@pytest.mark.parametrize(("spec", "expected"), [({}, 0), ({"priority": None}, 0), ({"priority": -3}, -3)])
def test_pod_priority_is_read(spec: dict[str, Any], expected: int):
    assert read_pod(item(spec=spec), GPU).priority == expected
