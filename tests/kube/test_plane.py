"""The control plane that the other tests stand on is a real one, and behaves as an engine may rely on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kube.api import Refused
from tests.kube.machine import Machine
from tests.kube.node import RealNode
from tests.kube.plane import PODGROUPS, ControlPlane, Settings, ready_names
from tests.kube.pods import PODS, bind, make_pod, wait_for_phase
from tests.kube.traces import sweep


def test_the_fake_nodes_are_ready_and_have_cards(plane: ControlPlane):
    nodes = plane.admin.get("/api/v1/nodes")["items"]
    assert ready_names(nodes) == {"fake-0", "fake-1", "fake-2", "fake-3"}
    assert {node["status"]["allocatable"]["nvidia.com/gpu"] for node in nodes} == {"8"}


def test_nobody_else_places_our_pods():
    """The default scheduler takes its own pod and leaves ours, which came first."""
    with ControlPlane(Settings(fake_nodes=1, scheduler=True)) as plane:
        ours = make_pod(plane.admin, gpus=1)
        theirs = make_pod(plane.admin, gpus=1, schedulerName="default-scheduler")
        wait_for_phase(plane.admin, theirs, "Running")
        left = plane.admin.get(f"{PODS}/{ours}")
    assert left["status"]["phase"] == "Pending"
    assert "nodeName" not in left["spec"]


def test_a_binding_places_the_pod_and_adds_its_annotations(plane: ControlPlane):
    name = make_pod(plane.admin, gpus=2, annotations={"theirs": "kept"})
    bind(plane.admin, name, "fake-1", {"gpusquad/cards": "0,5"})
    found = wait_for_phase(plane.admin, name, "Running")
    assert found["spec"]["nodeName"] == "fake-1"
    assert found["metadata"]["annotations"] == {"theirs": "kept", "gpusquad/cards": "0,5"}


def test_a_second_binding_is_a_conflict_and_changes_nothing(plane: ControlPlane):
    name = make_pod(plane.admin)
    bind(plane.admin, name, "fake-0", {"gpusquad/cards": "0"})
    with pytest.raises(Refused) as refused:
        bind(plane.admin, name, "fake-1", {"gpusquad/cards": "1"})
    assert refused.value.status == 409
    found = plane.admin.get(f"{PODS}/{name}")
    assert found["spec"]["nodeName"] == "fake-0"
    assert found["metadata"]["annotations"]["gpusquad/cards"] == "0"


def test_a_binding_under_the_uid_of_another_pod_is_a_conflict(plane: ControlPlane):
    """What was decided for a pod must not happen to a later one of the same name."""
    name = make_pod(plane.admin)
    metadata = {"name": name, "uid": "00000000-0000-0000-0000-000000000000"}
    with pytest.raises(Refused) as refused:
        plane.admin.post(f"{PODS}/{name}/binding", {"metadata": metadata, "target": {"kind": "Node", "name": "fake-0"}})
    assert refused.value.status == 409
    assert "nodeName" not in plane.admin.get(f"{PODS}/{name}")["spec"]


@pytest.mark.parametrize(("exit_code", "phase"), [("0", "Succeeded"), ("3", "Failed")])
def test_a_fake_pod_ends_as_it_is_told(plane: ControlPlane, exit_code: str, phase: str):
    told = {"fake.gpusquad/run-time": "100ms", "fake.gpusquad/exit-code": exit_code}
    name = make_pod(plane.admin, annotations=told)
    bind(plane.admin, name, "fake-2")
    found = wait_for_phase(plane.admin, name, phase)
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == int(exit_code)


def test_a_deleted_fake_pod_goes(plane: ControlPlane):
    name = make_pod(plane.admin)
    bind(plane.admin, name, "fake-3")
    wait_for_phase(plane.admin, name, "Running")
    plane.admin.delete(f"{PODS}/{name}")
    assert plane.admin.until(PODS, lambda pods: not pods, fieldSelector=f"metadata.name={name}") == []


def test_the_restricted_user_may_do_what_its_role_says_and_no_more(plane: ControlPlane):
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


def test_the_api_server_may_crash_and_come_back(plane: ControlPlane):
    name = make_pod(plane.admin)
    plane.daemons["kube-apiserver"].stop()
    plane.daemons["kube-apiserver"].start()
    plane.wait_until_ready()
    bind(plane.admin, name, "fake-0")
    wait_for_phase(plane.admin, name, "Running")


def test_a_pod_really_runs_on_the_real_node_and_only_logs_stay(machine: Machine):
    """It also fails inside, with a container still running: that is when tidying up is forgotten."""
    plane = ControlPlane(Settings(real_node=True))
    with pytest.raises(RuntimeError, match="on purpose"):
        _use_real_node(plane)
    assert "Kubelet version" in (plane.folder / "kubelet.log").read_text()
    shutil.rmtree(plane.folder)
    machine.must_be_as_before()


def test_a_killed_test_is_tidied_up_after(machine: Machine):
    command = [sys.executable, "-c", "from tests.kube.test_plane import use_real_node_and_die as die; die()"]
    killed = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    sweep()
    machine.must_be_as_before()


def use_real_node_and_die() -> None:
    with ControlPlane(Settings(real_node=True)) as plane:
        _leave_one_running(plane)
        os.kill(os.getpid(), signal.SIGKILL)


def _use_real_node(plane: ControlPlane) -> None:
    with plane:
        _run_to_its_end(plane)
        _leave_one_running(plane)
        raise RuntimeError("on purpose")


def _run_to_its_end(plane: ControlPlane) -> None:
    name = make_pod(plane.admin, command=["/bin/sh", "-c", "echo hello from $(hostname); exit 3"])
    bind(plane.admin, name, RealNode.name)
    found = wait_for_phase(plane.admin, name, "Failed")
    assert found["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3
    assert plane.admin.text(f"{PODS}/{name}/log") == f"hello from {name}\n"


def _leave_one_running(plane: ControlPlane) -> None:
    name = make_pod(plane.admin, command=["/bin/sleep", "86400"])
    bind(plane.admin, name, RealNode.name)
    wait_for_phase(plane.admin, name, "Running")
