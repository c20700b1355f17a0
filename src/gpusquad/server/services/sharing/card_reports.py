"""Cards of a cluster's nodes: what they are to be divided by goes out with the answer to an agent's report, and how
they are divided comes in with the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gpusquad.model.virtual import physical


class ReportSource(Protocol):
    """The reports, as far as this has to know them."""

    def divided(self) -> Mapping[str, Mapping[str, Any]]:
        """By card, what its daemon said last. Cards without one are not in it."""
        ...


class ReportedDivides:
    """See ``services.cards.CardDivides``."""

    absence = ""

    def __init__(self, reports: ReportSource) -> None:
        self._reports = reports

    def set(self, card: str, policy: str) -> None:
        """The answer to the next report says it."""

    def policies(self) -> Mapping[str, str]:
        return {card: str(status["policy"]) for card, status in self._reports.divided().items()}

    def status(self, card: str) -> Mapping[str, Any] | None:
        return self._reports.divided().get(card)

    def allows_unmanaged(self, card: str) -> bool:
        """Whether others may join it where a process is that nothing holds, by the rule of its node's agent."""
        return (self.status(physical(card)) or {}).get("rule") in ("report", "share")

    def silence(self, card: str) -> str:
        return ""
