"""What the service wants the cards of this node divided by, and how they are divided: the one comes with the answer to
a report, the other goes out with the next."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

from gpusquad.gpu.api import CardSharing, NoSharing
from gpusquad.model.virtual import physical

FIRST = "equal"
"""Until the service has said something."""
_TENANT = (
    "id", "job", "weight", "priority", "slo", "groups", "credit_us", "used_bytes", "quota_bytes", "peak_bytes",
    "attainment", "waiting", "waited_us", "is_idle", "processes", "isolation", "note", "iterations_per_s",
)  # fmt: skip
_CARD = (
    "policy", "groups", "configuration", "length_us", "squads", "why", "failure", "mps", "context_bytes", "rule",
    "strangers",
)  # fmt: skip
_REST_S = 300.0
"""Until a card that could not be told its policy is told again: reports are answered every few seconds."""
KEPT_S = 60.0
"""For so long what a card's daemon said last stands in for one that does not answer: a slow moment must not hide by
which rule the card is to be treated."""
_MOST = 2**62
"""That the service takes."""
_log = logging.getLogger(__name__)


class CardPolicies:
    """Said by one thread, asked by others."""

    def __init__(self, first: str = FIRST, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._first = first
        self._wanted: Mapping[str, str] = {}
        self._sharing: CardSharing = NoSharing()
        self._monotonic_s = monotonic_s
        self._in_vain: dict[str, tuple[str, float]] = {}
        """By card: the policy that it could not be told, and until when it is not told again."""
        self._last: dict[str, tuple[dict[str, Any], float]] = {}
        """By card: what was said of it last, and when."""

    def use(self, sharing: CardSharing) -> None:
        """Set and read the policies of these cards from now on."""
        self._sharing = sharing

    def policy_of(self, card: str) -> str:
        """What a card is to be divided by, for whoever begins to."""
        return self._wanted.get(card, self._first)

    def take(self, answer: object) -> None:
        """An answer of the service. One that is older than this says nothing of policies."""
        said = answer.get("divide") if isinstance(answer, Mapping) else None
        if not isinstance(said, Mapping):
            return
        self._wanted = {physical(str(card)): str(policy) for card, policy in said.items()}
        for card, policy in self._known().items():
            self._settle(card, policy)

    def add_to(self, message: dict[str, Any]) -> None:
        """How the cards of a report are divided, where somebody divides them. Of a card that is shown as several, it
        is said once."""
        unsaid = set(self._known())
        for card in message["cards"]:
            name = physical(card["id"])
            told = self._said_of(name) if name in unsaid else None
            unsaid.discard(name)
            if told is not None:
                card["divided"] = told

    def _known(self) -> Mapping[str, str]:
        """Whatever is wrong there, the cards are reported."""
        try:
            return self._sharing.policies()
        except Exception:
            _log.exception("nobody says how the cards are divided")
            return {}

    def _settle(self, card: str, policy: str) -> None:
        """A card whose daemon does not answer, or does not know the policy, must not cost the others theirs."""
        wanted = self._wanted.get(card)
        if wanted is None or {policy, (self._status(card) or {}).get("policy", policy)} == {wanted}:
            return
        refused, until_s = self._in_vain.get(card, ("", 0.0))
        if refused == wanted and self._monotonic_s() < until_s:
            return
        try:
            self._sharing.set_policy(card, wanted)
            self._in_vain.pop(card, None)
        except Exception:
            self._in_vain[card] = wanted, self._monotonic_s() + _REST_S
            _log.exception("a card could not be told its policy", extra={"card": card, "policy": wanted})

    def _said_of(self, card: str) -> dict[str, Any] | None:
        """None: nobody divides it, or does not answer for too long."""
        status, now_s = self._status(card), self._monotonic_s()
        if status is not None:
            self._last[card] = _told(status), now_s
            return self._last[card][0]
        said, at_s = self._last.get(card, (None, 0.0))
        if said is None or (self._is_silent(card) and now_s - at_s <= KEPT_S):
            return said
        del self._last[card]
        return None

    def _is_silent(self, card: str) -> bool:
        return bool(self._sharing.silence(card))

    def _status(self, card: str) -> Mapping[str, Any] | None:
        """None: nobody divides it, or does not answer."""
        try:
            status = self._sharing.status(card)
        except Exception:
            _log.exception("a card does not say how it is divided", extra={"card": card})
            return None
        return status if status.get("running") else None


def _bounded(value: Any) -> Any:
    """Tenants write some of these numbers themselves: what one of them claims must not cost the node its report."""
    return min(value, _MOST) if isinstance(value, int) else value


def _told(status: Mapping[str, Any]) -> dict[str, Any]:
    """What the service shows; the rest would only make reports longer."""
    tenants = [
        {name: _bounded(tenant[name]) for name in _TENANT if tenant.get(name) is not None}
        for tenant in status.get("tenants") or ()
    ]
    return {name: status[name] for name in _CARD if status.get(name) is not None} | {"tenants": tenants}
