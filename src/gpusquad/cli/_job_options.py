"""Options that describe a job, shared by ``submit``, ``whatif`` and ``recommend``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from gpusquad.cli import _complete

_NEEDS, _TREATED, _RUNS = "Resources", "Scheduling", "Program"
_WORDS = "gpusquad.words"

Text = str | None
Texts = list[str] | None


def _check_gpus(text: Text) -> Text:
    if text is None or text == "auto" or text.isdecimal():
        return text
    raise typer.BadParameter(f"{text!r} is neither a number of GPUs nor auto")


@dataclass(frozen=True)
class JobOptions:
    """A job as described on the command line. None: the option was not given."""

    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="Job file (YAML or JSON); - reads standard input.", show_default=False),
    ] = None
    name: Annotated[
        Text,
        typer.Option(
            "--name",
            "-n",
            metavar="NAME",
            help="Name of the job. Default: the name in the job file, otherwise derived from the file name or command.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    params: Annotated[
        Texts,
        typer.Option(
            "--set",
            "-s",
            metavar="NAME=VALUE",
            help="Set the parameter that the job file uses as ${NAME}. Can be repeated.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    env: Annotated[
        Texts,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME[=VALUE]",
            help="Set an environment variable of the job. Default for VALUE: its value in this shell. Can be repeated.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    secret: Annotated[
        Texts,
        typer.Option(
            "--secret",
            metavar="NAME[=VARIABLE]",
            help="Pass a stored secret in an environment variable. Default for VARIABLE: NAME. Can be repeated.",
            rich_help_panel=_RUNS,
            autocompletion=_complete.secrets,
        ),
    ] = None
    image: Annotated[
        Text,
        typer.Option(metavar="IMAGE", help="Container image of the tasks (Kubernetes only).", rich_help_panel=_RUNS),
    ] = None
    workdir: Annotated[
        Text,
        typer.Option(
            metavar="DIR",
            help="Working directory. Default: the current directory; with an image, the image's own.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    gpus: Annotated[
        Text,
        typer.Option(
            "--gpus",
            "-g",
            metavar="N",
            callback=_check_gpus,
            help="Whole GPUs per task, or auto to choose the number from past runs. Default: 0.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    count: Annotated[
        int | None,
        typer.Option(
            "--count",
            "--tasks",
            "-t",
            min=1,
            metavar="N",
            help="Number of tasks of the gang. They start together or not at all. Default: 1.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    cpu: Annotated[
        Text,
        typer.Option(
            metavar="CORES",
            help="CPU cores per task, for example 4, or 500m for half a core; or auto to choose them from past runs. "
            "Default: no limit.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    memory: Annotated[
        Text,
        typer.Option(
            metavar="SIZE",
            help="Main memory (RAM) per task, for example 64GiB, or auto to choose it from past runs. "
            "Default: no limit.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    share_memory: Annotated[
        Text,
        typer.Option(
            metavar="SIZE",
            help="Share one GPU with other jobs: GPU memory per task, for example 10GiB or 30%. "
            "Default: as --share-sm.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    share_sm: Annotated[
        Text,
        typer.Option(
            metavar="RATIO",
            help="Share one GPU with other jobs: guaranteed fraction of its SMs, for example 0.25 or 25%. "
            "Default: none.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    share_isolation: Annotated[
        Text,
        typer.Option(
            metavar="CLASS",
            help="With --share-memory or --share-sm: shared (runs concurrently with other jobs) or isolated "
            "(time-sliced). Default: shared.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    gpu_model: Annotated[
        Texts,
        typer.Option(
            metavar="MODEL",
            help="GPU model, as shown by gpusquad nodes. Default: any. Repeat the option to allow several.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    gpu_memory: Annotated[
        Text,
        typer.Option(
            metavar="SIZE",
            help="Minimum memory of each GPU, for example 40GiB, or auto to choose it from past runs. Default: any.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    card: Annotated[
        Text,
        typer.Option(
            metavar="CARD",
            help="Run only on the card with this ID (see gpusquad nodes --cards). Default: any.",
            rich_help_panel=_NEEDS,
            autocompletion=_complete.cards,
        ),
    ] = None
    estimate: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="Expected run time, for example 90s or 2h. It never stops the job (see --limit). "
            "Default: from past runs.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    expect: Annotated[
        Text,
        typer.Option(
            metavar="FILE",
            help="JSON file with an offline estimate, saved with the Python module gpusquad.estimate. Default: none.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    limit: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="Run time after which the job is stopped, for example 4h. Default: none.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    priority: Annotated[
        Text,
        typer.Option(
            "--priority",
            "-p",
            metavar="CLASS|INTEGER",
            help="Priority: low, normal, high, urgent or an integer. Default: normal.",
            rich_help_panel=_TREATED,
            autocompletion=_complete.priorities,
        ),
    ] = None
    slo: Annotated[
        Texts,
        typer.Option(
            metavar="GOAL=VALUE",
            help="Service level objective: p99=20ms (latency), throughput=100/s, availability=99.9% or deadline=6h "
            "(after submission). Can be repeated.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    tenant: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="Tenant whose quota the job uses. Default: yours.",
            rich_help_panel=_TREATED,
            autocompletion=_complete.tenants,
        ),
    ] = None
    queue: Annotated[
        Text,
        typer.Option(
            metavar="NAME", help="Label for your own use. It does not affect scheduling.", rich_help_panel=_TREATED
        ),
    ] = None
    lane: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="Lane: a class of jobs with its own limits. Default: chosen by the mode's lane rules.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    app: Annotated[
        Text,
        typer.Option(
            metavar="NAME",
            help="Application. Jobs with the same application share measurements and predictions. Default: none.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    after: Annotated[
        Texts,
        typer.Option(
            metavar="JOB[:ON]",
            help="Start only after JOB has succeeded (JOB:failure: ended without success; JOB:any: ended). "
            "Can be repeated.",
            rich_help_panel=_TREATED,
            autocompletion=_complete.jobs,
        ),
    ] = None
    retries: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="Retry the job up to N times if it fails. Default: 0.", rich_help_panel=_TREATED
        ),
    ] = None
    checkpoint_every: Annotated[
        Text,
        typer.Option(
            metavar="TIME",
            help="Interval at which the program saves its state, for example 10m. Default: never.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--not-preemptible",
            help="Whether the job may be stopped for another job and restarted later. Default: --preemptible.",
            rich_help_panel=_TREATED,
        ),
    ] = None
    notify: Annotated[
        Texts,
        typer.Option(
            metavar="KIND",
            help="Send a notice on this event, for example started or failed. Default: your notice rules. "
            "Can be repeated.",
            rich_help_panel=_TREATED,
        ),
    ] = None


class WithWords(TyperCommand):
    """A verb that accepts a command after ``--`` and passes its words on unchanged."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_WORDS] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND…]"]


def words_after_dashes(context: typer.Context) -> list[str] | None:
    """The command after ``--``; None if there is no ``--``."""
    return context.meta.get(_WORDS)


def with_job_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Add all options of ``JobOptions`` to a verb, which gets them as its first argument."""
    hints = get_type_hints(JobOptions, include_extras=True)
    shared = [
        inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=hints[one.name])
        for one in fields(JobOptions)
    ]
    own = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in list(inspect.signature(verb, eval_str=True).parameters.values())[1:]
    ]

    def run(**given: Any) -> None:
        options = JobOptions(**{one.name: given.pop(one.name) for one in fields(JobOptions)})
        verb(options, **given)

    run.__name__, run.__doc__ = verb.__name__, verb.__doc__
    run.__signature__ = inspect.Signature([*shared, *own])  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in (*shared, *own)}
    return run
