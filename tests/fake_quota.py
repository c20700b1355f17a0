"""A fake of the card manager, for setting divide policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpusquad.gpu.api import NoSharing


class FakeQuota(NoSharing):
    """Stands in for ``gpu.attach.quota.SquadQuota``."""

    absence = ""

    def __init__(
        self, known: Sequence[str], running: Mapping[str, str], clients: Sequence[dict[str, Any]] = ()
    ) -> None:
        self._held = dict.fromkeys(known, "equal")
        self.running = dict(running)
        """Divide policy of each card that has a daemon."""
        self.broken: set[str] = set()
        self.silent: set[str] = set()
        """Cards whose daemon runs but does not answer."""
        self.policy_changes: list[tuple[str, str]] = []
        self._clients = list(clients)

    def set_policy(self, card_id: str, policy: str | None) -> str:
        if card_id in self.broken or card_id not in self._held:
            raise OSError(card_id)
        self._held[card_id] = policy or "equal"
        self.policy_changes.append((card_id, self._held[card_id]))
        if card_id in self.running:
            self.running[card_id] = self._held[card_id]
        return self._held[card_id]

    def policies(self) -> dict[str, str]:
        if "all" in self.broken:
            raise OSError("all")
        return dict(self._held)

    def silence(self, card_id: str) -> str:
        return "the card's daemon does not answer" if card_id in self.silent else ""

    def status(self, card_id: str) -> dict[str, Any]:
        if card_id in self.broken:
            raise OSError(card_id)
        if card_id not in self.running or card_id in self.silent:
            return {"card": card_id, "running": False}
        return {
            "card": card_id, "running": True, "policy": self.running[card_id], "groups": 15, "tenants": self._clients,
            "strangers": [], "configuration": "strict", "length_us": 2000, "squads": 3, "why": "", "rule": "report",
        }  # fmt: skip
