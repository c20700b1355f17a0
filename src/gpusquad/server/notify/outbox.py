"""Outgoing notices. Written in the transaction of their event, so that none is lost; sent later outside of
transactions, and retried until delivered or given up.

After a crash between sending and recording it, a notice is sent again: at least once, not exactly once.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import structlog
from sqlalchemy import Connection

from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.channels import SendFailed
from gpusquad.server.notify.messages import NoticeMessage, digest, write
from gpusquad.server.notify.rules import kind_of, receivers
from gpusquad.server.notify.sender import Sender
from gpusquad.store import notices
from gpusquad.store.database import Database
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.notices import NoticeRow, RuleRow

if TYPE_CHECKING:
    from gpusquad.server.services.runtime.unit_of_work import StoryEvent

_log = structlog.get_logger("gpusquad.notices")
NoticeOutcome = Literal["sent", "retried", "dead"]
DUE_AT_ONCE = 1000
DIGEST_FROM = 4
"""Number of due notices on one channel that are sent as one."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """When to retry, and when to give up."""

    first_s: float = 15.0
    most_s: float = 3600.0
    tries: int = 10
    give_up_s: float = 24 * 3600.0
    """Older notices are not sent."""

    def next_us(self, now_us: int, row: NoticeRow) -> int | None:
        """Time of the next attempt after a failure now. None: give up."""
        if row.tries + 1 >= self.tries or now_us - row.created_us > self.give_up_s * US_PER_S:
            return None
        return now_us + int(min(self.first_s * 2.0 ** min(row.tries, 60), self.most_s) * US_PER_S)


@dataclass(frozen=True, slots=True)
class _Result:
    """Result of one notice."""

    id: int
    outcome: NoticeOutcome
    error: str = ""
    next_us: int | None = None


def _count_nothing(_outcome: NoticeOutcome) -> None:
    return


@dataclass
class Outbox:
    """All notices of the service. ``deliver_due`` is for one thread at a time; the rest for any."""

    database: Database
    sender: Sender
    now_us: Callable[[], int]
    backoff: Backoff = field(default_factory=Backoff)
    count: Callable[[NoticeOutcome], None] = _count_nothing
    at_once: int = 4
    """Channels used in parallel, so that a slow one does not delay the others."""

    def __post_init__(self) -> None:
        self.has_new = threading.Event()
        """A notice was written since the last delivery."""
        self._unsaved: list[_Result] = []
        """Results that the store did not accept. Kept, so that an outage does not cause repeated deliveries."""

    def enqueue(self, c: Connection, event: EventRow, job: JobRow, rules: Iterable[RuleRow]) -> int:
        """Inside the transaction of the event. Returns the number of notices."""
        kind = kind_of(event.kind, event.state, event.attempt)
        if kind is None:
            return 0
        found = receivers(kind, job.user, job.spec.get("notify"), rules)
        if found:
            message = write(kind, job, event)
            self.has_new.set()
            for rule in found:
                notices.add(c, rule.id, job.id, kind, message.title, message.body, event.at_us)
        return len(found)

    def note(self, c: Connection, events: Sequence[StoryEvent]) -> None:
        """Events of the scheduler, inside its transaction."""
        worth = [one for one in events if kind_of(one.kind, one.row.state, one.row.attempt) is not None]
        rules = {user: notices.rules(c, user) for user in {one.row.user for one in worth}}
        for one in worth:
            row = one.row
            event = EventRow(0, row.id, one.at_us, one.kind, row.state, row.attempt, one.cause, one.actor, one.data)
            self.enqueue(c, event, row, rules[row.user])

    def deliver_due(self) -> int:
        """Send what is due, oldest first on each channel. Returns the number of notices handled."""
        self.has_new.clear()
        self._save()
        groups = self._load()
        if not groups:
            return 0
        with ThreadPoolExecutor(min(self.at_once, len(groups)), "notice") as pool:
            for results in pool.map(lambda group: self._send_group(*group), groups):
                self._unsaved += results
        self._save()
        return sum(len(rows) for _, rows in groups)

    def next_due_us(self) -> int | None:
        """Time of the next due notice. None: there is none."""
        with self.database.read() as c:
            return notices.next_due_us(c)

    def retry(self, notice_id: int) -> bool:
        """Give a dead notice all its attempts again. False: there is no dead notice of that number."""
        with self.database.write() as c:
            return notices.retry(c, notice_id, self.now_us())

    # -- load, send, apply: the store and the network never wait for each other

    def _load(self) -> list[tuple[str, list[NoticeRow]]]:
        by_rule: defaultdict[int, list[NoticeRow]] = defaultdict(list)
        with self.database.read() as c:
            for row in notices.due(c, self.now_us(), DUE_AT_ONCE):
                by_rule[row.rule_id].append(row)
            rules = [notices.rule(c, rule_id) for rule_id in by_rule]
        return [(rule.url, sorted(by_rule[rule.id], key=lambda row: row.id)) for rule in rules if rule is not None]

    def _send_group(self, url: str, rows: Sequence[NoticeRow]) -> list[_Result]:
        """All notices of one channel, in order. A failure counts for all notices that wait for the channel."""
        parcels = [list(rows)] if len(rows) >= DIGEST_FROM else [[row] for row in rows]
        sent: list[_Result] = []
        while parcels:
            failure = self._try(url, _message(parcels[0]))
            if failure is not None:
                return sent + [self._failed(row, failure) for parcel in parcels for row in parcel]
            sent += [_Result(row.id, "sent") for row in parcels.pop(0)]
        return sent

    def _try(self, url: str, message: NoticeMessage) -> SendFailed | None:
        try:
            self.sender.send(url, message.title, message.body)
        except SendFailed as failure:
            return failure
        except Exception as error:  # a bug must not stop the other channels; its text may contain the URL
            _log.error("channel failed unexpectedly", error=type(error).__name__)
            return SendFailed(f"failed with {type(error).__name__}")
        return None

    def _failed(self, row: NoticeRow, failure: SendFailed) -> _Result:
        next_us = None if failure.permanent else self.backoff.next_us(self.now_us(), row)
        return _Result(row.id, "dead" if next_us is None else "retried", failure.reason, next_us)

    def _save(self) -> None:
        if not self._unsaved:
            return
        with self.database.write() as c:
            for result in self._unsaved:
                if result.outcome == "sent":
                    notices.sent(c, result.id)
                else:
                    notices.failed(c, result.id, result.error, result.next_us)
        for result in self._unsaved:
            self.count(result.outcome)
            if result.outcome == "dead":
                _log.warning("notice given up", notice=result.id, error=result.error)
        self._unsaved.clear()


def _message(parcel: Sequence[NoticeRow]) -> NoticeMessage:
    first = parcel[0]
    return NoticeMessage(first.title, first.body) if len(parcel) == 1 else digest([row.title for row in parcel])
