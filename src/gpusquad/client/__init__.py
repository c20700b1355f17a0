"""HTTP client of a running service, with the standard library only.

``find()`` returns a ``Client`` for the service of this machine; ``client.jobs``, ``client.cluster`` and the others have
one method per endpoint. A refusal of the service raises ``ApiError``. A client is for one thread at a time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpusquad.client.client import Client as Client
    from gpusquad.client.connect import find as find
    from gpusquad.client.errors import ApiError as ApiError
    from gpusquad.client.errors import ServiceUnreachable as ServiceUnreachable

_HOMES = {"Client": "client", "find": "connect", "ApiError": "errors", "ServiceUnreachable": "errors"}


def __getattr__(name: str) -> Any:
    """Imported at first use: the command line often needs only the errors."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
