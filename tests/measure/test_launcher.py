"""Tests for launchers: local processes, and processes in a pod through a fake kubectl."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpusquad.measure.channel import WorkerGone
from gpusquad.measure.launcher import Launcher, LocalLauncher, PodLauncher, PodOptions, manifest
from gpusquad.model.errors import Invalid
from tests.measure.fakes import HANGS, HERE, QUICK

ROOT = Path(__file__).parents[2]
WORKER = "gpusquad.measure.worker"
TIMEOUT_S = 30.0
KUBECTL = """#!/bin/sh
printf '%s\\n' "$*" >>"$0.asked"
case "$3" in
auth) [ "$5 $6 $7" != "$(cat "$0.refused" 2>/dev/null)" ] && echo yes || echo no ;;
create) cat >"$0.pod" ;;
get) cat "$0.status" ;;
exec) shift 8; "$@" || { code=$?; echo "command terminated with exit code $code" >&2; exit $code; } ;;
delete) echo gone >"$0.pod" ;;
esac
"""


@pytest.fixture
def kubectl(tmp_path: Path) -> Path:
    program = tmp_path / "kubectl"
    program.write_text(KUBECTL)
    program.chmod(0o755)
    _set_status(program, conditions=[{"type": "Ready", "status": "True"}])
    return program


def _set_status(kubectl: Path, **status: object) -> None:
    """Sets the pod status that the fake kubectl returns."""
    kubectl.with_name("kubectl.status").write_text(json.dumps({"status": status}))


def _options(kubectl: Path) -> PodOptions:
    return PodOptions(
        "example/image:1", "team", "bench", node="n1", python=sys.executable, ready_timeout_s=0, kubectl=str(kubectl)
    )


@pytest.fixture(params=["local", "pod"])
def launcher(request: pytest.FixtureRequest, tmp_path: Path, kubectl: Path) -> Iterator[Launcher]:
    if request.param == "local":
        yield LocalLauncher(tmp_path / "logs")
    else:
        with PodLauncher(_options(kubectl), tmp_path / "logs") as pod:
            yield pod


def _env() -> dict[str, str]:
    return {"PYTHONPATH": str(ROOT)}


def test_worker_answers_and_quits(launcher: Launcher) -> None:
    channel = launcher.start("one", WORKER, [QUICK], _env())
    assert channel.ask("hello", TIMEOUT_S)["pid"] > 0
    assert channel.ask("build", TIMEOUT_S) == {"out_of_memory": False, "reserved_bytes": 0}
    window = {"start_s": time.monotonic(), "lead_in_s": 0.5, "length_s": 0.01, "tail_s": 0.0}
    assert channel.ask("run", TIMEOUT_S, **window)["out_of_memory"] is False
    assert "cannot" in channel.ask("dance", TIMEOUT_S)["error"]
    channel.close()


def test_unknown_workload_is_reported(launcher: Launcher) -> None:
    channel = launcher.start("one", WORKER, ["no-such-workload"], _env())
    with pytest.raises(WorkerGone, match=r"no-such-workload.*one of cnn"):
        channel.ask("hello", TIMEOUT_S)
    channel.close(gracefully=False)


def test_hanging_worker_times_out(launcher: Launcher) -> None:
    channel = launcher.start("one", WORKER, [HANGS], _env())
    channel.ask("hello", TIMEOUT_S)
    channel.ask("build", TIMEOUT_S)
    with pytest.raises(WorkerGone, match="in time"):
        channel.ask("run", 0.05, start_s=time.monotonic(), lead_in_s=10, length_s=1, tail_s=0)
    channel.close(gracefully=False)
    with pytest.raises(WorkerGone):
        channel.ask("hello", 0.05)


def test_program_runs_with_its_input_and_environment(launcher: Launcher) -> None:
    assert launcher.run(["sh", "-c", 'cat; echo "$A"'], {"A": "b c"}, "words ") == "words b c\n"
    with pytest.raises(Invalid, match="failed"):
        launcher.run(["sh", "-c", "exit 3"], {})


def test_other_module_can_be_started(launcher: Launcher) -> None:
    channel = launcher.start("monitor", HERE, [], _env())
    assert channel.ask("hello", TIMEOUT_S)["gpu"] == "Fake"
    channel.close()


def test_pod_is_created_and_deleted(kubectl: Path, tmp_path: Path) -> None:
    with PodLauncher(_options(kubectl), tmp_path):
        assert json.loads(kubectl.with_name("kubectl.pod").read_text()) == manifest(_options(kubectl))
    assert kubectl.with_name("kubectl.pod").read_text() == "gone\n"
    calls = _kubectl_calls(kubectl)
    assert "-n team create -f -" in calls
    assert calls[-1] == "-n team delete pod bench --ignore-not-found --wait=false"


def _kubectl_calls(kubectl: Path) -> list[str]:
    return kubectl.with_name("kubectl.asked").read_text().splitlines()


@pytest.mark.parametrize(
    ("status", "message"),
    [
        ({}, "not ready within 0 s: no scheduler has considered it yet"),
        ({"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no free slot"}, "ended: .*no free slot"),
    ],
)
def test_pod_that_does_not_become_ready_is_deleted(kubectl: Path, tmp_path: Path, status: Any, message: str) -> None:
    _set_status(kubectl, **status)
    with pytest.raises(Invalid, match=message), PodLauncher(_options(kubectl), tmp_path):
        pass
    assert kubectl.with_name("kubectl.pod").read_text() == "gone\n"


def test_pod_deleted_before_it_is_ready_is_reported(kubectl: Path, tmp_path: Path) -> None:
    kubectl.with_name("kubectl.status").write_text("")
    with pytest.raises(Invalid, match="it was deleted before it was ready"), PodLauncher(_options(kubectl), tmp_path):
        pass


def test_missing_permission_is_reported_before_a_pod_is_created(kubectl: Path, tmp_path: Path) -> None:
    kubectl.with_name("kubectl.refused").write_text("create pods --subresource=exec")
    with pytest.raises(Invalid, match="may not create pods/exec in 'team'"), PodLauncher(_options(kubectl), tmp_path):
        pass
    assert not kubectl.with_name("kubectl.pod").exists()


def test_unreachable_cluster_is_reported(tmp_path: Path) -> None:
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho no route to host >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(Invalid, match="no route to host"), PodLauncher(_options(program), tmp_path):
        pass


def test_failed_deletion_of_the_pod_is_only_logged(
    kubectl: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with PodLauncher(_options(kubectl), tmp_path):
        kubectl.write_text("#!/bin/sh\necho forbidden >&2; exit 1\n")
    assert "team/bench is still there: " in caplog.text
    assert "forbidden" in caplog.text


def test_pods_have_unique_names(kubectl: Path, tmp_path: Path) -> None:
    names = set()
    for _ in range(2):
        with PodLauncher(PodOptions("image", kubectl=str(kubectl)), tmp_path):
            names.add(json.loads(kubectl.with_name("kubectl.pod").read_text())["metadata"]["name"])
    assert len(names) == 2


def test_pod_manifest_requests_one_gpu_from_gpusquad() -> None:
    spec = manifest(PodOptions("image", node="n1"))["spec"]
    assert isinstance(spec, dict)
    assert spec["schedulerName"] == "gpusquad"
    assert spec["nodeSelector"] == {"kubernetes.io/hostname": "n1"}
    assert spec["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": 1}}
    assert "nodeSelector" not in manifest(PodOptions("image"))["spec"]  # pyright: ignore
