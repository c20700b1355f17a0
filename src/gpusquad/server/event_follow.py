"""Follows the events of jobs, from any point in the past."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

from gpusquad.model.units import US_PER_S
from gpusquad.server import sse
from gpusquad.server.keepalive import StreamKeepalive
from gpusquad.server.lookup import names_of
from gpusquad.server.wiring import Services
from gpusquad.store import events

_PAGE = 500


async def follow_events(
    services: Services, tenant: str | None, after: int | None, pulse: StreamKeepalive
) -> AsyncIterator[bytes]:
    """Endless. ``after`` None: only new events."""
    newest = None
    while newest is None:
        newest = await pulse.read(partial(_newest, services))
    # After the store was recreated, an old id is larger than all new ones.
    seen = newest if after is None else min(after, newest)
    yield sse.HEARTBEAT  # the reader learns at once that it was accepted
    while not pulse.is_over:
        found = await pulse.read(partial(_after, services, seen, tenant)) or []
        for number, part in found:
            yield part
            seen = number
        yield await pulse.beat()
        if len(found) < _PAGE:
            await pulse.rest()


def _newest(services: Services) -> int:
    with services.database.read() as c:
        return events.last_id(c)


def _after(services: Services, seen: int, tenant: str | None) -> list[tuple[int, bytes]]:
    with services.database.read() as c:
        rows = events.after(c, seen, _PAGE, tenant)
        names = names_of(c, {row.job_id for row in rows})
    return [
        (row.id, sse.event("job", {
            "id": row.id, "job": row.job_id, "name": names.get(row.job_id, ""), "at_s": row.at_us / US_PER_S,
            "kind": row.kind, "state": str(row.state), "attempt": row.attempt, "cause": row.cause,
        }, str(row.id)))
        for row in rows
    ]  # fmt: skip
