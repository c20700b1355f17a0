"""Writes notices from the events of jobs, in a thread of its own: entries of inboxes, and messages to channels.

It follows the stored events. Its position is stored in the transaction of what it writes, so that no event is missed or
handled twice, whatever stops the service. The scheduler only wakes it: a decision never waits for a notice, except for
the short time in which this thread writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from sqlalchemy import Connection

from gpusquad.server.notify.collect import InboxCollector, InboxNotice
from gpusquad.server.notify.messages import NoticeMessage, write
from gpusquad.server.notify.payload import AttemptTimes, payload_of
from gpusquad.server.notify.rules import NoticeKind, is_news, kind_of, receivers
from gpusquad.store import attempts, events, inbox, jobs, notices, people, settings
from gpusquad.store.database import Database
from gpusquad.store.errors import StoreUnavailable
from gpusquad.store.events import EventRow
from gpusquad.store.jobs import JobRow
from gpusquad.store.notices import RuleRow

_log = structlog.get_logger("gpusquad.notices")
POSITION = "notices.after"
"""Setting: the last event that was handled."""
EVENTS_AT_ONCE = 200
"""Events of one step, so that steps are short. The scheduler can write between two of them."""
BETWEEN_STEPS_S = 0.1
"""A burst of events is handled in few steps."""
MAX_RECEIVERS = 20
"""Users of a tenant that get a notice about a job of an unknown user."""
_RETRY_S = 5.0


@dataclass(frozen=True, slots=True)
class _Subject:
    """An event that is worth a notice, with its job."""

    kind: NoticeKind
    event: EventRow
    job: JobRow


_Owner = tuple[str, str, bool]
"""Tenant and user of a job, and whether the user is authenticated, because the job was submitted to the service."""


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the notices of one step need to know."""

    times: Mapping[tuple[str, int], AttemptTimes]
    batch_sizes: Mapping[str, int]
    users: Mapping[_Owner, Sequence[str]]
    """Users that get notices about the jobs of an owner."""
    rules: Sequence[RuleRow]


@dataclass
class NoticeFeed:
    """``step`` is for one thread at a time; the rest for any."""

    database: Database
    public_url: str = ""
    on_messages: Callable[[], object] = lambda: None
    """Called after messages to channels were written."""
    _collector: InboxCollector = field(default_factory=InboxCollector)

    def __post_init__(self) -> None:
        self._woken, self._moved = threading.Event(), threading.Condition()
        self._stopping = threading.Event()
        self._position: int | None = None
        self._thread = threading.Thread(target=self._run, name="notice-feed", daemon=True)

    def start(self) -> None:
        self._load()
        self._woken.set()  # for events since the last run
        self._thread.start()

    def stop(self, wait_s: float = 30.0) -> None:
        """Stop after the current step. The next start continues with the next event."""
        self._stopping.set()
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def wake(self, _events: object = None) -> None:
        """Events were stored. A listener of the scheduler."""
        self._woken.set()

    def settle(self, timeout_s: float = 2.0) -> bool:
        """Wait until all events that are stored now are handled, so that readers see their notices."""
        with self.database.read() as c:
            newest = events.last_id(c)
        self.wake()
        with self._moved:
            return self._moved.wait_for(lambda: self._stopping.is_set() or (self._position or 0) >= newest, timeout_s)

    def step(self) -> int:
        """Handle the next events. Returns their number."""
        position = self._load()
        with self.database.read() as c:
            found = events.after(c, position, EVENTS_AT_ONCE)
            subjects = _subjects(found, c)
            messages, news = self._written(subjects, _facts(c, subjects))
            # Outside of the write, for which the scheduler waits. Only this thread adds entries, so they stay right.
            entries = self._collector.entries(c, news)
        if not found:
            return 0
        with self.database.write() as c:
            inbox.put_all(c, entries)
            notices.add_all(c, messages)
            settings.put(c, POSITION, found[-1].id)
        with self._moved:
            self._position = found[-1].id
            self._moved.notify_all()
        if messages:
            self.on_messages()
        return len(found)

    def _load(self) -> int:
        """The position. A store that never had one starts now: its past is no news."""
        if self._position is None:
            with self.database.write() as c:
                position = settings.get(c, POSITION)
                if position is None:
                    position = events.last_id(c)
                    settings.put(c, POSITION, position)
            self._position = int(position)
        return self._position

    def _written(self, subjects: Iterable[_Subject], facts: _Facts) -> tuple[list[dict[str, Any]], list[InboxNotice]]:
        messages: list[dict[str, Any]] = []
        entries: list[InboxNotice] = []
        for subject in subjects:
            try:
                message = self._message(subject, facts)
                messages += _to_channels(subject, message, facts)
                entries += _to_inboxes(subject, message, facts)
            except Exception:  # one that cannot be written must not keep all later ones from being written
                _log.exception("notice not written", job=subject.job.id, notice=subject.event.id)
        return messages, entries

    def _message(self, subject: _Subject, facts: _Facts) -> NoticeMessage:
        kind, event, job = subject.kind, subject.event, subject.job
        text = write(kind, job, event)
        payload = payload_of(kind, job, event, facts.times.get(_attempt_of(subject)), self.public_url)
        return NoticeMessage(text.title, text.body, payload)

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._woken.wait()
            self._woken.clear()
            try:
                while self.step() and not self._stopping.wait(BETWEEN_STEPS_S):
                    pass
            except StoreUnavailable:
                self._later()
            except Exception:
                _log.exception("notices not written")
                self._later()

    def _later(self) -> None:
        self._woken.wait(_RETRY_S)
        self._woken.set()


def _subjects(found: Sequence[EventRow], c: Connection) -> list[_Subject]:
    worth: list[tuple[NoticeKind, EventRow]] = []
    for event in found:
        kind = kind_of(event.kind, event.state, event.attempt, event.data, event.cause)
        if kind is not None:
            worth.append((kind, event))
    rows = jobs.summaries(c, [event.job_id for _, event in worth])
    return [_Subject(kind, event, rows[event.job_id]) for kind, event in worth if event.job_id in rows]


def _facts(c: Connection, subjects: Sequence[_Subject]) -> _Facts:
    owners = {_owner_of(one.job) for one in subjects}
    users = {owner: _users_of(c, *owner) for owner in owners}
    return _Facts(
        attempts.times(c, {_attempt_of(one) for one in subjects}),
        jobs.group_sizes(c, [one.job.group_id for one in subjects if one.job.group_id]),
        users,
        notices.rules_of(c, sorted({user for found in users.values() for user in found})),
    )


def _owner_of(job: JobRow) -> _Owner:
    return job.tenant, job.user, bool(job.spec)


def _users_of(c: Connection, tenant: str, user: str, is_authenticated: bool) -> list[str]:
    """The owner, if it is a known user. A pod that was created in the cluster may name anybody or nobody: unless it
    names a user of its tenant, which its namespace decides, all users of the tenant get the notice."""
    owner = people.user(c, user)
    if owner is not None and (is_authenticated or owner.tenant == tenant):
        return [user]
    return [one.name for one in people.users(c, tenant) if not one.disabled][:MAX_RECEIVERS]


def _attempt_of(subject: _Subject) -> tuple[str, int]:
    """The attempt that a notice is about: of a retry, the one that ended."""
    return subject.job.id, subject.event.attempt - (1 if subject.event.kind in ("retry", "requeued") else 0)


def _to_channels(subject: _Subject, message: NoticeMessage, facts: _Facts) -> list[dict[str, Any]]:
    kind, event, job = subject.kind, subject.event, subject.job
    found = {
        rule.id: rule
        for user in facts.users[_owner_of(job)]
        for rule in receivers(kind, user, job.spec.get("notify"), facts.rules)
    }
    payload = None if message.payload is None else dict(message.payload)
    return [notices.new(rule_id, job.id, kind, message.title, message.body, event.at_us, payload) for rule_id in found]


def _to_inboxes(subject: _Subject, message: NoticeMessage, facts: _Facts) -> list[InboxNotice]:
    kind, event, job = subject.kind, subject.event, subject.job
    if not is_news(kind, job, event):
        return []
    size = facts.batch_sizes.get(job.group_id or "", 1)
    return [
        InboxNotice(user, kind, job, event.at_us, event.id, event.state, message, size)
        for user in facts.users[_owner_of(job)]
    ]
