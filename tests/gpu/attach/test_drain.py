"""Waiting for the work in flight of a GPU client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from gpusquad.gpu.attach.card_manager import CardManager
from gpusquad.gpu.attach.drain import wait_until_done
from gpusquad.model.errors import Invalid


class DepartingClient:
    """A card manager whose client leaves between two questions."""

    def ask_if_running(self, question: Mapping[str, object], within_s: float = 5.0) -> dict:
        if question["do"] == "hold":
            raise Invalid("tenant.id", "'a/0' is not on this card")
        return {"tenants": [{"id": "a/0", "in_flight": 1, "pids": [5]}]}


def test_wait_until_done_succeeds_when_the_client_has_left() -> None:
    assert wait_until_done(cast(CardManager, DepartingClient()), "a/0", 5.0) == (True, set())
