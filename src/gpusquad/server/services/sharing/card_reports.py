"""Cards of a cluster's nodes: the answer to an agent's report carries their divide policies, and the next report how
they are divided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gpusquad.model.virtual import physical


class ReportSource(Protocol):
    """The part of the agent reports that is used here."""

    def divided(self) -> Mapping[str, Mapping[str, Any]]:
        """Last daemon status by card. Cards without a daemon are left out."""
        ...


class ReportedDivides:
    """See ``services.cards.CardDivides``."""

    absence = ""

    def __init__(self, reports: ReportSource) -> None:
        self._reports = reports

    def set(self, card: str, policy: str) -> None:
        """Sent with the answer to the next report."""

    def policies(self) -> Mapping[str, str]:
        return {card: str(status["policy"]) for card, status in self._reports.divided().items()}

    def status(self, card: str) -> Mapping[str, Any] | None:
        return self._reports.divided().get(card)

    def allows_unmanaged(self, card: str) -> bool:
        """Whether jobs may share the card with unmanaged processes, by the rule of its node's agent."""
        return (self.status(physical(card)) or {}).get("rule") in ("report", "share")

    def silence(self, card: str) -> str:
        return ""
