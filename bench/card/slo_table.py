"""SLO attainment of four clients, by condition and over time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median

from bench.card.marks import markdown
from bench.card.options import REPEATS
from bench.card.rows import Row, chosen
from bench.card.slos import BENCH, IMAGE, ISOLATED, NAMES, OURS, SPARE, STEADY, SWITCHED, TEXT

BAR = 0.99
WINDOW_S, STEP_S = 1.0, 0.25
_STEADY_WINDOW_S = 5.0
"""A throughput is a mean over time: the same window that the card's daemon looks at."""
_US = 1e6


@dataclass(frozen=True)
class Met:
    """One condition. Medians over its runs; of the spare tenant it is its speed over that alone."""

    condition: str
    runs: int
    failed: int
    met: dict[str, float]
    thirds: dict[str, list[float | None]]
    """Of the requests of all runs, how many were in time while the load, or the policy, was the same."""

    @property
    def meets_all(self) -> bool:
        return self.runs > 0 and all(self.met[name] >= BAR for name in (IMAGE, TEXT, STEADY))


def in_time(late: Sequence[Sequence[int]], target_us: float, from_s: float, to_s: float) -> float | None:
    """The part of the requests of a window that were answered in time. None: there were none."""
    seen = [us <= target_us for at_ms, us in late if from_s <= at_ms / 1000 < to_s]
    return sum(seen) / len(seen) if seen else None


def per_s(done_us: Sequence[int], from_s: float, to_s: float) -> float:
    return (bisect_left(done_us, to_s * _US) - bisect_left(done_us, from_s * _US)) / (to_s - from_s)


def steady_met(done_us: Sequence[int], target_per_s: float, length_s: float) -> float:
    """Mean attainment of the target over all complete windows, one per step."""
    window_s = min(_STEADY_WINDOW_S, length_s)
    count = int((length_s - window_s) / STEP_S) + 1
    starts = [index * STEP_S for index in range(count)]
    return mean(min(1.0, per_s(done_us, at_s, at_s + window_s) / target_per_s) for at_s in starts)


def met_of(row: Row, tenants: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    length_s = row["length_s"]
    found = {}
    for name in (IMAGE, TEXT):
        found[name] = in_time(row["late"][name], tenants[name]["target_us"], 0.0, length_s) or 0.0
    found[STEADY] = steady_met(row["done_us"][STEADY], tenants[STEADY]["target_per_s"], length_s)
    found[SPARE] = per_s(row["done_us"][SPARE], 0.0, length_s) / tenants[SPARE]["alone_per_s"]
    return found


def by_thirds(rows: Sequence[Row], tenants: Mapping[str, Mapping[str, float]]) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for name in (IMAGE, TEXT):
        late = [(at_ms / 1000 / row["length_s"], us) for row in rows for at_ms, us in row["late"][name]]
        seen = [[us <= tenants[name]["target_us"] for part, us in late if int(3 * part) == third] for third in range(3)]
        found[name] = [mean(one) if one else None for one in seen]
    return found


def curve(row: Row, tenants: Mapping[str, Mapping[str, float]], name: str) -> list[tuple[float, float]]:
    """Attainment in each window, at the window's middle. Throughput is shown relative to its target and may exceed
    it."""
    found = []
    at_s = 0.0
    while at_s + WINDOW_S <= row["length_s"] + 1e-9:
        to_s = at_s + WINDOW_S
        if name in row["late"]:
            value = in_time(row["late"][name], tenants[name]["target_us"], at_s, to_s)
        else:
            goal = tenants[name].get("target_per_s") or tenants[name]["alone_per_s"]
            value = per_s(row["done_us"][name], at_s, to_s) / goal
        if value is not None:
            found.append(((at_s + to_s) / 2, value))
        at_s += STEP_S
    return found


def slo_tables(rows: Sequence[Row]) -> dict[str, list[Met]]:
    """By setup."""
    known = {row["setup"]: row["tenants"] for row in chosen(rows, BENCH, "calibration")}
    found: dict[str, list[Met]] = {}
    for setup, tenants in known.items():
        runs = [row for row in chosen(rows, BENCH, "run") if row["setup"] == setup]
        for condition in dict.fromkeys(row["condition"] for row in runs):
            of_it = [row for row in runs if row["condition"] == condition]
            good = [row for row in of_it if not row.get("failed")]
            each = [met_of(row, tenants) for row in good]
            met = {name: median(one[name] for one in each) for name in NAMES} if good else {}
            one = Met(condition, len(good), len(of_it) - len(good), met, by_thirds(good, tenants))
            found.setdefault(setup, []).append(one)
    return found


def verdict(told: Sequence[Met]) -> str:
    """Verdict on each gpusquad condition, and whether a static condition is as good."""
    ours = [one for one in told if one.condition in (OURS, ISOLATED) and one.runs]
    static = [one for one in told if one.condition not in (OURS, ISOLATED, SWITCHED) and one.runs]
    if not ours or not static:
        return "no verdict: gpusquad or all of the others were not measured"
    fewest = min(one.runs for one in (*ours, *static))
    few = f" (fewer than three runs each: {fewest} at least)" if fewest < REPEATS else ""
    heads = [f"{one.condition} {'meets all three goals' if one.meets_all else 'misses a goal'}" for one in ours]
    meeting = [one.condition for one in static if one.meets_all]
    rest = (
        f"all are met by {', '.join(meeting)}"
        if meeting
        else f"each of the {len(static)} static ones misses at least one"
    )
    return "; ".join([*heads, rest]) + few


def shown(tables: Mapping[str, Sequence[Met]]) -> str:
    parts = []
    for setup, told in tables.items():
        lines = [
            (one.condition, f"{one.runs}" + (f" ({one.failed} failed)" if one.failed else ""),
             *(_percent(one.met.get(name)) for name in NAMES), "yes" if one.meets_all else "no")
            for one in told
        ]  # fmt: skip
        headings = ("condition", "runs", f"{IMAGE} in time", f"{TEXT} in time", f"{STEADY} of its target",
                    f"{SPARE} of alone", f"all ≥ {100 * BAR:.0f} %")  # fmt: skip
        parts.append(f"### {setup}\n\n{markdown(headings, lines)}\n\n**{verdict(told)}**\n\n{_shown_thirds(told)}\n")
    return "\n".join(parts)


def _shown_thirds(told: Sequence[Met]) -> str:
    """The first service has twice its load in the second third, the second service in the last."""
    headings = ("in time, by thirds", *(f"{name} {place}" for name in (IMAGE, TEXT) for place in ("1", "2", "3")))
    lines = [
        (one.condition, *(_percent(part) for name in (IMAGE, TEXT) for part in one.thirds[name]))
        for one in told
        if one.runs
    ]
    return markdown(headings, lines)


def _percent(part: float | None) -> str:
    return "–" if part is None else f"{100 * part:.2f} %"


def plain(tables: Mapping[str, Sequence[Met]]) -> dict[str, list[dict]]:
    return {setup: [{**asdict(one), "meets_all": one.meets_all} for one in told] for setup, told in tables.items()}
