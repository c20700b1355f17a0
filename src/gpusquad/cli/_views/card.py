"""Cards: how they are divided, among whom, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from gpusquad.cli._sanitize import one_line, value_text
from gpusquad.cli._sizes import GIB, MIB, size
from gpusquad.cli._tables import Cell, TableColumn, console, facts, table
from gpusquad.cli._times import relative, span, stamp
from gpusquad.cli._views.node import model

Plain = Mapping[str, Any]
MOST_STRANGERS = 5
TENANTS = (
    TableColumn("JOB", most=30, least=8),
    TableColumn("USER", most=14, from_width=100),
    TableColumn("SMS", right=True),
    TableColumn("CREDIT", right=True, from_width=70),
    TableColumn("MEMORY", right=True),
    TableColumn("PEAK", right=True, from_width=80),
    TableColumn("GOAL MET", right=True),
    TableColumn("ITER/S", right=True, from_width=90),
    TableColumn("WAITED", right=True, from_width=110),
    TableColumn("STATE", wraps=True),
)
EFFECTS = {"live": "green", "told": "yellow", "unused": "dim", "kept": "yellow"}


def place(card: Plain) -> str:
    """``n0/3``, which is also the id of cards that have no UUID."""
    return f"{one_line(card['node'])}/{card['index']}"


def called(card: Plain) -> str:
    return place(card) if card["id"] == place(card) else f"{place(card)} ({one_line(card['id'])})"


def set_line(card: Plain) -> str:
    """What became of a change."""
    divide = card["divide"]
    whose = "" if divide["own"] else " as the mode says"
    told = "" if divide["effect"] == "live" else f"; {one_line(divide['message'])}"
    return f"{called(card)}: divided by {one_line(divide['policy'])}{whose}{told}"


def show_own(cards: Sequence[Plain], now_s: float) -> None:
    """Cards that are divided otherwise than the mode says; nothing where there are none."""
    own = [card for card in cards if card["divide"]["own"]]
    if not own:
        return
    out = console()
    columns = (
        TableColumn("CARD"),
        TableColumn("DIVIDED BY", wraps=True),
        TableColumn("SINCE", from_width=60),
        TableColumn("BY", most=14),
        TableColumn("NOTE", wraps=True, from_width=80),
        TableColumn("", wraps=True, style="dim", from_width=100),
    )
    rows = [
        (called(card), card["divide"]["policy"], relative(card["divide"]["since_s"], now_s), card["divide"]["by"],
         card["divide"]["note"], "" if card["divide"]["effect"] == "live" else card["divide"]["message"])
        for card in own
    ]  # fmt: skip
    out.print("\nDivided otherwise:")
    out.print(table(columns, rows, out.width))


def show_card(card: Plain, now_s: float) -> None:
    out = console()
    divide, now = card["divide"], card.get("now")
    out.print(
        Text.assemble((called(card), "bold"), f", {model(card)}: divided by ", (one_line(divide["policy"]), "bold"))
    )
    out.print(facts([*_setting(divide, now_s), *(_now(now) if now else ())]))
    if now and now["tenants"]:
        out.print()
        out.print(table(TENANTS, [_tenant(one, now) for one in now["tenants"]], out.width))


def show_divides(revisions: Sequence[Plain], now_s: float, of_several: bool = False) -> None:
    out = console()
    columns = (
        TableColumn("REVISION", right=True), *([TableColumn("CARD")] if of_several else ()), TableColumn("WHEN"),
        TableColumn("AGO", from_width=90), TableColumn("BY", most=14), TableColumn("DIVIDED BY", wraps=True),
        TableColumn("NOTE", wraps=True, from_width=80),
    )  # fmt: skip
    rows = [
        (str(one["revision"]), *([one["card"]] if of_several else ()), stamp(one["at_s"]),
         relative(one["at_s"], now_s), one["by"], one["policy"] or "as the mode says", one["note"])
        for one in revisions
    ]  # fmt: skip
    out.print(table(columns, rows, out.width) if rows else "no changes so far: divided as the mode says")


def _setting(divide: Plain, now_s: float) -> list[tuple[str, Cell]]:
    since = ""
    if divide["since_s"] is not None:
        since = f"{relative(divide['since_s'], now_s)} by {one_line(divide['by'])}, revision {divide['revision']}"
    return [
        ("set", f"for this card, in place of the mode's {one_line(divide['of_mode'])}" if divide["own"]
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
        ("pool", now["pool"]),
        ("contexts", _contexts(now.get("context_bytes", 0))),
        ("notes", "; ".join(dict.fromkeys(one_line(tenant["note"]) for tenant in now["tenants"] if tenant["note"]))),
        ("strangers", Text(_strangers(now), style="magenta") if now["stranger_count"] else ""),
    ]


def _contexts(each_bytes: int) -> str:
    return f"{size(each_bytes)} of its part for each process" if each_bytes else ""


def _strangers(now: Plain) -> str:
    """Processes on the card that nobody holds back."""
    told = [f"{one['pid']} {one_line(one['name'])}".strip() for one in now["strangers"][:MOST_STRANGERS]]
    named = f": {', '.join(told)}" if told else ""
    return f"{_processes(now['stranger_count'])} that nothing holds{named}; rule: {one_line(now['rule'])}"


def _processes(count: int) -> str:
    return "1 process" if count == 1 else f"{count} processes"


def _tenant(one: Plain, now: Plain) -> tuple[Cell, ...]:
    return (
        one["name"] or one["id"] or "another tenant",
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
    return f"{one['groups']} groups" if one["sm_ratio"] is None else f"{100 * one['sm_ratio']:.0f} %"


def _memory(one: Plain) -> str:
    """``1.5/8.0 GiB``: in the unit of the quota."""
    quota = one["quota_bytes"]
    if not quota:
        return size(one["used_bytes"])
    used = f"{one['used_bytes'] / GIB:.1f}" if quota >= GIB else f"{one['used_bytes'] / MIB:.0f}"
    return f"{used}/{size(quota)}"


def _goal(one: Plain) -> Text:
    ratio = one["attainment_ratio"]
    if ratio is None or not one["slo"]:
        return Text("")
    style = "green" if ratio >= 0.99 else "yellow" if ratio >= 0.9 else "red"
    return Text(f"{100 * ratio:.1f} %", style=style)


def _pace(per_s: float | None) -> str:
    """Three digits tell a slower job from a faster one, whether it does thousands a second or one a minute."""
    return "" if per_s is None else f"{per_s:.0f}" if per_s >= 100 else f"{per_s:.3g}"


def _state(one: Plain) -> str:
    """What it does, how it is kept apart, what it wants."""
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
    return ", ".join([*parts, *(_wish(name, value) for name, value in (one["slo"] or {}).items())])


def _wish(name: str, value: Any) -> str:
    """``latency 20 ms``, as a job file says it."""
    if name == "latency_us":
        return f"latency {value / 1000:g} ms"
    if name == "throughput_per_s":
        return f"throughput {value:g}/s"
    if name == "availability_ratio":
        return f"availability {100 * value:g} %"
    return f"{one_line(name)} {value_text(value)}"
