"""Answers about one job, in sentences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from gpusquad.cli._jobs import FINAL, STYLES, WAITING, cards, cause, ending, label, short, time_in_state, words
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell
from gpusquad.cli._times import NOT_KNOWN, between, clock, relative, span

Plain = Mapping[str, Any]
SOURCES = {
    "user": "your estimate", "limit": "its limit", "progress": "by its progress",
    "tenant": "as the tenant's other jobs", "history": "as jobs like it", "similar": "as jobs like it",
    "analytical": "worked out from what it computes", "combined": "by all that is known",
}  # fmt: skip
MOST_WHO = 5


def heading(job: Plain, position: int | None, now_s: float) -> Text:
    """``vgg (7qk2m9xd) is pending for 12 min, number 3 in line``; ``vgg (7qk2m9xd) failed 2 h ago``."""
    state = job["state"]
    is_over = state in FINAL
    text = Text.assemble((label(job), "bold"), " " if is_over else " is ", (words(state), STYLES.get(state, "")))
    if is_over:
        return text.append(f" {relative(job['ended_s'], now_s)}" if job.get("ended_s") else "")
    text.append(f" for {time_in_state(job, now_s)}")
    return text.append("" if position is None else f", number {position:,} in line")


def reasons_view(reasons: Iterable[Plain]) -> Padding:
    """One row a reason: its code, the sentence, the cure below."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="yellow")
    grid.add_column(overflow="fold")
    for reason in reasons:
        text = Text(one_line(reason["message"]))
        who = [one_line(name) for name in reason.get("who") or ()]
        if who:
            more = f" and {len(who) - MOST_WHO} more" if len(who) > MOST_WHO else ""
            text.append(f"\n{' '.join(short(name) for name in who[:MOST_WHO])}{more}", "dim")
        if reason.get("cure"):
            text.append(f"\n→ {one_line(reason['cure'])}", "cyan")
        grid.add_row(words(reason["code"]), text)
    return Padding(grid, (0, 0, 0, 2), expand=False)


def plan_facts(answer: Plain, job: Plain | None, now_s: float) -> Iterator[tuple[str, Cell]]:
    """What the scheduler means to do: start, run time, end, cards, and how good it was at this so far."""
    started_s = job.get("started_s") if job else None
    if job is None or (job["state"] in WAITING and started_s is None) or job["state"] == "pending":
        yield "starts", starts(answer, now_s)
        if answer.get("promised_s") is not None:
            yield "promised", f"by {clock(answer['promised_s'], now_s)}, {relative(answer['promised_s'], now_s)}"
        begins_s = answer.get("start_s")
    else:
        yield "started", f"{clock(started_s, now_s)}, {relative(started_s, now_s)}" if started_s else ""
        begins_s = started_s
    run = answer.get("run")
    yield "runs", _runs(run)
    yield "so far", _run_record(answer.get("run_record"))
    end = answer.get("end")
    if end and end.get("mid_s") is not None and not (job and job["state"] in FINAL):
        yield "ends", _ends(end, run, now_s)
    elif run and begins_s is not None and run.get("mid_s") is not None and not (job and job["state"] in FINAL):
        ends_s = max(begins_s, now_s if started_s is None else begins_s) + run["mid_s"]
        yield "ends", f"about {clock(ends_s, now_s)}, {relative(ends_s, now_s)}"
    if job:
        yield "cards", cards(job["placement"])
        yield "because", (cause(job) or ending(job)) if job["state"] in FINAL else ""
    yield "record", _record(answer.get("accuracy"))


def starts(answer: Plain, now_s: float) -> str:
    """The forecast of the start: the middle, and by when in nine of ten cases."""
    soon_s, late_s = answer.get("start_s"), answer.get("high_s")
    if soon_s is None:
        return NOT_KNOWN
    if soon_s - now_s < 1:
        return "now"
    text = f"{relative(soon_s, now_s)}, at {clock(soon_s, now_s)}"
    if late_s is not None and late_s - soon_s >= 60:
        text += f"; by {clock(late_s, now_s)} in 9 of 10 cases"
    return text


def _runs(run: Plain | None) -> str:
    if not run or run.get("mid_s") is None:
        return NOT_KNOWN
    source = one_line(run.get("source") or "")
    told = SOURCES.get(source, f"from {source}" if source else "")
    high_s = run["mid_s"] if run.get("high_s") is None else run["high_s"]
    if told and run.get("confidence"):
        told += f"; confidence {100 * run['confidence']:.0f} %"
    return between(run["mid_s"], high_s) + (f" ({told})" if told else "")


def _ends(end: Plain, run: Plain | None, now_s: float) -> str:
    """As things stand: a run that takes longer than foretold, or that tells its progress, is foretold anew."""
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
        f"of {counted(record['count'], 'such run time')} foretold lately, "
        f"{100 * record['within_ratio']:.0f} % ended by the high end; "
        f"half were within {100 * record['median_ratio']:.0f} %"
    )


def _record(accuracy: Plain | None) -> str:
    if not accuracy or not accuracy.get("count"):
        return ""
    told = counted(accuracy["count"], "start") + " foretold so far"
    if accuracy.get("within_ratio") is not None:
        told += f": {100 * accuracy['within_ratio']:.0f} % started in time"
    if accuracy.get("median_error_s") is not None:
        told += f", half were off by less than {span(accuracy['median_error_s'])}"
    return told
