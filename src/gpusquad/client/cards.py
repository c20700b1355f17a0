"""Cards and their divide policies."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import CardDetail, CardDivision, DivideRevision


class CardsApi:
    """A card is given by id or UUID, a prefix of one, or its index: ``node0/3``, or ``3`` on the only node."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def all(self) -> list[CardDivision]:
        return self._http.get("cards")["items"]

    def get(self, card: str) -> CardDetail:
        """With its current division."""
        return self._http.get("cards", card)

    def divide(self, card: str, policy: str | None, note: str = "") -> CardDivision:
        """Set the divide policy. None: the mode's policy. Administrators only."""
        return self._http.put("cards", card, "divide", body={"policy": policy, "note": note})

    def revisions(self, card: str, limit: int | None = None) -> list[DivideRevision]:
        return self._http.get("cards", card, "divide", "revisions", query={"limit": limit})["items"]
