"""Prints simulation results as tables or JSON, and writes files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from gpusquad.cli._console import output
from gpusquad.cli._simulation import SimulationInput
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.sim.metrics import Summary, summarise
from gpusquad.sim.outcome import SimulationResult
from gpusquad.sim.report import text
from gpusquad.sim.report.html import write_report
from gpusquad.sim.report.jobs_csv import write_jobs
from gpusquad.sim.report.table import print_summary

MAX_REASONS = 3


@dataclass(frozen=True)
class Files:
    """Output files. Paths are checked before the simulation starts."""

    report: Path | None = None
    jobs: Path | None = None

    def __post_init__(self) -> None:
        for field, path in (("report", self.report), ("jobs-out", self.jobs)):
            if path is None:
                continue
            if path.is_dir():
                raise Invalid(field, f"{str(path)!r} is a directory", "name a file")
            path.parent.mkdir(parents=True, exist_ok=True)

    def write(self, results: Sequence[SimulationResult]) -> list[Path]:
        written = []
        if self.jobs is not None:
            for result in results:
                path = self.jobs if len(results) == 1 else _labelled(self.jobs, result.label)
                write_jobs(result, path)
                written.append(path)
        if self.report is not None:
            write_report(results, self.report)
            written.append(self.report)
        return written


def show(work: SimulationInput, results: Sequence[SimulationResult], files: Files, as_json: bool) -> None:
    """Print the results and write the requested files."""
    summaries = [summarise(result) for result in results]
    written = files.write(results)
    if as_json:
        typer.echo(json.dumps(_plain(work, results, summaries), indent=2, allow_nan=False))
        return
    console = output()
    console.print(_heading(work), markup=False)
    print_summary(summaries, console)
    for line in _modes(results):
        console.print(line, markup=False)
    for note in _notes(work, results):
        console.print(note, markup=False, style="yellow")
    for path in written:
        console.print(f"Wrote {path}", markup=False, soft_wrap=True)


def _plain(work: SimulationInput, results: Sequence[SimulationResult], summaries: Sequence[Summary]) -> dict:
    return {
        "trace": str(work.path), "format": work.trace.format, "jobs": len(work.jobs),
        "skipped_lines": work.trace.skipped_count, "skipped": work.trace.skipped,
        "estimates": dict(zip(("kind", "why"), work.estimates, strict=True)),
        "slowed_by": work.slowed_by or None,
        "results": [
            summary.to_dict()
            | {"modes": [{"at_s": at_us / US_PER_S, "mode": mode, "why": why} for at_us, mode, why in result.modes]}
            for result, summary in zip(results, summaries, strict=True)
        ],
    }  # fmt: skip


def _heading(work: SimulationInput) -> str:
    lines = [
        f"{text.plural(len(work.jobs), 'job')} from {work.path.name} ({work.trace.format})",
        "estimates: {} ({})".format(*work.estimates),
    ]
    if work.slowed_by:
        lines.append(f"shared cards: slowdown from {work.slowed_by}")
    return "\n".join(lines) + "\n"


def _modes(results: Sequence[SimulationResult]) -> list[str]:
    """What automatic modes chose."""
    return [
        f"{result.label}: {mode} from {show_us(at_us)}, because {text.plain(why, 200)}"
        for result in results
        for at_us, mode, why in result.modes
    ]


def _notes(work: SimulationInput, results: Sequence[SimulationResult]) -> list[str]:
    notes = []
    if work.trace.skipped_count:
        notes.append(f"Skipped {text.plural(work.trace.skipped_count, 'bad line')}:")
        notes += [f"  {reason}" for reason in work.trace.skipped[:MAX_REASONS]]
    refused = [outcome for outcome in results[0].outcomes if outcome.end == "refused"]
    if refused:
        notes.append(f"Refused {text.plural(len(refused), 'job')} that this cluster can never run:")
        notes += [f"  {text.plain(one.job.id)}: {text.plain(one.why, 200)}" for one in refused[:MAX_REASONS]]
    return notes


def _labelled(path: Path, label: str) -> Path:
    """File name for one of several runs: ``jobs.csv`` becomes ``jobs-fifo.csv``."""
    return path.with_name(f"{path.stem}-{re.sub(r'[^A-Za-z0-9.+=_-]+', '_', label)}{path.suffix}")
