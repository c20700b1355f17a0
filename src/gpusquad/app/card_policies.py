"""The cards of this machine, divided by their daemons: what is set at the service reaches them through here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class SquadDaemons(Protocol):
    """Who keeps the daemons (``gpu.attach.quota.SquadQuota``), as far as this has to know them."""

    def set_policy(self, card_id: str, policy: str) -> object: ...
    def policies(self) -> Mapping[str, str]:
        """For all cards that are known there."""
        ...

    def status(self, card_id: str) -> Mapping[str, Any]:
        """``running``: the card has a daemon."""
        ...

    def silence(self, card_id: str) -> str: ...


class SquadDivides:
    """See ``server.services.cards.CardDivides``. Without ``use`` nobody divides cards here."""

    def __init__(self, absence: str = "jobs that share a card are not kept to their parts here") -> None:
        self._absence = absence
        self._squads: SquadDaemons | None = None
        self.wanted: Callable[[str], str] = lambda card: "equal"
        """By which policy a card is to be divided. The service says so before anybody asks."""

    def use(self, squads: SquadDaemons) -> None:
        self._squads = squads

    def policy_of(self, card: str) -> str:
        """For a daemon that starts."""
        return self.wanted(card)

    @property
    def absence(self) -> str:
        return self._absence if self._squads is None else ""

    def set(self, card: str, policy: str) -> None:
        if self._squads is not None and card in self._squads.policies():
            self._squads.set_policy(card, policy)

    def policies(self) -> Mapping[str, str]:
        if self._squads is None:
            return {}
        known = {card: self._squads.status(card) for card in self._squads.policies()}
        return {card: str(status["policy"]) for card, status in known.items() if status.get("running")}

    def status(self, card: str) -> Mapping[str, Any] | None:
        if self._squads is None or card not in self._squads.policies():
            return None
        status = self._squads.status(card)
        return status if status.get("running") else None

    def silence(self, card: str) -> str:
        if self._squads is None or card not in self._squads.policies():
            return ""
        return self._squads.silence(card)
