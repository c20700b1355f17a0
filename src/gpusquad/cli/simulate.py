"""``gpusquad simulate``: simulates policies on a trace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_POLICIES, _TRACE, _OUT = "Policies", "Trace and cluster", "Output"


def simulate(
    trace: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="Trace: a log of past jobs. It may be compressed (.gz).", show_default=False
        ),
    ],
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="NODESxGPUS|FILE",
            help="Cluster: 4x8 for 4 nodes with 8 GPUs each, or a cluster file (TOML). Default: the one in the trace.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        str | None,
        typer.Option(
            help="Trace format, for example philly:node_gpus=4. Default: detected from the file.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad",
            help="Skip invalid lines and report their number. Default: stop at the first.",
            rich_help_panel=_TRACE,
        ),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Use only the first N jobs. Default: all.", rich_help_panel=_TRACE),
    ] = None,
    incidents: Annotated[
        Path | None,
        typer.Option(
            help='File of card and node failures, one JSON event per line (at: seconds of the trace): {"at": 3600, '
            '"card": "n0/1", "ok": false}',
            rich_help_panel=_TRACE,
        ),
    ] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="File of measured slowdowns of pairs of jobs on one card, from gpusquad measure or Gavel's JSON. "
            "Default: computed from the jobs' profiles.",
            rich_help_panel=_TRACE,
        ),
    ] = None,
    pairs_gpu: Annotated[
        str, typer.Option(help="GPU model to select in a Gavel file of --pairs.", rich_help_panel=_TRACE)
    ] = "v100",
    event_order: Annotated[
        Literal["batch", "reference"],
        typer.Option(
            help="Order of events at the same instant. Use reference to reproduce the published wait times of SWF "
            "logs; modes without a predictor then plan with the users' estimates.",
            rich_help_panel=_TRACE,
        ),
    ] = "batch",
    mode: Annotated[
        str, typer.Option(help="Mode, a named set of policies, or a .toml file.", rich_help_panel=_POLICIES)
    ] = "standard",
    order: Annotated[
        str | None,
        typer.Option(help="Order policy: which job is next. Default: the mode's.", rich_help_panel=_POLICIES),
    ] = None,
    plan: Annotated[
        str | None,
        typer.Option(
            help="Plan policy: reservations and backfill, for example easy:backfill=shortest. Default: the mode's.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    place: Annotated[
        str | None, typer.Option(help="Place policy: on which cards. Default: the mode's.", rich_help_panel=_POLICIES)
    ] = None,
    preempt: Annotated[
        Literal["none", "priority", "order"] | None,
        typer.Option(
            help="Which jobs may preempt running ones: none, those of a higher priority class, or also those first "
            "in order. Default: the mode's.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    lanes: Annotated[
        Path | None,
        typer.Option(
            help="File with the rules that assign jobs to lanes. Default: the mode's rules.", rich_help_panel=_POLICIES
        ),
    ] = None,
    preemptible: Annotated[
        str | None,
        typer.Option(
            metavar="LANE,…",
            help="Lanes (classes of jobs) whose jobs can be preempted. Default: the mode's.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    estimates: Annotated[
        Literal["user", "exact", "predict"] | None,
        typer.Option(
            help="Run times that the scheduler plans with: estimates of the users, exact ones, or predictions. "
            "Default: predictions, as in the service.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    predictor: Annotated[
        str | None,
        typer.Option(
            help="Predictor of run times, for example history or recent:last=3. Default: the mode's, otherwise "
            "combined.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Run the trace with each of these modes or order+plan+place combinations, for example "
            "fifo,las+easy+spread, and compare them.",
            rich_help_panel=_POLICIES,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print only JSON.", rich_help_panel=_OUT)] = False,
    report: Annotated[
        Path | None, typer.Option(help="Write a report with plots to this HTML file.", rich_help_panel=_OUT)
    ] = None,
    jobs_out: Annotated[
        Path | None, typer.Option(help="Write a CSV file with one row per job.", rich_help_panel=_OUT)
    ] = None,
    dump: Annotated[
        Path | None,
        typer.Option(
            help="Write a snapshot for gpusquad replay to this file. Requires --dump-at.", rich_help_panel=_OUT
        ),
    ] = None,
    dump_at: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Take the snapshot before the first decision at or after this time of the trace, in seconds.",
            rich_help_panel=_OUT,
        ),
    ] = None,
) -> None:
    """Run a trace (a log of past jobs) through the scheduler in virtual time."""
    from gpusquad.cli._choices import Overrides, choices
    from gpusquad.cli._output import Files, show
    from gpusquad.cli._simulation import SimulationInput, SnapshotRequest, run

    files = Files(report, jobs_out)
    snapshot = SnapshotRequest.from_options(dump, dump_at, compare)
    chosen = choices(compare or mode, bool(compare), Overrides(order, plan, place, preempt, lanes, preemptible))
    work = SimulationInput.load(trace, format, skip_bad, limit, cluster)
    work.add_incidents(incidents)
    work.slow_by(pairs, pairs_gpu)
    work.set_estimates(estimates, predictor, event_order)
    results = run(work, chosen, event_order, snapshot)
    show(work, results, files, as_json)
