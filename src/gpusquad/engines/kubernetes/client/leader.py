"""One replica decides, the others wait: the lease for those who have no event loop of their own."""

from __future__ import annotations

from collections.abc import Callable

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.lease import Leadership
from gpusquad.engines.kubernetes.client.loop_thread import LoopThread
from gpusquad.kube.access import KubeAccess


class Leader:
    """Has a hub of its own, so that nothing the engine does can keep it from renewing."""

    def __init__(self, access: KubeAccess, namespace: str, name: str, identity: str,
                 on_lost: Callable[[str], None]) -> None:  # fmt: skip
        self._hub = LoopThread("gpusquad-lease")
        self._lease = self._hub.submit(self._make(access, namespace, name, identity, on_lost)).result()

    def acquire(self) -> None:
        """Returns when we lead, however long that takes."""
        self._hub.submit(self._lease.acquire()).result()

    @property
    def leads(self) -> bool:
        return self._lease.leads

    def close(self) -> None:
        """Lets another lead at once."""
        self._hub.submit(self._lease.close()).result(10.0)
        self._hub.close()

    async def _make(self, access: KubeAccess, namespace: str, name: str, identity: str,
                    on_lost: Callable[[str], None]) -> Leadership:  # fmt: skip
        api = AsyncKubeApi(access)
        self._hub.on_close(api.close)
        return Leadership(api, namespace, name, identity, on_lost=on_lost)
