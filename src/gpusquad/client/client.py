"""All endpoints of a service."""

from __future__ import annotations

from typing import Any

from gpusquad.client.cards import CardsApi
from gpusquad.client.cluster import ClusterApi
from gpusquad.client.events import EventsApi
from gpusquad.client.health import HealthApi
from gpusquad.client.http import Http
from gpusquad.client.inbox import InboxApi
from gpusquad.client.jobs import JobsApi
from gpusquad.client.logs import LogsApi
from gpusquad.client.notices import NoticesApi
from gpusquad.client.people import PeopleApi
from gpusquad.client.policy import PolicyApi
from gpusquad.client.secrets import SecretsApi
from gpusquad.client.windows import WindowsApi


class Client:
    """Endpoint groups. ``options`` are those of ``Http``: timeouts and attempts. ``http``: another transport."""

    def __init__(self, url: str, token: str = "", *, http: Http | None = None, **options: Any) -> None:
        self.http = http if http is not None else Http(url, token, **options)
        self.jobs = JobsApi(self.http)
        self.logs = LogsApi(self.http)
        self.events = EventsApi(self.http)
        self.cluster = ClusterApi(self.http)
        self.cards = CardsApi(self.http)
        self.windows = WindowsApi(self.http)
        self.policy = PolicyApi(self.http)
        self.people = PeopleApi(self.http)
        self.secrets = SecretsApi(self.http)
        self.notices = NoticesApi(self.http)
        self.inbox = InboxApi(self.http, self.events)
        self.health = HealthApi(self.http)

    @property
    def url(self) -> str:
        return self.http.url

    def now_s(self) -> float:
        """Current time of the service."""
        return self.http.now_s()

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
