"""Programs that damage every card, with the real service, agent and processes on simulated cards."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from bench.running import RunningService

PATIENCE_S = 90.0
POISON = {"process:poison": "Xid 32"}
CONFIG = "[cluster]\nsample_every_s = 0.2\n"


def poison_program(home: Path) -> str:
    """A program whose process has a name of its own."""
    program = home / "poison"
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    return f"exec {program} 600"


def cards(service: RunningService) -> list[Any]:
    return [card for node in service.client.cluster.nodes() for card in node["cards"]]


def test_poison_batch_is_held_and_never_takes_more_than_two_cards(make_service) -> None:
    service = make_service(config=CONFIG)
    command = poison_program(service.home)
    (service.home / "sim-faults.json").write_text(json.dumps(POISON))
    jobs = [service.submit(name=f"poison-{number}", command=command) for number in range(20)]
    most, deadline = 0, time.monotonic() + PATIENCE_S
    while True:
        out = [card["id"] for card in cards(service) if card["state"] == "cordoned"]
        most = max(most, len(out))
        states = {service.client.jobs.get(job_id)["state"] for job_id in jobs}
        if states == {"held"} and not out:
            break
        assert time.monotonic() < deadline, states
        time.sleep(0.05)
    assert most <= 2
    (reason,) = service.client.jobs.why(jobs[0])["reasons"]
    assert "Xid 32 on SIM-" in reason["message"]
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
