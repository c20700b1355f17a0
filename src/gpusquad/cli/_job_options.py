"""The options by which a job is described on the command line: the same for ``submit`` and ``whatif``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

from gpusquad.cli import _complete

_NEEDS, _TREATED, _RUNS = "What it needs", "How it is treated", "What it runs"
_WORDS = "gpusquad.words"

Text = str | None
Texts = list[str] | None


def _check_gpus(text: Text) -> Text:
    if text is None or text == "auto" or text.isdecimal():
        return text
    raise typer.BadParameter(f"{text!r} is not a number of GPUs, nor auto")


@dataclass(frozen=True)
class JobOptions:
    """A job as the command line describes it. What is None was not given."""

    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A job file (YAML or JSON); - for stdin.", show_default=False)
    ] = None
    name: Annotated[
        Text, typer.Option("--name", "-n", metavar="NAME", help="What you call it.", rich_help_panel=_RUNS)
    ] = None
    params: Annotated[
        Texts, typer.Option("--set", "-s", metavar="NAME=VALUE", help="Fills ${NAME}.", rich_help_panel=_RUNS)
    ] = None
    env: Annotated[
        Texts,
        typer.Option(
            "--env",
            "-e",
            metavar="NAME[=VALUE]",
            help="A variable; without a value: as it is here.",
            rich_help_panel=_RUNS,
        ),
    ] = None
    secret: Annotated[
        Texts,
        typer.Option(
            "--secret",
            metavar="NAME[=VARIABLE]",
            help="A secret, as a variable.",
            rich_help_panel=_RUNS,
            autocompletion=_complete.secrets,
        ),
    ] = None
    image: Annotated[
        Text, typer.Option(metavar="IMAGE", help="The container image, on a cluster.", rich_help_panel=_RUNS)
    ] = None
    workdir: Annotated[
        Text, typer.Option(metavar="DIR", help="Where it starts; else this folder.", rich_help_panel=_RUNS)
    ] = None
    gpus: Annotated[
        Text,
        typer.Option(
            "--gpus",
            "-g",
            metavar="N",
            callback=_check_gpus,
            help="GPUs for each task; auto: chosen by past runs.",
            rich_help_panel=_NEEDS,
        ),
    ] = None
    tasks: Annotated[
        int | None,
        typer.Option("--tasks", "-t", min=1, metavar="N", help="Tasks that start together.", rich_help_panel=_NEEDS),
    ] = None
    cpu: Annotated[Text, typer.Option(metavar="CORES", help="For each task: 4 or 500m.", rich_help_panel=_NEEDS)] = None
    memory: Annotated[Text, typer.Option(metavar="SIZE", help="For each task: 64GiB.", rich_help_panel=_NEEDS)] = None
    share_memory: Annotated[
        Text, typer.Option(metavar="SIZE", help="A part of one card: its memory.", rich_help_panel=_NEEDS)
    ] = None
    share_sm: Annotated[
        Text, typer.Option(metavar="RATIO", help="A part of one card: 0.25 or 25%.", rich_help_panel=_NEEDS)
    ] = None
    share_isolation: Annotated[
        Text,
        typer.Option(metavar="CLASS", help="A part of one card: shared or isolated.", rich_help_panel=_NEEDS),
    ] = None
    gpu_model: Annotated[
        Texts, typer.Option(metavar="MODEL", help="Any of these; may be repeated.", rich_help_panel=_NEEDS)
    ] = None
    gpu_memory: Annotated[
        Text, typer.Option(metavar="SIZE", help="The least a card must have; or auto.", rich_help_panel=_NEEDS)
    ] = None
    card: Annotated[
        Text,
        typer.Option(metavar="CARD", help="This card.", rich_help_panel=_NEEDS, autocompletion=_complete.cards),
    ] = None
    estimate: Annotated[
        Text, typer.Option(metavar="TIME", help="How long it may run: 2h. Never stops it.", rich_help_panel=_TREATED)
    ] = None
    expect: Annotated[Text, typer.Option(metavar="FILE", help="A saved estimate (JSON).", rich_help_panel=_TREATED)] = (
        None
    )
    limit: Annotated[Text, typer.Option(metavar="TIME", help="It is stopped after this.", rich_help_panel=_TREATED)] = (
        None
    )
    priority: Annotated[
        Text,
        typer.Option(
            "--priority",
            "-p",
            metavar="CLASS",
            help="low, normal, high or urgent.",
            rich_help_panel=_TREATED,
            autocompletion=_complete.priorities,
        ),
    ] = None
    slo: Annotated[
        Texts, typer.Option(metavar="GOAL=VALUE", help="p99=20ms, deadline=6h, …", rich_help_panel=_TREATED)
    ] = None
    tenant: Annotated[
        Text,
        typer.Option(metavar="NAME", help="Whose quota.", rich_help_panel=_TREATED, autocompletion=_complete.tenants),
    ] = None
    queue: Annotated[Text, typer.Option(metavar="NAME", help="A queue of the tenant.", rich_help_panel=_TREATED)] = None
    lane: Annotated[Text, typer.Option(metavar="NAME", help="Else chosen by rule.", rich_help_panel=_TREATED)] = None
    app: Annotated[Text, typer.Option(metavar="NAME", help="Alike jobs share it.", rich_help_panel=_TREATED)] = None
    after: Annotated[
        Texts,
        typer.Option(
            metavar="JOB[:ON]",
            help="Starts when that one succeeded; :failure or :any for other ends.",
            rich_help_panel=_TREATED,
            autocompletion=_complete.jobs,
        ),
    ] = None
    retries: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Tries it again so often.", rich_help_panel=_TREATED)
    ] = None
    checkpoint_every: Annotated[
        Text, typer.Option(metavar="TIME", help="How often it saves its state.", rich_help_panel=_TREATED)
    ] = None
    preemptible: Annotated[
        bool | None,
        typer.Option(
            "--preemptible/--not-preemptible", help="Whether it may be stopped for others.", rich_help_panel=_TREATED
        ),
    ] = None
    notify: Annotated[
        Texts, typer.Option(metavar="KIND", help="Tell me of this; may be repeated.", rich_help_panel=_TREATED)
    ] = None  # fmt: skip


class WithWords(TyperCommand):
    """A verb that takes a command of the user's after ``--``, and leaves its words alone."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta[_WORDS] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND…]"]


def words_after_dashes(context: typer.Context) -> list[str] | None:
    """The user's command; None: no ``--`` was given."""
    return context.meta.get(_WORDS)


def with_job_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Gives a verb all options of ``JobOptions``, handed over as one argument in front of its own."""
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
