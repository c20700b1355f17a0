"""``gpusquad serve``: runs the service in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

Host = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address to listen on. Default: server.host in config.toml, otherwise 127.0.0.1."
    ),
]
Port = Annotated[
    int | None,
    typer.Option(
        metavar="PORT",
        help="Port to listen on; 0 chooses a free one. Default: server.port in config.toml, otherwise 7070.",
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="Database, for example postgresql://USER@HOST/NAME. Default: a SQLite file in the service's home folder.",
    ),
]
Simulate = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="Simulate N GPUs; jobs are still real processes. "
        "Default: use the real GPUs, or simulate 8 if there are none.",
    ),
]

Kubeconfig = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Schedule the pods of the Kubernetes cluster in this kubeconfig file. Default: run jobs on this machine.",
    ),
]


def serve(
    host: Host = None,
    port: Port = None,
    database: DatabaseUrl = None,
    simulate: Simulate = None,
    kubeconfig: Kubeconfig = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the service in the foreground until it is stopped. Jobs continue; the next start takes them over."""
    from gpusquad.app.config import home_folder, load_config
    from gpusquad.app.service import Service
    from gpusquad.server.logging import configure

    configure()
    home = home_folder()
    config = load_config(home, {
        "server": {"host": host, "port": port}, "store": {"url": database}, "kubernetes": {"kubeconfig": kubeconfig},
        "cluster": {"simulate": simulate, "engine": "kubernetes" if kubeconfig else None},
    })  # fmt: skip
    Service(home, config).serve(ready_fd)
