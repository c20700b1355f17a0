"""Memory of a card among its tenants: what was promised is there for whoever it was promised to."""

from __future__ import annotations

from collections.abc import Iterable

from gpusquad.gpu.daemon.client import GpuClientAccount, GpuClientSpec
from gpusquad.model.errors import Invalid
from gpusquad.model.squad import ShareableCard


def check_quota(facts: GpuClientSpec, others: Iterable[GpuClientAccount], card: ShareableCard) -> None:
    """Nobody is promised what others were: it could not be taken back from them later."""
    if facts.within >> card.groups:
        raise Invalid("tenant.within", f"{facts.within:#x} names groups the card does not have")
    if not card.memory_bytes or not facts.quota_bytes:
        return
    free = card.memory_bytes - sum(one.facts.quota_bytes for one in others)
    if facts.quota_bytes > free:
        raise Invalid("tenant.quota_bytes", f"{facts.quota_bytes} of {free} bytes that nobody holds", "ask for less")


def granted_bytes(client: GpuClientAccount, others: Iterable[GpuClientAccount], card: ShareableCard) -> int:
    """Of one that was promised nothing: what nobody else was, nor holds, and never less than it holds itself. 0: no
    limit, where nobody was promised anything."""
    promised = client.facts.quota_bytes
    others = list(others)
    if promised or not card.memory_bytes or not any(one.facts.quota_bytes for one in others):
        return promised
    taken = sum(one.facts.quota_bytes or _held_bytes(one, card) for one in others)
    return max(card.memory_bytes - taken, _held_bytes(client, card), 1)


def _held_bytes(client: GpuClientAccount, card: ShareableCard) -> int:
    """Its own word, believed as far as it can be true."""
    return min(client.page.used_bytes, card.memory_bytes)
