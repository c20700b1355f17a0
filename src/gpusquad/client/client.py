"""Everything that can be asked of a service."""

from __future__ import annotations

from typing import Any

from gpusquad.client.cards import Cards
from gpusquad.client.cluster import Cluster
from gpusquad.client.events import Events
from gpusquad.client.health import Health
from gpusquad.client.http import Http
from gpusquad.client.jobs import Jobs
from gpusquad.client.logs import Logs
from gpusquad.client.notices import Notices
from gpusquad.client.people import People
from gpusquad.client.policy import Policy
from gpusquad.client.secrets import Secrets
from gpusquad.client.windows import Windows


class Client:
    """The endpoints in groups. ``options`` are those of ``Http``: time-outs and tries. ``http``: another way there."""

    def __init__(self, url: str, token: str = "", *, http: Http | None = None, **options: Any) -> None:
        self.http = http if http is not None else Http(url, token, **options)
        self.jobs = Jobs(self.http)
        self.logs = Logs(self.http)
        self.events = Events(self.http)
        self.cluster = Cluster(self.http)
        self.cards = Cards(self.http)
        self.windows = Windows(self.http)
        self.policy = Policy(self.http)
        self.people = People(self.http)
        self.secrets = Secrets(self.http)
        self.notices = Notices(self.http)
        self.health = Health(self.http)

    @property
    def url(self) -> str:
        return self.http.url

    def now_s(self) -> float:
        """The time at the service."""
        return self.http.now_s()

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
