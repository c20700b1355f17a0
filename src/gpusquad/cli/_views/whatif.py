"""Forecast for a job that is not submitted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.text import Text

from gpusquad.cli._answers import plan_facts, reasons_view
from gpusquad.cli._jobs import cards, short
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell, console, facts
from gpusquad.cli._times import span

MAX_ROWS = 5


def show_what_if(answer: Mapping[str, Any], name: str, now_s: float) -> None:
    out = console()
    if answer["refused"]:
        out.print(Text.assemble((one_line(name), "bold"), " would be ", ("refused", "bold red")))
        out.print(reasons_view([answer["refused"]]))
        return
    would = ("start now", "green") if answer["starts_now"] else ("wait", "yellow")
    heading = Text.assemble((one_line(name), "bold"), " would ", would)
    if (answer.get("jobs") or 1) > 1:
        heading.append(f" (the first of {answer['jobs']:,} jobs of the sweep)", "dim")
    out.print(heading)
    if answer.get("reasons"):
        out.print(reasons_view(answer["reasons"]))
    out.print(facts(_facts(answer, now_s)))


def _facts(answer: Mapping[str, Any], now_s: float) -> Iterator[tuple[str, Cell]]:
    yield from plan_facts(answer, None, now_s)
    yield "cards", cards(answer["placement"])
    delayed = [f"{short(one['job'])} by {span(one['by_s'])}" for one in answer["delayed"]]
    yield "delays", _listed(delayed)
    yield "preempts", _listed([short(job) for job in answer["preempted"]])
    if answer.get("others"):
        yield "others", f"{counted(answer['others'], 'job')} of other tenants would be delayed or preempted"
    elif not delayed and not answer["preempted"]:
        yield "delays", "no other job"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_ROWS} more" if len(names) > MAX_ROWS else ""
    return ", ".join(one_line(name) for name in names[:MAX_ROWS]) + more
