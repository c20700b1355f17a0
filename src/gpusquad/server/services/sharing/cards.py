"""Divide policies of shared cards, changed at run time: the mode's policy or one of the card's own.

A card's setting is a numbered revision in the store, which is the authority. A running daemon gets a change at once;
one that starts later asks for it. Virtual cards are parts of a card that is divided as a whole: a setting for one of
them applies to that card.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import structlog
from sqlalchemy import Connection

from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical
from gpusquad.registry import create, current_spec
from gpusquad.server.answers import CardStatus, CardUser, Who
from gpusquad.server.card_lookup import card_named
from gpusquad.store import card_divides
from gpusquad.store.card_divides import CardDivideRow
from gpusquad.store.database import Database

Effect = Literal["live", "told", "unused", "kept"]
"""live: the card is divided by it. told: not yet, because the daemon is still changing or does not answer. unused: the
card is not shared now. kept: cards are not divided here."""
_log = structlog.get_logger("gpusquad.cards")


class CardDivides(Protocol):
    """The card daemons of this machine or of a cluster's nodes. Cards are physical cards here."""

    @property
    def absence(self) -> str:
        """Why cards are not divided here. Empty: they are."""
        ...

    def set(self, card: str, policy: str) -> None:
        """Takes effect with the next squad. A card without a daemon is not an error: a daemon asks when it starts."""
        ...

    def policies(self) -> Mapping[str, str]:
        """Policy of each card that is divided now."""
        ...

    def status(self, card: str) -> Mapping[str, Any] | None:
        """How a card is divided now, as its daemon reports. None: it is not, or the daemon does not answer."""
        ...

    def silence(self, card: str) -> str:
        """Message that the card's daemon did not answer the last request. Empty: it did, or there is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoDivides:
    """For platforms without card daemons."""

    absence: str = "shares are not enforced here"

    def set(self, card: str, policy: str) -> None: ...

    def policies(self) -> Mapping[str, str]:
        return {}

    def status(self, card: str) -> Mapping[str, Any] | None:
        return None

    def silence(self, card: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Division:
    """Divide policy of one card and whether it is in effect."""

    card: CardStatus
    policy: str
    of_mode: str
    setting: CardDivideRow | None
    """Newest revision of this card. None: there is none."""
    effect: Effect
    message: str

    @property
    def is_own(self) -> bool:
        return self.setting is not None and self.setting.policy is not None


@dataclass(frozen=True, slots=True)
class CardDivisionNow:
    """Current division of a card."""

    division: Division
    status: Mapping[str, Any] | None
    """Status reported by the daemon. None: not divided, or no answer."""
    jobs: Sequence[CardUser]
    """Jobs on the whole physical card, also if this one is a part of it."""


class CardService:
    """Reads and sets divide policies. Safe to call from any thread."""

    def __init__(
        self,
        database: Database,
        now_us: Callable[[], int],
        cards: Callable[[], Sequence[CardStatus]],
        mode_divide: Callable[[], str],
        divides: CardDivides,
    ) -> None:
        self._database, self._now_us, self._cards = database, now_us, cards
        self._mode_divide, self._divides = mode_divide, divides
        self._settings: Mapping[str, CardDivideRow] = {}
        """Replaced, never modified, so that readers need no lock."""
        self._changing = threading.Lock()
        self.load()

    def load(self) -> None:
        with self._database.read() as c:
            self._settings = card_divides.latest(c)

    def policy_of(self, card: str) -> str:
        """The divide policy of a card."""
        setting = self._settings.get(physical(card))
        return setting.policy if setting is not None and setting.policy is not None else self._mode_divide()

    def follow(self) -> None:
        """Send the policy to every daemon that uses another one: at start, and after the mode changed."""
        with self._changing:
            now = self._policies_now()
            for card in now.keys() | {physical(card.id) for card in self._cards()}:
                if now.get(card) != self.policy_of(card):
                    self._send_policy(card)

    def set(
        self, ref: str, policy: str | None, who: Who, note: str = "",
        beside: Callable[[Connection, str], None] = lambda c, card: None,
    ) -> Division:  # fmt: skip
        """Takes effect with the next squad. None: the mode's policy again. ``beside`` writes in the same transaction.
        An unchanged setting is not stored again."""
        checked = None if policy is None else checked_divide(policy)
        card = self.find(ref)
        name = physical(card.id)
        with self._changing:
            if _is_new(self._settings.get(name), checked, note):
                at_us = self._now_us()
                with self._database.write() as c:
                    number = card_divides.append(c, at_us, who.user, name, checked, note)
                    beside(c, name)
                row = CardDivideRow(number, at_us, who.user, name, checked, note)
                self._settings = {**self._settings, name: row}
            self._send_policy(name)
        return self._now(card).division

    def find(self, ref: str) -> CardStatus:
        return card_named(ref, self._cards())

    def all(self) -> list[Division]:
        now = self._policies_now()
        return [self._division(card, now) for card in self._cards()]

    def get(self, ref: str) -> CardDivisionNow:
        return self._now(self.find(ref))

    def revisions(self, ref: str, limit: int) -> list[CardDivideRow]:
        card = self.find(ref)
        with self._database.read() as c:
            return card_divides.of_card(c, physical(card.id), limit)

    def _now(self, card: CardStatus) -> CardDivisionNow:
        name = physical(card.id)
        status = self._ask(lambda: self._divides.status(name), None)
        division = self._division(card, {} if status is None else {name: str(status.get("policy", ""))})
        jobs = [job for one in self._cards() if physical(one.id) == name for job in one.jobs]
        return CardDivisionNow(division, status, jobs)

    def _division(self, card: CardStatus, now: Mapping[str, str]) -> Division:
        policy = self.policy_of(card.id)
        name = physical(card.id)
        silence = "" if name in now else self._ask(lambda: self._divides.silence(name), "")
        effect, message = self._effect(policy, now.get(name), silence)
        return Division(card, policy, self._mode_divide(), self._settings.get(name), effect, message)

    def _effect(self, policy: str, now: str | None, silence: str) -> tuple[Effect, str]:
        if self._divides.absence:
            return "kept", f"stored; takes effect where shares are enforced ({self._divides.absence})"
        if silence:
            return "told", f"{silence}; the policy is stored and applies when the daemon answers again"
        if now is None:
            return "unused", "the card is not shared now; the policy applies when it is"
        if now != policy:
            return "told", f"still divided by {now}; changing"
        return "live", "the card is divided by it now"

    def _send_policy(self, card: str) -> None:
        """Send the policy. A daemon that does not answer gets it later, or asks when it restarts."""
        self._ask(lambda: self._divides.set(card, self.policy_of(card)), None)

    def _policies_now(self) -> Mapping[str, str]:
        return self._ask(self._divides.policies, {})

    def _ask(self, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except Exception:
            _log.exception("card daemons do not answer")
            return otherwise


def _is_new(before: CardDivideRow | None, policy: str | None, note: str) -> bool:
    """Whether it differs from the last revision. A repeated request, as after a lost answer, changes nothing."""
    if before is None or before.policy is None:
        return policy is not None
    return (before.policy, before.note) != (policy, note)


def checked_divide(policy: str) -> str:
    """The same text with the policy's current name, if it is a known policy with valid parameters."""
    text = policy.strip()
    if not text:
        raise Invalid("policy", "is empty", "for example slo, or null for the mode's policy")
    try:
        create("divide", text)
    except Invalid as error:
        raise Invalid(error.field.replace("divide", "policy", 1), error.problem, error.cure) from None
    return current_spec("divide", text)
