"""Notices: rules and deliveries."""

from __future__ import annotations

from fastapi import APIRouter
from sqlalchemy import Connection
from starlette.responses import Response

from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.server.answers import Who
from gpusquad.server.errors import Conflict, NotFound
from gpusquad.server.json_answer import Answer
from gpusquad.server.notify.channels import mask
from gpusquad.server.notify.rules import check_kinds
from gpusquad.server.params import USUAL_ROWS, Cursor, Limit, NumberId, Svc
from gpusquad.server.permissions import Member, Reader
from gpusquad.server.schemas.base import Done
from gpusquad.server.schemas.people import (
    NoticePage,
    NoticeState,
    RulePage,
    RuleRequest,
    RuleView,
    TestRequest,
    TestResult,
)
from gpusquad.server.views import Plain, page
from gpusquad.store import notices
from gpusquad.store.notices import NoticeRow, RuleRow

router = APIRouter(prefix="/notices", tags=["notices"])

MAX_RULES = 50
"""Rules per user."""


@router.get("/rules", response_model=RulePage)
def list_rules(who: Reader, svc: Svc) -> Answer:
    """List the caller's rules. Addresses are shown without their secrets."""
    with svc.database.read() as c:
        rows = notices.rules(c, who.user)
    return Answer(page([_rule_view(row) for row in rows]))


@router.post("/rules", status_code=201, response_model=RuleView)
def add_rule(body: RuleRequest, who: Member, svc: Svc) -> Answer:
    """Add a rule: send notices of these kinds to this address."""
    kinds: list[str] = list(check_kinds(body.kinds))
    svc.notices.check(body.url)
    now_us = svc.clock.now_us()
    with svc.database.write() as c:
        if len(notices.rules(c, who.user)) >= MAX_RULES:
            raise Conflict(f"you already have {MAX_RULES} rules", cure="remove unused ones")
        number = notices.add_rule(c, who.user, kinds, body.url, body.label, now_us)
        message = {"kinds": kinds, "channel": mask(body.url), "label": body.label}
        svc.audit.note(c, who, "notice_rule.add", str(number), message)
    return Answer(_rule_view(RuleRow(number, who.user, kinds, body.url, body.label, now_us)), status_code=201)


@router.delete("/rules/{rule}", status_code=204, response_class=Response)
def remove_rule(rule: NumberId, who: Member, svc: Svc) -> Response:
    """Remove a rule and its undelivered notices."""
    with svc.database.write() as c:
        _own_rule(c, rule, who)
        notices.remove_rule(c, rule)
        svc.audit.note(c, who, "notice_rule.remove", str(rule))
    return Response(status_code=204)


@router.get("/outbox", response_model=NoticePage)
def list_outbox(
    who: Reader, svc: Svc, state: NoticeState | None = None, limit: Limit = USUAL_ROWS, cursor: Cursor = None
) -> Answer:
    """List the caller's notices, newest first: waiting, sent, or dead (given up)."""
    with svc.database.read() as c:
        found = notices.outbox(c, state, None if who.is_admin else who.user, limit, cursor)
    return Answer(page([_notice_view(row) for row in found.items], found.next_cursor))


@router.post("/test", response_model=TestResult)
def test_notice(body: TestRequest, who: Member, svc: Svc) -> Answer:
    """Send one notice now, to an address or by a rule."""
    if (body.url is None) == (body.rule is None):
        raise Invalid("url", "or rule is required", "give one of the two")
    if body.url is None:
        with svc.database.read() as c:
            url = _own_rule(c, body.rule or 0, who).url
    else:
        url = body.url
    svc.notices.check(url)
    error = svc.notices.test(url)
    svc.audit.record(who, "notice.test", mask(url))
    return Answer({"ok": not error, "error": error})


@router.post("/{notice}/retry", response_model=Done)
def retry_notice(notice: NumberId, who: Member, svc: Svc) -> Answer:
    """Retry a dead notice from the beginning."""
    with svc.database.write() as c:
        row = notices.get(c, notice)
        if row is None:
            raise NotFound(f"there is no notice {notice}", field="notice")
        _own_rule(c, row.rule_id, who, f"there is no notice {notice}")
        if not notices.retry(c, notice, svc.clock.now_us()):
            raise Conflict(f"notice {notice} is {row.state}", cure="only dead ones can be retried")
        svc.audit.note(c, who, "notice.retry", str(notice))
    svc.notices.wake()
    return Answer({"ok": True})


def _own_rule(c: Connection, rule: int, who: Who, otherwise: str = "") -> RuleRow:
    row = notices.rule(c, rule)
    if row is None or (row.user != who.user and not who.is_admin):
        raise NotFound(otherwise or f"there is no rule {rule}", field="rule")
    return row


def _rule_view(row: RuleRow) -> Plain:
    return {
        "id": row.id,
        "user": row.user,
        "kinds": row.kinds,
        "url": mask(row.url),
        "label": row.label,
        "created_s": row.created_us / US_PER_S,
    }


def _notice_view(row: NoticeRow) -> Plain:
    return {
        "id": row.id,
        "rule": row.rule_id,
        "job": row.job_id,
        "kind": row.kind,
        "title": row.title,
        "tries": row.tries,
        "next_s": row.next_us / US_PER_S,
        "state": row.state,
        "error": row.error,
        "created_s": row.created_us / US_PER_S,
    }
