"""Cards: how they are divided among those who share them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpusquad.client.http import Http
    from gpusquad.client.types import CardDetail, CardDivision, DivideRevision


class CardsApi:
    """A card is named by its id or UUID, the beginning of one, or its place: ``node0/3``, ``3`` on the only node."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def all(self) -> list[CardDivision]:
        return self._http.get("cards")["items"]

    def get(self, card: str) -> CardDetail:
        """With how it is divided at this moment, and among whom."""
        return self._http.get("cards", card)

    def divide(self, card: str, policy: str | None, note: str = "") -> CardDivision:
        """By this policy from now on; None: by what the mode says, again. Only administrators may."""
        return self._http.put("cards", card, "divide", body={"policy": policy, "note": note})

    def revisions(self, card: str, limit: int | None = None) -> list[DivideRevision]:
        return self._http.get("cards", card, "divide", "revisions", query={"limit": limit})["items"]
