"""Divide policies of this node's cards. The service sends them with its answer to a report; the next report contains
how the cards are divided."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.gpu.api import CardSharing, NoSharing
from gpusquad.model.virtual import physical

FIRST = "equal"
"""Used before the first answer of the service."""
_CLIENT_FIELDS = (
    "id", "job", "weight", "priority", "slo", "groups", "credit_us", "used_bytes", "quota_bytes", "peak_bytes",
    "attainment", "waiting", "waited_us", "is_idle", "processes", "isolation", "note", "iterations_per_s",
)  # fmt: skip
_CARD_FIELDS = (
    "policy", "groups", "configuration", "length_us", "squads", "why", "failure", "mps", "context_bytes", "rule",
    "strangers",
)  # fmt: skip
_REST_S = 300.0
"""Pause before a failed change of policy is tried again: reports are answered every few seconds."""
KEPT_S = 60.0
"""A daemon's last status is used for this time if it does not answer, so that a short delay does not hide the rule of
its card."""
_MAX_NUMBER = 2**62
"""Largest number that the service accepts."""
_log = logging.getLogger(__name__)


class CardPolicies:
    """Updated by one thread, read by others."""

    def __init__(self, first: str = FIRST, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._wanted: Mapping[str, str] = {}
        self._sharing: CardSharing = NoSharing()
        self._monotonic_s = monotonic_s
        self._failed_changes: dict[str, tuple[str, float]] = {}
        """By card: the policy that could not be set, and when it is tried again."""
        self._last: dict[str, tuple[dict[str, Any], float]] = {}
        """By card: the last status and its time."""

    def use(self, sharing: CardSharing) -> None:
        """Set and read the policies of these cards from now on."""
        self._sharing = sharing

    def policy_of(self, card: str) -> str:
        """The policy for a new daemon of the card."""
        return self._wanted.get(card, self._first)

    def take(self, answer: object) -> None:
        """Applies an answer of the service. Older services send no policies."""
        divide = answer.get("divide") if isinstance(answer, Mapping) else None
        if not isinstance(divide, Mapping):
            return
        self._wanted = {physical(str(card)): str(policy) for card, policy in divide.items()}
        for card, policy in self._known().items():
            self._apply(card, policy)

    def add_to(self, message: dict[str, Any]) -> None:
        """Adds how the cards of a report are divided. For virtual cards it is added once per physical card."""
        unreported = set(self._known())
        for card in message["cards"]:
            name = physical(card["id"])
            division = self._division_of(name) if name in unreported else None
            unreported.discard(name)
            if division is not None:
                card["divided"] = division

    def _known(self) -> Mapping[str, str]:
        """On any error, the cards are still reported."""
        try:
            return self._sharing.policies()
        except Exception:
            _log.exception("cannot read the divide policies of this node's cards")
            return {}

    def _apply(self, card: str, policy: str) -> None:
        """A card whose daemon does not answer, or does not know the policy, must not affect the others."""
        wanted = self._wanted.get(card)
        if wanted is None or {policy, (self._status(card) or {}).get("policy", policy)} == {wanted}:
            return
        refused, until_s = self._failed_changes.get(card, ("", 0.0))
        if refused == wanted and self._monotonic_s() < until_s:
            return
        try:
            self._sharing.set_policy(card, wanted)
            self._failed_changes.pop(card, None)
        except Exception:
            self._failed_changes[card] = wanted, self._monotonic_s() + _REST_S
            _log.exception("cannot set the divide policy of a card", extra={"card": card, "policy": wanted})

    def _division_of(self, card: str) -> dict[str, Any] | None:
        """None: no daemon divides the card, or it has not answered for too long."""
        status, now_s = self._status(card), self._monotonic_s()
        if status is not None:
            self._last[card] = _reported(status), now_s
            return self._last[card][0]
        divide, at_s = self._last.get(card, (None, 0.0))
        if divide is None or (self._is_silent(card) and now_s - at_s <= KEPT_S):
            return divide
        del self._last[card]
        return None

    def _is_silent(self, card: str) -> bool:
        return bool(self._sharing.silence(card))

    def _status(self, card: str) -> Mapping[str, Any] | None:
        """None: no daemon divides the card, or it does not answer."""
        try:
            status = self._sharing.status(card)
        except Exception:
            _log.exception("cannot read the status of a card's daemon", extra={"card": card})
            return None
        return status if status.get("running") else None


def _bounded(value: Any) -> Any:
    """Clients write some of these numbers themselves. An absurd one must not make the service refuse the report."""
    return min(value, _MAX_NUMBER) if isinstance(value, int) else value


def _reported(status: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that the service shows."""
    tenants = [
        {name: _bounded(tenant[name]) for name in _CLIENT_FIELDS if tenant.get(name) is not None}
        for tenant in status.get("tenants") or ()
    ]
    return {name: status[name] for name in _CARD_FIELDS if status.get(name) is not None} | {"tenants": tenants}
