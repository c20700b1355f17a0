"""Tenants and users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from fastapi import APIRouter, Request
from sqlalchemy import Connection

from gpusquad.model.errors import Invalid
from gpusquad.server.errors import Conflict, NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import PathName, Svc, to_s
from gpusquad.server.permissions import Admin, Reader, caller_of
from gpusquad.server.schemas.people import (
    Me,
    NewTenant,
    NewUser,
    TenantPage,
    TenantRequest,
    TenantView,
    UserChange,
    UserPage,
    UserView,
)
from gpusquad.server.services.jobs.rights import rights_of
from gpusquad.server.services.usage.urgent_hours import used_hours
from gpusquad.server.views import page
from gpusquad.server.wiring import Services
from gpusquad.store import people
from gpusquad.store.people import TenantRow, UserRow

router = APIRouter(tags=["people"])
_OWN_RIGHTS = ("max_priority", "may_choose_lane")


@router.get("/me", response_model=Me)
def get_me(request: Request, who: Reader, svc: Svc) -> Answer:
    """Show the caller and its permissions."""
    caller = caller_of(request)
    with svc.database.read() as c:
        rights = rights_of(who, people.tenant(c, who.tenant))
    return Answer({
        "user": who.user, "tenant": who.tenant, "role": who.role, "scopes": sorted(who.scopes),
        "is_admin": who.is_admin, "max_priority": rights.max_priority, "may_choose_lane": rights.may_choose_lane,
        "token": {"id": caller.token_id, "label": caller.label, "expires_s": to_s(caller.expires_us)},
    })  # fmt: skip


# -- tenants -------------------------------------------------------------------------------------------------------


@router.get("/tenants", response_model=TenantPage)
def list_tenants(who: Reader, svc: Svc) -> Answer:
    """List all tenants for administrators, otherwise the caller's."""
    with svc.database.read() as c:
        rows = [row for row in people.tenants(c) if who.is_admin or row.name == who.tenant]
        return Answer(page(_tenant_views(c, svc, rows)))


@router.post("/tenants", status_code=201, response_model=TenantView)
def add_tenant(body: NewTenant, who: Admin, svc: Svc) -> Answer:
    """Create a tenant."""
    row = TenantRow(**body.model_dump())
    _check_quota(row)
    with svc.database.write() as c:
        if people.tenant(c, row.name) is not None:
            raise Conflict(f"tenant {row.name} already exists", field="name")
        people.put_tenant(c, row)
        svc.audit.note(c, who, "tenant.add", row.name, body.model_dump())
        (view,) = _tenant_views(c, svc, [row])
    svc.scheduler.reload_tenants()
    return Answer(view, status_code=201)


@router.put("/tenants/{name}", response_model=TenantView)
def put_tenant(name: PathName, body: TenantRequest, who: Admin, svc: Svc) -> Answer:
    """Set a tenant's weight, guarantee, limits, rights and budget, all of them; created if it does not exist."""
    row = TenantRow(name, **body.model_dump())
    _check_quota(row)
    with svc.database.write() as c:
        people.put_tenant(c, row)
        svc.audit.note(c, who, "tenant.set", name, body.model_dump())
        (view,) = _tenant_views(c, svc, [row])
    svc.scheduler.reload_tenants()
    return Answer(view)


def _tenant_views(c: Connection, svc: Services, rows: Sequence[TenantRow]) -> list[dict[str, Any]]:
    used = used_hours(c, svc.clock.now_us(), [row.name for row in rows])
    return [asdict(row) | {"urgent_gpu_hours_used": used.get(row.name, 0.0)} for row in rows]


def _check_quota(row: TenantRow) -> None:
    if row.guaranteed_gpus is not None and row.limit_gpus is not None and row.guaranteed_gpus > row.limit_gpus:
        raise Invalid("guaranteed_gpus", "must not exceed limit_gpus", "raise the limit or lower the guarantee")


# -- users ---------------------------------------------------------------------------------------------------------


@router.get("/users", response_model=UserPage)
def list_users(who: Reader, svc: Svc) -> Answer:
    """List all users for administrators, otherwise those of the caller's tenant."""
    with svc.database.read() as c:
        rows = people.users(c, None if who.is_admin else who.tenant)
    return Answer(page([asdict(row) for row in rows]))


@router.post("/users", status_code=201, response_model=UserView)
def add_user(body: NewUser, who: Admin, svc: Svc) -> Answer:
    """Create a user, who needs a token for access."""
    row = UserRow(**body.model_dump())
    with svc.database.write() as c:
        if people.user(c, row.name) is not None:
            raise Conflict(f"user {row.name} already exists", field="name")
        _check_tenant(c, row)
        people.put_user(c, row)
        svc.audit.note(c, who, "user.add", row.name, body.model_dump())
    return Answer(asdict(row), status_code=201)


@router.patch("/users/{name}", response_model=UserView)
def change_user(name: PathName, body: UserChange, who: Admin, svc: Svc) -> Answer:
    """Change a user's tenant, role or rights, or disable the user. Takes effect at once."""
    with svc.database.write() as c:
        before = people.user(c, name)
        if before is None:
            raise NotFound(f"there is no user {name}", field="name")
        changes = _changes_of(body)
        row = replace(before, **changes)
        _check_tenant(c, row)
        people.put_user(c, row)
        _check_admin_left(c)
        svc.audit.note(c, who, "user.change", name, changes)
    svc.auth.forget()
    return Answer(asdict(row))


def _changes_of(body: UserChange) -> dict[str, Any]:
    """Given fields. Null removes a right of the user's own; in the other fields it changes nothing."""
    given = body.model_dump(exclude_unset=True)
    return {name: value for name, value in given.items() if value is not None or name in _OWN_RIGHTS}


def _check_tenant(c: Connection, row: UserRow) -> None:
    if people.tenant(c, row.tenant) is None:
        raise Invalid("tenant", f"does not exist: {row.tenant!r}", "create it first")


def _check_admin_left(c: Connection) -> None:
    """Otherwise the change could never be undone."""
    if not any(user.role == "admin" and not user.disabled for user in people.users(c)):
        raise Conflict("no administrator would be left", cure="make another user administrator first")
