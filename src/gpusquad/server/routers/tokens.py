"""Tokens: create, list, revoke. A token is shown only once, when it is created."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.auth import Caller, hash_of, new_token
from gpusquad.server.errors import Conflict, Forbidden, NotFound
from gpusquad.server.ids import new_id
from gpusquad.server.json_answer import Answer
from gpusquad.server.params import RowId, Svc, to_s, to_us
from gpusquad.server.permissions import SCOPES_OF, Reader, caller_of
from gpusquad.server.schemas.people import NewToken, TokenPage, TokenRequest
from gpusquad.server.views import Plain, page
from gpusquad.store import people
from gpusquad.store.people import TokenRow, UserRow

router = APIRouter(prefix="/tokens", tags=["tokens"])

MAX_PER_CLIENT = 200
"""Valid tokens of one user."""


@router.get("", response_model=TokenPage)
def list_tokens(who: Reader, svc: Svc) -> Answer:
    """List all tokens for administrators, otherwise the caller's."""
    with svc.database.read() as c:
        rows = people.tokens(c, None if who.is_admin else who.user)
    return Answer(page([_view(row) for row in rows]))


@router.post("", status_code=201, response_model=NewToken)
def add_token(body: TokenRequest, request: Request, who: Reader, svc: Svc) -> Answer:
    """Create a token with at most the scopes and lifetime of the caller's token."""
    caller, now_us = caller_of(request), svc.clock.now_us()
    expires_us = _expires_us(body, caller, who, now_us)
    token = new_token()
    with svc.database.write() as c:
        name = body.user or who.user
        if name != who.user and not who.is_admin:
            raise Forbidden("you may create tokens only for yourself", field="user", cure="leave user out")
        owner = people.user(c, name)
        if owner is None:
            raise NotFound(
                f"there is no user {name}", field="user", cure=f"add the user first: gpusquad user add {name}"
            )
        valid = [row for row in people.tokens(c, owner.name) if _is_valid(row, now_us)]
        if len(valid) >= MAX_PER_CLIENT:
            raise Conflict(f"{owner.name} has {len(valid)} tokens", cure="revoke unused ones")
        scopes = _scopes(body, who, owner)
        row = TokenRow(new_id(), owner.name, body.label, hash_of(token), sorted(scopes), now_us, expires_us)
        people.add_token(c, row)
        labels = {"user": owner.name, "label": body.label, "scopes": row.scopes, "expires_s": to_s(expires_us)}
        svc.audit.note(c, who, "token.add", row.id, labels)
    return Answer(_view(row) | {"token": token}, status_code=201)


@router.delete("/{token}", status_code=204, response_class=Response)
def revoke_token(token: RowId, who: Reader, svc: Svc) -> Response:
    """Revoke a token at once."""
    with svc.database.write() as c:
        row = people.token(c, token)
        if row is None or (row.user != who.user and not who.is_admin):
            raise NotFound(f"there is no token {token}", field="token")
        people.revoke_token(c, token, svc.clock.now_us())
        svc.audit.note(c, who, "token.revoke", token, {"user": row.user, "label": row.label})
    svc.auth.forget()
    return Response(status_code=204)


def _expires_us(body: TokenRequest, caller: Caller, who: Who, now_us: int) -> int | None:
    wanted_us = to_us(body.expires_s)
    if wanted_us is not None and wanted_us <= now_us:
        raise Invalid("expires_s", "is in the past", "give seconds since 1970")
    if caller.expires_us is None or who.is_admin:
        return wanted_us
    return caller.expires_us if wanted_us is None else min(wanted_us, caller.expires_us)


def _scopes(body: TokenRequest, who: Who, owner: UserRow) -> frozenset[str]:
    """What the owner's role allows, and at most the scopes of the caller's token."""
    most = SCOPES_OF[owner.role] & who.scopes  # pyright: ignore[reportArgumentType]
    wanted = most if body.scopes is None else frozenset(body.scopes)
    if not wanted <= most:
        raise Forbidden(
            f"such a token may {', '.join(sorted(most)) or 'do nothing'}, not {', '.join(sorted(wanted - most))}",
            field="scopes",
            cure="request fewer scopes, or use a token with more",
        )
    return wanted


def _is_valid(row: TokenRow, now_us: int) -> bool:
    return row.revoked_us is None and (row.expires_us is None or row.expires_us > now_us)


def _view(row: TokenRow) -> Plain:
    return {
        "id": row.id,
        "user": row.user,
        "label": row.label,
        "scopes": row.scopes,
        "created_s": row.created_us / US_PER_S,
        "expires_s": to_s(row.expires_us),
        "revoked_s": to_s(row.revoked_us),
        "last_used_s": to_s(row.last_used_us),
    }
