"""``gpusquad tenant``: owners of quota."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from gpusquad.cli import _complete
from gpusquad.cli._groups import group
from gpusquad.cli._service import AsJson, connect, print_json

SUMMARY = "Show and change tenants, the owners of quotas. Without a subcommand, list them."
NONE = "none"
YesNo = Literal["yes", "no"]


def show(as_json: AsJson = False) -> None:
    """List tenants with their weights and limits."""
    tenants: Any = connect().people.tenants()
    if as_json:
        print_json({"items": tenants})
        return
    _print(tenants)


tenant = group(SUMMARY, show)
tenant.command("list")(show)


@tenant.command("set")
def _set(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the tenant.", autocompletion=_complete.tenants, show_default=False
        ),
    ],
    weight: Annotated[
        str | None, typer.Option(metavar="NUMBER", help="Weight in fair sharing, greater than 0. A new tenant has 1.")
    ] = None,
    guaranteed: Annotated[
        str | None,
        typer.Option(
            metavar="N|none",
            help="Number of GPUs that the tenant can always get back from other tenants. none: no guarantee.",
        ),
    ] = None,
    limit: Annotated[
        str | None,
        typer.Option(
            metavar="N|none", help="Maximum number of GPUs that the tenant may use at the same time. none: no limit."
        ),
    ] = None,
    reclaim: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Time, for example 5m, that a job must wait before guaranteed GPUs are reclaimed for it. "
            "A new tenant has 0.",
        ),
    ] = None,
    max_pending: Annotated[
        str | None,
        typer.Option(metavar="N|none", help="Maximum number of unfinished jobs. More are refused. none: no limit."),
    ] = None,
    on_hang: Annotated[
        Literal["warn", "stop"] | None,
        typer.Option(help="What to do with jobs that hang: warn only, or also stop them. A new tenant has stop."),
    ] = None,
    run_as: Annotated[
        str | None,
        typer.Option(
            metavar="UID:GID|none", help="User and group ID under which its tasks run. none: those of the service."
        ),
    ] = None,
    max_priority: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS|INTEGER",
            autocompletion=_complete.priorities,
            help="Highest priority of jobs of its users: low, normal, high, urgent or an integer. A user can have a "
            "maximum of their own (gpusquad user set); administrators have none. A new tenant has normal.",
        ),
    ] = None,
    may_choose_lane: Annotated[
        YesNo | None,
        typer.Option(help="Whether its users may choose the lane of a job (submit --lane). A new tenant has no."),
    ] = None,
    urgent_hours: Annotated[
        str | None,
        typer.Option(
            metavar="N|none",
            help="GPU-hours per 30 days that its runs with priorities above high may use. Then such priorities are "
            "refused, and pending jobs are lowered to high. none: no budget, which a new tenant has.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create or change a tenant. Omitted options keep their values."""
    from gpusquad.model.errors import Invalid
    from gpusquad.model.priority import priority_text

    given = {
        "weight": _number(weight, "weight", float),
        "guaranteed_gpus": _number(guaranteed, "guaranteed", int),
        "limit_gpus": _number(limit, "limit", int),
        "reclaim_s": _seconds(reclaim),
        "max_pending": _number(max_pending, "max-pending", int),
        "on_hang": on_hang,
        "run_as": run_as,
        "max_priority": None if max_priority is None else priority_text(max_priority, "max-priority"),
        "may_choose_lane": None if may_choose_lane is None else may_choose_lane == "yes",
        "urgent_gpu_hours": _number(urgent_hours, "urgent-hours", float),
    }
    changes = {key: None if value == NONE else value for key, value in given.items() if value is not None}
    client = connect()
    before: Any = next((one for one in client.people.tenants() if one["name"] == name), {})
    if not changes and before:
        raise Invalid("tenant", "is not changed", "use for example --limit 8")
    current = {key: before[key] for key in given if key in before}
    answer: Any = client.people.set_tenant(name, current | changes)
    if as_json:
        print_json(answer)
    else:
        _print([answer])


def _print(tenants: list[dict[str, Any]]) -> None:
    from gpusquad.cli._tables import TableColumn, console, table
    from gpusquad.cli._times import span

    columns = [
        TableColumn("TENANT", max_width=24, min_width=10),
        TableColumn("WEIGHT", right=True),
        TableColumn("GUARANTEED", right=True),
        TableColumn("LIMIT", right=True),
        TableColumn("MAX PRIORITY"),
        TableColumn("LANES", from_width=110),
        TableColumn("RECLAIM", right=True, from_width=70),
        TableColumn("MAX PENDING", right=True, from_width=80),
        TableColumn("ON HANG", from_width=90),
        TableColumn("RUNS AS", from_width=100),
    ]
    rows: list[tuple[str, ...]] = [
        (one["name"], f"{one['weight']:g}", _or_dash(one["guaranteed_gpus"]), _or_dash(one["limit_gpus"]),
         one["max_priority"], "any" if one["may_choose_lane"] else "by rule", span(one["reclaim_s"]),
         _or_dash(one["max_pending"]), one["on_hang"], _or_dash(one["run_as"]))
        for one in tenants
    ]  # fmt: skip
    if any(one["urgent_gpu_hours"] is not None for one in tenants):
        columns.append(TableColumn("URGENT GPU-HOURS", right=True))
        rows = [(*row, _urgent_hours(one)) for row, one in zip(rows, tenants, strict=True)]
    out = console()
    out.print(table(columns, rows, out.width))


def _urgent_hours(tenant: dict[str, Any]) -> str:
    """Used and budget."""
    used, budget = tenant["urgent_gpu_hours_used"], tenant["urgent_gpu_hours"]
    return f"{used:.1f}" if budget is None else f"{used:.1f} of {budget:g}"


def _or_dash(value: object) -> str:
    return "–" if value is None else str(value)


def _number(text: str | None, option: str, kind: type) -> Any:
    from gpusquad.model.errors import Invalid

    if text is None or text == NONE:
        return text
    try:
        return kind(text)
    except ValueError:
        raise Invalid(option, f"{text!r} is not a number", f"write for example --{option} 8") from None


def _seconds(text: str | None) -> float | None:
    from gpusquad.model.units import US_PER_S, parse_us

    return None if text is None else parse_us(text, "reclaim") / US_PER_S
