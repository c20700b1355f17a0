"""Names and short texts for jobs, used by all verbs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpusquad.cli._sanitize import one_line
from gpusquad.cli._times import UNKNOWN, clock, narrow_range, relative, span
from gpusquad.model.errors import Invalid

Plain = Mapping[str, Any]

FINAL = frozenset({"succeeded", "failed", "cancelled", "timed_out"})
ON_CARDS = frozenset({"starting", "running", "stopping", "preempting", "lost"})
WAITING = frozenset({"held", "pending"})
STATES = ("held", "pending", "starting", "running", "stopping", "preempting", "lost", *sorted(FINAL))
STYLES = {
    "running": "green", "starting": "cyan", "pending": "yellow", "held": "magenta", "stopping": "cyan",
    "preempting": "cyan", "lost": "bold red", "succeeded": "green", "failed": "bold red", "timed_out": "red",
    "cancelled": "dim",
}  # fmt: skip
ID_LENGTH = 8
MAX_CARDS = 8
NOW_S = 1.0
"""A start that is nearer is shown as now."""
RANGE_FROM_S = 60.0
"""A P90 that is this much later than the median is shown beside it."""
UNKNOWN_END = "end not known"


def check_states(states: Iterable[str]) -> None:
    for state in states:
        if state not in STATES:
            raise Invalid("state", f"{state!r} is not a job state", f"choose from {', '.join(STATES)}")


def short(job_id: str) -> str:
    """The end of an ID. The start of a ULID is the time, so jobs of one hour share it."""
    return job_id[-ID_LENGTH:]


def label(job: Plain) -> str:
    """``name (id)``."""
    name, job_id = one_line(job.get("name") or ""), one_line(short(job["id"]))
    return f"{name} ({job_id})" if name else job_id


def words(state: str) -> str:
    return one_line(state).replace("_", " ")


def state_text(job: Plain, *, roomy: bool) -> str:
    """The state, with the rules of hang detection that warn about the job."""
    rules = ", ".join(one_line(warning["rule"]) for warning in job.get("hang_warnings") or ())
    if not rules:
        return words(job["state"])
    return f"{words(job['state'])} ({'hang warning' if roomy else 'hang'}: {rules})"


def time_in_state(job: Plain, now_s: float) -> str:
    """Time since submission, hold or start, up to the end if it ended."""
    started_s, ended_s = job.get("started_s"), job.get("ended_s")
    if job["state"] == "held" and job.get("held_s") is not None:
        return span(now_s - job["held_s"])
    if job["state"] in WAITING or started_s is None:
        return span((ended_s or now_s) - job["submitted_s"])
    return span((ended_s or now_s) - started_s)


def forecast_text(job: Plain, now_s: float) -> str:
    """Forecast start of a pending job; progress and time left of a running one."""
    if job["state"] in WAITING:
        return _starts(job, now_s)
    if job["state"] in ON_CARDS:
        return " · ".join(part for part in (_done(job), _left(job, now_s)) if part)
    return relative(job["ended_s"], now_s) if job.get("ended_s") else ""


def cause(job: Plain) -> str:
    """Why the job is not running, or why it ended."""
    reason = job.get("reason")
    if job["state"] in WAITING and reason:
        return one_line(reason.get("message") or reason.get("code") or "")
    if job["state"] == "held" and not job.get("cause"):
        waits = (f"waits for the {one['on']} of {short(one['job'])}" for one in job.get("after") or ())
        return one_line(", ".join(waits))
    return one_line(job.get("cause") or "")


def ending(job: Plain) -> str:
    """``exit 1``, ``SIGKILL`` or ``out of memory``, with the task if there are several."""
    result = job.get("result")
    if not result:
        return ""
    if result.get("oom"):
        text = "out of memory"
    elif result.get("signal"):
        text = _signal(result["signal"])
    elif result.get("exit_code") is None:
        return ""
    else:
        text = f"exit {result['exit_code']}"
    return f"{text}, task {result['task']}" if (job.get("tasks") or 1) > 1 and result.get("task") is not None else text


def cards(placement: Sequence[Plain], most: int = MAX_CARDS) -> str:
    """``n0: 0 1 · n1: 0``."""
    by_node: dict[str, list[str]] = {}
    for task in placement:
        by_node.setdefault(task["node"], []).extend(task.get("cards") or [])
    parts, left = [], most
    for node, ids in by_node.items():
        unique = list(dict.fromkeys(ids))
        shown = [one_line(card.removeprefix(f"{node}/")) for card in unique[: max(left, 0)]]
        left -= len(shown)
        if shown or not unique:
            parts.append(one_line(node) + (f": {' '.join(shown)}" if shown else ""))
    rest = len({card for ids in by_node.values() for card in ids}) - (most - left)
    return " · ".join(parts) + (f" and {rest} more" if rest > 0 else "")


def _starts(job: Plain, now_s: float) -> str:
    """The forecast start, from the median to the P90."""
    if job.get("eta_s") is not None:
        soon_s, late_s = job["eta_s"] - now_s, job.get("eta_high_s")
        if soon_s < NOW_S or late_s is None or late_s - job["eta_s"] < RANGE_FROM_S:
            return relative(max(job["eta_s"], now_s), now_s)
        return f"in {narrow_range(soon_s, late_s - now_s)}"
    if job.get("promised_s") is not None:
        return f"reserved for {clock(max(job['promised_s'], now_s), now_s)}"
    if job["state"] == "held":
        next_s = job.get("next_attempt_s")
        return "" if next_s is None else f"attempt {relative(max(next_s, now_s), now_s)}"
    return UNKNOWN


def _done(job: Plain) -> str:
    ratio = (job.get("progress") or {}).get("ratio")
    return "" if ratio is None else f"{100 * ratio:.0f} %"


def _left(job: Plain, now_s: float) -> str:
    if "end" in job:  # as things stand; the forecast is the one at the start
        end = job["end"]
        return UNKNOWN_END if not end or end.get("mid_s") is None else _until(end["mid_s"] - now_s)
    forecast = job.get("forecast")
    if not forecast or job.get("started_s") is None or forecast.get("mid_s") is None:
        return ""
    return _until(job["started_s"] + forecast["mid_s"] - now_s)


def _until(left_s: float) -> str:
    return f"{span(left_s)} left" if left_s > 0 else f"{span(-left_s)} overdue"


def _signal(number: int) -> str:
    from signal import Signals

    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"
