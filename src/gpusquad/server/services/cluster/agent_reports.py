"""What the agents of all nodes said last, as the one message that the watcher wants.

A gang may lie on several nodes, so a run comes in parts. It is judged by all of them together, as of the oldest: a node
that says nothing more makes nobody look more idle. When it has been silent for too long it is dropped. Its cards are
then not known, and neither is what its runs do, which counts as work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gpusquad.model.units import US_PER_S
from gpusquad.model.virtual import physical
from gpusquad.server.errors import Forbidden, Unavailable
from gpusquad.server.services.cluster.agent_watch import RunningGang

SILENT_TICKS = 4
"""Reports missing in a row until a node is dropped."""
_log = structlog.get_logger("gpusquad.reports")
Message = dict[str, Any]
_Key = tuple[str, int]


class Listener(Protocol):
    """The watcher, as far as this has to know it."""

    def hear(self, message: Mapping[str, Any]) -> None: ...
    def running(self) -> Sequence[RunningGang]: ...
    def node_of(self, card: str) -> str | None:
        """None: no such card is known (yet)."""
        ...


@dataclass(frozen=True, slots=True)
class _Report:
    """The last one of a node, its times by this service's clock."""

    received_us: int
    cards: Mapping[str, Message]
    runs: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    divided: Mapping[str, Message] = field(default_factory=dict)
    """By physical card, how it is divided. Kept apart: it names jobs, and how a card fares is told to everybody."""


class AgentReports:
    """Taken from any thread; put together once a tick, by a thread of its own."""

    def __init__(self, now_us: Callable[[], int], every_s: float) -> None:
        self._now_us = now_us
        self._every_s = every_s
        self._patience_us = round(SILENT_TICKS * every_s * US_PER_S)
        self._listener: Listener | None = None
        self._lock = threading.Lock()
        self._last: dict[str, _Report] = {}
        self._told_us: dict[_Key, int] = {}
        """As of when each run was told last."""
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    def attach(self, listener: Listener) -> None:
        self._listener = listener

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            try:
                self.step()
            except Exception:
                _log.exception("reports were not put together")  # the next time may go well

    # -- taking ----------------------------------------------------------------------------------------------------

    def take(self, node: str, message: Message) -> list[str]:
        """What the agent of a node says; it may speak of its own cards only. Those that the cluster shows."""
        if self._listener is None:
            raise Unavailable("the service is starting")
        where = {card["id"]: self._listener.node_of(card["id"]) for card in message["cards"]}
        elsewhere = sorted(card for card, at in where.items() if at not in (node, None))
        if elsewhere:
            raise Forbidden(f"card {elsewhere[0]!r} is not one of node {node}", field="cards",
                            cure="an agent reports the cards of its own node")  # fmt: skip
        received_us = self._now_us()
        runs: dict[str, list[Message]] = {}
        for run in message["runs"]:
            runs.setdefault(run["job"], []).append(_by_our_clock(run, message["at_us"], received_us))
        # Cards that the cluster does not show yet may turn out to be another node's.
        own = [card for card in message["cards"] if where[card["id"]] == node]
        divided = {physical(card["id"]): told for card in own if (told := card.pop("divided", None)) is not None}
        report = _Report(received_us, {card["id"]: card for card in own}, runs, divided)
        with self._lock:
            self._last[node] = report
        return list(report.cards)

    def divided(self) -> dict[str, Message]:
        """By physical card that is divided now, what its daemon said last."""
        with self._lock:
            return {card: told for report in self._last.values() for card, told in report.divided.items()}

    # -- telling ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Tell the watcher how everything is now."""
        if self._listener is None:
            return
        now_us = self._now_us()
        heard = self._fresh(now_us)
        running = self._listener.running()
        runs = [told for run in running if (told := self._told(run, heard, now_us)) is not None]
        self._told_us = {run.key: at_us for run in running if (at_us := self._told_us.get(run.key)) is not None}
        cards = [card for report in heard.values() for card in report.cards.values()]
        self._listener.hear({"kind": "samples", "at_us": now_us, "cards": cards, "runs": runs})

    def _fresh(self, now_us: int) -> dict[str, _Report]:
        with self._lock:
            silent = [node for node, last in self._last.items() if now_us - last.received_us > self._patience_us]
            for node in silent:
                del self._last[node]
            heard = dict(self._last)
        if silent:
            _log.warning("agents are silent: their cards are not known", nodes=sorted(silent))
        return heard

    def _told(self, run: RunningGang, heard: Mapping[str, _Report], now_us: int) -> Message | None:
        """None: nothing has been heard of it since it was told last."""
        told = merged(run, heard, now_us)
        if told["at_us"] <= self._told_us.get(run.key, -1):
            return None
        self._told_us[run.key] = told["at_us"]
        return told


def merged(run: RunningGang, heard: Mapping[str, _Report], now_us: int) -> Message:
    """One run from what is known of it. ``unknown``: a node of it does not tell, so nobody can say that it is idle."""
    parts = {node: part for node in run.cards if (part := _part(run, node, heard.get(node))) is not None}
    unknown = len(parts) < max(1, len(run.cards))
    first = next((part for part in parts.values() if part["step"] is not None), None)
    return {
        "job": run.job,
        "attempt": run.attempt,
        "at_us": now_us if unknown else min(heard[node].received_us for node in run.cards),
        "unknown": unknown,
        "last_output_us": _newest(part["last_output_us"] for part in parts.values()),
        "log_bytes": sum(part["log_bytes"] for part in parts.values()),
        # Tasks other than the first often count something of their own: the run is as far as its first one says.
        "step": None if first is None else first["step"],
        "total": None if first is None else first["total"],
        "progress_at_us": _newest(part["progress_at_us"] for part in parts.values()),
        "cpu_ratio": _sum([part["cpu_ratio"] for part in parts.values()]) if not unknown else None,
        "rss_bytes": sum(part["rss_bytes"] for part in parts.values()),
        "gpu_ratio": _mean([(parts[node]["gpu_ratio"], len(run.cards[node])) for node in parts])
        if not unknown
        else None,
    }


def _part(run: RunningGang, node: str, report: _Report | None) -> Message | None:
    """What a node says of a run and all of its cards there. Who names the job on other cards too is not believed."""
    if report is None or not report.cards.keys() >= run.cards[node]:
        return None
    parts = [part for part in report.runs.get(run.job, ()) if _is_of(part, run, node)]
    # Of several the one that lives: pods of attempts before it may not have been cleared away.
    return max(parts, key=lambda part: (part["live_pods"] > 0, part["attempt"] or 0), default=None)


def _is_of(part: Message, run: RunningGang, node: str) -> bool:
    """A later attempt than the one that runs is of a history that was lost; an earlier one is over."""
    is_now = part["attempt"] is None or part["attempt"] >= run.attempt
    return is_now and run.cards[node] == frozenset(part["cards"])


def _by_our_clock(run: Message, at_us: int, received_us: int) -> Message:
    """Clocks differ, and a node's that is behind must not make a run look silent. What is to come is not believed."""
    times = {name: run[name] for name in ("last_output_us", "progress_at_us") if run[name] is not None}
    return run | {name: max(0, received_us - max(0, at_us - time_us)) for name, time_us in times.items()}


def _newest(times_us: Any) -> int | None:
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def _sum(ratios: Sequence[float | None]) -> float | None:
    """None where it is not known for one."""
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) if known and len(known) == len(ratios) else None


def _mean(ratios: Sequence[tuple[float | None, int]]) -> float | None:
    """Over all cards, as one machine would count them; None where it is not known for one."""
    total = _sum([None if ratio is None else ratio * cards for ratio, cards in ratios])
    return None if total is None else total / sum(cards for _, cards in ratios)
