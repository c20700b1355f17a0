"""``gpusquad measure``: measures interference between workloads on one card."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gpusquad.cli._service import counted, note, print_json

if TYPE_CHECKING:
    from gpusquad.cli._measure_run import MeasureOptions, MeasureOutcome
    from gpusquad.measure.series_files import StoredSeries

SUMMARY = "Measure how workloads (programs) slow each other down on one card. The card should be idle."
NONE = "none"
_WHAT, _HOW, _WHERE, _OUT = "Workloads", "Method", "Machine", "Output"


def _names(incomplete: str) -> list[str]:
    """Workload names of the catalogue, also after a comma."""
    from gpusquad.measure.workloads import CATALOGUE

    before, comma, previous = incomplete.rpartition(",")
    return [before + comma + name for name in CATALOGUE if name.startswith(previous)]


def _files(incomplete: str) -> list[str]:
    """Series in the default folder, and files in the current one."""
    from gpusquad.cli._measured_files import folder_of

    here = sorted(str(path) for path in Path().glob(f"{incomplete}*") if path.is_dir() or path.suffix == ".json")
    return here + sorted(path.name for path in folder_of(None).glob("*.json") if path.name.startswith(incomplete))


Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write heat maps to this HTML file.", rich_help_panel=_OUT)
]
Png = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write heat maps to this PNG file.", rich_help_panel=_OUT)
]
AsJson = Annotated[bool, typer.Option("--json", help="Print only JSON.", rich_help_panel=_OUT)]
Folder = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Folder of the series. Default: interference in gpusquad's home folder (~/.gpusquad)."
    ),
]
File = Annotated[str, typer.Argument(metavar="FILE", help="Series file.", autocompletion=_files, show_default=False)]

measure = typer.Typer(add_completion=False, invoke_without_command=True, help=SUMMARY)


@measure.callback()
def _measure(
    context: typer.Context,
    workloads: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Built-in workloads to measure, or none. Default: all, or none with --workload.",
            autocompletion=_names,
            rich_help_panel=_WHAT,
        ),
    ] = None,
    workload: Annotated[
        list[str] | None,
        typer.Option(
            metavar='NAME="COMMAND"', help="Measure your own program. Can be repeated.", rich_help_panel=_WHAT
        ),
    ] = None,
    pattern: Annotated[
        str,
        typer.Option(
            metavar="REGEX",
            help="Regular expression for output lines that report a step; the first group, if any, is the step "
            "number. Default: lines such as step 45.",
            rich_help_panel=_WHAT,
        ),
    ] = "",
    triples: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Also measure N sets of three workloads, not only pairs.", rich_help_panel=_WHAT
        ),
    ] = 0,
    splits: Annotated[
        bool,
        typer.Option(
            "--splits",
            help="Also measure with 25, 50 and 75 % of the SMs. Requires --sharing mps.",
            rich_help_panel=_WHAT,
        ),
    ] = False,
    sharing: Annotated[
        Literal["time-slicing", "mps"],
        typer.Option(
            help="How the workloads share the card: alternately, or concurrently through NVIDIA MPS.",
            rich_help_panel=_HOW,
        ),
    ] = "time-slicing",
    memory: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Measure as if the card had this much memory, for example 12GB. Default: all of it.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    repeats: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Number of time windows measured for each combination of workloads. "
            "5 are enough to test for significance.",
            rich_help_panel=_HOW,
        ),
    ] = 5,
    window: Annotated[
        str,
        typer.Option(metavar="TIME", help="Length of one time window, for example 500ms or 2s.", rich_help_panel=_HOW),
    ] = "1s",
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Stop after this time, for example 10m. The most important combinations are measured first. "
            "Default: no limit.",
            rich_help_panel=_HOW,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Continue the last unfinished series that has the same options.", rich_help_panel=_HOW
        ),
    ] = False,
    engine: Annotated[
        Literal["local", "kubernetes"],
        typer.Option(help="Measure on this machine (local) or in a pod (kubernetes).", rich_help_panel=_WHERE),
    ] = "local",
    card: Annotated[
        str,
        typer.Option(metavar="N|UUID", help="Index of the card on its machine, or its UUID.", rich_help_panel=_WHERE),
    ] = "0",
    image: Annotated[
        str | None,
        typer.Option(
            metavar="IMAGE",
            help="Container image of the pod, with gpusquad and PyTorch. Required with --engine kubernetes.",
            rich_help_panel=_WHERE,
        ),
    ] = None,
    namespace: Annotated[
        str, typer.Option(metavar="NAME", help="Namespace of the pod.", rich_help_panel=_WHERE)
    ] = "default",
    node: Annotated[
        str, typer.Option(metavar="NAME", help="Kubernetes node of the pod. Default: any.", rich_help_panel=_WHERE)
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the series (all results of this run) in this folder. "
            "Default: interference in gpusquad's home folder (~/.gpusquad).",
            rich_help_panel=_OUT,
        ),
    ] = None,
    html: Html = None,
    png: Png = None,
    as_json: AsJson = False,
) -> None:
    """Measure how workloads (programs) slow each other down on one card. The card should be idle."""
    if context.invoked_subcommand is not None:
        return
    from gpusquad.cli._measure_run import MeasureOptions, read_commands, run
    from gpusquad.cli._measured_files import check_outputs, folder_of
    from gpusquad.model.units import US_PER_S, parse_bytes, parse_us

    commands = read_commands(workload or ())
    check_outputs(html, png)
    options = MeasureOptions(
        folder_of(out), _workloads(workloads, bool(commands)), commands, pattern, sharing, splits, triples,
        None if memory is None else parse_bytes(memory, "memory"), repeats, parse_us(window, "window") / US_PER_S,
        None if budget is None else parse_us(budget, "budget") / US_PER_S, card,
        _pod(engine, image, namespace, node), resume,
    )  # fmt: skip
    try:
        outcome = run(options)
    except KeyboardInterrupt:
        note("Stopped. To continue, use --resume with the same options.")
        raise
    _report(options, outcome, html, png, as_json)


@measure.command("show")
def _show(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Series file. Default: the newest series.", autocompletion=_files),
    ] = None,
    folder: Folder = None,
    html: Html = None,
    png: Png = None,
    as_json: AsJson = False,
) -> None:
    """Show a series as a table of speeds, with the statistically significant differences."""
    from gpusquad.cli._measured_files import check_outputs, folder_of, named, write_outputs

    check_outputs(html, png)
    one = named(file, folder_of(folder))
    written = write_outputs(one.measured, html, png)
    if as_json:
        print_json(_plain(one))
        return
    _print_series(one)
    for path in written:
        note(f"Wrote {path}")


@measure.command("list")
def _list(folder: Folder = None, as_json: AsJson = False) -> None:
    """List the saved series, newest first."""
    from gpusquad.cli._measured_files import folder_of
    from gpusquad.measure.series_files import all_of

    stored = all_of(folder_of(folder))
    if as_json:
        print_json(_plain_folder(stored))
        return
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.measure import list_view

    screen = console()
    screen.print(list_view(stored.kept, stored.skipped, screen.width))


@measure.command("compare")
def _compare(older: File, newer: File, folder: Folder = None, as_json: AsJson = False) -> None:
    """Show the statistically significant changes between two series of one card."""
    from gpusquad.cli._measured_files import folder_of, named
    from gpusquad.measure.analysis.compare import as_plain, compare, describe

    place = folder_of(folder)
    found = compare(named(older, place).measured, named(newer, place).measured)
    if as_json:
        print_json(as_plain(found))
        return
    from gpusquad.cli._sanitize import one_line

    for line in describe(found):
        typer.echo(one_line(line))


def _workloads(given: str | None, has_commands: bool) -> tuple[str, ...]:
    """Default: the whole catalogue, or only the user's own programs if there are any."""
    from gpusquad.measure.workloads import CATALOGUE
    from gpusquad.model.errors import Invalid

    if given is None:
        return () if has_commands else tuple(CATALOGUE)
    names = () if given.strip() == NONE else tuple(name.strip() for name in given.split(",") if name.strip())
    if not names and not has_commands:
        raise Invalid("workloads", "names no workload", f"choose from {', '.join(CATALOGUE)}")
    return names


def _pod(engine: str, image: str | None, namespace: str, node: str) -> Any:
    from gpusquad.measure.launcher import PodOptions
    from gpusquad.model.errors import Invalid

    if engine == "local":
        return None
    if image is None:
        raise Invalid("image", "is missing; a pod needs one with gpusquad and PyTorch", "add --image NAME")
    return PodOptions(image, namespace, node=node)


def _report(
    options: MeasureOptions, outcome: MeasureOutcome, html: Path | None, png: Path | None, as_json: bool
) -> None:
    from gpusquad.cli._measured_files import before, write_outputs
    from gpusquad.measure.analysis.compare import as_plain, compare
    from gpusquad.measure.series_files import StoredSeries

    written = write_outputs(outcome.measured, html, png)
    previous = before(outcome.measured, options.out)
    changed = None if previous is None else compare(previous.measured, outcome.measured)
    if as_json:
        print_json(
            {
                **_plain(StoredSeries(outcome.file, outcome.measured)),
                "windows_left": outcome.left,
                "failed": list(outcome.failed),
                "compared_with": None if previous is None else str(previous.path),
                "comparison": None if changed is None else as_plain(changed),
            }
        )
        return
    _print_series(StoredSeries(outcome.file, outcome.measured))
    if previous is not None and changed is not None:
        _print_changes(previous, changed)
    for why in outcome.failed:
        note(f"Failed: {why}")
    if outcome.left:
        are = "is" if outcome.left == 1 else "are"
        note(f"{counted(outcome.left, 'window')} {are} left. To continue, use --resume with the same options.")
    for path in (outcome.file, *written):
        note(f"Wrote {path}")


def _print_series(one: StoredSeries) -> None:
    from gpusquad.cli._tables import console
    from gpusquad.cli._views.measure import series_view

    screen = console()
    screen.print(series_view(one.measured, screen.width))


def _print_changes(previous: StoredSeries, changed: Any) -> None:
    from gpusquad.cli._sanitize import one_line
    from gpusquad.cli._times import stamp
    from gpusquad.measure.analysis.compare import describe
    from gpusquad.model.units import US_PER_S

    typer.echo(f"\nCompared with the series of {stamp(previous.measured.at_us / US_PER_S)}:")
    for line in describe(changed):
        typer.echo(f"  {one_line(line)}")


def _plain(one: StoredSeries) -> dict[str, Any]:
    from dataclasses import asdict

    from gpusquad.measure.analysis.stats import asymmetries, diagonals
    from gpusquad.model.interference_data import to_data

    return {
        "file": str(one.path), "measured": to_data(one.measured),
        "asymmetries": [asdict(pair) for pair in asymmetries(one.measured)],
        "diagonals": [asdict(twin) for twin in diagonals(one.measured)],
    }  # fmt: skip


def _plain_folder(stored: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "items": [
            {"file": str(one.path), "at_us": one.measured.at_us, "setting": asdict(one.measured.setting),
             "workloads": [solo.workload for solo in one.measured.solos], "runs": len(one.measured.co_runs)}
            for one in reversed(stored.kept)
        ],
        "skipped": [{"file": str(one.path), "why": one.why} for one in stored.skipped],
    }  # fmt: skip
