"""Nodes, cards, the queue and usage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gpusquad.client.pages import pages

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import ClusterView, NodeView, PredictionsView, QueuePage, SampleView, UsageLine


class ClusterApi:
    """Nodes, cards and their use."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def summary(self) -> ClusterView:
        return self._http.get("cluster")

    def nodes(self) -> list[NodeView]:
        return self._http.get("nodes")["items"]

    def queue(self, limit: int | None = 100, tenant: str | None = None) -> QueuePage:
        """Pending jobs in order, running jobs, and those that the service holds. ``limit`` None: all pending jobs."""
        items, running, held, answer = [], [], [], {}
        for answer in pages(lambda query: self._http.get("queue", query=query), {"tenant": tenant}, limit):
            items += answer["items"]
            running = running or answer["running"]  # only the first page has them
            held = held or answer.get("held") or []
        return answer | {"items": items, "running": running, "held": held}  # type: ignore[return-value]

    def drain(self, node: str, cause: str = "") -> Any:
        """Start no new jobs there. Running jobs finish."""
        return self._http.post("nodes", node, "drain", body={"cause": cause})

    def undrain(self, node: str) -> Any:
        return self._http.post("nodes", node, "undrain")

    def cordon(self, card: str, cause: str = "") -> Any:
        """Start no new jobs on that card."""
        return self._http.post("cards", card, "cordon", body={"cause": cause})

    def uncordon(self, card: str) -> Any:
        return self._http.post("cards", card, "uncordon")

    def samples(self, card: str, since_s: float | None = None, every_s: float | None = None) -> list[SampleView]:
        """Utilisation of a card."""
        return self._http.get("cards", card, "samples", query={"since_s": since_s, "every_s": every_s})["items"]

    def usage(self, by: str = "tenant", since_s: float | None = None, until_s: float | None = None) -> list[UsageLine]:
        """GPU hours by tenant, user or job."""
        query = {"by": by, "since_s": since_s, "until_s": until_s}
        return self._http.get("usage", query=query)["items"]

    def predictions(self, tenant: str | None = None, since_s: float | None = None, points: int = 0) -> PredictionsView:
        """Accuracy of predicted run times, with ``points`` of them to draw."""
        return self._http.get("predictions", query={"tenant": tenant, "since_s": since_s, "points": points})
