"""Tenants, users, tokens and the audit log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusquad.client.pages import joined

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import AuditPage, Me, NewToken, TenantView, TokenView, UserView


class PeopleApi:
    """Tenants, users and their permissions."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def me(self) -> Me:
        return self._http.get("me")

    def tenants(self) -> list[TenantView]:
        return self._http.get("tenants")["items"]

    def set_tenant(self, name: str, values: Mapping[str, Any]) -> TenantView:
        """Created if it does not exist."""
        return self._http.put("tenants", name, body=dict(values))

    def users(self) -> list[UserView]:
        return self._http.get("users")["items"]

    def add_user(self, name: str, tenant: str, role: str, rights: Mapping[str, Any] | None = None) -> UserView:
        """``rights``: ``max_priority``, ``may_choose_lane``; omitted ones are those of the tenant."""
        return self._http.post("users", body={"name": name, "tenant": tenant, "role": role, **(rights or {})})

    def change_user(self, name: str, changes: Mapping[str, Any]) -> UserView:
        """``tenant``, ``role``, ``disabled``, ``max_priority``, ``may_choose_lane``; others stay."""
        return self._http.patch("users", name, body=dict(changes))

    def tokens(self) -> list[TokenView]:
        return self._http.get("tokens")["items"]

    def create_token(
        self,
        *,
        user: str | None = None,
        label: str = "",
        scopes: Sequence[str] | None = None,
        expires_s: float | None = None,
    ) -> NewToken:
        """The token itself is only in this answer. User None: the caller."""
        wanted_scopes = {
            "user": user,
            "label": label,
            "scopes": list(scopes) if scopes else None,
            "expires_s": expires_s,
        }
        return self._http.post(
            "tokens", body={name: value for name, value in wanted_scopes.items() if value is not None}
        )

    def revoke_token(self, token_id: str) -> None:
        self._http.delete("tokens", token_id)

    def audit(self, limit: int | None = 100, **query: Any) -> AuditPage:
        return joined(lambda q: self._http.get("audit", query=q), query, limit)
