"""How cards are divided, set at a whole service: kept over its end, and followed by the mode."""

from __future__ import annotations

import pytest

from bench.running import RunningService
from gpusquad.client.errors import ApiError


def test_what_is_set_for_a_card_outlives_the_service(service: RunningService) -> None:
    cards = service.client.cards
    made = cards.divide("0", "slo", "demo")
    assert made["divide"]["effect"] == "kept"
    assert "takes effect where cards are shared for real" in made["divide"]["message"]
    cards.divide("SIM-1", "jct")
    cards.divide("1", None)
    service.kill()
    service.start()
    first, second, *others = service.client.cards.all()
    assert (first["divide"]["policy"], first["divide"]["own"], first["divide"]["note"]) == ("slo", True, "demo")
    assert (second["divide"]["policy"], second["divide"]["own"]) == ("equal", False)
    assert {card["divide"]["revision"] for card in others} == {None}
    service.client.policy.set({"mode": "jct"})
    assert [card["divide"]["policy"] for card in service.client.cards.all()] == ["slo"] + 7 * ["jct"]
    assert service.client.cards.get("0")["now"] is None


def test_several_virtual_cards_for_one_task_are_refused(make_service) -> None:
    service = make_service(config="[cluster]\nvirtual = 4\n")
    with pytest.raises(ApiError, match="gpus: asks for 2 virtual cards a task") as refused:
        service.submit(name="wide", gpus=2, command=["true"])
    assert "gpus: 1" in (refused.value.cure or "")
    assert service.wait(service.submit(name="one", gpus=1, command=["true"]))["state"] == "succeeded"
