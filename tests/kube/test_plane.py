"""Tests of the control plane that the other tests use, and of the API behaviour that the engine relies on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.api import Refused
from tests.kube.host_state import clean_up_killed_tests
from tests.kube.machine import Machine
from tests.kube.node import RealNode
from tests.kube.plane import PODGROUPS, ControlPlane, Settings, ready_names
from tests.kube.pods import PODS, bind, make_pod, wait_for_phase


def test_fake_nodes_are_ready_and_have_cards(plane: ControlPlane):
    nodes = plane.admin.get("/api/v1/nodes")["items"]
    assert ready_names(nodes) == {"fake-0", "fake-1", "fake-2", "fake-3"}
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}


def test_default_scheduler_ignores_pods_of_gpusquad():
    """The default scheduler places its own pod and ignores the older pod of gpusquad."""
    with ControlPlane(Settings(fake_nodes=1, scheduler=True)) as plane:
        own_pod = make_pod(plane.admin, gpus=1)
        others_pod = make_pod(plane.admin, gpus=1, schedulerName="default-scheduler")
        wait_for_phase(plane.admin, others_pod, "Running")
        unplaced = plane.admin.get(f"{PODS}/{own_pod}")
    assert unplaced["status"]["phase"] == "Pending"
    assert "nodeName" not in unplaced["spec"]


def test_binding_places_the_pod_and_adds_annotations(plane: ControlPlane):
    name = make_pod(plane.admin, gpus=2, annotations={"theirs": "kept"})
    bind(plane.admin, name, "fake-1", {"gpusquad/cards": "0,5"})
    found = wait_for_phase(plane.admin, name, "Running")
    assert found["spec"]["nodeName"] == "fake-1"
    assert found["metadata"]["annotations"] == {"theirs": "kept", "gpusquad/cards": "0,5"}


def test_second_binding_is_a_conflict_and_changes_nothing(plane: ControlPlane):
    name = make_pod(plane.admin)
    bind(plane.admin, name, "fake-0", {"gpusquad/cards": "0"})
    with pytest.raises(Refused) as refused:
        bind(plane.admin, name, "fake-1", {"gpusquad/cards": "1"})
    assert refused.value.status == 409
    found = plane.admin.get(f"{PODS}/{name}")
    assert found["spec"]["nodeName"] == "fake-0"
    assert found["metadata"]["annotations"]["gpusquad/cards"] == "0"


def test_binding_with_the_uid_of_another_pod_is_a_conflict(plane: ControlPlane):
    """A decision for a pod must not apply to a later pod of the same name."""
    name = make_pod(plane.admin)
    metadata = {"name": name, "uid": "00000000-0000-0000-0000-000000000000"}
    with pytest.raises(Refused) as refused:
        plane.admin.post(f"{PODS}/{name}/binding", {"metadata": metadata, "target": {"kind": "Node", "name": "fake-0"}})
    assert refused.value.status == 409
    assert "nodeName" not in plane.admin.get(f"{PODS}/{name}")["spec"]


@pytest.mark.parametrize(("exit_code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_fake_pod_ends_with_the_annotated_exit_code(plane: ControlPlane, exit_code: str, phase: str):
    fake_annotations = {"fake.gpusquad/run-time": "100ms", "fake.gpusquad/exit-code": exit_code}
    name = make_pod(plane.admin, annotations=fake_annotations)
    bind(plane.admin, name, "fake-2")
    found = wait_for_phase(plane.admin, name, phase)
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(exit_code)


def test_deleted_fake_pod_is_removed(plane: ControlPlane):
    name = make_pod(plane.admin)
    bind(plane.admin, name, "fake-3")
    wait_for_phase(plane.admin, name, "Running")
    plane.admin.delete(f"{PODS}/{name}")
    assert plane.admin.until(PODS, lambda pods: not pods, fieldSelector=f"metadata.name={name}") == []


def test_restricted_user_has_only_the_rights_of_its_role(plane: ControlPlane):
    name = make_pod(plane.admin)
    plane.allow([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}])
    assert plane.restricted.get(f"{PODS}/{name}")["metadata"]["name"] == name
    with pytest.raises(Refused) as refused:
        bind(plane.restricted, name, "fake-0")
    assert refused.value.status == 403
    plane.allow([{"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}])
    bind(plane.restricted, name, "fake-0")
    with pytest.raises(Refused) as refused:
        plane.restricted.get(f"{PODS}/{name}")
    assert refused.value.status == 403


def test_native_pod_groups_are_served(plane: ControlPlane):
    groups = f"{PODGROUPS}/namespaces/default/podgroups"
    policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
    plane.admin.post(groups, {"metadata": {"name": "pair"}, "spec": policy})
    name = make_pod(plane.admin, schedulingGroup={"podGroupName": "pair"})
    assert plane.admin.get(f"{PODS}/{name}")["spec"]["schedulingGroup"] == {"podGroupName": "pair"}
    assert plane.admin.get(f"{groups}/pair")["spec"]["schedulingPolicy"]["gang"]["minCount"] == 2


def test_control_plane_works_after_an_api_server_restart(plane: ControlPlane):
    name = make_pod(plane.admin)
    plane.daemons["kube-apiserver"].stop()
    plane.daemons["kube-apiserver"].start()
    plane.wait_until_ready()
    bind(plane.admin, name, "fake-0")
    wait_for_phase(plane.admin, name, "Running")


def test_real_node_runs_pods_and_leaves_only_logs_on_failure(machine: Machine):
    """The block fails while a container runs, because cleanup is most likely to be incomplete then."""
    plane = ControlPlane(Settings(real_node=True))
    with pytest.raises(RuntimeError, match="on purpose"):
        _use_real_node(plane)
    assert "Kubelet version" in (plane.folder / "kubelet.log").read_text()
    shutil.rmtree(plane.folder)
    machine.must_be_as_before()


def test_state_is_restored_after_a_test_was_killed(machine: Machine):
    command = [sys.executable, "-c", "from tests.kube.test_plane import use_real_node_and_die as die; die()"]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    clean_up_killed_tests()
    machine.must_be_as_before()


def use_real_node_and_die() -> None:
    with ControlPlane(Settings(real_node=True)) as plane:
        _start_running_pod(plane)
        os.kill(os.getpid(), signal.SIGKILL)


def _use_real_node(plane: ControlPlane) -> None:
    with plane:
        _run_failing_pod(plane)
        _start_running_pod(plane)
        raise RuntimeError("on purpose")


def _run_failing_pod(plane: ControlPlane) -> None:
    name = make_pod(plane.admin, command=["/bin/sh", "-c", "echo hello from $(hostname); exit 3"])
    bind(plane.admin, name, RealNode.name)
    found = wait_for_phase(plane.admin, name, "Failed")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert plane.admin.text(f"{PODS}/{name}/log") == f"hello from {name}\n"


def _start_running_pod(plane: ControlPlane) -> None:
    name = make_pod(plane.admin, command=["/bin/sleep", "86400"])
    bind(plane.admin, name, RealNode.name)
    wait_for_phase(plane.admin, name, "Running")
