"""The gpusquad service on a control plane, in this process or as a process of its own."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpusquad.app.config import load_config
from gpusquad.app.service import Service
from tests.kube.daemons import Daemon
from tests.kube.plane import ControlPlane


@contextlib.contextmanager
def serving(plane: ControlPlane, home: Path, user: str = "admin", mode: str = "predictive-fifo",
            **kubernetes: Any) -> Iterator[Service]:  # fmt: skip
    """Run the service in this process. Without a lease unless one is named."""
    settings = {"kubeconfig": str(plane.kubeconfig(user)), "lease": "", **kubernetes}
    config = load_config(home, {"cluster": {"engine": "kubernetes"}, "kubernetes": settings, "policy": {"mode": mode}})
    service = Service(home, config)
    try:
        service.start()
        yield service
    finally:
        service.close()


def service_process(plane: ControlPlane, name: str, user: str = "admin", lease: str = "", **settings: float) -> Daemon:
    """Return the service as a process that tests can kill. Of replicas with the same lease, one is the leader."""
    home = plane.folder / name
    home.mkdir(exist_ok=True)
    lines = "".join(f"{key} = {value}\n" for key, value in settings.items())
    (home / "config.toml").write_text(
        f'[cluster]\nengine = "kubernetes"\n[policy]\nmode = "predictive-fifo"\n[server]\nport = 0\n'
        f'[kubernetes]\nlease = "{lease}"\nnamespace = "default"\nkubeconfig = "{plane.kubeconfig(user)}"\n{lines}'
    )
    command = [sys.executable, "-m", "gpusquad", "serve"]
    return Daemon(name, command, plane.folder, env={**os.environ, "GPUSQUAD_HOME": str(home)})
