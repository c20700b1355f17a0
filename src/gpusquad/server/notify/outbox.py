"""Outgoing notices: sent outside of transactions, and retried until delivered or given up.

Each channel of a user is one queue in the order of the events, so that no channel gets older news after newer. If the
first message fails, the whole queue waits, with growing delays. Messages that a channel rejects, and messages that are
too old, are given up, and the next one is tried.

Every message is delivered at least once: after a crash between sending and recording it, it is sent again. Its payload
has the same ``id`` then, so that a receiver can ignore it.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal

import structlog

from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.channels import SendFailed
from gpusquad.server.notify.messages import NoticeMessage, digest
from gpusquad.server.notify.sender import Sender
from gpusquad.store import notices
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.notices import NoticeRow

_log = structlog.get_logger("gpusquad.notices")
NoticeOutcome = Literal["sent", "retried", "dead"]
MESSAGES_AT_ONCE = 100
"""Messages of one channel that are read at once."""
ROUND_S = 10.0
"""A channel with more to send continues in the next round, so that a slow one does not delay the others for long."""
SAVE_EVERY_S = 0.2
"""Interval at which deliveries are recorded. After a crash, those of the last interval are repeated."""
DIGEST_FROM = 4
"""Number of messages that wait for one text channel and are sent as one."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """When to retry, and when to give up."""

    first_s: float = 1.0
    most_s: float = 600.0
    give_up_s: float = 24 * 3600.0
    """Older messages are given up after a failure."""
    rejections: int = 5
    """Attempts for a message that the channel rejects. A message that cannot be accepted must not block the others."""

    def next_us(self, now_us: int, row: NoticeRow, failure: SendFailed) -> int | None:
        """Time of the next attempt after a failure now. None: give up."""
        is_old = now_us - row.created_us > self.give_up_s * US_PER_S
        if failure.permanent or is_old or (failure.rejected and row.tries + 1 >= self.rejections):
            return None
        return now_us + int(min(self.first_s * 2.0 ** min(row.tries, 60), self.most_s) * US_PER_S)


@dataclass(frozen=True, slots=True)
class _Result:
    """Result of one message."""

    id: int
    outcome: NoticeOutcome
    error: str = ""
    next_us: int | None = None


@dataclass(frozen=True, slots=True)
class _Queue:
    """Messages of one user to one channel, by one rule or several."""

    url: str
    rules: Sequence[int]
    due_us: int
    """When its first message may be tried."""


def _count_nothing(_outcome: NoticeOutcome) -> None:
    return


@dataclass
class Outbox:
    """All outgoing notices of the service. ``deliver_due`` is for one thread at a time; the rest for any."""

    database: Database
    sender: Sender
    now_us: Callable[[], int]
    backoff: Backoff = field(default_factory=Backoff)
    count: Callable[[NoticeOutcome], None] = _count_nothing
    at_once: int = 4
    """Channels used in parallel, so that a slow one does not delay the others."""

    def __post_init__(self) -> None:
        self._saving = threading.Lock()
        self._unsaved: list[_Result] = []
        """Results that the store did not accept. Kept, so that an outage does not cause repeated deliveries."""

    def deliver_due(self) -> int:
        """Send what is due on each channel, for a limited time. Returns the number of messages handled."""
        self._save()
        now_us = self.now_us()
        due = [queue for queue in self._queues() if queue.due_us <= now_us]
        if not due:
            return 0
        with self._saved_meanwhile(), ThreadPoolExecutor(min(self.at_once, len(due)), "notice") as pool:
            return sum(pool.map(self._send_queue, due))

    def next_due_us(self) -> int | None:
        """Time at which the next message is due. None: there is none."""
        return min((queue.due_us for queue in self._queues()), default=None)

    def retry(self, notice_id: int) -> bool:
        """Give a dead notice all its attempts again. False: there is no dead notice of that number."""
        with self.database.write() as c:
            return notices.retry(c, notice_id, self.now_us())

    # -- load, send, save: the store and the network never wait for each other

    def _queues(self) -> list[_Queue]:
        heads: defaultdict[tuple[str, str], list[NoticeRow]] = defaultdict(list)
        with self.database.read() as c:
            for head in notices.heads(c):
                rule = notices.rule(c, head.rule_id)
                if rule is not None:
                    heads[rule.user, rule.url].append(head)
        # Heads come oldest first, and the oldest of a channel decides when it is due.
        return [_Queue(url, [one.rule_id for one in own], own[0].next_us) for (_, url), own in heads.items()]

    def _send_queue(self, queue: _Queue) -> int:
        """Messages of one channel, in order, until one fails or the round ends. Returns the number handled."""
        with self.database.read() as c:
            rows = notices.waiting(c, queue.rules, MESSAGES_AT_ONCE)
        until_s, handled = time.monotonic() + ROUND_S, 0
        for parcel in _parcels(rows, self.sender.is_structured(queue.url)):
            failure = self._try(queue.url, _message(parcel))
            results = [_Result(row.id, "sent") for row in parcel] if failure is None else [
                self._failed(parcel[0], failure)]  # fmt: skip
            self._unsaved += results
            handled += len(results)
            if results[-1].outcome == "retried" or time.monotonic() >= until_s:
                break
        return handled

    def _try(self, url: str, message: NoticeMessage) -> SendFailed | None:
        try:
            self.sender.send(url, message)
        except SendFailed as failure:
            return failure
        except Exception as error:  # a bug must not stop the other channels; its text may contain the URL
            _log.error("channel failed unexpectedly", error=type(error).__name__)
            return SendFailed(f"failed with {type(error).__name__}")
        return None

    def _failed(self, row: NoticeRow, failure: SendFailed) -> _Result:
        next_us = self.backoff.next_us(self.now_us(), row, failure)
        return _Result(row.id, "dead" if next_us is None else "retried", failure.reason, next_us)

    @contextmanager
    def _saved_meanwhile(self) -> Iterator[None]:
        """Record results at intervals and at the end. A thread of its own does it, because any send may hang."""
        done = threading.Event()
        saver = threading.Thread(target=self._save_until, args=(done,), name="notice-saver", daemon=True)
        saver.start()
        try:
            yield
        finally:
            done.set()
            saver.join()
            self._save()

    def _save_until(self, done: threading.Event) -> None:
        while not done.wait(SAVE_EVERY_S):
            with suppress(StoreUnavailable):  # the results are kept, and the last save reports the outage
                self._save()

    def _save(self) -> None:
        with self._saving:
            results = list(self._unsaved)
            if not results:
                return
            with self.database.write() as c:
                notices.sent_all(c, [result.id for result in results if result.outcome == "sent"])
                for result in results:
                    if result.outcome != "sent":
                        notices.failed(c, result.id, result.error, result.next_us)
            del self._unsaved[: len(results)]
        for result in results:
            self.count(result.outcome)
            if result.outcome == "dead":
                _log.warning("notice given up", notice=result.id, error=result.error)


def _parcels(rows: Sequence[NoticeRow], is_structured: bool) -> list[list[NoticeRow]]:
    """What is sent together: on a channel that carries data, every message by itself."""
    if is_structured or len(rows) < DIGEST_FROM:
        return [[row] for row in rows]
    return [list(rows)]


def _message(parcel: Sequence[NoticeRow]) -> NoticeMessage:
    first = parcel[0]
    if len(parcel) > 1:
        return digest([row.title for row in parcel])
    return NoticeMessage(first.title, first.body, first.payload)
