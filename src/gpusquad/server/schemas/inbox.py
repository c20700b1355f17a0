"""Inbox of the caller."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gpusquad.server.schemas.base import ApiBody, ApiView, Next

_Id = Annotated[int, Field(ge=1, le=2**53)]


class InboxReason(ApiView):
    code: str = Field(description="For programs, for example exit_code, out_of_memory, timed_out or hang:silent")
    text: str


class InboxJob(ApiView):
    id: str
    name: str


class InboxEntry(ApiView):
    """A notice about a job, or the sum of many about the jobs of one batch. News replaces it by an entry with a larger
    id."""

    id: int
    kind: str
    job: str | None = Field(description="null: about several jobs")
    group: str | None = Field(description="Batch of the jobs, if the entry is about one")
    name: str = Field(description="Name of the job, or the common beginning of the names")
    state: str | None = Field(description="State of the job at that time; null: several jobs")
    reason: InboxReason | None = Field(description="Of several jobs: the newest one. null: none is known")
    count: int = Field(description="Notices in the entry")
    ends: dict[str, int] | None = Field(description="Jobs by final state; null: one job, or not about ends")
    jobs: int | None = Field(description="Jobs of the batch; null: one job, or no batch")
    failed: list[InboxJob] = Field(description="Some of the failed jobs of a batch, at most five")
    title: str
    body: str = Field(description="Plain text of several lines: what happened, why, and what to do")
    first_s: float = Field(description="Time of its first notice")
    at_s: float = Field(description="Time of its latest notice")
    read: bool


class InboxPage(ApiView):
    items: list[InboxEntry]
    next: Next
    unread: int = Field(description="All unread entries of the caller")


class ReadRequest(ApiBody):
    """Entries to mark as read: the listed ones, and all up to an id."""

    ids: list[_Id] = Field(default_factory=list, max_length=1000)
    up_to: _Id | None = None


class ReadResult(ApiView):
    marked: int
    unread: int
