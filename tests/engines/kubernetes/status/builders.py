"""Builders of pods and status messages."""

from __future__ import annotations

from datetime import UTC, datetime

from gpusquad.engines.kubernetes.status.message import FAILED_SCHEDULING, StatusMessage
from gpusquad.kube.objects import Object

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def pod(name: str = "a", **more: object) -> Object:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": "1"}
    return {"metadata": metadata, "spec": {"schedulerName": "gpusquad"}, "status": {"phase": "Pending"}, **more}


def pending_reason(message: str) -> StatusMessage:
    return StatusMessage(FAILED_SCHEDULING, message, is_why=True)
