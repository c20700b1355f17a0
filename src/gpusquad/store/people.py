"""Tenants, their users, and the tokens that users show."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from gpusquad.store import tables
from gpusquad.store.rows import put, values_of


@dataclass(frozen=True, slots=True)
class TenantRow:
    """Who owns quota."""

    name: str
    weight: float = 1.0
    guaranteed_gpus: int | None = None
    limit_gpus: int | None = None
    reclaim_s: float = 0.0
    max_pending: int | None = None
    on_hang: str = "warn"
    """warn, or stop."""
    run_as: str | None = None
    """uid:gid for its tasks; None: as the service itself."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """A person or a program."""

    name: str
    tenant: str
    role: str = "member"
    """admin, member or viewer."""
    disabled: bool = False


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What a user shows to be let in. The token itself is not kept, only its hash."""

    id: str
    user: str
    label: str
    hash: str
    scopes: list[str]
    created_us: int
    expires_us: int | None = None
    revoked_us: int | None = None
    last_used_us: int | None = None


# -- tenants -------------------------------------------------------------------------------------------------------


def put_tenant(c: Connection, row: TenantRow) -> None:
    """A new tenant, or new settings for a known one."""
    put(c, tables.tenants, row)


def tenant(c: Connection, name: str) -> TenantRow | None:
    row = c.execute(select(tables.tenants).where(tables.tenants.c.name == name)).first()
    return TenantRow(*row) if row else None


def tenants(c: Connection) -> list[TenantRow]:
    """All, by name."""
    return [TenantRow(*row) for row in c.execute(select(tables.tenants).order_by(tables.tenants.c.name))]


def remove_tenant(c: Connection, name: str) -> bool:
    """False: there was none. A tenant that still has users stays: StoreConflict."""
    return c.execute(delete(tables.tenants).where(tables.tenants.c.name == name)).rowcount > 0


# -- users ---------------------------------------------------------------------------------------------------------


def put_user(c: Connection, row: UserRow) -> None:
    """A new user, or another role or tenant for a known one. The tenant must be there."""
    put(c, tables.users, row)


def user(c: Connection, name: str) -> UserRow | None:
    row = c.execute(select(tables.users).where(tables.users.c.name == name)).first()
    return UserRow(*row) if row else None


def users(c: Connection, tenant: str | None = None) -> list[UserRow]:
    """All, or those of one tenant, by name."""
    query = select(tables.users).order_by(tables.users.c.name)
    if tenant is not None:
        query = query.where(tables.users.c.tenant == tenant)
    return [UserRow(*row) for row in c.execute(query)]


def remove_user(c: Connection, name: str) -> bool:
    """Their tokens go too. False: there was none."""
    return c.execute(delete(tables.users).where(tables.users.c.name == name)).rowcount > 0


# -- tokens --------------------------------------------------------------------------------------------------------


def add_token(c: Connection, row: TokenRow) -> None:
    c.execute(insert(tables.tokens), values_of(row))


def token(c: Connection, token_id: str) -> TokenRow | None:
    row = c.execute(select(tables.tokens).where(tables.tokens.c.id == token_id)).first()
    return TokenRow(*row) if row else None


def token_by_hash(c: Connection, token_hash: str) -> TokenRow | None:
    """Also one that is revoked or too old: the caller says which, and decides."""
    row = c.execute(select(tables.tokens).where(tables.tokens.c.hash == token_hash)).first()
    return TokenRow(*row) if row else None


def tokens(c: Connection, user: str | None = None) -> list[TokenRow]:
    """All, or those of one user, oldest first."""
    query = select(tables.tokens).order_by(tables.tokens.c.created_us, tables.tokens.c.id)
    if user is not None:
        query = query.where(tables.tokens.c.user == user)
    return [TokenRow(*row) for row in c.execute(query)]


def revoke_token(c: Connection, token_id: str, at_us: int) -> bool:
    """False: there is none, or it was revoked before."""
    this = (tables.tokens.c.id == token_id) & tables.tokens.c.revoked_us.is_(None)
    return c.execute(update(tables.tokens).where(this).values(revoked_us=at_us)).rowcount > 0


def touch_token(c: Connection, token_id: str, at_us: int) -> None:
    """Note that it was used."""
    c.execute(update(tables.tokens).where(tables.tokens.c.id == token_id).values(last_used_us=at_us))
