"""Merges the last reports of all node agents into the one message that the watcher reads.

A gang can span several nodes, so its report comes in parts. It is judged by all parts together, as of the oldest, so
that a silent node never makes a run look idle. A node that is silent too long is dropped. Its cards are then unknown,
and the activity of its runs as well, which counts as activity.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from gpusquad.model.units import US_PER_S
from gpusquad.model.virtual import physical
from gpusquad.model.waits import WAIT_KINDS
from gpusquad.server.errors import Forbidden, Unavailable
from gpusquad.server.services.cluster.agent_watch import RunningGang

SILENT_TICKS = 4
"""Consecutive missing reports after which a node is dropped."""
_TIMES = ("last_output_us", "progress_at_us", "new_us", "retry_us", "alike_us", "same_step_us", "improved_us",
          "ahead_us", "nan_us", "reported_us", "stopped_us")  # fmt: skip
_log = structlog.get_logger("gpusquad.reports")
Message = dict[str, Any]
_Key = tuple[str, int]


class Listener(Protocol):
    """The part of the watcher that is used here."""

    def hear(self, message: Mapping[str, Any]) -> None: ...
    def running(self) -> Sequence[RunningGang]: ...
    def node_of(self, card: str) -> str | None:
        """None: the card is unknown (yet)."""
        ...


@dataclass(frozen=True, slots=True)
class _Report:
    """Last report of a node, with times by this service's clock."""

    received_us: int
    cards: Mapping[str, Message]
    runs: Mapping[str, Sequence[Message]] = field(default_factory=dict)
    divided: Mapping[str, Message] = field(default_factory=dict)
    """Division status by physical card. Kept apart because it names jobs, while card samples are visible to all
    users."""


class AgentReports:
    """Accepts reports from any thread; merges them at an interval in its own thread."""

    def __init__(self, now_us: Callable[[], int], every_s: float) -> None:
        self._now_us = now_us
        self._every_s = every_s
        self._timeout_us = round(SILENT_TICKS * every_s * US_PER_S)
        self._listener: Listener | None = None
        self._lock = threading.Lock()
        self._last: dict[str, _Report] = {}
        self._forwarded_us: dict[_Key, int] = {}
        """Time of the last forwarded report of each run."""
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # -- lifecycle -------------------------------------------------------------------------------------------------

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
                _log.exception("reports not merged")  # the next attempt may succeed

    # -- accepting -------------------------------------------------------------------------------------------------

    def take(self, node: str, message: Message) -> list[str]:
        """Accept the report of a node's agent about its own cards. Returns the cards that the cluster knows."""
        if self._listener is None:
            raise Unavailable("the service is starting")
        where = {card["id"]: self._listener.node_of(card["id"]) for card in message["cards"]}
        elsewhere = sorted(card for card, at in where.items() if at not in (node, None))
        if elsewhere:
            raise Forbidden(f"card {elsewhere[0]!r} does not belong to node {node}", field="cards",
                            cure="report only the cards of the agent's own node")  # fmt: skip
        received_us = self._now_us()
        runs: dict[str, list[Message]] = {}
        for run in message["runs"]:
            runs.setdefault(run["job"], []).append(_by_our_clock(run, message["at_us"], received_us))
        # Cards that the cluster does not know yet may belong to another node.
        own = [card for card in message["cards"] if where[card["id"]] == node]
        divided = {
            physical(card["id"]): merged_run for card in own if (merged_run := card.pop("divided", None)) is not None
        }
        report = _Report(received_us, {card["id"]: card for card in own}, runs, divided)
        with self._lock:
            self._last[node] = report
        return list(report.cards)

    def divided(self) -> dict[str, Message]:
        """Last daemon status by physical card that is divided now."""
        with self._lock:
            return {card: merged_run for report in self._last.values() for card, merged_run in report.divided.items()}

    # -- forwarding ------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Send the merged state to the watcher."""
        if self._listener is None:
            return
        now_us = self._now_us()
        reports = self._fresh(now_us)
        running = self._listener.running()
        runs = [merged_run for run in running if (merged_run := self._forward(run, reports, now_us)) is not None]
        self._forwarded_us = {
            run.key: at_us for run in running if (at_us := self._forwarded_us.get(run.key)) is not None
        }
        cards = [card for report in reports.values() for card in report.cards.values()]
        self._listener.hear({"kind": "samples", "at_us": now_us, "cards": cards, "runs": runs})

    def _fresh(self, now_us: int) -> dict[str, _Report]:
        with self._lock:
            silent = [node for node, last in self._last.items() if now_us - last.received_us > self._timeout_us]
            for node in silent:
                del self._last[node]
            reports = dict(self._last)
        if silent:
            _log.warning("agents are silent; their cards are unknown", nodes=sorted(silent))
        return reports

    def _forward(self, run: RunningGang, reports: Mapping[str, _Report], now_us: int) -> Message | None:
        """None: no news since the last message."""
        merged_run = merged(run, reports, now_us)
        if merged_run["at_us"] <= self._forwarded_us.get(run.key, -1):
            return None
        self._forwarded_us[run.key] = merged_run["at_us"]
        return merged_run


def merged(run: RunningGang, reports: Mapping[str, _Report], now_us: int) -> Message:
    """One run merged from its nodes. ``unknown``: a node does not report, so the run cannot be judged idle."""
    parts = {node: part for node in run.cards if (part := _part(run, node, reports.get(node))) is not None}
    unknown = len(parts) < max(1, len(run.cards))
    first = next((part for part in parts.values() if part["step"] is not None), None)
    return {
        "job": run.job,
        "attempt": run.attempt,
        "at_us": now_us if unknown else min(reports[node].received_us for node in run.cards),
        "unknown": unknown,
        "last_output_us": _newest(part["last_output_us"] for part in parts.values()),
        "log_bytes": sum(part["log_bytes"] for part in parts.values()),
        # Other tasks often count something else, so the first task that reports steps counts.
        **_output_signs(list(parts.values())),
        **_wait_signs(list(parts.values())),
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
    """A node's report of a run and all its cards there. A report that names other cards for the job is ignored."""
    if report is None or not report.cards.keys() >= run.cards[node]:
        return None
    parts = [part for part in report.runs.get(run.job, ()) if _is_of(part, run, node)]
    # Prefer live pods: those of earlier attempts may not be deleted yet.
    return max(parts, key=lambda part: (part["live_pods"] > 0, part["attempt"] or 0), default=None)


def _is_of(part: Message, run: RunningGang, node: str) -> bool:
    """A later attempt belongs to a lost history; an earlier one has ended."""
    is_now = part["attempt"] is None or part["attempt"] >= run.attempt
    return is_now and run.cards[node] == frozenset(part["cards"])


def _by_our_clock(run: Message, at_us: int, received_us: int) -> Message:
    """Convert times to this clock, so that a slow clock does not make a run look silent. Future times are clamped."""
    times = {name: run[name] for name in _TIMES if run.get(name) is not None}
    return run | {name: max(0, received_us - max(0, at_us - time_us)) for name, time_us in times.items()}


def _output_signs(parts: Sequence[Message]) -> Message:
    """It prints something new if one of its tasks does, and a finite loss on one node is a loss of the run."""
    losses = [part for part in parts if part.get("has_losses")]
    all_nan = bool(losses) and all(part.get("nan_us") is not None for part in losses)
    loudest = max(parts, key=lambda part: part.get("repeated") or 0, default={})
    return {
        "new_us": _newest(part.get("new_us") for part in parts),
        **{name: loudest.get(name) or 0 for name in ("repeated", "troubles", "crashes")},
        "succeeds": bool(loudest.get("succeeds")),
        "retry_us": _newest(part.get("retry_us") for part in parts),
        "retries": max((part.get("retries") or 0 for part in parts), default=0),
        "alike_us": _newest(part.get("alike_us") for part in parts),
        "alike": max((part.get("alike") or 0 for part in parts), default=0),
        "same_step": max((part.get("same_step") or 0 for part in parts), default=0),
        "same_step_us": _newest(part.get("same_step_us") for part in parts),
        "longest_step_us": _newest(part.get("longest_step_us") for part in parts),
        "improved_us": _newest(part.get("improved_us") for part in parts),
        "ahead_us": _newest(part.get("ahead_us") for part in parts),
        "falls": max((part.get("falls") or 0 for part in parts), default=0),
        "restarts": max((part.get("restarts") or 0 for part in parts), default=0),
        "nan_us": _newest(part.get("nan_us") for part in losses) if all_nan else None,
        "nan_lines": max((part.get("nan_lines") or 0 for part in losses), default=0),
        "nan_doubtful": any(part.get("nan_doubtful") for part in losses),
        "reported_us": _newest(part.get("reported_us") for part in parts),
    }


def _wait_signs(parts: Sequence[Message]) -> Message:
    """A node on which it works, or waits for something else, explains the others. All have to be looked at."""
    is_known = bool(parts) and all(part.get("waits") for part in parts)
    first = min(parts, key=lambda part: WAIT_KINDS.index(part["waits"])) if is_known else {}
    stopped = [part for part in parts if part.get("stopped_us") is not None]
    return {
        "waits": first.get("waits"),
        "waits_detail": first.get("waits_detail", ""),
        "stopped_us": min((part["stopped_us"] for part in stopped), default=None),
        "stopped_detail": stopped[0].get("stopped_detail", "") if stopped else "",
        "disk_bytes": sum(part.get("disk_bytes") or 0 for part in parts),
    }


def _newest(times_us: Any) -> int | None:
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def _sum(ratios: Sequence[float | None]) -> float | None:
    """None if one is unknown."""
    known = [ratio for ratio in ratios if ratio is not None]
    return sum(known) if known and len(known) == len(ratios) else None


def _mean(ratios: Sequence[tuple[float | None, int]]) -> float | None:
    """Mean over all cards. None if one is unknown."""
    total = _sum([None if ratio is None else ratio * cards for ratio, cards in ratios])
    return None if total is None else total / sum(cards for _, cards in ratios)
