"""How cards are divided, and among which GPU clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from gpusquad.cli._sanitize import one_line, value_text
from gpusquad.cli._service import counted
from gpusquad.cli._sizes import GIB, MIB, size
from gpusquad.cli._tables import Cell, TableColumn, console, facts, table
from gpusquad.cli._times import relative, span, stamp
from gpusquad.cli._views.node import model

Plain = Mapping[str, Any]
MAX_UNMANAGED = 5
CLIENTS = (
    TableColumn("JOB", max_width=30, min_width=8),
    TableColumn("USER", max_width=14, from_width=100),
    TableColumn("SMS", right=True),
    TableColumn("CREDIT", right=True, from_width=70),
    TableColumn("MEMORY", right=True),
    TableColumn("PEAK", right=True, from_width=80),
    TableColumn("SLO MET", right=True),
    TableColumn("ITER/S", right=True, from_width=90),
    TableColumn("WAITED", right=True, from_width=110),
    TableColumn("STATE", wraps=True),
)
EFFECTS = {"live": "green", "told": "yellow", "unused": "dim", "kept": "yellow"}


def place(card: Plain) -> str:
    """``n0/3``, which is also the ID of cards without a UUID."""
    return f"{one_line(card['node'])}/{card['index']}"


def called(card: Plain) -> str:
    return place(card) if card["id"] == place(card) else f"{place(card)} ({one_line(card['id'])})"


def set_line(card: Plain) -> str:
    """One line about a changed divide policy."""
    divide = card["divide"]
    origin = "" if divide["own"] else " (from the mode)"
    message = "" if divide["effect"] == "live" else f"; {one_line(divide['message'])}"
    return f"{called(card)}: divide policy {one_line(divide['policy'])}{origin}{message}"


def show_own(cards: Sequence[Plain], now_s: float) -> None:
    """Print the cards that have their own divide policy, if there are any."""
    own = [card for card in cards if card["divide"]["own"]]
    if not own:
        return
    out = console()
    columns = (
        TableColumn("CARD"),
        TableColumn("DIVIDE POLICY", wraps=True),
        TableColumn("SINCE", from_width=60),
        TableColumn("BY", max_width=14),
        TableColumn("NOTE", wraps=True, from_width=80),
        TableColumn("", wraps=True, style="dim", from_width=100),
    )
    rows = [
        (called(card), card["divide"]["policy"], relative(card["divide"]["since_s"], now_s), card["divide"]["by"],
         card["divide"]["note"], "" if card["divide"]["effect"] == "live" else card["divide"]["message"])
        for card in own
    ]  # fmt: skip
    out.print("\nCards with their own divide policy:")
    out.print(table(columns, rows, out.width))


def show_card(card: Plain, now_s: float) -> None:
    out = console()
    divide, now = card["divide"], card.get("now")
    out.print(
        Text.assemble((called(card), "bold"), f", {model(card)}: divide policy ", (one_line(divide["policy"]), "bold"))
    )
    out.print(facts([*_setting(divide, now_s), *(_now(now) if now else ())]))
    if now and now["tenants"]:
        out.print()
        out.print(table(CLIENTS, [_client_row(one, now) for one in now["tenants"]], out.width))


def show_divides(revisions: Sequence[Plain], now_s: float, of_several: bool = False) -> None:
    out = console()
    columns = (
        TableColumn("REVISION", right=True), *([TableColumn("CARD")] if of_several else ()), TableColumn("WHEN"),
        TableColumn("AGO", from_width=90), TableColumn("BY", max_width=14), TableColumn("DIVIDE POLICY", wraps=True),
        TableColumn("NOTE", wraps=True, from_width=80),
    )  # fmt: skip
    rows = [
        (str(one["revision"]), *([one["card"]] if of_several else ()), stamp(one["at_s"]),
         relative(one["at_s"], now_s), one["by"], one["policy"] or "from the mode", one["note"])
        for one in revisions
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no changes so far; the divide policy is the mode's")


def _setting(divide: Plain, now_s: float) -> list[tuple[str, Cell]]:
    since = ""
    if divide["since_s"] is not None:
        since = f"{relative(divide['since_s'], now_s)} by {one_line(divide['by'])}, revision {divide['revision']}"
    return [
        ("set", f"for this card, instead of the mode's {one_line(divide['of_mode'])}" if divide["own"]
         else "by the mode"),
        ("changed", since),
        ("note", divide["note"]),
        ("effect", Text(one_line(divide["message"]), style=EFFECTS.get(divide["effect"], ""))),
    ]  # fmt: skip


def _now(now: Plain) -> list[tuple[str, Cell]]:
    squads = f"{one_line(now['configuration'])}, squads of {now['length_us'] / 1000:g} ms" if now["squads"] else ""
    return [
        ("now", squads),
        ("why", now["why"]),
        ("failure", Text(one_line(now["failure"]), style="red") if now["failure"] else ""),
        ("MPS pool", now["pool"]),
        ("contexts", _contexts(now.get("context_bytes", 0))),
        ("notes", "; ".join(dict.fromkeys(one_line(client["note"]) for client in now["tenants"] if client["note"]))),
        ("unmanaged", Text(_unmanaged(now), style="magenta") if now["unmanaged_count"] else ""),
    ]


def _contexts(each_bytes: int) -> str:
    return f"{size(each_bytes)} of the memory quota per process" if each_bytes else ""


def _unmanaged(now: Plain) -> str:
    """Processes on the card outside gpusquad's control."""
    processes = [f"{one['pid']} {one_line(one['name'])}".strip() for one in now["unmanaged"][:MAX_UNMANAGED]]
    names = f": {', '.join(processes)}" if processes else ""
    return f"{_processes(now['unmanaged_count'])} outside gpusquad's control{names}; rule: {one_line(now['rule'])}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _client_row(one: Plain, now: Plain) -> tuple[Cell, ...]:
    return (
        one["name"] or one["id"] or "job of another tenant",
        one["user"] or "",
        _sms(one),
        "" if one["waiting"] is None else "free" if one["credit_us"] is None else f"{one['credit_us'] / 1000:.1f} ms",
        _memory(one),
        "" if one["peak_bytes"] is None else size(one["peak_bytes"]),
        _goal(one),
        _pace(one.get("iterations_per_s")),
        "" if one["waited_s"] is None else span(one["waited_s"]),
        _state(one),
    )


def _sms(one: Plain) -> str:
    if not one["groups"]:
        return "all"
    return counted(one["groups"], "group") if one["sm_ratio"] is None else f"{100 * one['sm_ratio']:.0f} %"


def _memory(one: Plain) -> str:
    """``1.5/8.0 GiB``, in the unit of the quota."""
    quota = one["quota_bytes"]
    if not quota:
        return size(one["used_bytes"])
    used = f"{one['used_bytes'] / GIB:.1f}" if quota >= GIB else f"{one['used_bytes'] / MIB:.0f}"
    return f"{used}/{size(quota)}"


def _goal(one: Plain) -> Text:
    """Attainment; ``unknown`` if nobody reports it. A deadline alone has none."""
    ratio = one["attainment_ratio"]
    if not one["slo"] or set(one["slo"]) <= {"deadline_us"}:
        return Text("")
    if ratio is None:
        return Text("unknown", style="dim")
    style = "green" if ratio >= 0.99 else "yellow" if ratio >= 0.9 else "red"
    return Text(f"{100 * ratio:.1f} %", style=style)


def _pace(per_s: float | None) -> str:
    """Iterations per second with three significant digits."""
    return "" if per_s is None else f"{per_s:.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _state(one: Plain) -> str:
    """Activity, isolation, weight, priority and SLO."""
    parts = []
    if one["waiting"]:
        parts.append(f"{_processes(one['waiting'])} waiting")
    elif one["is_idle"] is not None:
        parts.append("idle" if one["is_idle"] else "running")
    if one["isolation"] == "isolated":
        parts.append("isolated")
    if one["weight"] not in (None, 1.0):
        parts.append(f"weight {one['weight']:g}")
    if one["priority"]:
        parts.append(f"priority {one['priority']}")
    return ", ".join([*parts, *(_slo_text(name, value) for name, value in (one["slo"] or {}).items())])


def _slo_text(name: str, value: Any) -> str:
    """``latency 20 ms``, as in a job file."""
    if name == "latency_us":
        return f"latency {value / 1000:g} ms"
    if name == "throughput_per_s":
        return f"throughput {value:g}/s"
    if name == "availability_ratio":
        return f"availability {100 * value:g} %"
    return f"{one_line(name)} {value_text(value)}"
