"""Tables of nodes and cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from gpusquad.cli._jobs import words
from gpusquad.cli._sanitize import one_line
from gpusquad.cli._sizes import GIB
from gpusquad.cli._tables import Cell, TableColumn, bar, table
from gpusquad.cli._times import relative, stamp

Plain = Mapping[str, Any]
STYLES = {
    "free": "green", "busy": "yellow", "shared": "cyan", "taken_outside": "magenta", "cordoned": "red",
    "drained": "red",
}  # fmt: skip
ROOMY = 110
"""Terminal width from which load is also shown as a bar."""
BRANDS = ("NVIDIA ", "Tesla ", "GeForce ")

NODES = (
    TableColumn("NODE"),
    TableColumn("STATE"),
    TableColumn("GPUS", right=True),
    TableColumn("FREE", right=True),
    TableColumn("MODEL", max_width=28, min_width=8),
    TableColumn("CPU FREE", right=True, from_width=70),
    TableColumn("MEMORY FREE", right=True, from_width=90),
    TableColumn("NOTES", wraps=True, style="dim"),
)
CARDS = (
    TableColumn("CARD"),
    TableColumn("MODEL", max_width=22, from_width=130),
    TableColumn("STATE"),
    TableColumn("LOAD"),
    TableColumn("MEMORY"),
    TableColumn("POWER", right=True, from_width=90),
    TableColumn("TEMP", right=True, from_width=100),
    TableColumn("JOBS", wraps=True),
)


def nodes_table(nodes: Sequence[Plain], now_s: float, width: int) -> RenderableType:
    return table(NODES, (_node_row(node, now_s) for node in nodes), width)


def cards_table(nodes: Sequence[Plain], width: int) -> RenderableType:
    return table(CARDS, (card_row(card, width >= ROOMY) for node in nodes for card in node["cards"]), width)


def card_row(card: Plain, with_bars: bool) -> tuple[Cell, ...]:
    """State, load, memory and jobs of a card."""
    sample = card.get("sample") or {}
    return (
        card["id"],
        model(card),
        Text(words(card["state"]), style=STYLES.get(card["state"], "")),
        load(sample, with_bars),
        memory(card, sample, with_bars),
        _number(sample.get("power_w"), "W"),
        _number(sample.get("temperature_c"), "°C"),
        users(card),
    )


def model(card: Plain) -> str:
    name = one_line(card["model"])
    for brand in BRANDS:
        name = name.removeprefix(brand)
    return f"{name} (simulated)" if card.get("simulated") and "simulated" not in name.lower() else name


def load(sample: Plain, with_bar: bool = True) -> Text:
    ratio = sample.get("utilisation_ratio")
    return Text("") if ratio is None else _metered(ratio, f"{100 * ratio:3.0f} %", with_bar)


def memory(card: Plain, sample: Plain, with_bar: bool = True) -> Text:
    used, total = sample.get("memory_used_bytes"), card["memory_bytes"]
    if used is None or not total:
        return Text(_gib(total))
    return _metered(used / total, f"{used / GIB:2.0f}/{_gib(total)}", with_bar)


def users(card: Plain) -> str:
    """Jobs on a card, the cause why it is out of use, or its last self-test."""
    return ", ".join(_user(job) for job in card["jobs"]) or one_line(card.get("cause") or "") or _self_test(card)


def _self_test(card: Plain) -> str:
    result = card.get("self_test")
    if result is None:
        return ""
    at = stamp(result["at_s"])
    if result["passed"] is None:
        return f"could not be tested at {at}: {one_line(result['detail'])}"
    return f"tested at {at}: {'passed, back in use' if result['passed'] else one_line(result['detail'])}"


def _node_row(node: Plain, now_s: float) -> tuple[Cell, ...]:
    free = sum(card["state"] == "free" for card in node["cards"])
    return (
        node["id"],
        _node_state(node),
        str(len(node["cards"])),
        str(free),
        _models(node["cards"]),
        f"{node['cpu_free_milli'] / 1000:g}/{node['cpu_milli'] / 1000:g}",
        f"{node['memory_free_bytes'] / GIB:.0f}/{_gib(node['memory_bytes'])}",
        "; ".join(_notes(node, now_s)),
    )


def _node_state(node: Plain) -> Text:
    if node["drained"]:
        return Text("drained", style="red")
    return Text("up", style="green") if node["up"] else Text("down", style="bold red")


def _models(cards: Sequence[Plain]) -> str:
    kinds = Counter(model(card) for card in cards)
    return ", ".join(name if len(kinds) == 1 else f"{count}× {name}" for name, count in kinds.items())


def _notes(node: Plain, now_s: float) -> Iterator[str]:
    for state in ("taken_outside", "cordoned"):
        count = sum(card["state"] == state for card in node["cards"])
        if count:
            yield f"{count} {words(state)}"
    for window in node.get("windows") or ():
        why = f": {one_line(window['cause'])}" if window.get("cause") else ""
        yield f"maintenance {relative(window['start_s'], now_s)}{why}"


def _user(job: Plain) -> str:
    """Name and user of a job; jobs of other tenants stay anonymous."""
    sm = (job.get("share") or {}).get("sm")
    share = f" {100 * sm:.0f} %" if sm else ""
    return (
        f"{one_line(job['name'])}{share} ({one_line(job['user'])})"
        if job.get("name")
        else f"job of another tenant{share}"
    )


def _metered(ratio: float, text: str, with_bar: bool) -> Text:
    style = "green" if ratio < 0.7 else "yellow" if ratio < 0.95 else "red"
    return Text.assemble((bar(ratio, 8), style), " ", text) if with_bar else Text(text)


def _gib(value: int) -> str:
    return f"{value / GIB:.0f} GiB"


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.0f} {unit}"
