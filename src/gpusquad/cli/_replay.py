"""Replays a snapshot: the decisions, and why the other jobs wait."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gpusquad.cli._console import output
from gpusquad.cli._simulation import SHARING
from gpusquad.core.cycle import cycle
from gpusquad.core.explain.explain import Eta, copy_state, position, when, why
from gpusquad.core.snapshot.dump import load_snapshot
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.decision import Decision, Preempt, Refuse, Start
from gpusquad.model.errors import Invalid
from gpusquad.model.placement import Placement
from gpusquad.model.reasons import Reason
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.sim.slowdown import load_slowdown

MAX_CARDS = 8


@dataclass(frozen=True)
class WaitingReason:
    """A pending job with its reasons and its forecast."""

    job_id: str
    position: int
    reasons: list[Reason]
    eta: Eta


@dataclass(frozen=True)
class ReplayResult:
    """Result of a replay."""

    before: SchedulerState
    decisions: list[Decision]
    waiting: list[WaitingReason]
    unexplained: int
    """Number of pending jobs that are not explained."""


def load(path: Path, most: int) -> ReplayResult:
    """Load a snapshot, run a cycle on a copy, and explain up to ``most`` pending jobs."""
    data = _read(path)
    sharing = data.pop(SHARING, None) if isinstance(data, dict) else None
    state = load_snapshot(data, None if sharing is None else load_slowdown(sharing, f"snapshot.{SHARING}"))
    after = copy_state(state)
    decisions = cycle(after, after.now_us)
    ids = [waiting.job.id for waiting in after.queue]
    waiting = [WaitingReason(i, position(after, i), why(state, i), when(after, i)) for i in ids[:most]]
    return ReplayResult(state, decisions, waiting, len(ids) - len(waiting))


def as_plain(replayed: ReplayResult) -> dict:
    """Plain data for JSON. Times are in seconds since the start of the trace."""
    state = replayed.before
    return {
        "at_s": state.now_us / US_PER_S,
        "policies": state.policies.names,
        "running": len(state.runs.by_id),
        "decisions": [_plain_decision(state, decision) for decision in replayed.decisions],
        "waiting": [_plain_waits(waits) for waits in replayed.waiting],
        "unexplained": replayed.unexplained,
    }


def show(replayed: ReplayResult, console: Console | None = None) -> None:
    """Print decisions and pending jobs as tables."""
    console = console or output()
    console.print(_heading(replayed), markup=False)
    if replayed.decisions:
        console.print(_decision_table(replayed))
    else:
        console.print("No job can start.\n")
    if replayed.waiting:
        console.print(_waiting_table(replayed))
    if replayed.unexplained:
        console.print(f"{replayed.unexplained} more pending jobs; use --most N to explain more", style="dim")


def _read(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise Invalid("snapshot", f"{str(path)!r} does not exist") from None
    except OSError as error:
        raise Invalid("snapshot", f"cannot read {str(path)!r}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise Invalid(
            "snapshot", f"{path.name} is not valid JSON", "create one with gpusquad simulate --dump"
        ) from None


def _plain_decision(state: SchedulerState, decision: Decision) -> dict:
    plain: dict = {"what": type(decision).__name__.lower(), "job_id": decision.job_id, "cause": _cause(decision)}
    if isinstance(decision, Preempt):
        plain["for_job"] = decision.for_job
    placement = getattr(decision, "placement", None)
    if placement is not None:
        plain["nodes"], plain["cards"] = _where(state, placement)
    return plain


def _plain_waits(waits: WaitingReason) -> dict:
    return {
        "job_id": waits.job_id,
        "position": waits.position,
        "reasons": [asdict(reason) for reason in waits.reasons],
        "starts_s": _seconds(waits.eta.start_us),
        "starts_high_s": _seconds(waits.eta.high_us),
        "promised_s": _seconds(waits.eta.promised_us),
    }


def _heading(replayed: ReplayResult) -> str:
    state = replayed.before
    chosen = " · ".join(f"{kind} {name}" for kind, name in state.policies.names.items())
    running, pending = len(state.runs.by_id), len(state.queue)
    return f"At {show_us(state.now_us)}: {running} running, {pending} pending. {chosen}"


def _decision_table(replayed: ReplayResult) -> Table:
    table = _table("Decisions", "decision", "job", "cards", "cause")
    for decision in replayed.decisions:
        what = type(decision).__name__.lower()
        table.add_row(what, Text(decision.job_id), Text(_cards(replayed.before, decision)), Text(_cause(decision)))
    return table


def _waiting_table(replayed: ReplayResult) -> Table:
    table = _table("Pending", "#", "job", "starts", "reasons")
    now_us = replayed.before.now_us
    for waits in replayed.waiting:
        reasons = "\n".join(str(reason) for reason in waits.reasons) or "no reason recorded"
        table.add_row(str(waits.position), Text(waits.job_id), Text(_starts(waits.eta, now_us)), Text(reasons))
    return table


def _table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for head in heads:
        table.add_column(head)
    return table


def _starts(eta: Eta, now_us: int) -> str:
    """The reservation if there is one, otherwise the forecast."""
    if eta.promised_us is not None:
        return f"reserved for a start in {show_us(eta.promised_us - now_us)} at the latest"
    if eta.start_us is None:
        return "unknown"
    soon, late = show_us(eta.start_us - now_us), show_us((eta.high_us or eta.start_us) - now_us)
    return f"in about {soon}" if soon == late else f"in {soon} to {late}"


def _cards(state: SchedulerState, decision: Decision) -> str:
    placement = decision.placement if isinstance(decision, Start) else None
    if placement is None:
        return ""
    nodes, cards = _where(state, placement)
    shown = list(dict.fromkeys(cards or nodes))
    rest = len(shown) - MAX_CARDS
    return " ".join(shown[:MAX_CARDS]) + (f" and {rest} more" if rest > 0 else "")


def _where(state: SchedulerState, placement: Placement) -> tuple[list[str], list[str]]:
    fixed = state.space.fixed
    nodes = [fixed.node_ids[node] for node in placement.all_nodes()]
    return nodes, [fixed.card_ids[card] for card in placement.all_cards()]


def _cause(decision: Decision) -> str:
    if isinstance(decision, Refuse):
        return str(decision.reason)
    return getattr(decision, "cause", "")


def _seconds(value_us: int | None) -> float | None:
    return None if value_us is None else value_us / US_PER_S
