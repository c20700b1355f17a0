"""Current policies, their history, and previews of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from gpusquad.cli._jobs import short
from gpusquad.cli._sanitize import one_line, value_text
from gpusquad.cli._service import counted
from gpusquad.cli._tables import TableColumn, console, facts, table
from gpusquad.cli._times import UNKNOWN, relative, span, stamp

Plain = Mapping[str, Any]
MAX_ROWS = 20


def show_policy(policy: Plain, now_s: float) -> None:
    out = console()
    heading = Text.assemble("Mode ", (mode_label(policy), "bold"), f", revision {policy['revision']}")
    if policy["revision"]:  # revision 0 comes from the configuration
        heading.append(f", changed {relative(policy['since_s'], now_s)} by {one_line(policy['by'])}")
    out.print(heading)
    out.print(
        facts([
            *_automatic(policy.get("automatic"), now_s),
            ("order", policy["order"]),
            ("plan", policy["plan"]),
            ("place", policy["place"]),
            ("divide", policy.get("divide") or ""),
            ("preemption", _preemption(policy.get("preemption") or {})),
            ("overstay", _overstay(policy.get("preemption") or {})),
            ("note", policy.get("note") or ""),
            ("known modes", ", ".join(policy.get("modes") or ())),
        ])
    )  # fmt: skip
    _show_lanes(policy.get("lanes") or ())


def _show_lanes(lanes: Sequence[Plain]) -> None:
    """In the order of their rules: the first that matches a job decides."""
    if not lanes:
        return
    out = console()
    columns = (
        TableColumn("LANE", max_width=24),
        TableColumn("JOBS", wraps=True),
        TableColumn("PREEMPTIBLE"),
        TableColumn("LIMIT", right=True),
    )
    rows = [
        (one["name"], lane_rule(one), _preemptible(one),
         "–" if one["limit_ratio"] >= 1 else f"{one['limit_ratio']:.0%} of GPUs")
        for one in lanes
    ]  # fmt: skip
    out.print()
    out.print(table(columns, rows, out.width))


def _preemptible(lane: Plain) -> str:
    if not lane["preemptible"]:
        return "no"
    limit_s = lane.get("max_lost_s")
    return "yes" if limit_s is None else f"if suspended, or {span(limit_s)} after a checkpoint"


def lane_rule(lane: Plain) -> str:
    """Which jobs belong to the lane, in words."""
    parts = []
    if lane["max_gpus"] is not None:
        parts.append(f"{lane['min_gpus']} to {lane['max_gpus']} GPUs")
    elif lane["min_gpus"]:
        parts.append(f"{counted(lane['min_gpus'], 'GPU')} or more")
    if lane["tenants"]:
        parts.append(f"of tenant {' or '.join(lane['tenants'])}")
    if lane["priorities"]:
        parts.append(f"with priority {' or '.join(lane['priorities'])}")
    return ", ".join(parts) or "all others"


def mode_label(policy: Plain) -> str:
    """The mode, and the one that it chose if it is automatic."""
    chosen = policy.get("automatic")
    return one_line(policy["mode"]) if chosen is None else f"{one_line(policy['mode'])} ({one_line(chosen['mode'])})"


def _automatic(chosen: Plain | None, now_s: float) -> list[tuple[str, str]]:
    """What an automatic mode chose. Empty: the mode is pinned."""
    if chosen is None:
        return []
    rows = [
        ("chosen", f"{one_line(chosen['mode'])} since {stamp(chosen['since_s'])}, because {one_line(chosen['why'])}")
    ]
    if chosen["next_mode"]:
        at = UNKNOWN if chosen["next_s"] is None else relative(chosen["next_s"], now_s)
        rows.append(("next", f"{one_line(chosen['next_mode'])} {at} if {one_line(chosen['next_why'])} until then"))
    return [*rows, ("changes", f"{chosen['changes']} of at most {chosen['max_changes']} in 24 hours")]


def show_preview(preview: Plain, now_s: float) -> None:
    out = console()
    rows = [(short(job), "", "now", "starts now") for job in preview["starts"]]
    rows += [(short(job), "", "", "preempted") for job in preview.get("preempted") or ()]
    rows += [_moved(one, now_s) for one in preview.get("moved") or () if one["job"] not in preview["starts"]]
    if not rows:
        out.print("No pending job would be affected.")
        return
    columns = (
        TableColumn("JOB"),
        TableColumn("CURRENT START"),
        TableColumn("NEW START"),
        TableColumn("CHANGE", wraps=True),
    )
    out.print(table(columns, rows[:MAX_ROWS], out.width))
    if len(rows) > MAX_ROWS:
        out.print(f"\nand {counted(len(rows) - MAX_ROWS, 'job')} more; --json shows all", style="dim")


def show_revisions(revisions: Sequence[Plain], now_s: float) -> None:
    out = console()
    columns = (
        TableColumn("REVISION", right=True),
        TableColumn("WHEN"),
        TableColumn("AGO", from_width=90),
        TableColumn("BY", max_width=14),
        TableColumn("SETTINGS", wraps=True),
        TableColumn("NOTE", wraps=True, from_width=80),
    )
    rows = [
        (str(one["revision"]), stamp(one["at_s"]), relative(one["at_s"], now_s), one["by"], _settings(one["settings"]),
         one["note"])
        for one in revisions
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no changes so far")


def _preemption(preemption: Plain) -> str:
    if preemption.get("by") in (None, "none"):
        return "none"
    text = f"by {one_line(preemption['by'])}"
    if preemption.get("min_run_s"):
        text += f", after {span(preemption['min_run_s'])} of run time"
    if preemption.get("most_per_job") is not None:
        text += f", at most {counted(preemption['most_per_job'], 'time')} per job"
    return text


def _overstay(preemption: Plain) -> str:
    who = {"never": "never preempted", "checkpointed": "preempted if they write checkpoints", "always": "preempted"}
    rule = who.get(preemption.get("overstay") or "")
    return f"backfilled jobs that outlive their time are {rule}" if rule else ""


def _moved(one: Plain, now_s: float) -> tuple[str, str, str, str]:
    before_s, after_s = one.get("before_s"), one.get("after_s")
    starts = [UNKNOWN if at_s is None else relative(at_s, now_s) for at_s in (before_s, after_s)]
    change = ""
    if before_s is not None and after_s is not None:
        change = f"{span(abs(after_s - before_s))} {'later' if after_s > before_s else 'earlier'}"
    return short(one["job"]), starts[0], starts[1], change


def _settings(settings: Plain) -> str:
    return " · ".join(f"{one_line(name)} {value_text(value)}" for name, value in settings.items() if value is not None)
