"""Jobs: submitted, asked about, changed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpusquad.client.pages import joined

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import (
        ChangedJob,
        JobDetail,
        JobPage,
        JobView,
        RecommendView,
        StoryLine,
        SubmissionAnswer,
        WhatIfView,
        WhenView,
        WhyView,
    )

Plain = Mapping[str, Any]


class JobsApi:
    """``job`` is an id, a unique start or end of one, or the name of an unfinished job that no other has."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def submit(self, file: Plain, params: Plain | None = None, key: str = "") -> SubmissionAnswer:
        """One job, or one per point of a sweep. Sent again with the same key it is still accepted once."""
        body = {"file": file, "params": params or {}}
        return self._http.post("jobs", body=body, key=key or os.urandom(16).hex())

    def what_if(self, file: Plain, params: Plain | None = None) -> WhatIfView:
        """What a job would meet if it were submitted now. Nothing changes."""
        return self._http.post("whatif", body={"file": file, "params": params or {}})

    def recommend(self, file: Plain, params: Plain | None = None) -> RecommendView:
        """What a job should ask for, by past runs of its kind, and why."""
        return self._http.post("recommend", body={"file": file, "params": params or {}})

    def find(
        self,
        *,
        state: str | Sequence[str] | None = None,
        tenant: str | None = None,
        user: str | None = None,
        name: str | None = None,
        group: str | None = None,
        text: str | None = None,
        since_s: float | None = None,
        until_s: float | None = None,
        sort: str | None = None,
        limit: int | None = 100,
    ) -> JobPage:
        """Jobs of any state, over as many pages as it takes. ``limit`` None: all of them."""
        query = {
            "state": state or None, "tenant": tenant, "user": user, "name": name, "group": group, "text": text,
            "since_s": since_s, "until_s": until_s, "sort": sort,
        }  # fmt: skip
        return joined(lambda q: self._http.get("jobs", query=q), query, limit)  # type: ignore[return-value]

    def get(self, job: str) -> JobDetail:
        return self._http.get("jobs", job)

    def update(self, job: str, changes: Plain) -> ChangedJob:
        """Priority, queue, lane, goal, estimate, limit, part of a card's memory or name, while it waits or runs."""
        return self._http.patch("jobs", job, body=dict(changes))

    def cancel(self, job: str, cause: str = "") -> JobView:
        return self._http.post("jobs", job, "cancel", body={"cause": cause} if cause else {})

    def hold(self, job: str) -> JobView:
        return self._http.post("jobs", job, "hold")

    def release(self, job: str) -> JobView:
        return self._http.post("jobs", job, "release")

    def resubmit(self, job: str) -> SubmissionAnswer:
        """The same job once more, as a new one."""
        return self._http.post("jobs", job, "resubmit", key=os.urandom(16).hex())

    def source(self, job: str) -> dict[str, Any]:
        """The job as it was accepted: command, environment, what it asks for."""
        return self._http.get("jobs", job, "source")["spec"]

    def of_pod(self, namespace: str, pod: str) -> JobView:
        """The job that a pod of the cluster is part of."""
        return self._http.get("pods", namespace, pod, "job")

    def why(self, job: str) -> WhyView:
        """Everything that keeps it from starting."""
        return self._http.get("jobs", job, "why")

    def when(self, job: str) -> WhenView:
        """When it starts, and how far to trust that."""
        return self._http.get("jobs", job, "when")

    def story(self, job: str) -> list[StoryLine]:
        """What happened to it, oldest first."""
        return joined(lambda query: self._http.get("jobs", job, "story", query=query), {}, None)["items"]
