"""Tests of the agent's API client and pod cache, with a small HTTP server as the API server."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gpusquad.agent.kubernetes.api import AgentAccess, KubeApi, from_kubeconfig, in_cluster
from gpusquad.agent.kubernetes.pod_cache import PodCache
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.model.errors import Invalid

WAIT_S = 30.0
GPU = "nvidia.com/gpu"


def item(name: str, uid: str = "u", version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", "uid": uid, "resourceVersion": version}}


class FakeApiServer(ThreadingHTTPServer):
    """Answers from a table; each watch sends one list of events and ends."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers: dict[str, Any] = {}
        self.streams: list[list[dict[str, Any]]] = []
        self.requests: list[tuple[str, str, Any]] = []
        self.drops = 0
        self.token = self.kind = ""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.requests.append((self.command, self.path, json.loads(body) if body else None))
        self.server.token = self.headers.get("Authorization")
        self.server.kind = self.headers.get("Content-Type")
        if self.server.drops:
            self.server.drops -= 1
            self.close_connection = True
            return
        path = self.path.partition("?")[0]
        if "watch=true" in self.path:
            self._stream()
        elif path in self.server.answers:
            self._send(200, self.server.answers[path])
        else:
            self._send(404, {"message": "not found"})

    do_POST = do_PATCH = do_DELETE = do_GET

    def _stream(self) -> None:
        events = self.server.streams.pop(0) if self.server.streams else []
        self._send_bytes(200, b"".join(json.dumps(event).encode() + b"\n" for event in events))
        if not events:
            self.close_connection = True

    def _send(self, status: int, content: Any) -> None:
        self._send_bytes(status, json.dumps(content).encode())

    def _send_bytes(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing."""


@pytest.fixture
def server() -> Iterator[FakeApiServer]:
    started = FakeApiServer()
    yield started
    started.shutdown()
    started.server_close()


def test_requests_and_answers_pass_through_the_client(server: FakeApiServer):
    server.answers["/a"] = {"x": 1}
    api = KubeApi(AgentAccess(server.url, token="secret"))
    assert api.get("/a", fieldSelector="spec.nodeName=n") == {"x": 1}
    assert server.token == "Bearer secret"
    assert api.merge("/a", {"y": 2}) == {"x": 1}
    assert server.kind == "application/merge-patch+json"
    assert api.post("/a", {"z": 3}) == api.delete("/a", {}) == {"x": 1}
    assert [(method, path) for method, path, _ in server.requests] == [
        ("GET", "/a?fieldSelector=spec.nodeName%3Dn"), ("PATCH", "/a"), ("POST", "/a"), ("DELETE", "/a"),
    ]  # fmt: skip


def test_refusal_has_the_status_and_message_of_the_server(server: FakeApiServer):
    with pytest.raises(ApiRefused, match="404: not found") as refused:
        KubeApi(AgentAccess(server.url)).get("/nothing")
    assert refused.value.status == 404


def test_closed_connection_is_reopened_once(server: FakeApiServer):
    server.answers["/a"] = {}
    api = KubeApi(AgentAccess(server.url))
    api.get("/a")
    server.drops = 1
    assert api.get("/a") == {}
    server.drops = 2
    with pytest.raises(ApiUnreachable):
        api.get("/a")
    assert api.get("/a") == {}


def test_token_file_is_read_for_each_request(server: FakeApiServer, tmp_path: Path):
    server.answers["/a"] = {}
    token = tmp_path / "token"
    api = KubeApi(AgentAccess(server.url, token_file=str(token)))
    for text in ("first", "second"):
        token.write_text(f"{text}\n")
        api.get("/a")
        assert server.token == f"Bearer {text}"


def test_in_cluster_access_uses_the_service_account(tmp_path: Path):
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    found = in_cluster(tmp_path, environment)
    assert (found.url, found.token_file) == ("https://[fd00::1]:6443", str(tmp_path / "token"))
    with pytest.raises(Invalid, match="not a pod"):
        in_cluster(tmp_path, {})


def test_access_is_read_from_a_kubeconfig(tmp_path: Path):
    config = {
        "current-context": "b",
        "contexts": [{"name": "a", "context": {}}, {"name": "b", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://x:1", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": "t", "client-key-data": base64.b64encode(b"key").decode()}}],
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    found = from_kubeconfig(path)
    assert (found.url, found.authority, found.token) == ("https://x:1", str(tmp_path / "ca.crt"), "t")
    assert Path(found.key).read_bytes() == b"key"
    Path(found.key).unlink()


@pytest.mark.parametrize("text", ["", "{", "current-context: x", "[]", "current-context: x\ncontexts: []"])
def test_invalid_kubeconfig_is_rejected(tmp_path: Path, text: str):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(Invalid, match="kubeconfig"):
        from_kubeconfig(path)


def test_pod_cache_follows_the_pods_of_the_node(server: FakeApiServer):
    server.answers["/api/v1/pods"] = {"metadata": {"resourceVersion": "5"}, "items": [item("a"), item("b")]}
    server.streams = [
        [
            {"type": "DELETED", "object": item("a", version="6")},
            {"type": "ADDED", "object": item("c", version="7")},
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "9"}}},
        ],
        [
            {"type": "DELETED", "object": item("b", uid="an older one", version="10")},
            {"type": "ADDED", "object": item("d", version="11")},
        ],
    ]
    complete = threading.Event()
    cache = PodCache(
        KubeApi(AgentAccess(server.url)), "n", GPU, lambda: complete.set() if cache.get_cached("default/d") else None
    )
    cache.start()
    assert complete.wait(WAIT_S)
    cache.stop()
    assert sorted(pod.name for pod in cache.list_cached()) == ["b", "c", "d"]
    versions = [path.split("resourceVersion=")[1].split("&")[0] for _, path, _ in server.requests if "watch" in path]
    assert versions[:2] == ["5", "9"]
    assert all("spec.nodeName%3Dn" in path for _, path, _ in server.requests)


def test_fetched_pod_is_not_removed_by_an_older_list(server: FakeApiServer):
    cache = PodCache(KubeApi(AgentAccess(server.url)), "n", GPU)
    server.answers["/api/v1/pods"] = {"metadata": {"resourceVersion": "5"}, "items": [item("a")]}
    server.answers["/api/v1/namespaces/default/pods/new"] = item("new")
    api: Any = cache._api
    listed = api.get("/api/v1/pods")

    class LateList:
        """The pod is created and fetched after the list was made and before it arrives."""

        def get(self, path: str, **query: str) -> Any:
            cache._api = api
            assert cache.fetch("default/new") is not None
            return listed

    cache._api = LateList()  # pyright: ignore[reportAttributeAccessIssue]
    cache.fetch_all()
    assert sorted(pod.name for pod in cache.list_cached()) == ["a", "new"]
    cache.fetch_all()
    assert [pod.name for pod in cache.list_cached()] == ["a"]


@pytest.mark.parametrize(
    "request_pods", [PodCache.fetch_all, lambda cache: cache.fetch("default/a")], ids=["list", "get"]
)
@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "DELETED", "object": item("a", version="6")}, []),
        ({"type": "MODIFIED", "object": item("a", uid="newer", version="6")}, ["newer"]),
    ],
    ids=["deleted", "modified"],
)
def test_watch_event_is_not_undone_by_an_older_response(
    server: FakeApiServer, request_pods: Callable[[PodCache], object], event: dict[str, Any], expected: list[str]
):
    """The watch does not repeat the event, so the cache would stay wrong."""
    server.answers["/api/v1/pods"] = {"metadata": {"resourceVersion": "5"}, "items": [item("a")]}
    server.answers["/api/v1/namespaces/default/pods/a"] = item("a")
    cache = PodCache(KubeApi(AgentAccess(server.url)), "n", GPU)
    cache.fetch_all()
    api: Any = cache._api

    class LateResponse:
        """The event arrives after the response was made and before the response arrives."""

        def get(self, path: str, **query: str) -> Any:
            response = api.get(path, **query)
            cache._apply(event)
            return response

    cache._api = LateResponse()  # pyright: ignore[reportAttributeAccessIssue]
    request_pods(cache)
    assert [pod.uid for pod in cache.list_cached()] == expected


def test_deleted_pod_is_removed_from_the_cache(server: FakeApiServer):
    cache = PodCache(KubeApi(AgentAccess(server.url)), "n", GPU)
    server.answers["/api/v1/namespaces/default/pods/a"] = item("a")
    assert cache.fetch("default/a") == cache.get_cached("default/a") is not None
    server.answers.clear()
    assert cache.fetch("default/a") is None
    assert cache.get_cached("default/a") is None
