"""Maintenance windows: when nodes must be empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import WindowView


class WindowsApi:
    """No gang starts that would run into one."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def all(self) -> list[WindowView]:
        return self._http.get("windows")["items"]

    def add(self, nodes: Sequence[str], start_s: float, end_s: float | None = None, cause: str = "") -> WindowView:
        """End None: until it is removed."""
        return self._http.post(
            "windows", body={"nodes": list(nodes), "start_s": start_s, "end_s": end_s, "cause": cause}
        )

    def remove(self, window: str) -> None:
        self._http.delete("windows", window)
