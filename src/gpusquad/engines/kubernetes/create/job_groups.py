"""Keeps the Jobs of one group together: they fail and are deleted as one, like the tasks of a gang."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.engines.kubernetes.parse.groups import GroupKey
from gpusquad.engines.kubernetes.pruning import shrink_other
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import GROUP
from gpusquad.kube.objects import Object, is_leaving, labels_of, name_of, namespace_of, uid_of

_JOBS = "/apis/batch/v1/jobs"
_PAUSE_S = 2.0
_TRIES = 30
_log = logging.getLogger(__name__)


class JobGroupWatcher:
    """Watches the Jobs that carry the name of a group. Used in the loop thread."""

    def __init__(self, api: AsyncKubeApi) -> None:
        self._api = api
        self._tasks: set[asyncio.Task[Any]] = set()
        self.jobs = Reflector(
            api, _JOBS, on_change=self._on_change, query={"labelSelector": GROUP}, shrink=shrink_other
        )

    def remove(self, key: GroupKey) -> bool:
        """Deletes the Jobs of a group, and with them its pods. False: no such Jobs are known."""
        if not self._of_key(key):
            return False
        self._start(self._remove(key.namespace, key.name))
        return True

    def verdict_on(self, key: GroupKey) -> str:
        """State of a group without pods, over all its Jobs. Empty: it has none."""
        jobs = self._of_key(key)
        if any(_has(job, "Failed") for job in jobs):
            return "failed"
        if jobs:
            return "succeeded" if all(_has(job, "Complete") for job in jobs) else "active"
        return ""

    async def _remove(self, namespace: str, group: str) -> None:
        """Reads the Jobs from the server, so that new ones are deleted too."""
        found: list[Object] = []

        async def find() -> None:
            path = f"/apis/batch/v1/namespaces/{namespace}/jobs"
            found[:] = (await self._api.list(path, labelSelector=f"{GROUP}={group}")).items

        await _retry_until_certain(find, f"find the Jobs of {group}")
        await asyncio.gather(*map(self._delete, found))

    def _on_change(self, change: str, job: Object, before: Object | None) -> None:
        """If one Job has failed, the others would wait for it indefinitely. They are made to fail instead of deleted,
        so that their outcome stays visible."""
        if change == "deleted" or not _has(job, "Failed") or (before is not None and _has(before, "Failed")):
            return
        for other in self._of(namespace_of(job), labels_of(job)[GROUP]):
            if name_of(other) != name_of(job) and not _is_over(other):
                _log.info("Job %s failed: ending %s", name_of(job), name_of(other))
                self._start(self._end(other))

    def _of_key(self, key: GroupKey) -> list[Object]:
        return self._of(key.namespace, key.name) if key.kind == GROUP else []

    def _of(self, namespace: str, group: str) -> list[Object]:
        return [
            job for job in self.jobs.items.values()
            if namespace_of(job) == namespace and labels_of(job).get(GROUP) == group and not is_leaving(job)
        ]  # fmt: skip

    async def _end(self, job: Object) -> None:
        content = {"metadata": {"uid": uid_of(job)}, "spec": {"activeDeadlineSeconds": 1}}
        await _retry_until_certain(lambda: self._api.patch(_path(job), content), f"end Job {name_of(job)}")

    async def _delete(self, job: Object) -> None:
        options = {"preconditions": {"uid": uid_of(job)}, "propagationPolicy": "Background"}
        await _retry_until_certain(lambda: self._api.delete(_path(job), options), f"delete Job {name_of(job)}")

    def _start(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _retry_until_certain(request: Any, what: str) -> None:
    for _ in range(_TRIES):
        try:
            await request()
            return
        except ApiRefused as error:
            if not error.is_busy and error.status < 500:
                if error.status not in (404, 409):
                    _log.warning("cannot %s: %s", what, error)
                return
        except ApiUnreachable as error:
            _log.info("retrying to %s: %s", what, error)
        await asyncio.sleep(_PAUSE_S)


def _path(job: Object) -> str:
    return f"/apis/batch/v1/namespaces/{namespace_of(job)}/jobs/{name_of(job)}"


def _is_over(job: Object) -> bool:
    return _has(job, "Failed") or _has(job, "Complete")


def _has(job: Object, condition: str) -> bool:
    found = (job.get("status") or {}).get("conditions") or ()
    return any(each.get("type") == condition and each.get("status") == "True" for each in found)
