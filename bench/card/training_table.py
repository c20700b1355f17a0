"""Of training couples: ends, speeds, bubbles, and what the first one's end left to the second."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import mean, median

from bench.card.marks import markdown, number
from bench.card.rows import Row, chosen
from bench.card.training import BENCH, FIRST, LEAD_IN_S, SECOND

_US = 1e6
_AFTER_S = 0.5
_HEADINGS = ("condition", "runs", "mean JCT s", "last end s", "STP", "idle SMs", "ms lost after an end (a step takes)")


@dataclass(frozen=True)
class Told:
    """One condition of one couple: medians over its runs."""

    condition: str
    runs: int
    failed: int
    mean_jct_s: float
    last_end_s: float
    stp: float
    """Both speeds over those alone, added, while both ran."""
    bubble_ratio: float | None
    """SM time in which no warp was there, while both had work queued; None: the card does not count it."""
    lost_ms: float | None
    """Of the second one's time in the half second after the first had ended: what it would have needed less for what
    it did then, at its speed later on."""
    step_ms: float


def progress(done_s: Sequence[float], at_s: float) -> float:
    """Steps done by an instant, those under way by their part."""
    whole = bisect_right(done_s, at_s)
    if whole == len(done_s):
        return float(whole)
    before = done_s[whole - 1] if whole else 0.0
    return whole + (at_s - before) / (done_s[whole] - before) if done_s[whole] > before else float(whole)


def stp(done_s: Mapping[str, Sequence[float]], alone_per_s: Mapping[str, float], from_s: float = LEAD_IN_S) -> float:
    """From the lead-in on until the first of both has ended."""
    to_s = min(times[-1] for times in done_s.values())
    if to_s <= from_s:
        return float("nan")
    return sum(
        (progress(times, to_s) - progress(times, from_s)) / (to_s - from_s) / alone_per_s[name]
        for name, times in done_s.items()
    )


def lost_ms(done_s: Mapping[str, Sequence[float]], after_s: float = _AFTER_S) -> float | None:
    """Against its own speed later in the same run: that of another minute differs by more than what is looked for.

    None: the second one did not run on for long enough. The step that was under way is shared out evenly, so the figure
    is known to half a step.
    """
    end_s, over_s = done_s[FIRST][-1], done_s[SECOND][-1]
    if over_s < end_s + 2 * after_s:
        return None
    soon, later, last = (progress(done_s[SECOND], at_s) for at_s in (end_s, end_s + after_s, over_s))
    if last <= later:
        return None
    return 1000 * (after_s - (later - soon) * (over_s - end_s - after_s) / (last - later))


def training_tables(rows: Sequence[Row]) -> dict[str, list[Told]]:
    runs = chosen(rows, BENCH, "run")
    alone = {row["setup"]: row for row in chosen(rows, BENCH, "alone")}
    found: dict[str, list[Told]] = {}
    for setup in dict.fromkeys(row["setup"] for row in runs if row["setup"] in alone):
        of_it = [row for row in runs if row["setup"] == setup]
        for condition in dict.fromkeys(row["condition"] for row in of_it):
            told = _told(condition, [row for row in of_it if row["condition"] == condition], alone[setup]["per_s"])
            found.setdefault(setup, []).append(told)
    return found


def _told(condition: str, rows: Sequence[Row], alone_per_s: Mapping[str, float]) -> Told:
    good = [row for row in rows if not row.get("failed")]
    times = [{name: [us / _US for us in done] for name, done in row["done_us"].items()} for row in good]
    if not times:
        nan = float("nan")
        return Told(condition, 0, len(rows), nan, nan, nan, None, None, nan)
    idle = [1 - row["counters"]["counters"]["sm"] for row in good if row["counters"].get("counters", {}).get("sm")]
    lost = [one for done in times if (one := lost_ms(done)) is not None]
    return Told(
        condition, len(good), len(rows) - len(good),
        median(mean(done[name][-1] for name in (FIRST, SECOND)) for done in times),
        median(max(done[name][-1] for name in (FIRST, SECOND)) for done in times),
        median(stp(done, _kept_per_s(row, alone_per_s)) for done, row in zip(times, good, strict=True)),
        median(idle) if idle else None, median(lost) if lost else None, 1000 / alone_per_s[SECOND],
    )  # fmt: skip


def _kept_per_s(row: Row, alone_per_s: Mapping[str, float]) -> dict[str, float]:
    """Alone, counted as the row counts: of many steps it has one of several."""
    return {name: per_s / row.get("every", {}).get(name, 1) for name, per_s in alone_per_s.items()}


def shown(tables: Mapping[str, Sequence[Told]]) -> str:
    parts = []
    for setup, told in tables.items():
        lines = [
            (one.condition, f"{one.runs}" + (f" ({one.failed} failed)" if one.failed else ""), number(one.mean_jct_s),
             number(one.last_end_s), number(one.stp), number(one.bubble_ratio),
             f"{number(one.lost_ms)} ({number(one.step_ms)})")
            for one in told
        ]  # fmt: skip
        parts.append(f"### {setup}\n\n{markdown(_HEADINGS, lines)}\n")
    return "\n".join(parts)


def plain(tables: Mapping[str, Sequence[Told]]) -> dict[str, list[dict]]:
    return {setup: [asdict(one) for one in told] for setup, told in tables.items()}
