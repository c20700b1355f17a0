"""Texts of ``why``, ``when`` and ``submit`` about one job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpusquad.cli._jobs import (
    FINAL,
    NOW_S,
    RANGE_FROM_S,
    STYLES,
    WAITING,
    cards,
    cause,
    ending,
    label,
    short,
    time_in_state,
    words,
)
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell
from gpusquad.cli._times import UNKNOWN, between, clock, relative, span

Plain = Mapping[str, Any]
SOURCES = {
    "user": "your estimate", "limit": "time limit", "progress": "its progress",
    "tenant": "the tenant's other jobs", "history": "similar jobs", "similar": "similar jobs",
    "analytical": "offline estimate", "prior": "jobs in general", "combined": "all sources combined",
}  # fmt: skip
MAX_NAMED_JOBS = 5


def heading(job: Plain, position: int | None, now_s: float) -> Text:
    """``vgg (7qk2m9xd) has been pending for 12 min, position 3 in the queue``; ``vgg (7qk2m9xd) failed 2 h ago``."""
    state = job["state"]
    is_over = state in FINAL
    text = Text.assemble((label(job), "bold"), " " if is_over else " has been ", (words(state), STYLES.get(state, "")))
    if is_over:
        return text.append(f" {relative(job['ended_s'], now_s)}" if job.get("ended_s") else "")
    text.append(f" for {time_in_state(job, now_s)}")
    return text.append("" if position is None else f", position {position:,} in the queue")


def eligible(job: Plain, now_s: float) -> str:
    """Since when its place in the queue counts, if that is not the submission."""
    eligible_s = job.get("eligible_s")
    if eligible_s is None or eligible_s - job["submitted_s"] < 1 or job["state"] != "pending":
        return ""
    later = span(eligible_s - job["submitted_s"])
    return f"Its place in the queue counts from {clock(eligible_s, now_s)}, {later} after its submission."


def reasons_view(reasons: Iterable[Plain]) -> Padding:
    """One row per reason: its code, the message, and the cure below it."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="yellow")
    grid.add_column(overflow="fold")
    for reason in reasons:
        text = Text(one_line(reason["message"]))
        who = [one_line(name) for name in reason.get("who") or ()]
        if who:
            more = f" and {len(who) - MAX_NAMED_JOBS} more" if len(who) > MAX_NAMED_JOBS else ""
            text.append(f"\n{' '.join(short(name) for name in who[:MAX_NAMED_JOBS])}{more}", "dim")
        if reason.get("cure"):
            text.append(f"\n→ {one_line(reason['cure'])}", "cyan")
        grid.add_row(words(reason["code"]), text)
    return Padding(grid, (0, 0, 0, 2), expand=False)


def hangs_view(warnings: Iterable[Plain], now_s: float) -> Padding:
    """One row per warning of hang detection: the rule, the evidence, what to do, and when the job is stopped."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold red")
    grid.add_column(overflow="fold")
    for one in warnings:
        text = Text(one_line(one["message"]))
        text.append(f"\n→ {one_line(one['cure'])}" if one["cure"] else "", "cyan")
        grid.add_row(f"hang warning: {one_line(one['rule'])}", text.append(f"\n{_stops(one, now_s)}", "dim"))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def _stops(warning: Plain, now_s: float) -> str:
    since = f"warned {relative(warning['warned_s'], now_s)}"
    if warning["stops_s"] is None:
        return f"{since}; this alone does not stop it"
    return f"{since}; it is stopped {relative(max(warning['stops_s'], now_s), now_s)} unless that ends"


def passed_view(passed: Iterable[Plain]) -> Padding:
    """One row per job that went ahead by a right."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="yellow")
    grid.add_column(overflow="fold")
    for one in passed:
        grid.add_row("passed by", Text(one_line(one["message"])))
    return Padding(grid, (0, 0, 0, 2), expand=False)


def plan_facts(answer: Plain, job: Plain | None, now_s: float) -> Iterator[tuple[str, Cell]]:
    """Planned start, run time, end and cards, with the accuracy of earlier forecasts."""
    started_s = job.get("started_s") if job else None
    if job is None or (job["state"] in WAITING and started_s is None) or job["state"] == "pending":
        yield "starts", starts(answer, now_s)
        if answer.get("promised_s") is not None:
            yield "reserved", _latest_start(answer["promised_s"], answer.get("start_s"), now_s)
        begins_s = answer.get("start_s")
    else:
        yield "started", f"{clock(started_s, now_s)}, {relative(started_s, now_s)}" if started_s else ""
        begins_s = started_s
    run = answer.get("run")
    yield "run time", _runs(run) if not job or job["state"] not in FINAL else _ran(job, run)
    yield "accuracy", _run_record(answer.get("run_record"))
    end = answer.get("end")
    if end and end.get("mid_s") is not None and not (job and job["state"] in FINAL):
        yield "ends", _ends(end, run, now_s)
    elif run and begins_s is not None and run.get("mid_s") is not None and not (job and job["state"] in FINAL):
        ends_s = max(begins_s, now_s if started_s is None else begins_s) + run["mid_s"]
        yield "ends", f"about {clock(ends_s, now_s)}, {relative(ends_s, now_s)}"
    if job:
        yield "cards", cards(job["placement"])
        yield "cause", (cause(job) or ending(job)) if job["state"] in FINAL else ""
    yield "start accuracy", _record(answer.get("accuracy"))


def starts(answer: Plain, now_s: float) -> str:
    """Forecast start: the median, and the P90 if it is at least a minute later."""
    soon_s, late_s = answer.get("start_s"), answer.get("high_s")
    if soon_s is None:
        return f"{UNKNOWN}; gpusquad why tells the reason"
    if soon_s - now_s < NOW_S:
        return "now"
    text = f"{relative(soon_s, now_s)}, at {clock(soon_s, now_s)}"
    if late_s is not None and late_s - soon_s >= RANGE_FROM_S:
        text += f"; by {clock(late_s, now_s)} in 9 of 10 cases"
    return text


def _latest_start(promised_s: float, start_s: float | None, now_s: float) -> str:
    """A reservation may move earlier, so its first start time is the latest that was promised."""
    later_s = max(now_s, start_s or now_s) - promised_s
    if later_s >= 1:
        return f"for {clock(promised_s, now_s)}; now {span(later_s)} later"
    return f"for {clock(promised_s, now_s)} at the latest, {relative(promised_s, now_s)}"


def _runs(run: Plain | None) -> str:
    if not run or run.get("mid_s") is None:
        return UNKNOWN
    source = one_line(run.get("source") or "")
    text = SOURCES.get(source, f"from {source}" if source else "")
    high_s = run["mid_s"] if run.get("high_s") is None else run["high_s"]
    if text and run.get("confidence"):
        text += f"; confidence {100 * run['confidence']:.0f} %"
    return between(run["mid_s"], high_s) + (f" ({text})" if text else "")


def _ran(job: Plain, run: Plain | None) -> str:
    """Of an ended job, with what was predicted. Empty: it has not run."""
    if job["started_s"] is None or job["ended_s"] is None:
        return ""
    predicted = _runs(run)
    took = span(job["ended_s"] - job["started_s"])
    return took if predicted == UNKNOWN else f"{took}; predicted {predicted}"


def _ends(end: Plain, run: Plain | None, now_s: float) -> str:
    """Predicted end. The prediction changes while the job runs: after an overrun, and with its reported progress."""
    text = f"about {clock(end['mid_s'], now_s)}, {relative(end['mid_s'], now_s)}"
    if end.get("high_s") is not None and end["high_s"] - end["mid_s"] >= 60:
        text += f"; by {clock(end['high_s'], now_s)} in 9 of 10 cases"
    source = one_line(end.get("source") or "")
    if not source or source == (run or {}).get("source"):
        return text
    return f"{text} ({SOURCES.get(source, f'from {source}')})"


def _run_record(record: Plain | None) -> str:
    if not record or not record.get("count"):
        return ""
    return (
        f"of the last {counted(record['count'], 'such prediction')}, "
        f"{100 * record['within_ratio']:.0f} % of the jobs ended by the predicted P90; "
        f"median error {100 * record['median_ratio']:.0f} %"
    )


def _record(accuracy: Plain | None) -> str:
    if not accuracy or not accuracy.get("count"):
        return ""
    text = counted(accuracy["count"], "start") + " forecast so far"
    if accuracy.get("within_ratio") is not None:
        text += f": {100 * accuracy['within_ratio']:.0f} % started by the forecast P90"
    if accuracy.get("median_late_s") is not None:
        text += f", {_late(accuracy['median_late_s'])} in the median"
    return text


def _late(late_s: float) -> str:
    if abs(late_s) < 1:
        return "on time"
    return f"{span(abs(late_s))} {'late' if late_s > 0 else 'early'}"
