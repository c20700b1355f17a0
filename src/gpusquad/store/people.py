"""Tenants, their users and the users' tokens."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from gpusquad.store import tables
from gpusquad.store.rows import put, values_of


@dataclass(frozen=True, slots=True)
class TenantRow:
    """Owner of a quota."""

    name: str
    weight: float = 1.0
    guaranteed_gpus: int | None = None
    limit_gpus: int | None = None
    reclaim_s: float = 0.0
    max_pending: int | None = None
    on_hang: str = "stop"
    """warn or stop."""
    run_as: str | None = None
    """uid:gid of its tasks; None: the service's own."""
    max_priority: str = "normal"
    """Highest priority class of its users without a maximum of their own."""
    may_choose_lane: bool = False
    """Whether its users may choose the lane of a job, if they have no such right of their own."""
    urgent_gpu_hours: float | None = None
    """GPU-hours per 30 days that its runs with priorities above high may use; None: no budget."""


@dataclass(frozen=True, slots=True)
class UserRow:
    """A person or a program."""

    name: str
    tenant: str
    role: str = "member"
    """admin, member or viewer."""
    disabled: bool = False
    max_priority: str | None = None
    """Highest priority class of the user's jobs; None: that of the tenant."""
    may_choose_lane: bool | None = None
    """Whether the user may choose the lane of a job; None: as the tenant."""


@dataclass(frozen=True, slots=True)
class TokenRow:
    """Credential of a user. Only the hash of the token is stored."""

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
    """Add a tenant or change its settings."""
    put(c, tables.tenants, row)


def tenant(c: Connection, name: str) -> TenantRow | None:
    row = c.execute(select(tables.tenants).where(tables.tenants.c.name == name)).first()
    return TenantRow(*row) if row else None


def tenants(c: Connection) -> list[TenantRow]:
    """All tenants, by name."""
    return [TenantRow(*row) for row in c.execute(select(tables.tenants).order_by(tables.tenants.c.name))]


def remove_tenant(c: Connection, name: str) -> bool:
    """Remove a tenant. False if there was none; StoreConflict if it still has users."""
    return c.execute(delete(tables.tenants).where(tables.tenants.c.name == name)).rowcount > 0


# -- users ---------------------------------------------------------------------------------------------------------


def put_user(c: Connection, row: UserRow) -> None:
    """Add a user, or change the role or tenant. The tenant must exist."""
    put(c, tables.users, row)


def user(c: Connection, name: str) -> UserRow | None:
    row = c.execute(select(tables.users).where(tables.users.c.name == name)).first()
    return UserRow(*row) if row else None


def users(c: Connection, tenant: str | None = None) -> list[UserRow]:
    """All users, or those of one tenant, by name."""
    query = select(tables.users).order_by(tables.users.c.name)
    if tenant is not None:
        query = query.where(tables.users.c.tenant == tenant)
    return [UserRow(*row) for row in c.execute(query)]


def remove_user(c: Connection, name: str) -> bool:
    """Remove a user with all tokens. False if there was none."""
    return c.execute(delete(tables.users).where(tables.users.c.name == name)).rowcount > 0


# -- tokens --------------------------------------------------------------------------------------------------------


def add_token(c: Connection, row: TokenRow) -> None:
    c.execute(insert(tables.tokens), values_of(row))


def token(c: Connection, token_id: str) -> TokenRow | None:
    row = c.execute(select(tables.tokens).where(tables.tokens.c.id == token_id)).first()
    return TokenRow(*row) if row else None


def token_by_hash(c: Connection, token_hash: str) -> TokenRow | None:
    """The token with this hash, even if revoked or expired: the caller checks that."""
    row = c.execute(select(tables.tokens).where(tables.tokens.c.hash == token_hash)).first()
    return TokenRow(*row) if row else None


def tokens(c: Connection, user: str | None = None) -> list[TokenRow]:
    """All tokens, or those of one user, oldest first."""
    query = select(tables.tokens).order_by(tables.tokens.c.created_us, tables.tokens.c.id)
    if user is not None:
        query = query.where(tables.tokens.c.user == user)
    return [TokenRow(*row) for row in c.execute(query)]


def revoke_token(c: Connection, token_id: str, at_us: int) -> bool:
    """Revoke a token. False if there is none or it is already revoked."""
    this = (tables.tokens.c.id == token_id) & tables.tokens.c.revoked_us.is_(None)
    return c.execute(update(tables.tokens).where(this).values(revoked_us=at_us)).rowcount > 0


def touch_token(c: Connection, token_id: str, at_us: int) -> None:
    """Record the time of use."""
    c.execute(update(tables.tokens).where(tables.tokens.c.id == token_id).values(last_used_us=at_us))
