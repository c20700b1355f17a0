"""One self-contained HTML file: figures, plots and lists of one result or of several side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from string import Template

import numpy as np

import gpusquad
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S
from gpusquad.sim.job_table import JobTable
from gpusquad.sim.metrics import Summary, summarise
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.report import figures, pieces, text
from gpusquad.sim.report.gantt import Gantt, gantt
from gpusquad.sim.report.lines import Line, ReportCell, cells, lines

MAX_PARTIES = 25
MAX_SIDE_BY_SIDE = 4
"""With more results, the groups of figures are stacked."""
MAX_WAITS = 10
MAX_MOVED = 50


def write_report(results: Sequence[SimulationResult], path: str | Path) -> None:
    """Write the report. The page uses no network and runs no script but its own."""
    Path(path).write_text(render(results), encoding="utf-8", errors="backslashreplace")


def render(results: Sequence[SimulationResult]) -> str:
    """The page as text."""
    if not results:
        raise Invalid("report", "there is no result to show")
    plotly_js = pieces.plotly_js("report")
    page = _Page.of(results)
    script = pieces.packaged("page.js")
    return Template(pieces.packaged("page.html")).substitute(
        policy=pieces.security_policy(plotly_js, script),
        title=escape(page.title),
        facts=escape(page.facts),
        style=pieces.packaged("page.css"),
        legend=_legend(page, with_policies=True),
        chips=_legend(page) if page.several else "",
        headlines=_headlines(page),
        numbers_title="Side by side" if page.several else "All numbers",
        numbers=_numbers(page),
        utilisation_chips=_legend(page) if page.several else _chip(0, "held") + _chip(1, "idle while jobs wait"),
        utilisation_note=escape(page.utilisation_note),
        tabs=_tabs(page),
        details="\n".join(_detail(page, i) for i in range(len(results))),
        version=escape(gpusquad.__version__),
        figures=pieces.as_script_data(page.figures),
        plotly=plotly_js,
        script=script,
    )


@dataclass(frozen=True)
class _Page:
    """All figures, before they become HTML."""

    results: Sequence[SimulationResult]
    tables: Sequence[JobTable]
    summaries: Sequence[Summary]
    clock: figures.TimeAxis
    charts: Sequence[Gantt]
    figures: dict[str, figures.Figure]
    utilisation_note: str

    @staticmethod
    def of(results: Sequence[SimulationResult]) -> _Page:
        tables = [JobTable(result) for result in results]
        clock = figures.TimeAxis(tables)
        charts = [gantt(result) for result in results]
        utilisation, stretch_s = figures.utilisation(results, clock)
        plots = {"queue": figures.queue_length(results, clock), "utilisation": utilisation}
        plots |= figures.distributions(results, tables)
        for i, (result, table, chart) in enumerate(zip(results, tables, charts, strict=True)):
            plots[f"cards-{i}"] = figures.cards_over_time(result, table, chart, clock)
        note = f"Each point is the mean over {text.duration(stretch_s)}." if stretch_s else ""
        summaries = [summarise(result, table) for result, table in zip(results, tables, strict=True)]
        return _Page(results, tables, summaries, clock, charts, plots, note)

    @property
    def several(self) -> bool:
        return len(self.results) > 1

    @property
    def title(self) -> str:
        return " · ".join(_name(result) for result in self.results)

    @property
    def facts(self) -> str:
        parts = {
            f"{text.plural(s.jobs, 'job')} on {text.plural(s.gpus, 'GPU')} in {text.plural(s.nodes, 'node')}": None
            for s in self.summaries
        }
        return "; ".join(parts)


def _name(result: SimulationResult | Summary) -> str:
    return text.plain(result.label, 60) or "result"


def _legend(page: _Page, with_policies: bool = False) -> str:
    return "".join(_legend_entry(result, i, with_policies) for i, result in enumerate(page.results))


def _legend_entry(result: SimulationResult, index: int, with_policies: bool) -> str:
    chosen = " · ".join(f"{key} {text.plain(value, 60)}" for key, value in result.policies.items())
    detail = f'<span class="muted">{escape(chosen)}</span>' if with_policies and chosen else ""
    return _chip(index, _name(result), detail)


def _chip(index: int, name: str, detail: str = "") -> str:
    return f"<li>{_swatch(index)}<b>{escape(name)}</b>{detail}</li>"


def _swatch(index: int) -> str:
    return f'<i class="swatch {figures.colour_of(index)}"></i>'


def _headlines(page: _Page) -> str:
    return "\n".join(
        f'<div class="tile"><h3>{escape(line.label)}</h3>{_tile_values(page, cells(line, page.summaries))}</div>'
        for line in lines(page.summaries)
        if line.headline
    )


def _tile_values(page: _Page, values: Sequence[ReportCell]) -> str:
    if not page.several:
        return f'<p class="big">{escape(values[0].text)}</p>'
    rows = (
        f'<li class="{"best" if cell.best else ""}">{_swatch(i)}<span>{escape(_name(page.results[i]))}</span>'
        f"<b>{escape(cell.text)}</b></li>"
        for i, cell in enumerate(values)
    )
    return f"<ul>{''.join(rows)}</ul>"


def _numbers(page: _Page) -> str:
    """A small table per group of rows: side by side they fill the width of a screen."""
    groups = groupby(lines(page.summaries), key=lambda line: line.group)
    tables = "".join(_number_table(page, name, list(group)) for name, group in groups)
    return f'<div class="groups across-{min(len(page.results), MAX_SIDE_BY_SIDE)}">{tables}</div>'


def _number_table(page: _Page, name: str, group: Sequence[Line]) -> str:
    names = (f"<th>{_swatch(i)}{escape(_name(s))}</th>" for i, s in enumerate(page.summaries))
    head = "".join(names) if page.several else "<th></th>"
    rows = "".join(_number_row(line.label, cells(line, page.summaries)) for line in group)
    return f'<table class="numbers"><thead><tr><th>{escape(name)}</th>{head}</tr></thead><tbody>{rows}</tbody></table>'


def _number_row(label: str, values: Sequence[ReportCell]) -> str:
    columns = "".join(
        f'<td class="{"best" if cell.best else ""}"><small>{escape(cell.change)}</small> {escape(cell.text)}</td>'
        for cell in values
    )
    return f"<tr><th>{escape(label)}</th>{columns}</tr>"


def _tabs(page: _Page) -> str:
    if not page.several:
        return ""
    buttons = "".join(
        f'<button type="button" role="tab" id="tab-{i}" aria-controls="detail-{i}" data-show="{i}"'
        f' aria-selected="{"true" if i == 0 else "false"}">{_swatch(i)}{escape(_name(result))}</button>'
        for i, result in enumerate(page.results)
    )
    return f'<div class="tabs" role="tablist">{buttons}</div>'


def _detail(page: _Page, index: int) -> str:
    result, table, summary = page.results[index], page.tables[index], page.summaries[index]
    hidden = " hidden" if index else ""
    role = f' role="tabpanel" aria-labelledby="tab-{index}"' if page.several else ""
    return (
        f'<div id="detail-{index}"{role}{hidden}>'
        f'<h2>Cards over time</h2><p class="note">{escape(_gantt_note(page.charts[index]))}</p>'
        f'<div class="plot" data-figure="cards-{index}"></div>'
        f"<h2>{summary.fairness.by.capitalize()}s</h2>{_party_rows(summary)}"
        f"<h2>Longest waits</h2>{_wait_rows(result, table, page.clock)}"
        f"<h2>Reservations that moved</h2>{_moved_rows(result, page.clock)}</div>"
    )


def _gantt_note(chart: Gantt) -> str:
    notes = ["Drag to zoom, double-click to go back."]
    if len(chart.cards) < chart.all_cards:
        notes.append(f"Shows {len(chart.cards):,} of {chart.all_cards:,} cards, from nodes spread over the cluster.")
    if chart.shortest_us:
        limit = text.duration(chart.shortest_us / US_PER_S)
        notes.append(
            f"Down-sampled: {chart.attempts:,} runs on these cards are drawn as {len(chart.bars):,} bars; "
            f"neighbours shorter than {limit} share a grey bar."
        )
    return " ".join(notes)


def _party_rows(summary: Summary) -> str:
    shown = summary.parties[:MAX_PARTIES]
    heads = ("Jobs", "Finished", "GPU hours", "Mean wait", "Mean JCT", "Mean slowdown", "Finish-time fairness")
    rows = (
        (
            text.party(row.name),
            text.count(row.jobs),
            text.count(row.finished),
            text.number(row.gpu_hours),
            text.duration(row.wait_mean_s),
            text.duration(row.jct_mean_s),
            text.number(row.slowdown_mean),
            text.number(row.rho_mean),
        )
        for row in shown
    )
    kind = summary.fairness.by
    return _table((kind.capitalize(), *heads), rows) + _left_out(len(summary.parties), len(shown), kind, "GPU hours")


def _wait_rows(result: SimulationResult, table: JobTable, clock: figures.TimeAxis) -> str:
    """Includes jobs that never started: they waited until the end."""
    until_us = np.where(table.started, table.first_us, table.last_us)
    waits_us = np.where(table.admitted, until_us - table.submitted_us, 0)
    worst = [int(i) for i in np.argsort(-waits_us, kind="stable")[:MAX_WAITS] if waits_us[i] > 0]
    if not worst:
        return '<p class="note">No job waited.</p>'
    rows = (_wait_row(result, table, clock, i, int(waits_us[i])) for i in worst)
    return _table(("Job", "Owner", "GPUs", "Requested at", "Waited", "Ran", "Why"), rows, words=("Owner", "Why"))


def _wait_row(
    result: SimulationResult, table: JobTable, clock: figures.TimeAxis, i: int, wait_us: int
) -> tuple[str, ...]:
    outcome = result.outcomes[i]
    job = outcome.job
    name = f"{text.plain(job.id, 40)} {text.plain(job.name, 60)}".strip()
    owner = " / ".join(text.plain(part, 30) for part in (job.tenant, job.user) if part)
    waited = text.duration(wait_us / US_PER_S) + ("" if table.started[i] else ", still waiting")
    ran = text.duration(int(table.ran_us[i]) / US_PER_S) if table.started[i] else text.NOTHING
    why = text.plain(outcome.why, 300) or _what_it_met(result, job.submitted_us, job.gpus)
    return (name, owner, text.count(job.gpus), clock.show(job.submitted_us), waited, ran, why)


def _what_it_met(result: SimulationResult, at_us: int, gpus: int) -> str:
    """Used if no reason was recorded: the state of the cluster when the job arrived."""
    samples = result.samples
    before = int(np.searchsorted(np.asarray(samples.at_us, dtype=np.int64), at_us)) - 1
    if before < 0:
        return ""
    free = result.cluster.gpus - samples.busy_milli[before] / 1000
    waiting = text.plural(samples.queued[before], "job")
    return f"wanted {text.plural(gpus, 'GPU')} when {text.number(free)} were free and {waiting} waited"


def _moved_rows(result: SimulationResult, clock: figures.TimeAxis) -> str:
    if not result.moved_reservations:
        return '<p class="note">No reservation moved later.</p>'
    latest = sorted(result.moved_reservations, key=lambda move: move[1] - move[2])[:MAX_MOVED]
    rows = (
        (
            text.plain(job_id, 40),
            clock.show(promised_us),
            clock.show(moved_us),
            text.duration((moved_us - promised_us) / US_PER_S),
            text.plain(why, 300),
        )
        for job_id, promised_us, moved_us, why in latest
    )
    table = _table(("Job", "Reserved", "Moved to", "Later by", "Why"), rows, words=("Why",))
    return table + _left_out(len(result.moved_reservations), len(latest), "move", "length")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], words: Sequence[str] = ()) -> str:
    """The first column and those named in ``words`` contain text, the others numbers."""
    css = ["words" if i == 0 or head in words else "" for i, head in enumerate(heads)]

    def row(tag: str, values: Sequence[str]) -> str:
        columns = (f'<{tag} class="{kind}">{escape(value)}</{tag}>' for kind, value in zip(css, values, strict=True))
        return f"<tr>{''.join(columns)}</tr>"

    body = "".join(row("td", values) for values in rows)
    return f'<div class="wide"><table><thead>{row("th", heads)}</thead><tbody>{body}</tbody></table></div>'


def _left_out(total: int, shown: int, kind: str, by: str) -> str:
    return f'<p class="note">The first {shown:,} of {text.plural(total, kind)}, by {by}.</p>' if total > shown else ""
