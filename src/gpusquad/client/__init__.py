"""Speaks to a running service over HTTP, with nothing but the standard library.

``find()`` gives a ``Client`` for the service of this machine; ``client.jobs``, ``client.cluster`` and the others hold
one method per endpoint. Whatever the service refuses is an ``ApiError``. One client is for one thread at a time.
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
    """Imported when first asked for: the command line looks at errors alone far more often than it connects."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
