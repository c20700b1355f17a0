"""``gpusquad simulate``: a trace, a cluster, policies; numbers, plots and files come out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_POLICIES, _TRACE, _OUT = "Policies", "Trace and cluster", "Output"


def simulate(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="The trace; .gz is fine.", show_default=False)],
    cluster: Annotated[
        str | None,
        typer.Option(metavar="NODESxGPUS|FILE", help="For example 4x8, or a file.", rich_help_panel=_TRACE),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(help="The trace's format, e.g. philly:node_gpus=4. Told from the file if not given.",
                     rich_help_panel=_TRACE),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out and count them.", rich_help_panel=_TRACE)
    ] = False,
    limit: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only the first N jobs.", rich_help_panel=_TRACE)
    ] = None,
    incidents: Annotated[
        Path | None,
        typer.Option(help='Cards and nodes that fail and come back: {"at": 3600, "card": "n0/1", "ok": false} a line.',
                     rich_help_panel=_TRACE),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(help="How pairs slow each other on one card: a file of gpusquad measure, or Gavel's JSON. "
                     "Without it, profiles tell.",
                     rich_help_panel=_TRACE),
    ] = None,
    pairs_gpu: Annotated[str, typer.Option(help="Which GPU's pairs of Gavel's.", rich_help_panel=_TRACE)] = "v100",
    event_order: Annotated[
        Literal["batch", "reference"],
        typer.Option(help="What happens first at one instant; reference is that of the SWF reference waits.",
                     rich_help_panel=_TRACE),
    ] = "batch",
    mode: Annotated[str, typer.Option(help="A mode's name, or a .toml of yours.", rich_help_panel=_POLICIES)] = "fifo",
    order: Annotated[str | None, typer.Option(help="Instead of the mode's.", rich_help_panel=_POLICIES)] = None,
    plan: Annotated[
        str | None, typer.Option(help="Instead of the mode's: easy:backfill=shortest.", rich_help_panel=_POLICIES)
    ] = None,
    place: Annotated[str | None, typer.Option(help="Instead of the mode's.", rich_help_panel=_POLICIES)] = None,
    preempt: Annotated[
        Literal["none", "priority", "order"] | None,
        typer.Option(help="Who may push a running job off: instead of the mode's.", rich_help_panel=_POLICIES),
    ] = None,
    lanes: Annotated[Path | None, typer.Option(help="A file of lane rules.", rich_help_panel=_POLICIES)] = None,
    preemptible: Annotated[
        str | None,
        typer.Option(metavar="LANE,…", help="The lanes that may be preempted.", rich_help_panel=_POLICIES),
    ] = None,
    estimates: Annotated[
        Literal["user", "exact", "predict"] | None,
        typer.Option(help="Which run times to believe. Default: as the mode says, else user if every job has an "
                     "estimate, else exact.",
                     rich_help_panel=_POLICIES),
    ] = None,
    predictor: Annotated[
        str | None, typer.Option(help="Instead of the mode's: history, recent:last=3.", rich_help_panel=_POLICIES)
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Side by side: modes, or order+plan+place such as las+easy+spread.",
                     rich_help_panel=_POLICIES),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.", rich_help_panel=_OUT)] = False,
    report: Annotated[Path | None, typer.Option(help="Write one HTML file with plots.", rich_help_panel=_OUT)] = None,
    jobs_out: Annotated[Path | None, typer.Option(help="Write one CSV row a job.", rich_help_panel=_OUT)] = None,
    dump: Annotated[
        Path | None, typer.Option(help="Write a snapshot for gpusquad replay.", rich_help_panel=_OUT)
    ] = None,
    dump_at: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="When: the first decision at or after this.", rich_help_panel=_OUT),
    ] = None,
) -> None:  # fmt: skip
    """Run a trace through the scheduler in virtual time."""
    from gpusquad.cli._choices import Overrides, choices
    from gpusquad.cli._output import Files, show
    from gpusquad.cli._simulation import SimulationInput, SnapshotRequest, run

    files = Files(report, jobs_out)
    shot = SnapshotRequest.asked(dump, dump_at, compare)
    wanted = choices(compare or mode, bool(compare), Overrides(order, plan, place, preempt, lanes, preemptible))
    work = SimulationInput.load(trace, format, skip_bad, limit, cluster)
    work.add_incidents(incidents)
    work.slow_by(pairs, pairs_gpu)
    work.believe(estimates, predictor)
    results = run(work, wanted, event_order, shot)
    show(work, results, files, as_json)
