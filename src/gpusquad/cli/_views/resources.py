"""Formats the GPU requests of a job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpusquad.cli._service import counted
from gpusquad.cli._sizes import size


def request_text(job: Mapping[str, Any]) -> str:
    """``2 GPUs``, or ``25 % of the SMs of one GPU``."""
    share = job.get("share")
    if not share:
        return counted(job["gpus"], "GPU") if job["gpus"] else "no GPU"
    parts = [f"{_percent(share['sm'])} of the SMs"] if share["sm"] else []
    if share["memory"] is not None:
        parts.append(f"{_memory(share)} of the memory" if _is_part(share) else _memory(share))
    return f"{' and '.join(parts)} of one GPU" + (", isolated" if share["isolation"] == "isolated" else "")


def gpus(job: Mapping[str, Any]) -> str:
    """Short form for a column: number of GPUs, or the SM or memory share."""
    share = job.get("share")
    if not share:
        return str(job["gpus"])
    part = _percent(share["sm"]) if share["sm"] else _memory(share)
    return f"{job['gpus']} × {part}" if job["gpus"] > 1 else part


def _is_part(share: Mapping[str, Any]) -> bool:
    return isinstance(share["memory"], str)


def _memory(share: Mapping[str, Any]) -> str:
    return share["memory"].replace("%", " %") if _is_part(share) else size(share["memory"])


def _percent(ratio: float) -> str:
    return f"{100 * ratio:g} %"
