"""A status writer with a fake API server, in virtual time."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from gpusquad.engines.kubernetes.settings import StatusSettings
from gpusquad.engines.kubernetes.status.writer import PodStatusWriter
from gpusquad.kube.errors import ApiRefused
from gpusquad.kube.objects import Object
from tests.engines.kubernetes.status.builders import NOW, pod
from tests.engines.kubernetes.virtual_time import run_virtually


class FakeServer:
    """Stores events and conditions as the API server does, and the time of each write."""

    def __init__(self, pods: dict[str, Object]) -> None:
        self.pods = pods
        self.writes: list[tuple[float, str, str]] = []
        self.events: dict[str, Object] = {}
        self.status: dict[str, Object] = {}
        self.refuse: list[Exception] = []

    async def post(self, path: str, content: Object) -> Object:
        self._record("POST", path)
        self.events[f"{path}/{content['metadata']['name']}"] = content
        return content

    async def patch(self, path: str, content: Object, *, kind: str = "merge") -> Object:
        self._record("PATCH", path)
        if "/events/" in path:
            if path not in self.events:
                raise ApiRefused(404, "NotFound")
            self.events[path] |= content
        else:
            name = path.split("/")[-2]
            if self.pods[f"uid-{name}"]["metadata"]["resourceVersion"] != content["metadata"]["resourceVersion"]:
                raise ApiRefused(409, "Conflict")
            self.status.setdefault(name, {}).update(content["status"])
        return {}

    def _record(self, method: str, path: str) -> None:
        self.writes.append((asyncio.get_running_loop().time(), method, path))
        if self.refuse:
            raise self.refuse.pop(0)


class WriterHarness:
    """A status writer and its server, in virtual time."""

    def __init__(self, count: int, settings: StatusSettings, dry_run: bool = False) -> None:
        loop = asyncio.get_running_loop()
        self.pods = {f"uid-p{number}": pod(f"p{number}") for number in range(count)}
        self.server = FakeServer(self.pods)
        start_s = loop.time()
        self.writer = PodStatusWriter(
            self.server, self.pods.get, settings, clock_s=loop.time,
            now=lambda: NOW + timedelta(seconds=loop.time() - start_s), dry_run=dry_run,
        )  # fmt: skip
        self._task = loop.create_task(self.writer.run())

    @property
    def all(self) -> list[Object]:
        return list(self.pods.values())

    async def sleep_s(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def end(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def run_writer(count: int, settings: StatusSettings, script, dry_run: bool = False) -> FakeServer:
    async def run() -> FakeServer:
        harness = WriterHarness(count, settings, dry_run)
        await script(harness)
        await harness.end()
        return harness.server

    return run_virtually(run())
