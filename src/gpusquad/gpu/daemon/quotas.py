"""Memory quotas of a card: the quotas of all clients together never exceed its memory."""

from __future__ import annotations

from collections.abc import Iterable

from gpusquad.gpu.daemon.client import GpuClientAccount, GpuClientSpec
from gpusquad.model.errors import Invalid
from gpusquad.model.squad import ShareableCard


def check_quota(facts: GpuClientSpec, others: Iterable[GpuClientAccount], card: ShareableCard) -> None:
    """Refuse a quota that exceeds the unassigned memory, because memory cannot be taken back."""
    if facts.within >> card.groups:
        raise Invalid("tenant.within", f"{facts.within:#x} contains groups that the card does not have")
    if not card.memory_bytes or not facts.quota_bytes:
        return
    free = card.memory_bytes - sum(one.facts.quota_bytes for one in others)
    if facts.quota_bytes > free:
        raise Invalid(
            "tenant.quota_bytes", f"{facts.quota_bytes} exceeds the {free} bytes that are not assigned", "request less"
        )


def granted_bytes(client: GpuClientAccount, others: Iterable[GpuClientAccount], card: ShareableCard) -> int:
    """Limit of a client. Without a quota it is the memory that no other client is assigned or holds, and at least what
    it holds itself. 0: no limit, because no client has a quota."""
    quota = client.facts.quota_bytes
    others = list(others)
    if quota or not card.memory_bytes or not any(one.facts.quota_bytes for one in others):
        return quota
    taken = sum(one.facts.quota_bytes or _held_bytes(one, card) for one in others)
    return max(card.memory_bytes - taken, _held_bytes(client, card), 1)


def _held_bytes(client: GpuClientAccount, card: ShareableCard) -> int:
    """As it reports, at most the whole card."""
    return min(client.page.used_bytes, card.memory_bytes)
