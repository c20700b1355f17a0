"""``python -m bench list`` and ``python -m bench run NAME… [--all] [--json]``."""

from __future__ import annotations

import argparse
import json
import sys

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.scoreboard import benches, holds, is_quick, needs_gpu, score

MARKS = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("", "")}
WIDTH_OF_FILES = 140


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if every claim with a bar holds, 1 if one does not, and 2 if the bench does not exist."""
    asked = _parser().parse_args(arguments)
    known = benches()
    if asked.verb == "list":
        _show_list(known)
        return 0
    names = [name for name in known if is_quick(known[name])] if asked.all else asked.names
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        problem = f"there is no bench {unknown[0]!r}" if unknown else "name a bench, or say --all"
        print(f"error: {problem} (there are {', '.join(known)})", file=sys.stderr)
        return 2
    result = score(known[name] for name in dict.fromkeys(names))
    if asked.json:
        print(json.dumps(result, indent=2))
    else:
        show(result, _console())
    return 0 if all(holds(claim) for claim in result["claims"]) else 1


def show(result: dict, console: Console) -> None:
    """The scoreboard as a table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("bench")
    table.add_column("claim")
    for heading in ("value", "bar", "baseline"):
        table.add_column(heading, justify="right")
    table.add_column("")
    before = ""
    for claim in result["claims"]:
        if before and claim["bench"] != before:
            table.add_section()
        mark, style = MARKS[claim["ok"]]
        table.add_row(claim["bench"] if claim["bench"] != before else "", Text(claim["name"]), *_figures(claim),
                      Text(mark, style=style))  # fmt: skip
        before = claim["bench"]
    console.print(table)
    facts = result["machine"]
    console.print(f"{facts['cores']} cores of {facts['cpu']}, Python {facts['python']}", style="dim", markup=False)


def _figures(claim: dict) -> tuple[str, str, str]:
    sign = {"lower": "≤ ", "higher": "≥ "}.get(claim["better"], "")
    unit = f" {claim['unit']}" if claim["unit"] else ""
    value = "–" if claim["value"] is None else _number(claim["value"]) + unit
    bar = "" if claim["bar"] is None else sign + _number(claim["bar"])
    return value, bar, "" if claim["baseline"] is None else _number(claim["baseline"])


def _number(value: float) -> str:
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}" if abs(value) < 10 else f"{value:.2f}"


def _show_list(known: dict) -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, module in known.items():
        table.add_row(name, Text(module.SUMMARY), "needs a GPU" if needs_gpu(module) else "")
    _console().print(table)


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=WIDTH_OF_FILES)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description="The scoreboard: claims beside their bars.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("list", help="list the benches")
    run = verbs.add_parser("run", help="run benches")
    run.add_argument("names", nargs="*", metavar="NAME")
    run.add_argument("--all", action="store_true", help="run all benches that need neither a GPU nor hours")
    run.add_argument("--json", action="store_true", help="print JSON and nothing else on stdout")
    return parser


if __name__ == "__main__":
    sys.exit(main())
