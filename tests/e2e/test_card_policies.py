"""Tests of divide policies and virtual cards in a running service, also across restarts."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.running import RunningService
from gpusquad.client.errors import ApiError


def test_divide_policy_of_a_card_survives_a_service_restart(service: RunningService) -> None:
    cards = service.client.cards
    answer = cards.divide("0", "slo", "demo")
    assert answer["divide"]["effect"] == "kept"
    assert "takes effect where shares are enforced" in answer["divide"]["message"]
    cards.divide("SIM-1", "jct")
    cards.divide("1", None)  # the same card by its index: the policy of the mode again
    service.kill()
    service.start()
    first, second, *others = service.client.cards.all()
    assert (first["divide"]["policy"], first["divide"]["own"], first["divide"]["note"]) == ("slo", True, "demo")
    assert (second["divide"]["policy"], second["divide"]["own"]) == ("auto", False)
    assert {card["divide"]["revision"] for card in others} == {None}
    service.client.policy.set({"mode": "jct"})
    assert [card["divide"]["policy"] for card in service.client.cards.all()] == ["slo"] + 7 * ["jct"]
    assert service.client.cards.get("0")["now"] is None, "a simulated card has no squads"


def test_several_virtual_cards_for_one_task_are_refused(make_service) -> None:
    service = make_service(config="[cluster]\nvirtual = 4\n")
    with pytest.raises(ApiError, match="gpus: requests 2 virtual cards per task") as refused:
        service.submit(name="wide", gpus=2, command=["true"])
    assert "gpus: 1" in (refused.value.cure or "")
    assert service.wait(service.submit(name="one", gpus=1, command=["true"]))["state"] == "succeeded"


@pytest.mark.parametrize(("before", "after"), [(2, 4), (1, 2), (2, 1)])
def test_number_of_virtual_cards_cannot_change_while_jobs_run(
    make_service, tmp_path: Path, before: int, after: int
) -> None:
    service = make_service(config=virtual_config(before))
    release_file = tmp_path / "go"
    job_id = service.submit(name="stays", command=["sh", "-c", f"while [ ! -e {release_file} ]; do sleep 0.05; done"])
    service.wait(job_id, "running")
    service.stop()
    (service.home / "config.toml").write_text(virtual_config(after))
    assert not service.start().is_up
    assert service.process.wait(30) != 0
    assert f"cluster.virtual: was {before}, and these jobs still run on their cards: stays ({job_id})" in service.log()
    assert f"set virtual = {before} again" in service.log()
    (service.home / "config.toml").write_text(virtual_config(before))
    service.start().checked()
    release_file.touch()
    finished = service.wait(job_id)
    assert (finished["state"], finished["attempt"]) == ("succeeded", 0), "the job was lost or run twice"
    service.stop()
    (service.home / "config.toml").write_text(virtual_config(after))
    service.start().checked()


def virtual_config(count: int) -> str:
    return f"[cluster]\nvirtual = {count}\n"
