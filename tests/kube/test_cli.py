"""Tests of the command line on a cluster: submitted jobs become pods through the API server."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.kubernetes.create.manifests import ManifestSettings, owned_by, plan_of
from gpusquad.engines.kubernetes.create.objects import path_of
from gpusquad.server.services.jobs.cluster_submissions import programs_of
from gpusquad.spec.check import spec_from_dict
from gpusquad.spec.convert import grace_s, to_job
from tests.kube.daemons import Daemon
from tests.kube.image import IMAGE
from tests.kube.node import need_node
from tests.kube.placements import agent_on
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS

JOBS = "/apis/batch/v1/namespaces/default/jobs"
SERVICES = "/api/v1/namespaces/default/services"
SECRETS = "/api/v1/namespaces/default/secrets"
QUOTAS = "/api/v1/namespaces/default/resourcequotas"
_SOURCE = Path(__file__).parents[2] / "src"
_WAIT_S = 60.0


class Cli:
    """The service as a process, and the command line that uses it."""

    def __init__(self, plane: ControlPlane, home: Path, extra_config: str = "") -> None:
        home.mkdir()
        (home / "config.toml").write_text(
            f'[server]\nport = 0\n[cluster]\nengine = "kubernetes"\n[policy]\nmode = "predictive-fifo"\n'
            f'[kubernetes]\nkubeconfig = "{plane.kubeconfig()}"\nlease = ""\n{extra_config}'
        )
        self.home = home
        self._env = {"GPUSQUAD_HOME": str(home), "PYTHONPATH": str(_SOURCE), "PATH": os.environ["PATH"],
                     "HOME": str(home), "COLUMNS": "200", "NO_COLOR": "1"}  # fmt: skip
        command = [sys.executable, "-m", "gpusquad", "serve"]
        self.daemon = Daemon(f"service-{home.name}", command, plane.folder, self._env)

    def start(self) -> None:
        self.daemon.start()
        self.daemon.wait_for("ready", lambda: '"ready"' in self.daemon.log.read_text(), _WAIT_S)

    def run(self, *arguments: str, code: int = 0, text: str = "") -> str:
        command = [sys.executable, "-m", "gpusquad", *arguments]
        process = subprocess.run(command, env=self._env, capture_output=True, text=True, timeout=_WAIT_S, cwd=self.home,
                              input=text)  # fmt: skip
        assert process.returncode == code, f"{arguments}: {process.stdout}{process.stderr}\n{self.daemon.log_tail()}"
        return (process.stdout or process.stderr).strip()

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(arguments[0], "--json", *arguments[1:]))

    def job(self, job: str) -> Any:
        found = [view for view in self.json("history", "--limit", "100")["items"] if view["id"] == job]
        return found[0] if found else {"state": "not found yet"}

    def until(self, job: str, *states: str) -> Any:
        end_s = time.monotonic() + _WAIT_S
        while (found := self.job(job))["state"] not in states:
            assert time.monotonic() < end_s, f"{job} is {found['state']}, not {states}\n{self.daemon.log_tail()}"
            time.sleep(0.3)
        return found


@contextlib.contextmanager
def cli_on(plane: ControlPlane, name: str, extra_config: str = "") -> Iterator[Cli]:
    cli = Cli(plane, plane.folder / name, extra_config)
    try:
        cli.start()
        yield cli
    finally:
        cli.daemon.stop()


@pytest.fixture(scope="module")
def fake() -> Iterator[ControlPlane]:
    with ControlPlane(Settings(fake_nodes=2, gpus_per_node=4)) as started:
        yield started


@pytest.fixture(scope="module")
def cli(fake: ControlPlane) -> Iterator[Cli]:
    with cli_on(fake, "home", 'image = "nothing"\nnamespaces = {elsewhere = "not-there"}\n') as started:
        yield started


@contextlib.contextmanager
def quota(plane: ControlPlane, name: str, hard: Mapping[str, str]) -> Iterator[None]:
    """Set a resource quota. Waits for earlier pods to end first, because they would count against it."""
    plane.admin.until(PODS, lambda pods: not pods)
    plane.admin.post(QUOTAS, {"metadata": {"name": name}, "spec": {"hard": hard}})
    try:
        plane.admin.until(QUOTAS, lambda found: all("used" in item.get("status", {}) for item in found))
        yield
    finally:
        plane.admin.delete(f"{QUOTAS}/{name}")


def remove_jobs(plane: ControlPlane) -> None:
    """Delete all jobs, which would otherwise disturb later tests and reruns."""
    for item in plane.admin.get(JOBS)["items"]:
        plane.admin.delete(f"{JOBS}/{item['metadata']['name']}", propagationPolicy="Background")


FILES: Mapping[str, Mapping[str, Any]] = {
    "plain": {"gpus": 1},
    "everything": {
        "name": "Träin 100%!", "gpus": 2, "count": 12, "cpu": "500m", "memory": "1GiB", "gpu_model": ["A100", "H100"],
        "gpu_memory": "40GiB", "priority": "high", "lane": "batch", "queue": "nightly", "estimate": "90.5s",
        "limit": "4h", "checkpoint": {"every": "10m", "grace": "5s"}, "retries": 3, "env": {"A": "$(B) $$ ü"},
        "workdir": "/data", "secrets": [{"name": "key", "as": "KEY"}],
    },
    "roles": {
        "name": "rl",
        "roles": [
            {"name": "Learner!", "gpus": 1},
            {"name": "learner", "count": 3, "share": {"memory": "1GiB", "sm": 0.255}, "env": {"X": "1"}},
            {"name": "a-role-with-a-long-name-" * 3, "count": 2, "cpu": 1},
        ],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_api_server_accepts_the_objects_of_a_job_file(fake: ControlPlane, name: str):
    """With a dry run the API server validates every object."""
    spec = spec_from_dict({"command": "echo $(date) $$", "image": "x", **FILES[name]})
    job = to_job(spec, "-", 0, "default", "ann")
    secrets = {secret.env_name: "s3cret" for secret in spec.secrets}
    wanted = JobObjectRequest(job, "0123456789abcdef", programs_of(spec), "x", spec.workdir, grace_s(spec), 3, secrets)
    plan = plan_of(wanted, ManifestSettings())
    made = [fake.admin.post(f"{path_of(item)}?dryRun=All&fieldValidation=Strict", item) for item in plan.jobs]
    for item in plan.beside:
        fake.admin.post(f"{path_of(item)}?dryRun=All&fieldValidation=Strict", owned_by(item, made))
    assert "s3cret" not in json.dumps(plan.jobs)


def test_commands_work_on_a_cluster(fake: ControlPlane, cli: Cli):
    big = cli.run("submit", "--gpus", "4", "--tasks", "2", "--estimate", "1h", "-q", "--", "train")
    cli.until(big, "running")
    next_job = cli.run("submit", "--gpus", "1", "--name", "next", "-q", "--", "train")
    assert "needs 1 idle card" in cli.run("why", next_job)
    assert cli.json("when", next_job)["promised_s"] is not None or cli.json("when", next_job)["start_s"] is not None
    assert "held" in cli.run("hold", next_job)
    assert cli.job(next_job)["state"] == "held"
    cli.run("release", next_job)
    cli.run("update", next_job, "--priority", "high", "--estimate", "30m")
    [pod] = fake.admin.until(
        PODS, lambda pods: "gpusquad.io/priority" in pods[0]["metadata"]["annotations"],
        labelSelector=f"gpusquad.io/group={group_of(fake, 'next')}",
    )  # fmt: skip
    assert pod["metadata"]["annotations"]["gpusquad.io/priority"] == "high"
    assert pod["metadata"]["annotations"]["gpusquad.io/estimate"] == "1800s"
    assert "next" in cli.run("queue")
    assert cli.json("story", next_job)["items"][0]["actor"] == "admin"
    cli.run("cancel", next_job)
    fake.admin.until(PODS, lambda pods: not any("next" in pod["metadata"]["name"] for pod in pods))
    cli.run("cancel", big)
    assert cli.until(big, "cancelled")["cause"] == "cancelled by admin"
    fake.admin.until(JOBS, lambda jobs: not jobs)


def test_job_attributes_survive_a_service_restart(fake: ControlPlane, cli: Cli):
    job = cli.run("submit", "--gpus", "1", "--app", "resnet", "--priority", "low", "-q", "--", "train")
    cli.until(job, "running")
    cli.daemon.stop()
    cli.daemon.log.write_text("")
    cli.start()
    assert cli.job(job)["priority"] == "low"
    again = cli.run("resubmit", job).split("(")[1].split(")")[0]
    cli.run("cancel", job)
    cli.run("cancel", again)
    fake.admin.until(JOBS, lambda jobs: not jobs)


def test_failed_role_ends_the_other_roles(fake: ControlPlane, cli: Cli):
    (cli.home / "rl.yaml").write_text(
        "{name: rl, roles: [{name: learner, gpus: 1, command: [a]}, {name: actor, count: 2, gpus: 1, command: [b]}]}"
    )
    job = cli.run("submit", "rl.yaml", "-q")
    cli.until(job, "running")
    [learner] = [pod for pod in fake.admin.get(PODS)["items"] if "learner" in pod["metadata"]["name"]]
    ended = {"state": {"terminated": {"exitCode": 3, "reason": "Error"}}, "name": "main", "ready": False,
             "restartCount": 0, "image": "x", "imageID": "x"}  # fmt: skip
    status = {"status": {"phase": "Failed", "containerStatuses": [ended]}}
    fake.admin.patch(f"{PODS}/{learner['metadata']['name']}/status", status)
    assert "exit code 3" in cli.until(job, "failed")["cause"]
    fake.admin.until(PODS, lambda pods: all(pod["status"]["phase"] in ("Failed", "Succeeded") for pod in pods))
    remove_jobs(fake)


def test_refused_submission_leaves_no_objects(fake: ControlPlane, cli: Cli):
    cli.run("tenant", "set", "elsewhere")
    output = cli.run("submit", "--tenant", "elsewhere", "--gpus", "1", "--", "train", code=2)
    assert "the cluster has no namespace not-there" in output
    with quota(fake, "no-services", {"count/services": "0"}):
        output = cli.run("submit", "--gpus", "1", "--tasks", "2", "--", "train", code=2)
    assert "exceeded quota" in output
    fake.admin.until(JOBS, lambda jobs: not jobs)


def test_submit_warns_when_the_gang_is_incomplete(fake: ControlPlane, cli: Cli):
    with quota(fake, "one-pod", {"pods": "1"}):
        submitted = cli.json("submit", "--gpus", "1", "--tasks", "2", "--name", "never", "--", "train")
    job = submitted["jobs"][0]["id"]
    try:
        assert "not complete yet: waits for 1 of 2 pods" in submitted["warnings"][0]
        cli.until(job, "running")  # the quota is removed
        cli.run("cancel", job)
        fake.admin.until(JOBS, lambda jobs: not jobs)
    finally:
        remove_jobs(fake)


def test_elastic_job_is_refused(cli: Cli):
    (cli.home / "elastic.yaml").write_text("{min: 1, count: 2, gpus: 1, command: train}")
    assert "elastic jobs are not supported on Kubernetes" in cli.run("submit", "elastic.yaml", code=2)


def group_of(plane: ControlPlane, name: str) -> str:
    [found] = {
        item["metadata"]["labels"]["gpusquad.io/group"] for item in plane.admin.get(JOBS)["items"]
        if item["metadata"]["name"].startswith(f"{name}-")
    }  # fmt: skip
    return found


def test_gang_runs_on_a_real_node():
    """Submit a gang and read its output, cancel another job, and ask why a third is pending."""
    need_node()
    with ControlPlane(Settings(real_node=True)) as plane, agent_on(plane, 4), cli_on(plane, "real") as cli:
        cli.run("secret", "set", "KEY", text="open sesame")
        script = 'echo "rank $RANK of $WORLD_SIZE on $MASTER_ADDR"; echo "$KEY $(id -u)"; sleep 2'
        script += '; cat "$GPUSQUAD_HOSTFILE"; echo bye'
        common = ("--image", IMAGE, "--gpus", "1", "-q")
        gang = cli.run("submit", "--tasks", "2", "--name", "gang", "--secret", "KEY", *common, "--", "sh", "-c", script)
        followed = cli.run("logs", gang, "--follow", "--task", "1")
        assert followed.startswith("rank 1 of 2 on gang-")
        _, secret, *hosts, bye = followed.splitlines()
        assert (secret, bye) == ("open sesame 0", "bye")
        assert [host.split()[1] for host in hosts] == ["slots=1", "slots=1"]
        assert followed.split()[5] == hosts[0].split()[0], "rank 0 is the first host"
        cli.until(gang, "succeeded")
        first = cli.run("logs", gang, "--task", "0")
        assert first.splitlines()[0].startswith("rank 0 of 2")
        assert cli.run("logs", gang, "--task", "0", "--tail", "1") == "bye"
        sleeper = cli.run("submit", "--tasks", "4", "--name", "sleeper", *common, "--", "sleep", "1000")
        cli.until(sleeper, "running")
        third = cli.run("submit", "--name", "third", *common, "--", "true")
        assert "needs 1 idle card" in cli.run("why", third)
        cli.run("cancel", sleeper)
        cli.until(sleeper, "cancelled")
        cli.until(third, "succeeded")
        assert "deleted" in cli.run("logs", sleeper, "--task", "0")
