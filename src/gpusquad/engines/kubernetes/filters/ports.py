"""Host ports, which two pods on one node cannot both use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpusquad.kube.objects import Object

ANY_ADDRESS = "0.0.0.0"


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    port: int
    protocol: str = "TCP"
    address: str = ANY_ADDRESS

    def clashes(self, other: HostPort) -> bool:
        """Same port at the same address, or one of them at all addresses of the host."""
        if (self.port, self.protocol) != (other.port, other.protocol):
            return False
        return self.address == other.address or ANY_ADDRESS in (self.address, other.address)


def ports_of(pod: Object) -> tuple[HostPort, ...]:
    found = (
        HostPort(port["hostPort"], port.get("protocol") or "TCP", port.get("hostIP") or ANY_ADDRESS)
        for container in _lasting(pod["spec"])
        for port in container.get("ports") or ()
        if port.get("hostPort", 0) > 0
    )
    return tuple(sorted(set(found)))


def clash(some: Iterable[HostPort], others: Iterable[HostPort]) -> bool:
    kept = tuple(others)
    return any(one.clashes(other) for one in some for other in kept)


def _lasting(spec: Object) -> Iterator[Object]:
    """Containers that exist as long as the pod: init containers only if they are sidecars (always restarted)."""
    yield from spec.get("containers") or ()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            yield container
