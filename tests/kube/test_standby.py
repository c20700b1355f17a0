"""Test of two servers with one PostgreSQL database and one lease: the second takes over when the first stops."""

from __future__ import annotations

import threading
from pathlib import Path

from gpusquad.app.config import load_config
from gpusquad.app.service import Service
from tests.databases import PostgresqlServer
from tests.kube.plane import ControlPlane

TAKE_OVER_S = 30.0


def _server(plane: ControlPlane, url: str, home: Path) -> Service:
    home.mkdir()
    settings = {
        "cluster": {"engine": "kubernetes"}, "store": {"url": url},
        "kubernetes": {"kubeconfig": str(plane.kubeconfig()), "lease": "standby"},
    }  # fmt: skip
    return Service(home, load_config(home, settings))


def test_standby_waits_and_takes_over(plane: ControlPlane, postgresql_server: PostgresqlServer, tmp_path: Path):
    url = postgresql_server.url(postgresql_server.add("template0"))
    first = _server(plane, url, tmp_path / "first")
    first.start()
    found: list[Service | BaseException] = []

    def start_second() -> None:
        try:
            found.append(_server(plane, url, tmp_path / "second"))
        except BaseException as error:
            found.append(error)

    standby = threading.Thread(target=start_second, daemon=True)
    standby.start()
    standby.join(3.0)
    waited = standby.is_alive()
    first.close()
    standby.join(TAKE_OVER_S)
    for service in found:
        if isinstance(service, Service):
            service.start()
            service.close()
    assert waited, found
    assert [type(item) for item in found] == [Service], found
