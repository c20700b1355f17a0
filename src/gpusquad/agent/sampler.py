"""One reading of everything, as the messages for the server."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gpusquad.agent.health import CardHealth
from gpusquad.agent.inventory import CardReading, Inventory, JobProcess
from gpusquad.agent.job_processes import Processes, total_cpu_ratio
from gpusquad.agent.machine import HostResources
from gpusquad.agent.quiet_runs import QuietRuns
from gpusquad.agent.run_files import RunFiles, RunReading
from gpusquad.agent.self_test import CardTests, free_cards
from gpusquad.agent.wire import WatchedRun
from gpusquad.model.virtual import physical

Message = dict[str, Any]


def inventory_message(inventory: Inventory, machine: HostResources) -> Message:
    """The first message to the server."""
    node = {**asdict(machine), "cards": [asdict(card) for card in inventory.cards]}
    return {"kind": "inventory", "simulated": inventory.simulated, "driver": inventory.driver, "node": node}


class Sampler:
    """Keeps what a single reading cannot tell: the lowest power of a card, the read positions of logs."""

    def __init__(
        self,
        inventory: Inventory,
        health: CardHealth,
        processes: Processes | None = None,
        now_us: Callable[[], int] = lambda: time.time_ns() // 1000,
        clock_s: Callable[[], float] = time.monotonic,
        tests: CardTests | None = None,
        quiet: QuietRuns | None = None,
    ) -> None:
        self._inventory = inventory
        self._tests = tests
        self._quiet = quiet if quiet is not None else QuietRuns()
        self._health = health
        self._processes = processes if processes is not None else Processes()
        self._now_us = now_us
        self._clock_s = clock_s
        self._idle_w: dict[str, float] = {}
        self._files: dict[tuple[str, int], RunFiles] = {}

    def sample(self, runs: Sequence[WatchedRun]) -> list[Message]:
        """The samples, preceded by the health reports that follow from them."""
        owned = self._processes.look(runs)
        readings = self._inventory.read(owned)
        at_us = self._now_us()
        verdicts = [message for reading in readings for message in self._health.see(reading, self._clock_s())]
        used = [card for run in runs for card in run.cards] + [card for process in owned for card in process.cards]
        verdicts += tested(self._tests, self._health, readings, used, self._clock_s())
        cards = {reading.id: self._card(reading) for reading in readings}
        by_id = {reading.id: reading for reading in readings}
        self._follow(runs)
        samples: Message = {
            "kind": "samples",
            "at_us": at_us,
            "cards": list(cards.values()),
            "runs": [self._run(run, owned, by_id, at_us) for run in runs],
        }
        return [*verdicts, samples]

    def _card(self, reading: CardReading) -> Message:
        card = card_message(reading, self._idle_w)
        card["processes"] = [self._process(process) for process in card["processes"] or ()]
        add_test(card, self._tests)
        return card

    def _process(self, process: Message) -> Message:
        job, attempt = self._processes.owner(process["pid"]) or (None, None)
        name = self._processes.name(process["pid"]) or process["name"]
        memory_bytes = process["memory_bytes"]
        return {"pid": process["pid"], "memory_bytes": memory_bytes, "name": name, "job": job, "attempt": attempt}

    def _run(self, run: WatchedRun, owned: Sequence[JobProcess], cards: dict[str, CardReading], at_us: int) -> Message:
        processes = [process for process in owned if (process.job, process.attempt) == run.key]
        reading = self._files[run.key].look(at_us)
        return {
            "job": run.job,
            "attempt": run.attempt,
            **reading_message(reading),
            **asdict(self._quiet.look(run.key, reading, processes, at_us)),
            "cpu_ratio": total_cpu_ratio(processes),
            "rss_bytes": sum(process.rss_bytes for process in processes),
            "gpu_ratio": gpu_ratio(
                [cards[card] for card in run.cards if card in cards],
                lambda pid: self._processes.owner(pid) == run.key,
            ),
        }

    def _follow(self, runs: Sequence[WatchedRun]) -> None:
        self._files = {run.key: self._files.get(run.key) or RunFiles(Path(run.folder)) for run in runs}
        self._quiet.forget(list(self._files))


def reading_message(reading: RunReading) -> Message:
    """What a run printed, with the signs of its output flat."""
    message = asdict(reading)
    return message | message.pop("output")


def tested(
    tests: CardTests | None, health: CardHealth, readings: Sequence[CardReading], used: Sequence[str], now_s: float
) -> list[Message]:
    """Start the next self-test, and apply those that have ended to the health of their cards."""
    if tests is None:
        return []
    finished = tests.step(health.to_test(now_s), free_cards(readings, used))
    return [
        message
        for card, result in finished
        for reading in readings
        if physical(reading.id) == card
        for message in health.tested(reading.id, result, now_s)
    ]


def add_test(card: Message, tests: CardTests | None) -> None:
    """Add the result of the card's last self-test to its sample."""
    result = None if tests is None else tests.result(card["id"])
    if result is not None:
        card["self_test"] = dict(result)


def card_message(reading: CardReading, idle_w: dict[str, float]) -> Message:
    """A card's sample, its processes still as read. Updates the lowest power seen."""
    if reading.power_w is not None:
        idle_w[reading.id] = min(reading.power_w, idle_w.get(reading.id, reading.power_w))
    card = asdict(reading)
    del card["trouble"]
    card["idle_power_w"] = idle_w.get(reading.id)
    card["throttle"] = None if reading.throttle is None else list(reading.throttle)
    return card


def gpu_ratio(cards: Sequence[CardReading], is_mine: Callable[[int], bool]) -> float | None:
    """Mean over a run's cards of how busy its processes keep each; None if that is unknown for one."""
    ratios = [_share_of(card, is_mine) for card in cards]
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) / len(known) if known and len(known) == len(ratios) else None


def _share_of(card: CardReading, is_mine: Callable[[int], bool]) -> float | None:
    if card.processes is None:
        return None
    mine = [process for process in card.processes if is_mine(process.pid)]
    if all(process.utilisation_ratio is not None for process in card.processes):
        return min(sum((process.utilisation_ratio or 0.0 for process in mine), start=0.0), 1.0)
    return (
        card.utilisation_ratio if len(mine) == len(card.processes) else None
    )  # alone on the card: the card's utilisation is the run's
