"""Table of the caller's inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from gpusquad.cli._jobs import short
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._service import counted
from gpusquad.cli._tables import Cell, TableColumn, table
from gpusquad.cli._times import relative, stamp

COLUMNS = (
    TableColumn(""),
    TableColumn("WHEN", right=True),
    TableColumn("JOB"),
    TableColumn("NOTICE", wraps=True),
    TableColumn("WHY", wraps=True, style="dim", from_width=90),
)
STYLES = {
    "finished": "green", "started": "green", "failed": "red", "lost": "red", "hung": "yellow", "overrun": "yellow",
    "held": "yellow", "retried": "yellow", "start_late": "yellow", "eta_moved": "yellow", "cancelled": "dim",
}  # fmt: skip
NEW = "•"
"""Mark of an unread notice."""


def inbox_view(found: Mapping[str, Any], now_s: float, width: int, only_unread: bool) -> RenderableType:
    """Entries, newest first."""
    entries = found["items"]
    if not entries:
        return Text("no unread notices" if only_unread else "no notices", style="dim")
    foot = f"\n{found['unread']:,} unread"
    if found.get("next"):
        foot += f"; {counted(len(entries), 'notice')} shown, use --all for more"
    return Group(table(COLUMNS, (_row(entry, now_s) for entry in entries), width), Text(foot, style="dim"))


def inbox_line(entry: Mapping[str, Any]) -> str:
    """One entry, while the inbox is followed."""
    why = reason_text(entry)
    return one_line(f"{stamp(entry['at_s'])}  {entry['title']}" + (f": {why}" if why else ""))


def _row(entry: Mapping[str, Any], now_s: float) -> tuple[Cell, ...]:
    return (
        "" if entry["read"] else NEW,
        relative(entry["at_s"], now_s),
        short(entry["job"]) if entry["job"] else "",
        Text(one_line(entry["title"]), style=STYLES.get(entry["kind"], "")),
        reason_text(entry),
    )


def reason_text(entry: Mapping[str, Any]) -> str:
    """The cause, and the failed jobs of a batch."""
    failed = ", ".join(one["name"] for one in entry["failed"])
    parts = (entry["reason"]["text"] if entry["reason"] else "", f"failed: {failed}" if failed else "")
    return one_line("; ".join(part for part in parts if part))
