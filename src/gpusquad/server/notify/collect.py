"""Turns notices into entries of inboxes: one for each job, or one for many jobs that were submitted together.

The end of a sweep is one entry that counts, not hundreds of entries. The rule: notices of a kind about a batch of
``COLLECT_FROM`` jobs or more share an entry; finished, failed and cancelled count as one kind. Notices about other jobs
share an entry while a user gets more than ``BURST_FROM`` of a kind within ``BURST_US``. Notices of a kind about one job
share an entry too, so that a job that is lost ten times is one entry.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sqlalchemy import Connection

from gpusquad.core.transitions import JobState
from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.messages import HEADLINES, MAX_TITLE_CHARS, NoticeMessage, name_of
from gpusquad.server.notify.rules import NoticeKind
from gpusquad.server.safe_text import one_line
from gpusquad.store import inbox
from gpusquad.store.inbox import InboxRow
from gpusquad.store.jobs import JobRow

COLLECT_FROM = 5
BURST_FROM = 20
BURST_US = 60 * US_PER_S
NAMED_JOBS = 5
"""Failed jobs that an entry about many jobs names."""
MAX_BURSTS = 10_000
ENDED = "ended"
"""Kind of the entries that count how jobs ended."""
_ENDS: frozenset[NoticeKind] = frozenset({"finished", "failed", "cancelled"})
_ORDER = (JobState.SUCCEEDED, JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED)
_STATES = {JobState.TIMED_OUT: "stopped at their time limit"}


@dataclass(frozen=True, slots=True)
class InboxNotice:
    """A notice for the inbox of one user."""

    user: str
    kind: NoticeKind
    job: JobRow
    at_us: int
    event_id: int
    state: str
    message: NoticeMessage
    batch_size: int = 1
    """Jobs that were submitted together with this one, itself included."""


@dataclass(slots=True)
class _Burst:
    """Recent notices of one kind to one user about jobs that belong to no large batch."""

    times_us: deque[int] = field(default_factory=lambda: deque(maxlen=BURST_FROM))
    topic: str = ""

    def topic_of(self, notice: InboxNotice, kind: str) -> str:
        """Topic of the burst that the notice belongs to; empty: none."""
        if self.times_us and notice.at_us - self.times_us[-1] > BURST_US:
            self.topic = ""
        is_burst = len(self.times_us) == BURST_FROM and notice.at_us - self.times_us[0] <= BURST_US
        self.times_us.append(notice.at_us)
        if is_burst and not self.topic:
            self.topic = f"burst:{kind}:{notice.event_id}"
        return self.topic


@dataclass
class InboxCollector:
    """Makes entries. What it remembers about bursts may be lost: a burst then starts again."""

    _bursts: dict[tuple[str, str], _Burst] = field(default_factory=dict)

    def entries(self, c: Connection, notices: Iterable[InboxNotice]) -> list[InboxRow]:
        """Entries with these notices, oldest first, to be stored by ``inbox.put_all``."""
        by_topic: dict[inbox.Key, list[InboxNotice]] = {}
        for notice in notices:
            key = notice.user, self._topic(notice)
            by_topic[key] = [*by_topic.pop(key, []), notice]  # the topic with the latest news comes last
        before = inbox.of_topics(c, by_topic.keys())
        return [_entry(before.get(key), key, news) for key, news in by_topic.items()]

    def _topic(self, notice: InboxNotice) -> str:
        kind, job = _topic_kind(notice.kind), notice.job
        if job.group_id and notice.batch_size >= COLLECT_FROM:
            return f"batch:{job.group_id}:{kind}"
        if len(self._bursts) > MAX_BURSTS:
            self._bursts.clear()
        burst = self._bursts.setdefault((notice.user, kind), _Burst())
        return burst.topic_of(notice, kind) or f"job:{job.id}:{kind}"


def ends_of(row: InboxRow) -> dict[str, int] | None:
    """How the jobs of an entry ended. None: the entry is about one job, or not about ends."""
    return dict((row.data or {}).get("counts") or {}) if row.job_id is None and _counts_ends(row) else None


def _topic_kind(kind: NoticeKind) -> str:
    return ENDED if kind in _ENDS else kind


def _entry(before: InboxRow | None, key: inbox.Key, news: list[InboxNotice]) -> InboxRow:
    """The entry of a topic after these notices. It is unread, and newer than all others."""
    last, (user, topic) = news[-1], key
    count = len(news) + (before.count if before else 0)
    row = InboxRow(
        id=before.id if before else 0, user=user, topic=topic, kind=last.kind, job_id=last.job.id, group_id=None,
        count=count, title=last.message.title, body=last.message.body, data=_about(last),
        first_us=before.first_us if before else news[0].at_us, at_us=last.at_us,
    )  # fmt: skip
    if topic.startswith("job:"):
        times = f" ({count} times)" if count > 1 else ""
        return replace(row, title=one_line(row.title, MAX_TITLE_CHARS - len(times)) + times)
    return _summed(row, (before.data if before else None) or {}, news)


def _about(notice: InboxNotice) -> dict[str, Any]:
    """What an entry about one job says as data."""
    payload = notice.message.payload or {}
    return {"name": name_of(notice.job), "state": notice.state, "reason": payload.get("reason")}


def _summed(row: InboxRow, before: Mapping[str, Any], news: list[InboxNotice]) -> InboxRow:
    """The entry about many jobs: how many, how they ended, and some that failed."""
    counts = Counter(before.get("counts") or {}) + Counter(one.state for one in news)
    failed = list(before.get("failed") or ())
    failed += [{"id": one.job.id, "name": name_of(one.job)} for one in news if one.kind == "failed"]
    group_id = news[-1].job.group_id if row.topic.startswith("batch:") else None
    name = _common_name([*([str(before["name"])] if before.get("name") else []), *(name_of(one.job) for one in news)])
    data = {"name": name, "counts": dict(counts), "failed": failed[:NAMED_JOBS]} | _reason_of(before, news, row)
    if group_id is not None:
        data["jobs"] = news[-1].batch_size
    title = _title(row, data)
    kind = ("failed" if failed else "finished" if counts[JobState.SUCCEEDED] else "cancelled") if _counts_ends(row) \
        else row.kind  # fmt: skip
    body = "\n".join(_lines(group_id, data, news[-1]))
    return replace(row, kind=kind, job_id=None, group_id=group_id, title=title, body=body, data=data)


def _reason_of(before: Mapping[str, Any], news: Sequence[InboxNotice], row: InboxRow) -> dict[str, Any]:
    """The reason of the newest notice that has one, and whether others have another. Of jobs that ended, only
    failures count, and cancellations while nothing failed."""
    found = [(one.kind, _about(one)["reason"] or {}) for one in news if one.kind != "finished"]
    reasons = [(kind, reason) for kind, reason in found if reason.get("text")]
    if before.get("reason"):
        reasons.insert(0, (before.get("reason_kind") or row.kind, before["reason"]))
    failures = [(kind, reason) for kind, reason in reasons if kind == "failed"]
    reasons = failures or reasons
    if not reasons:
        return {"reason": None}
    kind, newest = reasons[-1]
    differ = bool(before.get("reasons_differ")) or any(reason["text"] != newest["text"] for _, reason in reasons)
    return {"reason": newest, "reason_kind": kind, "reasons_differ": differ}


def _counts_ends(row: InboxRow) -> bool:
    return row.kind in _ENDS


def _title(row: InboxRow, data: Mapping[str, Any]) -> str:
    name = f"{data['name']}: " if data["name"] else ""
    if not _counts_ends(row):
        headline = HEADLINES[row.kind]  # pyright: ignore[reportArgumentType]  (a row keeps it as text)
        return one_line(f"{name}{row.count} notices that a job {headline}", MAX_TITLE_CHARS)
    of_all = f" of {data['jobs']}" if "jobs" in data else ""
    ends = [f"{data['counts'][state]} {_STATES.get(state, state)}" for state in _ORDER if data["counts"].get(state)]
    return one_line(f"{name}{row.count}{of_all} jobs ended: {', '.join(ends)}", MAX_TITLE_CHARS)


def _lines(group_id: str | None, data: Mapping[str, Any], last: InboxNotice) -> Iterable[str]:
    if group_id is not None:
        owner = f"{one_line(last.job.user, 60)} in {one_line(last.job.tenant, 60)}"
        yield f"Batch {group_id} of {owner}, {data['jobs']} jobs."
    yield f"Latest: {last.message.title}."
    if data["reason"]:
        yield f"{'Cause of the latest' if data['reasons_differ'] else 'Cause'}: {data['reason']['text']}"
    if data["failed"]:
        more = data["counts"].get(JobState.FAILED, 0) + data["counts"].get(JobState.TIMED_OUT, 0) - len(data["failed"])
        rest = f" and {more} more" if more > 0 else ""
        named = ", ".join(f"{one['name']} ({one['id']})" for one in data["failed"])
        yield f"Failed: {named}{rest}."
    of_group = f" --group {group_id}" if group_id is not None else ""
    wanted = " --state failed,timed_out" if data["failed"] else ""
    yield f"What to do: gpusquad history --mine{of_group}{wanted} lists them."


def _common_name(names: list[str]) -> str:
    """What the names of the jobs begin with; empty: they differ."""
    first, last = min(names), max(names)
    if first == last:
        return first
    alike = next((index for index, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    return first[:alike].rstrip(" -_.,=/([")
