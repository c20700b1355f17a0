"""All results of files as Markdown and as data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.card import cost_table, mechanism_table, pair_table, slo_table, training_table, virtual_table, wakes
from bench.card.curves import Panel, svg
from bench.card.rows import Row, chosen
from bench.card.slos import BENCH as SLOS
from bench.card.slos import NAMES, SWITCHED

PICTURE = "slos.svg"
Section = tuple[str, str, Any]


def report(rows: Sequence[Row], pictures: Path | None) -> tuple[str, dict[str, Any]]:
    """Of every bench that has rows. Pictures are written to the folder."""
    parts: dict[str, Callable[[], Section | None]] = {
        "Pairs": lambda: _pairs(rows), "Where a service's time goes": lambda: _wakes(rows),
        "Goals": lambda: _slos(rows, pictures), "Training": lambda: _training(rows),
        "Virtual cards": lambda: _virtual(rows), "Means of holding back": lambda: _mechanism(rows),
        "Cost of the library": lambda: _cost(rows),
    }  # fmt: skip
    sections = [section for title, part in parts.items() if (section := _told(title, part)) is not None]
    text = "\n".join([_where(rows), *(f"## {title}\n\n{body}" for title, body, _ in sections), _failures(rows)])
    return text, {"sittings": _sittings(rows), **{title: data for title, _, data in sections}}


def _told(title: str, part: Callable[[], Section | None]) -> Section | None:
    """Report a section that fails as such: the figures of the other benches are still valid."""
    try:
        return part()
    except Exception as error:
        return title, f"could not be worked out: {type(error).__name__}: {error}\n", None


def _sittings(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.get("kind") == "sitting"]


def _where(rows: Sequence[Row]) -> str:
    """Name all drivers and shim versions, because their figures must not be mixed."""
    seen = dict.fromkeys(
        f"{row.get('gpu')}, driver {row.get('driver')}, library {row.get('library')}, Python {row.get('python')}"
        for row in _sittings(rows)
    )
    days = sorted({str(row.get("at"))[:10] for row in _sittings(rows)})
    rehearsed = any(row.get("device") == "cpu" for row in _sittings(rows))
    warning = "**A rehearsal without a card: none of these figures means anything.**\n\n" if rehearsed else ""
    return f"{warning}Measured on {', '.join(days) or 'no day'}: {'; '.join(seen) or 'nothing'}\n"


def _failures(rows: Sequence[Row]) -> str:
    failed = [f"- {row.get('bench')} {row.get('pair') or row.get('setup') or row.get('what') or ''} "
              f"{row.get('condition', '')}: {row['failed']}" for row in rows if row.get("failed")]  # fmt: skip
    return "## What failed\n\n" + "\n".join(dict.fromkeys(failed)) + "\n" if failed else ""


def _pairs(rows: Sequence[Row]) -> Section | None:
    tables = pair_table.pair_tables(rows)
    return ("Pairs", pair_table.shown(tables), [one.plain() for one in tables]) if tables else None


def _wakes(rows: Sequence[Row]) -> Section | None:
    found = wakes.wakes(rows)
    return ("Where a service's time goes", wakes.shown(found), wakes.plain(found)) if found else None


def _training(rows: Sequence[Row]) -> Section | None:
    tables = training_table.training_tables(rows)
    return ("Training", training_table.shown(tables), training_table.plain(tables)) if tables else None


def _virtual(rows: Sequence[Row]) -> Section | None:
    tables = virtual_table.virtual_tables(rows)
    return ("Virtual cards", virtual_table.shown(tables), virtual_table.plain(tables)) if tables else None


def _mechanism(rows: Sequence[Row]) -> Section | None:
    tables = mechanism_table.mechanism_tables(rows)
    return ("Means of holding back", mechanism_table.shown(tables), mechanism_table.plain(tables)) if tables else None


def _cost(rows: Sequence[Row]) -> Section | None:
    costs = cost_table.cost_tables(rows)
    return ("Cost of the library", cost_table.shown(costs), cost_table.plain(costs)) if costs else None


def _slos(rows: Sequence[Row], pictures: Path | None) -> Section | None:
    tables = slo_table.slo_tables(rows)
    if not tables:
        return None
    panels = _panels(rows)
    if panels and pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        (pictures / PICTURE).write_text(svg(panels), encoding="utf-8")
    return "Goals", slo_table.shown(tables), slo_table.plain(tables)


def _panels(rows: Sequence[Row]) -> list[Panel]:
    """The last good run of each condition."""
    known = {row["setup"]: row["tenants"] for row in chosen(rows, SLOS, "calibration")}
    good = {row["condition"]: row for row in chosen(rows, SLOS, "run") if not row.get("failed")}
    panels = []
    for condition, row in good.items():
        third_s = row["length_s"] / 3
        words = ("image × 2, slo", "text × 2, jct") if condition == SWITCHED else ("image × 2", "text × 2")
        lines = {name: slo_table.curve(row, known[row["setup"]], name) for name in NAMES}
        panels.append(Panel(condition, row["length_s"], lines, dict(zip((third_s, 2 * third_s), words, strict=True))))
    return panels
