"""Jobs: submit, query, change."""

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
    """``job`` is an id, a unique prefix or suffix of one, or the unique name of an unfinished job."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def submit(self, file: Plain, params: Plain | None = None, key: str = "") -> SubmissionAnswer:
        """One job, or one per point of a sweep. Repeated with the same key, it is accepted once."""
        body = {"file": file, "params": params or {}}
        return self._http.post("jobs", body=body, key=key or os.urandom(16).hex())

    def what_if(self, file: Plain, params: Plain | None = None) -> WhatIfView:
        """What would happen to a job submitted now. Nothing changes."""
        return self._http.post("whatif", body={"file": file, "params": params or {}})

    def recommend(self, file: Plain, params: Plain | None = None) -> RecommendView:
        """What a job should request, from similar past runs, and why."""
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
        """Jobs of any state, over all pages. ``limit`` None: all jobs."""
        query = {
            "state": state or None, "tenant": tenant, "user": user, "name": name, "group": group, "text": text,
            "since_s": since_s, "until_s": until_s, "sort": sort,
        }  # fmt: skip
        return joined(lambda q: self._http.get("jobs", query=q), query, limit)  # type: ignore[return-value]

    def get(self, job: str) -> JobDetail:
        return self._http.get("jobs", job)

    def update(self, job: str, changes: Plain) -> ChangedJob:
        """Change the priority, queue, lane, SLO, estimate, limit, card memory or name of a pending or running job."""
        return self._http.patch("jobs", job, body=dict(changes))

    def cancel(self, job: str, cause: str = "") -> JobView:
        return self._http.post("jobs", job, "cancel", body={"cause": cause} if cause else {})

    def hold(self, job: str) -> JobView:
        return self._http.post("jobs", job, "hold")

    def release(self, job: str) -> JobView:
        return self._http.post("jobs", job, "release")

    def resubmit(self, job: str) -> SubmissionAnswer:
        """Submit the same job again, as a new one."""
        return self._http.post("jobs", job, "resubmit", key=os.urandom(16).hex())

    def source(self, job: str) -> dict[str, Any]:
        """The job as it was accepted: command, environment, requests."""
        return self._http.get("jobs", job, "source")["spec"]

    def of_pod(self, namespace: str, pod: str) -> JobView:
        """The job of a pod."""
        return self._http.get("pods", namespace, pod, "job")

    def why(self, job: str) -> WhyView:
        """All reasons why it is pending."""
        return self._http.get("jobs", job, "why")

    def when(self, job: str) -> WhenView:
        """Forecast start, with its accuracy."""
        return self._http.get("jobs", job, "when")

    def story(self, job: str) -> list[StoryLine]:
        """Its events, oldest first."""
        return joined(lambda query: self._http.get("jobs", job, "story", query=query), {}, None)["items"]
