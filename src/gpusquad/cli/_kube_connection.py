"""The way to the service of a cluster, and to its pods, for somebody who has only a kubeconfig.

The API server passes requests on to a service inside the cluster (``services/proxy``). It keeps ``Authorization`` for
itself, so the service's own token goes in a header of its own.
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

USUAL_SERVICE = "gpusquad/gpusquad:http"
TOKEN_HEADER = "Gpusquad-Token"


@dataclass(frozen=True)
class KubeTarget:
    """What the command line says of the cluster."""

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
    """``GPUSQUAD_URL`` where it is set, else through the API server."""
    if environment.get("GPUSQUAD_URL", "").strip():
        from gpusquad.client.connect import find

        return find(environment)
    service = where.service or environment.get("GPUSQUAD_SERVICE", "").strip() or USUAL_SERVICE
    # The token of this machine's own service is not shown to another one.
    http = ProxyHttp(access, service, environment.get("GPUSQUAD_TOKEN", "").strip())
    return Client(http.url, http=http)


class KubeHttp(Http):
    """An API server, with the certificates and the token of a kubeconfig."""

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
        """Something of the cluster's own, by its whole path."""
        return self.call("GET", [part for part in path.split("/") if part], query=query, prefix=())


class ProxyHttp(KubeHttp):
    """A gpusquad service behind the API server."""

    def __init__(self, access: KubeAccess, service: str, token: str, **options: Any) -> None:
        namespace, slash, name = service.partition("/")
        if not slash or not namespace or not name:
            raise Invalid("service", f"{service!r} names no service", f"write for example {USUAL_SERVICE}")
        super().__init__(
            access,
            f"/api/v1/namespaces/{quote(namespace)}/services/{quote(name, safe=':')}/proxy",
            cure="set GPUSQUAD_URL, or name the service with --service NAMESPACE/NAME:PORT", **options
        )  # fmt: skip
        # The service answers only to names it goes by, and the API server passes on the name it was called by.
        self._headers["Host"] = f"{name.partition(':')[0]}.{namespace}.svc"
        if token:
            self._headers[TOKEN_HEADER] = token


class _Tls(http.client.HTTPSConnection):
    server_name = ""
    """The name on the certificate, where it is not the host's."""

    def connect(self) -> None:
        if not self.server_name:
            super().connect()
            return
        http.client.HTTPConnection.connect(self)
        context: Any = getattr(self, "_context")  # noqa: B009 - the base class keeps it under no public name
        self.sock = context.wrap_socket(self.sock, server_hostname=self.server_name)


def _bearer(access: KubeAccess) -> str:
    token = access.token.now()
    if token is None:
        access.token.renew()
        token = access.token.now()
    return token or ""
