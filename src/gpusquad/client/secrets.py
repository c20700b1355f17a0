"""Secrets: set once, passed to jobs, never shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import SecretView


class SecretsApi:
    """Of the caller's tenant, unless an administrator names another."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def names(self, tenant: str | None = None) -> list[SecretView]:
        return self._http.get("secrets", query={"tenant": tenant})["items"]

    def set(self, name: str, value: str, tenant: str | None = None) -> None:
        self._http.put("secrets", name, body={"value": value}, query={"tenant": tenant})

    def remove(self, name: str, tenant: str | None = None) -> None:
        self._http.delete("secrets", name, query={"tenant": tenant})
