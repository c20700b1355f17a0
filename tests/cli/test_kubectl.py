"""The plugin's way to the service, without a cluster: a small server plays the API server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("orjson")

from gpusquad.cli.kubectl import app

PROXY = "/api/v1/namespaces/gpusquad/services/gpusquad:http/proxy"
POD = {
    "metadata": {"name": "late", "namespace": "team", "uid": "u1"},
    "status": {
        "phase": "Pending",
        "nominatedNodeName": "n1",
        "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "needs 4, 0 are idle"}
        ],
    },
}
EVENTS = [
    {"reason": "Reserved", "message": "promised", "source": {"component": "gpusquad"}, "lastTimestamp": "2"},
    {"reason": "FailedScheduling", "message": "0/4 nodes", "source": {"component": "default-scheduler"}},
]
WHY = {"state": "pending", "position": 2, "reasons": [{"code": "no_cards", "message": "0 idle", "cure": "wait"}]}
JOB = {"id": "01hzx7k2m9qd3w5r8t1v4y6a0b", "name": "late", "state": "pending", "submitted_s": 0.0}
MISSING = {"kind": "Status", "reason": "NotFound", "message": "not there", "code": 404}


class Cluster:
    """Answers by path; what is not named is missing."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, object]] = {
            "/api/v1/namespaces/team/pods/late": (200, POD),
            "/api/v1/namespaces/team/events": (200, {"items": EVENTS}),
        }
        self.requests: list[tuple[str, dict[str, str]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                outer.requests.append((path, dict(self.headers)))
                status, content = outer.answers.get(path, (404, MISSING))
                body = json.dumps(content).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def run(cluster: Cluster, tmp_path: Path):
    kubeconfig = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "team"}}],
        "clusters": [{"name": "c", "cluster": {"server": cluster.url}}],
        "users": [{"name": "u", "user": {"token": "of-the-cluster"}}],
    }  # fmt: skip
    (tmp_path / "config").write_text(json.dumps(kubeconfig))
    environment = {"KUBECONFIG": str(tmp_path / "config"), "GPUSQUAD_TOKEN": "gsq_mine", "GPUSQUAD_URL": "",
                   "GPUSQUAD_SERVICE": "", "HOME": str(tmp_path)}  # fmt: skip
    return lambda *arguments, **more: CliRunner().invoke(app, arguments, env=environment | more)


def answered(cluster: Cluster) -> None:
    cluster.answers |= {
        f"{PROXY}/api/v1/pods/team/late/job": (200, JOB),
        f"{PROXY}/api/v1/jobs/{JOB['id']}/why": (200, WHY),
        f"{PROXY}/api/v1/jobs/{JOB['id']}": (200, JOB),
    }


def test_through_the_api_server_with_both_tokens(cluster: Cluster, run) -> None:
    answered(cluster)
    done = run("why", "late")
    assert done.exit_code == 0, done.output
    assert "position 2 in the queue" in done.output
    assert "0 idle" in done.output
    for path, headers in cluster.requests:
        assert headers["Authorization"] == "Bearer of-the-cluster"
        is_ours = path.startswith(PROXY)
        assert headers.get("Gpusquad-Token") == ("gsq_mine" if is_ours else None)  # the cluster does not get ours
        assert not is_ours or headers["Host"] == "gpusquad.gpusquad.svc"


def test_a_bound_pod_names_its_job_itself(cluster: Cluster, run) -> None:
    answered(cluster)
    bound = {**POD, "metadata": {**POD["metadata"], "annotations": {"gpusquad.io/job": JOB["id"]}}}
    cluster.answers["/api/v1/namespaces/team/pods/late"] = (200, bound)
    assert json.loads(run("why", "pod/late", "--json").stdout) == WHY
    assert f"{PROXY}/api/v1/pods/team/late/job" not in [path for path, _ in cluster.requests]


def test_without_the_service_by_what_is_written_on_the_pod(cluster: Cluster, run) -> None:
    done = run("why", "late")
    assert done.exit_code == 0
    assert "Unschedulable: needs 4, 0 are idle" in done.output
    assert "nominated node: n1" in done.output
    assert "Reserved: promised" in done.output
    assert "0/4 nodes" not in done.output
    assert "the service did not answer: not there" in done.output


def test_a_pod_that_has_no_job_yet_needs_no_excuse(cluster: Cluster, run) -> None:
    told = {"error": {"code": "not_found", "message": "pod team/late belongs to no job"}}
    cluster.answers[f"{PROXY}/api/v1/pods/team/late/job"] = (404, told)
    done = run("why", "late")
    assert "Unschedulable" in done.output
    assert "did not answer" not in done.output


def test_who_may_not_read_pods_asks_the_service_alone(cluster: Cluster, run) -> None:
    answered(cluster)
    forbidden = {"kind": "Status", "reason": "Forbidden", "message": "no"}
    cluster.answers["/api/v1/namespaces/team/pods/late"] = (403, forbidden)
    assert "position 2 in the queue" in run("why", "late").output


def test_a_pod_that_is_not_there(run) -> None:
    done = run("why", "nobody", "-n", "elsewhere")
    assert done.exit_code == 3
    assert "not there" in done.output


def test_another_service_may_be_named(cluster: Cluster, run) -> None:
    run("why", "late", "--service", "infra/sched:80")
    assert any(path.startswith("/api/v1/namespaces/infra/services/sched:80/proxy/") for path, _ in cluster.requests)
    assert run("why", "late", "--service", "sched").exit_code == 2


def test_the_address_of_the_service_goes_before_the_proxy(cluster: Cluster, run) -> None:
    cluster.answers |= {path.removeprefix(PROXY): answer for path, answer in cluster.answers.items()}
    answered(cluster)
    cluster.answers |= {path.removeprefix(PROXY): answer for path, answer in cluster.answers.items()}
    assert "position 2 in the queue" in run("why", "late", GPUSQUAD_URL=cluster.url).output
    assert not any(path.startswith(PROXY) for path, _ in cluster.requests)
