"""Table of the events of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gpusquad.cli._jobs import STYLES, words
from gpusquad.cli._sanitize import log_line, one_line, value_text
from gpusquad.cli._tables import Cell, TableColumn, table
from gpusquad.cli._times import span, stamp
from gpusquad.model.units import US_PER_S

SINCE_2001_US = 10**15
"""Larger numbers of microseconds are times, smaller ones durations."""
_RUN_TIMES = ("estimate", "limit")

COLUMNS = (
    TableColumn("WHEN"),
    TableColumn("AFTER", right=True, style="dim", from_width=70),
    TableColumn("EVENT"),
    TableColumn("STATE"),
    TableColumn("ATTEMPT", right=True, from_width=90),
    TableColumn("BY", max_width=14, from_width=80),
    TableColumn("WHY", wraps=True),
)


def story_table(events: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Events, oldest first, with the time since the previous one."""
    return table(COLUMNS, _rows(events), width)


def evidence_lines(events: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines that show the last hang: output that repeats, or stacks. Only the job's owner receives them."""
    shown = [event for event in events if isinstance(event["data"], dict) and event["data"].get("private")]
    if shown:
        yield f"\nEvidence of {stamp(shown[-1]['at_s'])} (rule {one_line(str(shown[-1]['data'].get('rule', '')))}):"
        yield from (f"  {log_line(str(line))}" for line in shown[-1]["data"]["private"])


def _rows(events: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Cell]]:
    before_s = None
    for event in events:
        yield (
            stamp(event["at_s"]),
            "" if before_s is None else span(event["at_s"] - before_s),
            words(event["kind"]),
            Text(words(event["state"]), style=STYLES.get(event["state"], "")),
            str(event["attempt"]),
            event["actor"],
            _why(event),
        )
        before_s = event["at_s"]


def _why(event: Mapping[str, Any]) -> str:
    """The cause, otherwise the data of the event."""
    if event["cause"] or not isinstance(event["data"], dict):
        return one_line(event["cause"])
    shown = {name: value for name, value in event["data"].items() if name != "private"}
    return value_text(dict(_readable(name, value) for name, value in shown.items()))


def _readable(name: str, value: Any) -> tuple[str, Any]:
    """Convert times in microseconds to local time, and changed run times in seconds to text."""
    if name in _RUN_TIMES and isinstance(value, (int, float)):
        return name, span(value)
    if name.endswith("_us") and isinstance(value, int) and value > SINCE_2001_US:
        return name.removesuffix("_us"), stamp(value / US_PER_S)
    return name, value
