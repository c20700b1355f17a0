"""Reports the state of this node's cards and its runs to the service, in the format of the local agent. Only the newest
snapshot waits to be sent, so a slow or unreachable service costs nothing but older snapshots.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from gpusquad.agent.inventory import CardReading
from gpusquad.agent.job_processes import total_cpu_ratio
from gpusquad.agent.kubernetes.card_policies import CardPolicies
from gpusquad.agent.kubernetes.counters import EventCounters
from gpusquad.agent.kubernetes.node_snapshot import NodeSnapshot, hidden_pods, may_be_hidden
from gpusquad.agent.kubernetes.pod_logs import PodLogWatcher, together
from gpusquad.agent.kubernetes.pods import Pod
from gpusquad.agent.quiet_runs import QUIET_S, QuietRuns, RunInspection
from gpusquad.agent.run_files import RunReading
from gpusquad.agent.sampler import add_test, card_message, gpu_ratio, reading_message
from gpusquad.agent.self_test import CardTests
from gpusquad.gpu.attach.unmanaged import Key
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.model.virtual import physical

PATH = "/api/v1/agents/samples"
MAX_PROCESSES = 128
"""Reported per card, those with the most memory: a report has to fit into a request."""
_MIN_PAUSE_S, _MAX_PAUSE_S = 1.0, 60.0
_log = logging.getLogger(__name__)
Message = dict[str, Any]
RunKey = tuple[str, int | None]


class Post(Protocol):
    """Sends an object to a path of the service. Raises ``ApiRefused`` or ``ApiUnreachable``."""

    def __call__(self, path: str, content: Message) -> object: ...


class ReportBuilder:
    """Builds the report of a snapshot."""

    def __init__(self, logs: Path | None, unheld: Callable[[], Collection[Key]] = frozenset,
                 tests: CardTests | None = None, quiet_s: float = QUIET_S) -> None:  # fmt: skip
        """``unheld``: processes of pods with a share that run on the card without the shim. ``quiet_s``: time without
        anything new after which a run is looked at."""
        self._unheld = unheld
        self._tests = tests
        self._logs = None if logs is None else PodLogWatcher(logs)
        self._idle_w: dict[str, float] = {}
        self._quiet = QuietRuns(stacks=lambda _: (), quiet_s=quiet_s)

    def note(self, readings: Sequence[CardReading]) -> None:
        """For every snapshot, also those that are not sent: the lowest power is what a card draws when idle."""
        for reading in readings:
            if reading.power_w is not None:
                self._idle_w[reading.id] = min(reading.power_w, self._idle_w.get(reading.id, reading.power_w))

    def message(self, look: NodeSnapshot) -> Message:
        runs: dict[RunKey, list[Pod]] = {}
        for pod in sorted(look.pods, key=lambda pod: pod.key):
            if pod.run is not None and pod.pinned_cards and (pod.is_started or pod.has_ended):
                runs.setdefault(pod.run, []).append(pod)
        logs = self._logs.look([pod for pods in runs.values() for pod in pods], look.at_us) if self._logs else {}
        hidden = hidden_pods(look)
        self._quiet.forget([(job, attempt or 0) for job, attempt in runs])
        return {
            "kind": "samples",
            "at_us": look.at_us,
            "cards": [self._card(reading, look, hidden) for reading in look.readings],
            "runs": [self._run(key, pods, look, logs, hidden) for key, pods in runs.items()],
        }

    def _run(self, key: RunKey, pods: Sequence[Pod], look: NodeSnapshot, logs: Mapping[str, RunReading],
             hidden: frozenset[str]) -> Message:  # fmt: skip
        """Of its output only times and counts: lines and stacks do not leave the node."""
        keys = {pod.key for pod in pods}
        reading = together([logs[pod.uid] for pod in pods if pod.uid in logs])
        found = RunInspection()
        if not keys & hidden:
            processes = [process for process in look.processes if process.job in keys]
            found = self._quiet.look((key[0], key[1] or 0), reading, processes, look.at_us)
        signs = reading_message(reading) | asdict(found)
        for name in ("sample", "stacks", "tasks", "steps", "ends_in_training"):
            del signs[name]
        return _run(key, pods, look, signs, hidden)

    def _card(self, reading: CardReading, look: NodeSnapshot, hidden: frozenset[str]) -> Message:
        """Processes of our pods, and those without an owner. Usage of foreign pods is counted by their pods."""
        card = card_message(reading, self._idle_w)
        runs = {pod.key: pod.run for pod in look.pods}
        is_hidden = may_be_hidden(reading.id, look, hidden)
        unheld = self._unheld()
        found = []
        for process in reading.processes or ():
            owner = look.owners.get(process.pid)
            run = runs.get(owner) if owner is not None else None
            if run is None and (owner is not None or is_hidden):
                continue
            job, attempt = run or (None, None)
            found.append({"pid": process.pid, "memory_bytes": process.memory_bytes, "name": _printable(process.name),
                          "job": job, "attempt": attempt,
                          "unheld": (physical(reading.id), process.pid) in unheld})  # fmt: skip
        add_test(card, self._tests)
        card["processes"] = sorted(found, key=lambda process: -(process["memory_bytes"] or 0))[:MAX_PROCESSES]
        return card


def _run(key: RunKey, pods: Sequence[Pod], look: NodeSnapshot, signs: Message, hidden: frozenset[str]) -> Message:
    keys = {pod.key for pod in pods}
    cards = {card for pod in pods for card in pod.pinned_cards}
    processes = [process for process in look.processes if process.job in keys]
    is_seen = not keys & hidden
    ratio = gpu_ratio([r for r in look.readings if r.id in cards], lambda pid: look.owners.get(pid) in keys)
    return {
        "job": key[0],
        "attempt": key[1],
        "cards": sorted(cards),
        "live_pods": sum(not pod.has_ended for pod in pods),
        **signs,
        "cpu_ratio": total_cpu_ratio(processes) if is_seen else None,
        "rss_bytes": sum(process.rss_bytes for process in processes),
        "gpu_ratio": ratio if is_seen else None,
    }


def _tests_in(answer: object) -> list[str]:
    """Older services ask for no tests."""
    tests = answer.get("tests") if isinstance(answer, Mapping) else None
    return [str(card) for card in tests] if isinstance(tests, list) else []


def _printable(name: str) -> str:
    return "".join(sign if sign.isprintable() else " " for sign in name[:200])


class NodeReporter:
    """Sends the newest snapshot in its own thread, at most once per interval."""

    def __init__(
        self,
        post: Post,
        samples: ReportBuilder,
        counts: EventCounters,
        every_s: float,
        dice: Callable[[], float] = random.random,
        divides: CardPolicies | None = None,
        tests: CardTests | None = None,
    ) -> None:
        self._tests = tests
        self._post = post
        self._samples = samples
        self._counts = counts
        self._every_s = every_s
        self._dice = dice
        self._divides = divides or CardPolicies()
        self._newest: NodeSnapshot | None = None
        self._given = threading.Condition()
        self._ending = threading.Event()
        self._failures = 0
        self._complaint = ""

    def give(self, look: NodeSnapshot) -> None:
        """Replaces a snapshot that still waits. It does not block."""
        self._samples.note(look.readings)
        with self._given:
            self._newest = look
            self._given.notify()

    def start(self) -> None:
        threading.Thread(target=self._run, name="reporting", daemon=True).start()

    def stop(self) -> None:
        self._ending.set()
        with self._given:
            self._given.notify()

    def _run(self) -> None:
        while not self._ending.is_set():
            began_s = time.monotonic()
            look = self._take()
            if look is not None:
                self._ending.wait(max(0.0, self.send(look) - (time.monotonic() - began_s)))

    def _take(self) -> NodeSnapshot | None:
        with self._given:
            self._given.wait_for(lambda: self._newest is not None or self._ending.is_set())
            look, self._newest = self._newest, None
        return look

    def send(self, look: NodeSnapshot) -> float:
        """Seconds to wait before the next report. Each kind of failure is logged once."""
        try:
            message = self._samples.message(look)
            self._divides.add_to(message)
            answer = self._post(PATH, message)
            self._divides.take(answer)
            if self._tests is not None:
                self._tests.ask(_tests_in(answer))
        except (ApiRefused, ApiUnreachable) as error:
            self._failed(str(error))
        except Exception as error:
            _log.exception("cannot build a report")
            self._failed(repr(error))
        else:
            self._counts.add("reports")
            if self._failures:
                _log.info("the service accepts reports again", extra={"after": self._failures})
            self._failures, self._complaint = 0, ""
            return self._every_s
        # Randomised, so that not all agents report at once when a service has just started.
        pause_s = min(_MIN_PAUSE_S * 2.0 ** min(self._failures - 1, 16), _MAX_PAUSE_S)
        return max(self._every_s, pause_s * (0.5 + self._dice()))

    def _failed(self, why: str) -> None:
        self._counts.add("reports_failed")
        self._failures += 1
        if why != self._complaint:
            self._complaint = why
            _log.warning("cannot report", extra={"why": why})
