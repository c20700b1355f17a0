"""Recommended resource requests of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from gpusquad.cli._jobs import short
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._tables import Cell, TableColumn, console, facts, table
from gpusquad.cli._times import span

Plain = Mapping[str, Any]
_ADVICE = (
    TableColumn("request"),
    TableColumn("", style="bold"),
    TableColumn("current", min_width=4),
    TableColumn("reason", min_width=20, wraps=True),
)
_TIMES = (
    TableColumn("GPUs", right=True),
    TableColumn("run time", right=True),
    TableColumn("80 % interval", min_width=12),
    TableColumn("efficiency", right=True),
    TableColumn("source"),
)


def show_recommendation(answer: Plain, name: str) -> None:
    out = console()
    heading = Text(one_line(name), "bold")
    if answer["jobs"] > 1:
        heading.append(f" (the first of {answer['jobs']:,} jobs of the sweep)", "dim")
    out.print(heading)
    if answer["advice"]:
        out.print(table(_ADVICE, [_advice(line) for line in answer["advice"]], out.width))
    else:
        out.print("  No recommendation: there is no evidence yet.")
    if answer["times"]:
        out.print()
        out.print(table(_TIMES, [_times(one) for one in answer["times"]], out.width))
    out.print()
    out.print(facts(_facts(answer)))


def _advice(line: Plain) -> Sequence[Cell]:
    now = "auto" if line["now"] == "auto" else "not given" if line["now"] is None else one_line(str(line["now"]))
    return one_line(line["field"]), one_line(str(line["value"])), now, one_line(line["why"])


def _times(one: Plain) -> Sequence[Cell]:
    within = f"{span(one['low_s'])} to {span(one['high_s'])}"
    source = "cautious default" if one["source"] == "default" else one_line(one["source"])
    return str(one["gpus"]), span(one["mid_s"]), within, f"{100 * one['efficiency_ratio']:.0f} %", source


def _facts(answer: Plain) -> Iterator[tuple[str, Cell]]:
    evidence = answer["evidence"]
    if evidence is not None:
        newest = ", ".join(short(job) for job in evidence["jobs"])
        yield "based on", f"{evidence['runs']:,} {one_line(evidence['of'])}; latest: {newest}"
    for use in (evidence or {}).get("uses", ()):
        ratios = " ".join(f"{100 * ratio:.0f}" for ratio in use["busy_ratios"])
        yield "busy", f"{ratios} % of the time (one number per card) in {short(use['job'])}"
    for note in answer["notes"]:
        yield "note", one_line(note)
    for warning in answer["warnings"]:
        yield "warning", Text(one_line(warning), "yellow")
    for missing in answer["missing"]:
        yield "missing", one_line(missing)
    changes = [f"{line['field']}: {line['value']}" for line in answer["advice"] if line["change"]]
    if answer["advice"]:
        yield "job file", Text(one_line("; ".join(changes)), "bold") if changes else "no changes"
