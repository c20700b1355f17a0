"""Agents report to the service, which stops what hangs by it: a real kubelet, real containers, simulated cards."""

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
class Stage:
    plane: ControlPlane
    cli: Cli
    agent: Agent
    url: str
    token: Path

    def post(self, token: str, content: Any = REPORT) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.post(self.url + SAMPLES, json=content, headers=headers, trust_env=False).status_code

    def until(self, what: str, is_so: Callable[[], bool]) -> None:
        end_s = time.monotonic() + WAIT_S
        while not is_so():
            assert time.monotonic() < end_s, f"{what}\n{self.cli.daemon.last_words()}\n{self.agent.daemon.last_words()}"
            time.sleep(0.3)


def token_of(plane: ControlPlane, account: str, *audiences: str) -> str:
    """As the kubelet gets one for a pod on the node."""
    spec = {"audiences": list(audiences), "expirationSeconds": 3600,
            "boundObjectRef": {"apiVersion": "v1", "kind": "Node", "name": RealNode.name}}  # fmt: skip
    return plane.admin.post(f"{ACCOUNTS}/{account}/token", {"spec": spec})["status"]["token"]


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    need_node()
    with contextlib.ExitStack() as exits:
        plane = exits.enter_context(ControlPlane(Settings(real_node=True)))
        for account in ("gpusquad-agent", "other"):
            plane.admin.post(ACCOUNTS, {"metadata": {"name": account}})
        token = plane.folder / "agent-token"
        token.write_text(token_of(plane, "gpusquad-agent", "gpusquad"))
        cli = exits.enter_context(cli_on(plane, "reports-home", CONFIG))
        cli.run("tenant", "set", "default", "--on-hang", "stop")
        url = json.loads((cli.home / "server.json").read_text())["url"]
        more = (f"--server={url}", f"--server-token={token}", "--report-every=0.5", f"--pod-logs={plane.folder}/pods")
        agent = exits.enter_context(agent_on(plane, 4, more=more))
        yield Stage(plane, cli, agent, url, token)


def run(plane: ControlPlane, command: str) -> str:
    return make(plane, [container(command=command)])


def job_of(stage: Stage, pod: str) -> str:
    return stage.plane.admin.get(f"{PODS}/{pod}")["metadata"]["annotations"]["gpusquad.io/job"]


def test_what_hangs_is_warned_of_and_stopped_and_what_works_is_left_alone(stage: Stage):
    plane, cli = stage.plane, stage.cli
    busy = run(plane, "while :; do :; done")
    talks = run(plane, "n=0; while :; do n=$((n+1)); echo step $n/1000; sleep 1; done")
    idle = run(plane, "echo begin; exec sleep 1000")
    wait_for(plane, [busy, talks, idle], ["Running"])
    jobs = {name: job_of(stage, name) for name in (busy, talks, idle)}
    plane.admin.until(PODS, lambda pods: idle not in {pod["metadata"]["name"] for pod in pods}, timeout_s=WAIT_S)
    ended = cli.until(jobs[idle], "failed")
    assert "hung by rule silent" in ended["cause"]
    story = cli.run("story", jobs[idle])
    assert story.index("no sign of life for") < story.index("hung by rule silent")
    events = plane.admin.get("/api/v1/namespaces/default/events", fieldSelector=f"involvedObject.name={idle}")["items"]
    [told] = [event["message"] for event in events if event["reason"] == "Stopped"]
    assert "hung by rule silent" in told

    left = wait_for(plane, [busy, talks], ["Running"])
    assert not any("deletionTimestamp" in pod["metadata"] for pod in left.values())
    for name in (busy, talks):
        assert cli.job(jobs[name])["state"] == "running"
        assert "hung" not in cli.run("story", jobs[name]), name
    stage.until("progress is shown", lambda: (cli.job(jobs[talks])["progress"] or {}).get("total") == 1000)

    cards = {card["id"]: card for node in cli.json("nodes")["items"] for card in node["cards"]}
    [its] = json.loads(left[busy]["metadata"]["annotations"][CARDS])["main"]
    assert cards[its]["sample"]["utilisation_ratio"] > 0.2
    assert {process["job"] for process in cards[its]["sample"]["processes"]} == {jobs[busy]}
    for name in (busy, talks):
        plane.admin.delete(f"{PODS}/{name}", gracePeriodSeconds="0")


def test_only_the_agent_of_a_node_may_speak_for_it(stage: Stage):
    plane = stage.plane
    mine = stage.token.read_text()
    stage.until("a report of its own is taken", lambda: stage.post(mine) == 200)
    assert stage.post("") == 401
    assert stage.post("not.a.token") == 401
    assert stage.post(token_of(plane, "gpusquad-agent")) == 401, "one for the API server"
    assert stage.post(token_of(plane, "other", "gpusquad")) == 403
    loose = plane.admin.post(f"{ACCOUNTS}/gpusquad-agent/token", {"spec": {"audiences": ["gpusquad"]}})
    assert stage.post(loose["status"]["token"]) == 403, "bound to no node"
    cards = [{"id": "ELSEWHERE-0", "model": "X", "memory_bytes": 1, "sms": 1, "domain": 0, "ok": True}]
    plane.admin.post("/api/v1/nodes", {"metadata": {"name": "elsewhere", "annotations": {CARDS: json.dumps(cards)}}})
    theirs = {**REPORT, "cards": [{"id": "ELSEWHERE-0"}]}
    stage.until("cards of another node are refused", lambda: stage.post(mine, theirs) == 403)

    text = httpx.get(f"{stage.url}/metrics", trust_env=False).text
    counted = dict(line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("gpusquad_agent_reports_total"))
    assert float(counted['gpusquad_agent_reports_total{state="taken"}']) > 1
    assert float(counted['gpusquad_agent_reports_total{state="refused"}']) >= 6
    for log in (stage.cli.daemon.log, stage.agent.daemon.log):
        assert mine not in log.read_text()
        assert mine.rpartition(".")[2] not in log.read_text(), "nor its signature"


def test_an_agent_that_falls_silent_makes_nobody_look_hung(stage: Stage):
    plane, cli = stage.plane, stage.cli
    idle = run(plane, "exec sleep 1000")
    wait_for(plane, [idle], ["Running"])
    job = job_of(stage, idle)

    def samples() -> list[Any]:
        return [c["sample"] for node in cli.json("nodes")["items"] for c in node["cards"] if c["id"].startswith("SIM")]

    stage.agent.daemon.stop()
    stage.until("its cards are not known any more", lambda: not any(samples()))
    stage.until("it has run for long enough", lambda: time.time() - cli.job(job)["started_s"] > 2 * SILENT_S)
    assert "no sign of life" not in cli.run("story", job)
    stage.agent.start()
    stage.until("its cards are known again", lambda: all(samples()))
    stage.until("it is seen to hang", lambda: "no sign of life" in cli.run("story", job))
