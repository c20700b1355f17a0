"""Finds the card that somebody means: by id or UUID, the beginning of one, or its place on a node."""

from __future__ import annotations

from collections.abc import Sequence

from gpusquad.model.virtual import physical
from gpusquad.server.answers import CardStatus
from gpusquad.server.errors import Conflict, NotFound

KINDS = ("gpu-", "mig-")
"""What UUIDs begin with, and what people leave out."""
_CURE = "gpusquad nodes --cards lists them"
_MAX_LISTED = 4


def card_named(ref: str, cards: Sequence[CardStatus]) -> CardStatus:
    """``GPU-8f3a…``, ``8f3a``, ``node0/3``; ``3`` where there is one node. Of a card that is shown as several virtual
    ones, any."""
    exact = next((card for card in cards if card.id == ref), None)
    if exact is not None:
        return exact
    found = _by_place(ref, cards) or _by_beginning(ref.lower(), cards)
    if not found:
        raise NotFound(f"there is no card {ref!r}", field="card", cure=_CURE)
    if len({physical(card.id) for card in found}) > 1:
        told = ", ".join(card.id for card in found[:_MAX_LISTED]) + (" or others" if len(found) > _MAX_LISTED else "")
        raise Conflict(f"{ref!r} may mean {told}", field="card", cure=_cure_of(ref, found))
    return found[0]


def _by_place(ref: str, cards: Sequence[CardStatus]) -> list[CardStatus]:
    """A node's name may have slashes in it; the index is what follows the last."""
    node, slash, index = ref.rpartition("/")
    if not index.isascii() or not index.isdigit() or len(index) > 9 or str(int(index)) != index:
        return []  # 0042 is the beginning of a UUID
    return [card for card in cards if card.index == int(index) and (not slash or card.node == node)]


def _by_beginning(ref: str, cards: Sequence[CardStatus]) -> list[CardStatus]:
    if not ref or _is_place(ref, cards):
        return []
    return [card for card in cards if any(name.startswith(ref) for name in _names(card.id.lower()))]


def _is_place(ref: str, cards: Sequence[CardStatus]) -> bool:
    """Of a card that is not there: then it is not the beginning of another either (``node0/1`` of ``node0/10``)."""
    node, slash, index = ref.rpartition("/")
    return bool(slash) and index.isdigit() and any(card.node.lower() == node for card in cards)


def _names(card: str) -> tuple[str, ...]:
    return (card, card[len(KINDS[0]) :]) if card.startswith(KINDS) else (card,)


def _cure_of(ref: str, found: Sequence[CardStatus]) -> str:
    return f"say on which node: {found[0].node}/{ref}" if ref.isdigit() else "give more of it"
