"""Finds a card by id or UUID, a prefix of one, or its index on a node."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.virtual import physical
from gpusquad.server.answers import CardStatus
from gpusquad.server.errors import Conflict, NotFound

KINDS = ("gpu-", "mig-")
"""Prefix of UUIDs, which users may omit."""
_CURE = "gpusquad nodes --cards lists them"
_MAX_LISTED = 4


def card_named(ref: str, cards: Sequence[CardStatus]) -> CardStatus:
    """``GPU-8f3a…``, ``8f3a``, ``node0/3``, or ``3`` if there is one node. Of the virtual cards of one card, any."""
    exact = next((card for card in cards if card.id == ref), None)
    if exact is not None:
        return exact
    found = _by_place(ref, cards) or _by_beginning(ref.lower(), cards)
    if not found:
        raise NotFound(f"there is no card {ref!r}", field="card", cure=_CURE)
    if len({physical(card.id) for card in found}) > 1:
        listed = ", ".join(card.id for card in found[:_MAX_LISTED]) + (" or others" if len(found) > _MAX_LISTED else "")
        raise Conflict(f"{ref!r} matches {listed}", field="card", cure=_cure_of(ref, found))
    return found[0]


def _by_place(ref: str, cards: Sequence[CardStatus]) -> list[CardStatus]:
    """A node's name may contain slashes; the index follows the last one."""
    node, slash, index = ref.rpartition("/")
    if not index.isascii() or not index.isdigit() or len(index) > 9 or str(int(index)) != index:
        return []  # 0042 is a prefix of a UUID
    return [card for card in cards if card.index == int(index) and (not slash or card.node == node)]


def _by_beginning(ref: str, cards: Sequence[CardStatus]) -> list[CardStatus]:
    if not ref or _is_place(ref, cards):
        return []
    return [card for card in cards if any(name.startswith(ref) for name in _names(card.id.lower()))]


def _is_place(ref: str, cards: Sequence[CardStatus]) -> bool:
    """Whether it names a card that does not exist: then it is no prefix either (``node0/1`` of ``node0/10``)."""
    node, slash, index = ref.rpartition("/")
    return bool(slash) and index.isdigit() and any(card.node.lower() == node for card in cards)


def _names(card: str) -> tuple[str, ...]:
    return (card, card[len(KINDS[0]) :]) if card.startswith(KINDS) else (card,)


def _cure_of(ref: str, found: Sequence[CardStatus]) -> str:
    return f"name the node: {found[0].node}/{ref}" if ref.isdigit() else "give a longer prefix"
