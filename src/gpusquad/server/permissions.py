"""Permissions. The only place that decides them: routes name a rule, and access to jobs is checked here."""

from __future__ import annotations

from typing import Annotated, Protocol

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from gpusquad.server.answers import Role, Who
from gpusquad.server.auth import CALLER, Caller
from gpusquad.server.errors import Forbidden, Unauthenticated

SCOPES_OF: dict[Role, frozenset[str]] = {
    "viewer": frozenset({"read"}),
    "member": frozenset({"read", "submit"}),
    "admin": frozenset({"read", "submit", "admin"}),
}
"""Largest scope of a token of such a user."""


class OwnedResource(Protocol):
    """A resource that belongs to a user of a tenant."""

    @property
    def tenant(self) -> str: ...
    @property
    def user(self) -> str: ...


# -- rules of routes -----------------------------------------------------------------------------------------------


def caller_of(request: Request) -> Caller:
    caller = request.scope.get(CALLER)
    if caller is None:
        raise Unauthenticated("no token was sent", field="Authorization", cure="send Authorization: Bearer TOKEN")
    return caller


_bearer = HTTPBearer(auto_error=False, scheme_name="token", description="A token of this service")


async def may_read(request: Request, _: Annotated[object, Depends(_bearer)]) -> Who:
    """Every caller with a token that may read."""
    return _with_scope(caller_of(request).who, "read")


async def may_submit(request: Request, _: Annotated[object, Depends(_bearer)]) -> Who:
    """Members and administrators: users that own jobs."""
    who = _with_scope(caller_of(request).who, "submit")
    if who.role == "viewer":
        raise Forbidden("viewers may not change anything", cure="ask an administrator for the role member")
    return who


async def may_administer(request: Request, _: Annotated[object, Depends(_bearer)]) -> Who:
    return check_admin(caller_of(request).who)


def check_admin(who: Who) -> Who:
    if not who.is_admin:
        raise Forbidden("only administrators may do this", cure="use an administrator's token with the scope admin")
    return who


Reader = Annotated[Who, Depends(may_read)]
Member = Annotated[Who, Depends(may_submit)]
Admin = Annotated[Who, Depends(may_administer)]
RULES = (may_read, may_submit, may_administer)


def _with_scope(who: Who, scope: str) -> Who:
    if scope not in who.scopes:
        raise Forbidden(f"the token may not {scope}", cure=f"use a token with the scope {scope}")
    return who


# -- jobs ----------------------------------------------------------------------------------------------------------


def may_see(who: Who, job: OwnedResource) -> bool:
    """That it exists, its state and why it is pending."""
    return who.is_admin or job.tenant == who.tenant


def may_act(who: Who, job: OwnedResource) -> bool:
    """Change or stop it."""
    return who.is_admin or (who.role != "viewer" and is_own(who, job))


def may_read_logs(who: Who, job: OwnedResource) -> bool:
    """Its output and how it was started, which may be private."""
    return may_act(who, job)


def is_own(who: Who, job: OwnedResource) -> bool:
    """Both must match: a user who moved to another tenant loses access to earlier jobs."""
    return job.user == who.user and job.tenant == who.tenant


def tenant_seen(who: Who, asked: str | None) -> str | None:
    """The tenant that a list is limited to. None: all tenants."""
    if who.is_admin:
        return asked
    if asked is not None and asked != who.tenant:
        raise Forbidden(f"you may see tenant {who.tenant} only", field="tenant", cure="leave tenant out")
    return who.tenant


def tenant_used(who: Who, asked: str | None) -> str:
    """The tenant in which something new is created."""
    if asked and asked != who.tenant and not who.is_admin:
        raise Forbidden(f"you belong to tenant {who.tenant}", field="tenant", cure="leave tenant out")
    return asked or who.tenant
