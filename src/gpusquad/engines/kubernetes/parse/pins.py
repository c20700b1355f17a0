"""The annotation with the cards of each container of a pod: ``{"main": ["GPU-1234"]}``."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from gpusquad.engines.kubernetes.parse.cards import MAX_CARDS
from gpusquad.kube.annotations import at
from gpusquad.kube.errors import MalformedField, short
from gpusquad.kube.names import CARDS
from gpusquad.kube.objects import Object, annotations_of

_MAX_TEXT = 65536
_MAX_CONTAINERS = 128
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_CARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}", re.ASCII)


def pin_of(pod: Object) -> Mapping[str, tuple[str, ...]] | None:
    """The cards that a pod was bound with; None: gpusquad did not bind it."""
    text = annotations_of(pod).get(CARDS)
    if text is None:
        return None
    try:
        if len(text) > _MAX_TEXT:
            raise ValueError(f"has more than {_MAX_TEXT} characters")
        return _checked(json.loads(text))
    except (ValueError, TypeError, RecursionError) as error:
        raise MalformedField(at(CARDS), f"{short(text)}: {str(error)[:200]}") from None


def pin_text(cards: Mapping[str, Sequence[str]]) -> str:
    """The text that ``pin_of`` parses."""
    pin = _checked({name: list(ids) for name, ids in cards.items()})
    return json.dumps(pin, separators=(",", ":"), sort_keys=True)


def _checked(pin: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(pin, dict) or len(pin) > _MAX_CONTAINERS:
        raise ValueError("not an object of containers")
    return {_name(name): _cards(ids) for name, ids in pin.items()}


def _name(name: object) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(f"{short(name)} is not a container")
    return name


def _cards(ids: object) -> tuple[str, ...]:
    if not isinstance(ids, list) or not 1 <= len(ids) <= MAX_CARDS:
        raise ValueError(f"{short(ids)} is not a list of cards")
    for card in ids:
        if not isinstance(card, str) or _CARD.fullmatch(card) is None:
            raise ValueError(f"{short(card)} is not a card")
    if len(set(ids)) != len(ids):
        raise ValueError(f"{short(ids)} names a card twice")
    return tuple(ids)
