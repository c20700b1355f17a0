"""Summary of the service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.text import Text

from gpusquad.cli._jobs import words
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._tables import console, facts
from gpusquad.cli._times import relative
from gpusquad.cli._views.policy import mode_label

Plain = Mapping[str, Any]


def show_status(answer: Plain, now_s: float) -> None:
    out = console()
    state = ("ready", "bold green") if answer["ready"] else ("not ready", "bold red")
    out.print(Text.assemble(f"gpusquad at {one_line(answer['url'])} is ", state))
    policy, me = answer["policy"], answer["me"]
    since = f", changed {relative(policy['since_s'], now_s)}" if policy["revision"] else ""
    out.print(
        facts([
            ("reason", answer["reason"]),
            ("GPUs", gpus(answer["cluster"])),
            ("gangs", gangs(answer["cluster"])),
            ("jobs", counts(answer["counts"])),
            ("mode", f"{mode_label(policy)}, revision {policy['revision']}{since}"),
            ("you", f"{one_line(me['user'])} of tenant {one_line(me['tenant'])}, {one_line(me['role'])}"),
        ])
    )  # fmt: skip


def gpus(cluster: Plain) -> str:
    """``32: 11 free, 1 unhealthy``."""
    parts = [f"{cluster['free']} free"]
    parts += [f"{cluster[name]} {words(name)}" for name in ("unhealthy", "taken_outside") if cluster[name]]
    simulated = " (simulated)" if cluster["simulated"] else ""
    return f"{cluster['gpus']}{simulated}: {', '.join(parts)}"


def gangs(cluster: Plain) -> str:
    """Number of gangs of each size that fit on one node now."""
    sizes = sorted(cluster["usable"].items(), key=lambda item: int(item[0]))
    return ", ".join(f"{count} × {size}" for size, count in sizes) + " GPUs fit on one node"


def counts(numbers: Plain) -> str:
    return " · ".join(f"{count:,} {words(state)}" for state, count in numbers.items() if count) or "none"
