"""How cards are divided, set at a whole service: kept over its end, and followed by the mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.running import RunningService
from gpusquad.client.errors import ApiError


def test_what_is_set_for_a_card_outlives_the_service(service: RunningService) -> None:
    cards = service.client.cards
    made = cards.divide("0", "slo", "demo")
    assert made["divide"]["effect"] == "kept"
    assert "takes effect where shares are enforced" in made["divide"]["message"]
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
    with pytest.raises(ApiError, match="gpus: requests 2 virtual cards per task") as refused:
        service.submit(name="wide", gpus=2, command=["true"])
    assert "gpus: 1" in (refused.value.cure or "")
    assert service.wait(service.submit(name="one", gpus=1, command=["true"]))["state"] == "succeeded"


@pytest.mark.parametrize(("before", "after"), [(2, 4), (1, 2), (2, 1)])
def test_cards_are_not_divided_anew_under_jobs(make_service, tmp_path: Path, before: int, after: int) -> None:
    service = make_service(config=virtual(before))
    go = tmp_path / "go"
    job_id = service.submit(name="stays", command=["sh", "-c", f"while [ ! -e {go} ]; do sleep 0.05; done"])
    service.wait(job_id, "running")
    service.stop()
    (service.home / "config.toml").write_text(virtual(after))
    assert not service.start().is_up
    assert service.process.wait(30) != 0
    assert f"cluster.virtual: was {before}, and these jobs still run on their cards: stays ({job_id})" in service.log()
    assert f"set virtual = {before} again" in service.log()
    (service.home / "config.toml").write_text(virtual(before))
    service.start().checked()
    go.touch()
    done = service.wait(job_id)
    assert (done["state"], done["attempt"]) == ("succeeded", 0), "never lost, and not run twice"
    service.stop()
    (service.home / "config.toml").write_text(virtual(after))
    service.start().checked()


def virtual(count: int) -> str:
    return f"[cluster]\nvirtual = {count}\n"
