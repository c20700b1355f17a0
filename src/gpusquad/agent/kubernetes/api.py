"""Client for the part of the Kubernetes API that the agent needs. It uses the standard library, so that the agent
starts fast and stays small."""

from __future__ import annotations

import base64
import http.client
import json
import os
import ssl
import tempfile
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.model.errors import Invalid

Object = dict[str, Any]

TIMEOUT_S = 10.0
SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
RIGHTS: tuple[Object, ...] = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch", "delete"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]},
    {"apiGroups": [""], "resources": ["events"], "verbs": ["create"]},
)
"""Rules of the agent's ClusterRole: all requests that it may make."""


@dataclass(frozen=True)
class AgentAccess:
    """Address of the server and credentials."""

    url: str
    authority: str = ""
    """File with the certificate authority of the server. Empty: the authorities that the system trusts."""
    token: str = ""
    token_file: str = ""
    """File with the token, used instead of ``token``. It is read for each request, because Kubernetes replaces the
    tokens of pods every hour."""
    certificate: str = ""
    """File with the client certificate. Empty: none."""
    key: str = ""
    """File with the private key of the client certificate."""


def in_cluster(folder: Path = SERVICE_ACCOUNT, environment: Mapping[str, str] = os.environ) -> AgentAccess:
    """Access with the service account of this pod."""
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise Invalid("kubeconfig", "is missing, and this is not a pod of a cluster", "name a kubeconfig file")
    host = f"[{host}]" if ":" in host else host
    return AgentAccess(f"https://{host}:{port}", authority=str(folder / "ca.crt"), token_file=str(folder / "token"))


def from_kubeconfig(path: Path) -> AgentAccess:
    """Access by the current context of a kubeconfig file."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        context = _named(content, "context", content["current-context"])
        cluster, user = _named(content, "cluster", context["cluster"]), _named(content, "user", context["user"])
        return AgentAccess(
            url=cluster["server"],
            authority=_file(path, cluster, "certificate-authority"),
            token=user.get("token", ""),
            token_file=user.get("tokenFile", ""),
            certificate=_file(path, user, "client-certificate"),
            key=_file(path, user, "client-key"),
        )
    except (OSError, yaml.YAMLError, KeyError, TypeError, StopIteration, ValueError) as error:
        raise Invalid("kubeconfig", f"{path} cannot be used: {error!r}") from error


def _named(content: Object, kind: str, name: str) -> Object:
    """The entry of this name in a list of the kubeconfig: a context, cluster or user."""
    return next(entry[kind] for entry in content[f"{kind}s"] if entry["name"] == name)


def _file(config: Path, entry: Object, name: str) -> str:
    """Path of the named file, relative to the kubeconfig. Inline data is written to a temporary file. Empty: none."""
    if f"{name}-data" in entry:
        with tempfile.NamedTemporaryFile(prefix="gpusquad-", delete=False) as file:
            file.write(base64.b64decode(entry[f"{name}-data"]))
        return file.name
    return str(config.parent / entry[name]) if entry.get(name) else ""


class KubeApi:
    """Client for the API server. Threads may share it: each has its own connection.

    All calls raise ApiRefused for an error of the server, and ApiUnreachable if there is no usable answer.
    """

    def __init__(self, access: AgentAccess) -> None:
        self._access = access
        url = urllib.parse.urlsplit(access.url)
        self._host, self._port, self._prefix = url.hostname or "", url.port, url.path.rstrip("/")
        self._tls = _tls(access) if url.scheme == "https" else None
        self._per_thread = threading.local()

    def get(self, path: str, **query: str) -> Object:
        return self._send("GET", path, query)

    def post(self, path: str, content: Object) -> Object:
        return self._send("POST", path, {}, content)

    def merge(self, path: str, content: Object) -> Object:
        """A merge patch: named fields are replaced, null removes a field."""
        return self._send("PATCH", path, {}, content, "application/merge-patch+json")

    def delete(self, path: str, content: Object) -> Object:
        return self._send("DELETE", path, {}, content)

    def watch(self, path: str, version: str, timeout_s: int, **query: str) -> Iterator[Object]:
        """Events after the resource version, until the server ends the stream. It has its own connection."""
        parameters = {"watch": "true", "resourceVersion": version, "allowWatchBookmarks": "true",
                      "timeoutSeconds": str(timeout_s), **query}  # fmt: skip
        connection = self._connection(timeout_s + TIMEOUT_S)
        try:
            answer = self._ask(connection, "GET", path, parameters, None, "")
            while line := answer.readline():
                yield json.loads(line)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ApiUnreachable(f"the watch of {path} broke: {error!r}") from error
        finally:
            connection.close()

    def _send(self, method: str, path: str, query: Mapping[str, str], content: Object | None = None,
              content_type: str = "application/json") -> Object:  # fmt: skip
        """Send on the idle connection of the thread, or on a new one. If the idle one fails, try once more on a new
        one, because the server may have closed it."""
        kept = getattr(self._per_thread, "connection", None)
        try:
            return self._exchange(kept or self._connection(TIMEOUT_S), method, path, query, content, content_type)
        except ApiUnreachable:
            if kept is None:
                raise
        return self._exchange(self._connection(TIMEOUT_S), method, path, query, content, content_type)

    def _exchange(self, connection: http.client.HTTPConnection, method: str, path: str, query: Mapping[str, str],
                  content: Object | None, content_type: str) -> Object:  # fmt: skip
        """Answer to a request. The connection is kept if the request succeeded, and closed otherwise."""
        self._per_thread.connection = None
        try:
            found = json.loads(self._ask(connection, method, path, query, content, content_type).read())
        except ApiRefused:
            connection.close()
            raise
        except (OSError, http.client.HTTPException, ValueError) as error:
            connection.close()
            raise ApiUnreachable(f"{method} {path}: {error!r}") from error
        self._per_thread.connection = connection
        return found

    def _ask(self, connection: http.client.HTTPConnection, method: str, path: str, query: Mapping[str, str],
             content: Object | None, content_type: str) -> http.client.HTTPResponse:  # fmt: skip
        """Send a request and return the answer, of which the body is not read yet."""
        headers = {"Accept": "application/json", "User-Agent": "gpusquad-agent"}
        token = self._token()
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if content is not None:
            headers["Content-Type"] = content_type
        target = self._prefix + path + ("?" + urllib.parse.urlencode(query) if query else "")
        connection.request(method, target, json.dumps(content) if content is not None else None, headers)
        answer = connection.getresponse()
        if answer.status >= 400:
            raise ApiRefused(answer.status, message=_message(answer.read()))
        return answer

    def _token(self) -> str:
        token = Path(self._access.token_file).read_text().strip() if self._access.token_file else self._access.token
        if not token.isascii() or not token.isprintable():  # http.client's error would show the token
            raise ValueError("the token contains characters that cannot be sent")
        return token

    def _connection(self, timeout_s: float) -> http.client.HTTPConnection:
        if self._tls is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout_s)
        return http.client.HTTPSConnection(self._host, self._port, timeout=timeout_s, context=self._tls)


def _tls(access: AgentAccess) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.authority or None)
    if access.certificate:
        context.load_cert_chain(access.certificate, access.key or None)
    return context


def _message(body: bytes) -> str:
    """Message of a Kubernetes Status, or the start of any other answer, for example of a proxy."""
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace")[:500]
