"""The cards of this machine, divided by their daemons: what is set at the service reaches them through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.gpu.api import CardSharing, NoSharing


class SquadDivides:
    """See ``server.services.cards.CardDivides``. Before ``use`` no card is divided."""

    def __init__(self) -> None:
        self._sharing: CardSharing = NoSharing()
        self.wanted: Callable[[str], str] = lambda card: "equal"
        """By which policy a card is to be divided. The service says so before anybody asks."""

    def use(self, sharing: CardSharing) -> None:
        self._sharing = sharing

    def policy_of(self, card: str) -> str:
        """For a daemon that starts."""
        return self.wanted(card)

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
