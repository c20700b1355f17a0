"""How shared cards are divided, changed while jobs run on them: each by the mode's policy, or by one of its own.

What is set for a card is a numbered revision in the store, and the store wins. Whoever divides a card now is told at
once; who begins to later asks. Virtual cards are parts of one that is divided as a whole: what is set for one of them
is set for that card.
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
from gpusquad.registry import create
from gpusquad.server.answers import CardStatus, CardUser, Who
from gpusquad.server.card_lookup import card_named
from gpusquad.store import card_divides
from gpusquad.store.card_divides import CardDivideRow
from gpusquad.store.database import Database

Effect = Literal["live", "told", "unused", "kept"]
"""live: the card is divided by it. told: it is not yet, for it still is by another for a moment, or its daemon does not
answer. unused: nobody shares the card now. kept: cards are not divided here."""
_log = structlog.get_logger("gpusquad.cards")


class CardDivides(Protocol):
    """Those who divide cards: daemons of this machine, or of the nodes of a cluster. Cards are physical ones here."""

    @property
    def absence(self) -> str:
        """Why nobody divides cards here. Empty: somebody does."""
        ...

    def set(self, card: str, policy: str) -> None:
        """From the next squad on. A card that nobody divides now is no error: who begins to asks first."""
        ...

    def policies(self) -> Mapping[str, str]:
        """Of the cards that are divided now: by which policy."""
        ...

    def status(self, card: str) -> Mapping[str, Any] | None:
        """How a card is divided now, as its daemon says. None: it is not, or the daemon does not answer."""
        ...

    def silence(self, card: str) -> str:
        """In words, that the card's daemon did not answer when it was asked last. Empty: it did, or there is none."""
        ...


@dataclass(frozen=True, slots=True)
class NoDivides:
    """Where nobody divides cards."""

    absence: str = "jobs that share a card are not kept to their parts here"

    def set(self, card: str, policy: str) -> None: ...

    def policies(self) -> Mapping[str, str]:
        return {}

    def status(self, card: str) -> Mapping[str, Any] | None:
        return None

    def silence(self, card: str) -> str:
        return ""


@dataclass(frozen=True, slots=True)
class Division:
    """How one card is to be divided, and what became of that."""

    card: CardStatus
    policy: str
    of_mode: str
    setting: CardDivideRow | None
    """The newest revision of this card; None: there never was one."""
    effect: Effect
    message: str

    @property
    def is_own(self) -> bool:
        return self.setting is not None and self.setting.policy is not None


@dataclass(frozen=True, slots=True)
class CardDivisionNow:
    """A card at this moment."""

    division: Division
    status: Mapping[str, Any] | None
    """As its daemon says; None: nobody divides it, or it does not answer."""
    jobs: Sequence[CardUser]
    """On all of the card, of which this one may be a part."""


class CardService:
    """Reads and sets. Safe to call from any thread."""

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
        """Replaced, never changed: who reads needs no lock."""
        self._changing = threading.Lock()
        self.load()

    def load(self) -> None:
        with self._database.read() as c:
            self._settings = card_divides.latest(c)

    def policy_of(self, card: str) -> str:
        """What a card is to be divided by."""
        setting = self._settings.get(physical(card))
        return setting.policy if setting is not None and setting.policy is not None else self._mode_divide()

    def follow(self) -> None:
        """Tell everybody who does not divide a card by the policy that holds: at start, and when the mode changed."""
        with self._changing:
            now = self._policies_now()
            for card in now.keys() | {physical(card.id) for card in self._cards()}:
                if now.get(card) != self.policy_of(card):
                    self._tell(card)

    def set(
        self, ref: str, policy: str | None, who: Who, note: str = "",
        beside: Callable[[Connection, str], None] = lambda c, card: None,
    ) -> Division:  # fmt: skip
        """From the next squad on; None: by the mode's policy again. ``beside`` writes in the same transaction. What is
        set already is not set again."""
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
            self._tell(name)
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
            return "kept", f"kept; takes effect where cards are shared for real ({self._divides.absence})"
        if silence:
            return "told", f"{silence}; the policy is stored and holds when it is back (ended, it is started anew)"
        if now is None:
            return "unused", "nobody shares this card now; holds as soon as somebody does"
        if now != policy:
            return "told", f"still divided by {now}; told to change"
        return "live", "the card is divided by it now"

    def _tell(self, card: str) -> None:
        """What is set is set: a daemon that does not answer is told again, or asks when it starts anew."""
        self._ask(lambda: self._divides.set(card, self.policy_of(card)), None)

    def _policies_now(self) -> Mapping[str, str]:
        return self._ask(self._divides.policies, {})

    def _ask(self, question: Callable[[], Any], otherwise: Any) -> Any:
        try:
            return question()
        except Exception:
            _log.exception("those who divide cards do not answer")
            return otherwise


def _is_new(before: CardDivideRow | None, policy: str | None, note: str) -> bool:
    """Asked twice for the same, as by a caller who did not get the answer, is asked once."""
    if before is None or before.policy is None:
        return policy is not None
    return (before.policy, before.note) != (policy, note)


def checked_divide(policy: str) -> str:
    """The same text, if it names a policy with parameters it has."""
    text = policy.strip()
    if not text:
        raise Invalid("policy", "names nothing", "write for example slo, or null for the mode's own")
    try:
        create("divide", text)
    except Invalid as error:
        raise Invalid(error.field.replace("divide", "policy", 1), error.problem, error.cure) from None
    return text
