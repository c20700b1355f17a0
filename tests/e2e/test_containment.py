"""Programs that damage every card, with the real service, agent and processes on simulated cards."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from bench.running import RunningService

PATIENCE_S = 90.0
POISON = {"process:poison": "Xid 32"}
CONFIG = "[cluster]\nsample_every_s = 0.2\n"


def poison_program(home: Path) -> str:
    """A program whose process has a name of its own."""
    program = home / "poison"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    return f"exec {program} 600"


def cordoned(service: RunningService) -> list[str]:
    return [card["id"] for card in cards(service) if card["state"] == "cordoned"]


def cards(service: RunningService) -> list[Any]:
    return [card for node in service.client.cluster.nodes() for card in node["cards"]]


@pytest.mark.parametrize("xid", ["Xid 32", "Xid 79"])
@pytest.mark.parametrize(("number", "file"), [(20, {}), (1, {"gpus": 2, "count": 2})], ids=["sweep", "gang"])
def test_poison_jobs_are_held_and_never_take_more_than_two_cards(make_service, xid, number, file) -> None:
    service = make_service(config=CONFIG)
    command = poison_program(service.home)
    (service.home / "sim-faults.json").write_text(json.dumps({"process:poison": xid}))
    jobs = [service.submit(name=f"poison-{at}", command=command, **file) for at in range(number)]
    most, deadline = 0, time.monotonic() + PATIENCE_S
    while True:
        out = cordoned(service)
        most = max(most, len(out))
        states = {service.client.jobs.get(job_id)["state"] for job_id in jobs}
        if states == {"held"} and not out:
            break
        assert time.monotonic() < deadline, states
        time.sleep(0.05)
    assert most <= 2
    (reason,) = service.client.jobs.why(jobs[0])["reasons"]
    assert f"{xid} on SIM-" in reason["message"]
    assert "gpusquad release" in reason["message"]
    tested = [card["self_test"] for card in cards(service) if card["self_test"] is not None]
    assert tested
    assert all(result["passed"] for result in tested)
    assert service.wait(service.submit(name="honest", command="true"))["state"] == "succeeded"


def test_card_that_fails_its_self_test_stays_cordoned_and_the_job_continues(make_service) -> None:
    service = make_service(config=CONFIG)
    command = poison_program(service.home)
    faults = POISON | {f"test:SIM-{number}": "3 words are wrong" for number in range(8)}
    (service.home / "sim-faults.json").write_text(json.dumps(faults))
    service.submit(name="poison", command=command)
    deadline = time.monotonic() + PATIENCE_S
    while not (failed := [card for card in cards(service) if "3 words are wrong" in card["cause"]]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert failed[0]["state"] == "cordoned"
    assert failed[0]["self_test"]["passed"] is False


def test_card_has_new_faults_after_it_was_given_back_by_hand(make_service) -> None:
    service = make_service(config=CONFIG)
    command = poison_program(service.home)
    (service.home / "sim-faults.json").write_text(json.dumps({"process:poison": "Xid 79"}))
    deadline = time.monotonic() + PATIENCE_S
    for number in range(2):
        job_id = service.submit(name=f"poison-{number}", command=command)
        while service.client.jobs.get(job_id)["attempt"] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        service.client.jobs.cancel(job_id)
        assert cordoned(service)[0] == "SIM-0"
        service.client.cluster.uncordon("SIM-0")
