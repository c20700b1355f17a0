"""Tests of agent reports and hang detection with a real kubelet, real containers and simulated cards."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.kube.node import RealNode, need_node
from tests.kube.placements import CARDS, Agent, agent_on, container, make, wait_for
from tests.kube.plane import ControlPlane, Settings
from tests.kube.pods import PODS
from tests.kube.test_cli import Cli, cli_on

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
SAMPLES = "/api/v1/agents/samples"
REPORT = {"kind": "samples", "at_us": 1, "cards": [{"id": "SIM-0"}], "runs": []}
SILENT_S = 8
CONFIG = f"""agent_account = "system:serviceaccount:default:gpusquad-agent"
report_every_s = 0.5
[hang]
silent_s = {SILENT_S}
stop_after_s = 4
"""
WAIT_S = 60.0


@dataclass(frozen=True)
class ReportingCluster:
    plane: ControlPlane
    cli: Cli
    agent: Agent
    url: str
    token: Path

    def post(self, token: str, content: Any = REPORT) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.post(self.url + SAMPLES, json=content, headers=headers, trust_env=False).status_code

    def until(self, problem: str, condition: Callable[[], bool]) -> None:
        end_s = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < end_s, f"{problem}\n{self.cli.daemon.log_tail()}\n{self.agent.daemon.log_tail()}"
            time.sleep(0.3)


def token_of(plane: ControlPlane, account: str, *audiences: str) -> str:
    """Request a token that is bound to the node, as the kubelet does for a pod."""
    spec = {"audiences": list(audiences), "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": RealNode.name}}  # fmt: skip
    return plane.admin.post(f"{ACCOUNTS}/{account}/token", {"spec": spec})["status"]["token"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ReportingCluster]:
    need_node()
    with contextlib.ExitStack() as exits:
        plane = exits.enter_context(ControlPlane(Settings(real_node=True)))
        for account in ("gpusquad-agent", "other"):
            plane.admin.post(ACCOUNTS, {"metadata": {"name": account}})
        token = plane.folder / "agent-token"
        token.write_text(token_of(plane, "gpusquad-agent", "gpusquad"))
        cli = exits.enter_context(cli_on(plane, "reports-home", CONFIG))
        url = json.loads((cli.home / "server.json").read_text())["url"]
        more = (
            f"--server={url}",
            f"--server-token={token}",
            "--report-every=0.5",
            "--quiet-after=1",
            f"--pod-logs={plane.folder}/pods",
        )
        agent = exits.enter_context(agent_on(plane, 4, more=more))
        yield ReportingCluster(plane, cli, agent, url, token)


def start_pod(plane: ControlPlane, command: str) -> str:
    return make(plane, [container(command=command)])


def job_of(cluster: ReportingCluster, pod: str) -> str:
    return cluster.plane.admin.get(f"{PODS}/{pod}")["metadata"]["annotations"]["gpusquad.io/job"]


def test_hung_job_is_stopped_and_working_jobs_continue(cluster: ReportingCluster):
    plane, cli = cluster.plane, cluster.cli
    busy = start_pod(plane, "while :; do :; done")
    printing = start_pod(plane, "n=0; while :; do n=$((n+1)); echo step $n/1000; sleep 1; done")
    idle = start_pod(plane, "echo begin; sleep 9999999")
    wait_for(plane, [busy, printing, idle], ["Running"])
    jobs = {name: job_of(cluster, name) for name in (busy, printing, idle)}
    plane.admin.until(PODS, lambda pods: idle not in {pod["metadata"]["name"] for pod in pods}, timeout_s=WAIT_S)
    ended = cli.until(jobs[idle], "failed")
    assert "hung by rule silent" in ended["cause"]
    story = cli.run("story", jobs[idle])
    assert story.index("no sign of life for") < story.index("hung by rule silent")
    events = plane.admin.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={idle}")["items"]
    [message] = [event["message"] for event in events if event["reason"] == "Stopped"]
    assert "hung by rule silent" in message

    running = wait_for(plane, [busy, printing], ["Running"])
    assert not any("deletionTimestamp" in pod["metadata"] for pod in running.values())
    for name in (busy, printing):
        assert cli.job(jobs[name])["state"] == "running"
        assert "hung" not in cli.run("story", jobs[name]), name
    cluster.until("progress is not shown", lambda: (cli.job(jobs[printing])["progress"] or {}).get("total") == 1000)

    cards = {card["id"]: card for node in cli.json("nodes")["items"] for card in node["cards"]}
    [card_id] = json.loads(running[busy]["metadata"]["annotations"][CARDS])["main"]
    assert cards[card_id]["sample"]["utilisation_ratio"] > 0.2
    assert {process["job"] for process in cards[card_id]["sample"]["processes"]} == {jobs[busy]}
    for name in (busy, printing):
        plane.admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def test_reports_are_accepted_only_from_the_agent_of_the_node(cluster: ReportingCluster):
    plane = cluster.plane
    own_token = cluster.token.read_text()
    cluster.until("the agent's own report is not accepted", lambda: cluster.post(own_token) == 200)
    assert cluster.post("") == 401
    assert cluster.post("not.a.token") == 401
    assert cluster.post(token_of(plane, "gpusquad-agent")) == 401, "a token for the API server is accepted"
    assert cluster.post(token_of(plane, "other", "gpusquad")) == 403
    unbound = plane.admin.post(f"{ACCOUNTS}/gpusquad-agent/token", {"spec": {"audiences": ["gpusquad"]}})
    assert cluster.post(unbound["status"]["token"]) == 403, "a token that is bound to no node is accepted"
    cards = [{"id": "ELSEWHERE-0", "model": "X", "memory_bytes": 1, "sms": 1, "domain": 0, "ok": True}]
    plane.admin.post("/api/v1/nodes", {"metadata": {"name": "elsewhere", "annotations": {CARDS: json.dumps(cards)}}})
    foreign_report = {**REPORT, "cards": [{"id": "ELSEWHERE-0"}]}
    cluster.until("cards of another node are not refused", lambda: cluster.post(own_token, foreign_report) == 403)

    text = httpx.get(f"{cluster.url}/metrics", trust_env=False).text
    counts = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("gpusquad_agent_reports_total"))
    assert float(counts['gpusquad_agent_reports_total{state="taken"}']) > 1
    assert float(counts['gpusquad_agent_reports_total{state="refused"}']) >= 6
    for log in (cluster.cli.daemon.log, cluster.agent.daemon.log):
        assert own_token not in log.read_text()
        assert own_token.rpartition(".")[2] not in log.read_text(), "the signature of the token is logged"


def test_job_is_not_reported_as_hung_while_its_agent_is_stopped(cluster: ReportingCluster):
    plane, cli = cluster.plane, cluster.cli
    idle = start_pod(plane, "exec sleep 1000")
    wait_for(plane, [idle], ["Running"])
    job = job_of(cluster, idle)

    def samples() -> list[Any]:
        return [c["sample"] for node in cli.json("nodes")["items"] for c in node["cards"] if c["id"].startswith("SIM")]

    cluster.agent.daemon.stop()
    cluster.until("samples of the cards are still reported", lambda: not any(samples()))
    cluster.until("the job has not run long enough", lambda: time.time() - cli.job(job)["started_s"] > 2 * SILENT_S)
    assert "no sign of life" not in cli.run("story", job)
    cluster.agent.start()
    cluster.until("samples of the cards are not reported again", lambda: all(samples()))
    cluster.until("the hang is not reported", lambda: "no sign of life" in cli.run("story", job))
