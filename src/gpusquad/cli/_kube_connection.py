"""Connects to the service of a cluster and to its pods with only a kubeconfig.

The API server forwards requests to a service inside the cluster (``services/proxy``). It consumes ``Authorization``
itself, so the service's token is sent in a separate header.
"""

from __future__ import annotations

import http.client
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from gpusquad.client.client import Client
from gpusquad.client.http import Http
from gpusquad.model.errors import Invalid

if TYPE_CHECKING:
    from gpusquad.kube.access import KubeAccess

DEFAULT_SERVICE = "gpusquad/gpusquad:http"
TOKEN_HEADER = "Gpusquad-Token"


@dataclass(frozen=True)
class KubeTarget:
    """The cluster and service named on the command line."""

    namespace: str = ""
    kubeconfig: str = ""
    context: str = ""
    service: str = ""
    """``NAMESPACE/NAME:PORT`` of the gpusquad service."""


def access_of(where: KubeTarget) -> KubeAccess:
    try:
        from gpusquad.kube.access import load_access
    except ImportError as error:
        raise Invalid("kubectl", f"needs the package {error.name}", "install gpusquad[kubernetes]") from None
    return load_access(Path(where.kubeconfig) if where.kubeconfig else None, where.context or None)


def client_of(access: KubeAccess, where: KubeTarget, environment: Mapping[str, str] = os.environ) -> Client:
    """Connect to ``GPUSQUAD_URL`` if it is set, otherwise through the API server."""
    if environment.get("GPUSQUAD_URL", "").strip():
        from gpusquad.client.connect import find

        return find(environment)
    service = where.service or environment.get("GPUSQUAD_SERVICE", "").strip() or DEFAULT_SERVICE
    # The token of this machine's own service must not be sent to another one.
    http = ProxyHttp(access, service, environment.get("GPUSQUAD_TOKEN", "").strip())
    return Client(http.url, http=http)


class KubeHttp(Http):
    """HTTP to an API server, with the certificates and the token of a kubeconfig."""

    def __init__(self, access: KubeAccess, prefix: str = "", **options: Any) -> None:
        super().__init__(access.url + prefix, _bearer(access), **options)
        self._access = access

    def _connect(self, answer_s: float) -> http.client.HTTPConnection:
        tls, parts = self._access.tls(), self._parts
        if tls is None:
            return super()._connect(answer_s)
        connection = _Tls(parts.hostname or "", parts.port, timeout=self._connect_s, context=tls)
        connection.server_name = self._access.server_name
        connection.connect()
        connection.sock.settimeout(answer_s)
        return connection

    def plain(self, path: str, **query: str) -> Any:
        """GET a Kubernetes object by its full path."""
        return self.call("GET", [part for part in path.split("/") if part], query=query, prefix=())


class ProxyHttp(KubeHttp):
    """HTTP to a gpusquad service behind the API server."""

    def __init__(self, access: KubeAccess, service: str, token: str, **options: Any) -> None:
        namespace, slash, name = service.partition("/")
        if not slash or not namespace or not name:
            raise Invalid("service", f"{service!r} is not NAMESPACE/NAME:PORT", f"write for example {DEFAULT_SERVICE}")
        super().__init__(
            access,
            f"/api/v1/namespaces/{quote(namespace)}/services/{quote(name, safe=':')}/proxy",
            cure="set GPUSQUAD_URL, or name the service with --service NAMESPACE/NAME:PORT", **options
        )  # fmt: skip
        # The service accepts only its own host names, and the API server forwards the one it was called by.
        self._headers["Host"] = f"{name.partition(':')[0]}.{namespace}.svc"
        if token:
            self._headers[TOKEN_HEADER] = token


class _Tls(http.client.HTTPSConnection):
    server_name = ""
    """Name on the certificate, if it differs from the host name."""

    def connect(self) -> None:
        if not self.server_name:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        context: Any = getattr(self, "_context")  # noqa: B009 - the base class has no public name for it
        self.sock = context.wrap_socket(self.sock, server_hostname=self.server_name)


def _bearer(access: KubeAccess) -> str:
    token = access.token.now()
    if token is None:
        access.token.renew()
        token = access.token.now()
    return token or ""
