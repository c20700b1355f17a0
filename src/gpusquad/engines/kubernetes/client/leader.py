"""Leader election for callers without an event loop."""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.lease import Leadership
from gpusquad.engines.kubernetes.client.loop_thread import LoopThread
from gpusquad.kube.access import KubeAccess


class Leader:
    """Has its own loop thread, so that the engine's work cannot delay a renewal."""

    def __init__(self, access: KubeAccess, namespace: str, name: str, identity: str,
                 on_lost: Callable[[str], None]) -> None:  # fmt: skip
        self._loop_thread = LoopThread("gpusquad-lease")
        self._lease = self._loop_thread.submit(self._make(access, namespace, name, identity, on_lost)).result()

    def acquire(self) -> None:
        """Returns when this replica leads."""
        self._loop_thread.submit(self._lease.acquire()).result()

    @property
    def leads(self) -> bool:
        return self._lease.leads

    def close(self) -> None:
        """Releases the lease, so that another replica can lead at once."""
        self._loop_thread.submit(self._lease.close()).result(10.0)
        self._loop_thread.close()

    async def _make(self, access: KubeAccess, namespace: str, name: str, identity: str,
                    on_lost: Callable[[str], None]) -> Leadership:  # fmt: skip
        api = AsyncKubeApi(access)
        self._loop_thread.on_close(api.close)
        return Leadership(api, namespace, name, identity, on_lost=on_lost)
