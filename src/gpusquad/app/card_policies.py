"""Passes divide policies from the service to the card daemons of this machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.gpu.api import CardSharing, NoSharing


class SquadDivides:
    """See ``server.services.sharing.cards.CardDivides``. Before ``use`` no card is divided."""

    def __init__(self) -> None:
        self._sharing: CardSharing = NoSharing()
        self.policy_source: Callable[[str], str] = lambda card: "equal"
        """The divide policy of a card. The service sets this before a daemon starts."""

    def use(self, sharing: CardSharing) -> None:
        self._sharing = sharing

    def policy_of(self, card: str) -> str:
        """Policy for a daemon that starts."""
        return self.policy_source(card)

    @property
    def absence(self) -> str:
        return self._sharing.absence

    def set(self, card: str, policy: str) -> None:
        if card in self._sharing.policies():
            self._sharing.set_policy(card, policy)

    def policies(self) -> Mapping[str, str]:
        known = {card: self._sharing.status(card) for card in self._sharing.policies()}
        return {card: str(status["policy"]) for card, status in known.items() if status.get("running")}

    def status(self, card: str) -> Mapping[str, Any] | None:
        if card not in self._sharing.policies():
            return None
        status = self._sharing.status(card)
        return status if status.get("running") else None

    def silence(self, card: str) -> str:
        return self._sharing.silence(card) if card in self._sharing.policies() else ""
