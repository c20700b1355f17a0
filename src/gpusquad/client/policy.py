"""Scheduling policies and their revisions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import PolicyView, PreviewView, Revision


class PolicyApi:
    """Changes are numbered revisions, made by administrators only."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def get(self) -> PolicyView:
        return self._http.get("policy")

    def set(self, changes: Mapping[str, Any]) -> PolicyView:
        """``mode``, ``order``, ``plan``, ``place``, ``preemption``, ``note``; others stay."""
        return self._http.put("policy", body=dict(changes))

    def preview(self, changes: Mapping[str, Any]) -> PreviewView:
        """What ``set`` would do to the current queue."""
        return self._http.post("policy", "preview", body=dict(changes))

    def revisions(self, limit: int | None = None) -> list[Revision]:
        return self._http.get("policy", "revisions", query={"limit": limit})["items"]
