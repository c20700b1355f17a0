"""``gpusquad policies``: lists policies and modes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from gpusquad.modes import Mode
    from gpusquad.registry import RegistryEntry

PURPOSES = {
    "order": "sorts the queue",
    "plan": "decides on reservations and backfill",
    "place": "chooses nodes and cards",
    "divide": "divides a shared card among its jobs",
    "predictor": "predicts run times",
    "reader": "reads a trace format",
}
MODES = "mode"


def policies(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[KIND]",
            help="List only this kind: order, plan, place, divide, predictor, reader or mode. Default: all.",
        ),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List all policies with their parameters, and all modes. Includes your own."""
    from gpusquad.cli._console import output

    known = [] if kind == MODES else _described(kind)
    modes = _modes() if kind in ("", MODES) else []
    if as_json:
        typer.echo(json.dumps(_plain(known, modes), indent=2))
    else:
        _show(known, modes, output())


def _described(kind: str) -> list[RegistryEntry]:
    from gpusquad.model.errors import Invalid
    from gpusquad.registry import describe

    try:
        return describe(kind or None)
    except Invalid as error:
        raise Invalid(error.field, error.problem, f"{error.cure}, {MODES}") from None


def _modes() -> list[Mode]:
    """All readable modes. A broken file only causes a warning."""
    from gpusquad.cli._sanitize import one_line
    from gpusquad.modes import every_mode

    modes, broken = every_mode()
    for path, error in broken:
        typer.secho(f"warning: {one_line(str(path))}: {one_line(str(error))}", err=True, fg="yellow")
    return modes


def _plain(known: list[RegistryEntry], modes: list[Mode]) -> dict:
    return {
        "policies": [
            {
                "kind": one.kind, "name": one.name, "summary": one.summary,
                "parameters": [{"name": p.name, "type": p.type, "default": _json_default(p.default)}
                               for p in one.parameters],
            }
            for one in known
        ],
        "modes": [
            {"name": mode.name, "summary": mode.summary, "order": mode.order, "plan": mode.plan, "place": mode.place,
             "divide": mode.divide, "preempt": mode.preemption.by,
             "chooses": list(mode.rules.modes) if mode.rules is not None else []}
            for mode in modes
        ],
    }  # fmt: skip


def _json_default(value: object) -> object:
    return value if isinstance(value, (bool, int, str)) or value is None else _number_or_text(value)


def _number_or_text(value: object) -> object:
    """Infinity as text, because JSON has none."""
    return value if isinstance(value, float) and abs(value) != float("inf") else str(value)


def _show(known: list[RegistryEntry], modes: list[Mode], console: Console) -> None:
    for kind in dict.fromkeys(one.kind for one in known):
        rows = [(one.name, one.summary, _parameters(one)) for one in known if one.kind == kind]
        console.print(_table(f"{kind}: {PURPOSES.get(kind, '')}", ("name", "description", "parameters"), rows))
    if modes:
        rows = [(m.name, m.summary, _parts(m)) for m in modes]
        console.print(_table("mode: a named set of policies", ("name", "description", "order · plan · place"), rows))
    if known:
        console.print("Write parameters after the name: easy:backfill=shortest,reservations=2", style="dim")


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]):
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, head in enumerate(heads):
        table.add_column(head, no_wrap=index == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    return table


def _parameters(one: RegistryEntry) -> str:
    return "\n".join(f"{p.name}={p.default}{_choices(p.type)}" for p in one.parameters)


def _choices(annotation: str) -> str:
    """``(order | shortest)`` for a parameter with a fixed set of values."""
    if not annotation.startswith("Literal["):
        return ""
    words = annotation.removeprefix("Literal[").removesuffix("]").replace('"', "").replace("'", "")
    return f" ({' | '.join(word.strip() for word in words.split(','))})"


def _parts(mode: Mode) -> str:
    if mode.rules is not None:
        return f"chooses {', '.join(mode.rules.modes)}"
    return f"{mode.order} · {mode.plan} · {mode.place}{_preempt(mode)}"


def _preempt(mode: Mode) -> str:
    return "" if mode.preemption.by == "none" else f" · preempts by {mode.preemption.by}"
