"""Creates the objects of submitted jobs. Called from the service's threads; works in the loop thread."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.kubernetes.actions import annotate
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.create.annotations import annotation_changes
from gpusquad.engines.kubernetes.create.manifests import ManifestSettings, plan_of
from gpusquad.engines.kubernetes.create.objects import create
from gpusquad.kube.errors import ApiUnreachable
from gpusquad.kube.objects import Object, name_of
from gpusquad.model.job import Job

_TIMEOUT_S = 60.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class EngineCalls(Protocol):
    """The part of the engine that is used here."""

    def call_api(self, work: Callable[[AsyncKubeApi], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]: ...
    def live_pods(self, job_id: str) -> list[Object]:
        """Call it in the loop thread."""
        ...

    def waits_for(self, job_id: str) -> str:
        """Call it in the loop thread."""
        ...


class KubernetesJobCreator:
    """A ``core.job_objects.JobObjectCreator``."""

    def __init__(self, engine: EngineCalls, settings: ManifestSettings) -> None:
        self._engine = engine
        self._settings = settings

    def job_id(self, wanted: JobObjectRequest) -> str:
        return plan_of(wanted, self._settings).job_id

    def make(self, wanted: Sequence[JobObjectRequest]) -> None:
        plans = [plan_of(one, self._settings) for one in wanted]
        made = self._engine.call_api(lambda api: create(api, plans))
        try:
            made.result(_TIMEOUT_S)
        except TimeoutError:
            made.cancel()  # which removes what was created
            raise ConnectionError(f"the cluster did not accept the job within {_TIMEOUT_S:g} s") from None
        except ApiUnreachable as error:
            raise ConnectionError(f"the API server does not answer: {error}") from None

    def lacks(self, job_id: str) -> str:
        async def find(api: AsyncKubeApi) -> str:
            return self._engine.waits_for(job_id)

        return self._engine.call_api(find).result(_TIMEOUT_S)

    def note(self, job_id: str, job: Job) -> None:
        annotations = annotation_changes(job)

        async def write(api: AsyncKubeApi) -> None:
            pods = self._engine.live_pods(job_id)
            results = await asyncio.gather(*(annotate(api, pod, annotations) for pod in pods))
            for pod, why in zip(pods, results, strict=True):
                if why:
                    _log.info("cannot write the change to pod %s: %s", name_of(pod), why)

        self._engine.call_api(write)
