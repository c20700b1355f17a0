"""Health of the service."""

from __future__ import annotations

from dataclasses import dataclass
from http.client import NOT_FOUND
from typing import TYPE_CHECKING, Any

from gpusquad.client.errors import ApiError, ServiceUnreachable

if TYPE_CHECKING:
    from gpusquad.client.http import Http


@dataclass(frozen=True, slots=True)
class Ready:
    """Whether it accepts work, and if not, why."""

    ok: bool
    reason: str = ""


class HealthApi:
    """Answered without a token."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def alive(self) -> Any:
        return self._http.call("GET", ("healthz",), prefix=())

    def ready(self) -> Ready:
        try:
            self._http.call("GET", ("readyz",), prefix=())
        except ServiceUnreachable:
            raise
        except ApiError as error:
            return Ready(False, error.message)
        return Ready(True)

    def has_dashboard(self) -> bool:
        """Whether it serves the dashboard, which a checkout may not have built."""
        try:
            self._http.call("HEAD", ("index.html",), prefix=())
        except ApiError as error:
            if error.status != NOT_FOUND:
                raise
            return False
        return True

    def job_schema(self) -> dict[str, Any]:
        """JSON Schema of the job file, as this service checks it."""
        return self._http.get("schema", "job")
