"""The service's hand for jobs that are submitted to it. Called from the service's threads; works in the hub's."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from gpusquad.core.job_objects import JobObjectRequest
from gpusquad.engines.kubernetes.actions import annotate
from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.create.annotations import changed_to
from gpusquad.engines.kubernetes.create.manifests import ManifestSettings, plan_of
from gpusquad.engines.kubernetes.create.objects import create
from gpusquad.kube.errors import ApiUnreachable
from gpusquad.kube.objects import Object, name_of
from gpusquad.model.job import Job

_LONGEST_S = 60.0
_log = logging.getLogger(__name__)
T = TypeVar("T")


class EngineCalls(Protocol):
    """The engine, as far as it is needed here."""

    def ask(self, work: Callable[[AsyncKubeApi], Coroutine[Any, Any, T]]) -> concurrent.futures.Future[T]: ...
    def live_pods(self, job_id: str) -> list[Object]:
        """In the hub's thread."""
        ...

    def waits_for(self, job_id: str) -> str:
        """In the hub's thread."""
        ...


class KubernetesJobCreator:
    """A ``core.wanted.Maker``."""

    def __init__(self, engine: EngineCalls, settings: ManifestSettings) -> None:
        self._engine = engine
        self._settings = settings

    def job_id(self, wanted: JobObjectRequest) -> str:
        return plan_of(wanted, self._settings).job_id

    def make(self, wanted: Sequence[JobObjectRequest]) -> None:
        plans = [plan_of(one, self._settings) for one in wanted]
        made = self._engine.ask(lambda api: create(api, plans))
        try:
            made.result(_LONGEST_S)
        except TimeoutError:
            made.cancel()  # which takes back what was made
            raise ConnectionError(f"the cluster did not take it within {_LONGEST_S:g} s") from None
        except ApiUnreachable as error:
            raise ConnectionError(f"the API server does not answer: {error}") from None

    def lacks(self, job_id: str) -> str:
        async def ask(api: AsyncKubeApi) -> str:
            return self._engine.waits_for(job_id)

        return self._engine.ask(ask).result(_LONGEST_S)

    def note(self, job_id: str, job: Job) -> None:
        said = changed_to(job)

        async def write(api: AsyncKubeApi) -> None:
            pods = self._engine.live_pods(job_id)
            for pod, why in zip(pods, await asyncio.gather(*(annotate(api, pod, said) for pod in pods)), strict=True):
                if why:
                    _log.info("could not note on pod %s what was changed: %s", name_of(pod), why)

        self._engine.ask(write)
