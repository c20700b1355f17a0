"""``gpusquad serve``: the service of this machine, in the foreground."""

from __future__ import annotations

from typing import Annotated

import typer

Host = Annotated[str | None, typer.Option(metavar="ADDRESS", help="Where to listen; loopback unless you say so.")]
Port = Annotated[int | None, typer.Option(metavar="PORT", help="0: any that is free.")]
DatabaseUrl = Annotated[
    str | None, typer.Option("--database", metavar="URL", help="postgresql://… instead of the SQLite file.")
]
Simulate = Annotated[
    int | None, typer.Option(metavar="N", help="N cards made of nothing, for trying things out without GPUs.")
]

Kubeconfig = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Schedule the pods of the cluster that this file leads to."),
]


def serve(
    host: Host = None,
    port: Port = None,
    database: DatabaseUrl = None,
    simulate: Simulate = None,
    kubeconfig: Kubeconfig = None,
    ready_fd: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Run the service of this machine until it is stopped. Jobs go on without it; the next start finds them."""
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
