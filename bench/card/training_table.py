"""Table of training couples: ends, speeds, bubbles, and what the second job gained from the end of the first.

There is no bar. For the gpusquad conditions the table states where they are better or worse than time slicing and MPS
by more than noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from statistics import mean

from bench.card import stats
from bench.card.marks import markdown, number
from bench.card.options import REPEATS
from bench.card.origins import in_turns, sittings
from bench.card.rows import Row, chosen
from bench.card.stats import Ratio, ratio
from bench.card.training import BENCH, CONDITIONS, FIRST, POLICIES, SECOND
from bench.card.training_ends import after_ratio, lost_ms, settled_ms, stays, stp

SLICED, UNDER_MPS = "time slicing", "MPS"
BASES = (SLICED, UNDER_MPS)
ENOUGH_RUNS = 2
"""Of each that is compared. How much runs differ is found from all conditions together."""
Round = tuple[int, int]
"""Its number, and which of several with that number."""
_US = 1e6
_HEADINGS = (
    "condition", "runs", "mean JCT s", *(f"JCT / {base}" for base in BASES), "last end s", "STP",
    *(f"STP / {base}" for base in BASES), "idle SMs", "speed after an end / alone",
    "ms until it has that", "ms lost after an end", "both known to ±",
)  # fmt: skip


@dataclass(frozen=True)
class ConditionResult:
    """Result of one condition of one couple: means over its runs, and the values of each run."""

    condition: str
    failed: int
    jcts_s: tuple[float, ...]
    """Of each run the mean of both ends."""
    last_ends_s: tuple[float, ...]
    stps: tuple[float, ...]
    """Both speeds over those alone, added, while both ran."""
    bubble_ratios: tuple[float, ...]
    """SM time in which no warp was there, while both had work queued; empty: the card does not count it."""
    losts_ms: tuple[float, ...]
    """Lost time in the half second after one job ended: the time that the other would have saved at its later speed.
    Empty if it did not continue for long enough. A clock that changes by 1 % meanwhile accounts for 5 ms."""
    settled_ms: tuple[float, ...]
    """Time from the end of one job until the other had its later speed."""
    after_ratios: tuple[float, ...]
    """That speed relative to solo: with fixed partitions the job never uses what the other released."""
    known_to_ms: float
    """Resolution of the lost time: half of a recorded interval, which is one step or several."""
    jct_to: dict[str, Ratio]
    """Over that of time slicing and of MPS; runs of the same round are compared."""
    stp_to: dict[str, Ratio]

    @property
    def runs(self) -> int:
        return len(self.jcts_s)


@dataclass(frozen=True)
class CoupleTable:
    setup: str
    origin: str
    apart: str
    """Which conditions took turns with each other, where not all of them did."""
    alone_per_s: dict[str, float]
    readings: int
    """Solo speeds of both jobs, the reference of STP."""
    told: tuple[ConditionResult, ...]
    jct_noise: float
    """By how much two conditions may differ by chance, in parts."""
    stp_noise: float

    @property
    def words(self) -> dict[str, str]:
        """Verdict on each gpusquad condition."""
        by_name = {one.condition: one for one in self.told}
        return {name: self._judged(by_name.get(name), by_name) for name in POLICIES}

    def _judged(self, ours: ConditionResult | None, by_name: Mapping[str, ConditionResult]) -> str:
        if ours is None or not ours.runs:
            return "no verdict: it was not measured"
        found = [self._against(ours, base, by_name[base].runs if base in by_name else 0) for base in BASES]
        return "; ".join(found)

    def _against(self, ours: ConditionResult, base: str, runs: int) -> str:
        fewest = min(ours.runs, runs)
        if fewest < ENOUGH_RUNS or isnan(self.jct_noise) or isnan(self.stp_noise):
            few = f"{fewest} of {ENOUGH_RUNS} runs that say how much runs differ ({REPEATS} are planned)"
            return f"against {base} no verdict: {few}"
        jct = _compared(ours.jct_to[base], self.jct_noise, "sooner", "later")
        stp = _compared(ours.stp_to[base], self.stp_noise, "less", "more")
        return f"against {base} mean JCT {jct}, STP {stp}"


def _compared(found: Ratio, noise: float, less: str, more: str) -> str:
    if abs(found.value - 1) <= noise:
        return f"{found.value:.3f} (no difference beyond noise)"
    return f"{found.value:.3f} ({less if found.value < 1 else more}, beyond noise)"


def training_tables(rows: Sequence[Row]) -> dict[str, CoupleTable]:
    runs = chosen(rows, BENCH, "run")
    alone: dict[str, list[Row]] = {}
    for row in chosen(rows, BENCH, "alone"):
        alone.setdefault(row["setup"], []).append(row)
    setups = dict.fromkeys(row["setup"] for row in runs if row["setup"] in alone)
    return {setup: _couple(rows, [row for row in runs if row["setup"] == setup], alone[setup]) for setup in setups}


def _couple(rows: Sequence[Row], runs: Sequence[Row], alone: Sequence[Row]) -> CoupleTable:
    names = sorted(dict.fromkeys(row["condition"] for row in runs), key=_place)
    good = {name: [row for row in runs if row["condition"] == name and not row.get("failed")] for name in names}
    jcts = {name: _by_round(of_it, _jct_s) for name, of_it in good.items()}
    stps = {
        name: _by_round(of_it, lambda row: stp(_done_s(row), _kept_per_s(row, alone))) for name, of_it in good.items()
    }
    told = tuple(
        ConditionResult(
            name, sum(row["condition"] == name for row in runs) - len(good[name]), tuple(jcts[name].values()),
            tuple(_last_end_s(row) for row in good[name]), tuple(stps[name].values()), tuple(_bubbles(good[name])),
            _known(lost_ms(_done_s(row)) for row in good[name]), _known(settled_ms(_done_s(row)) for row in good[name]),
            _known(after_ratio(_done_s(row), _kept_per_s(row, alone)) for row in good[name]),
            _known_to_ms(good[name], alone), _to_bases(jcts, name), _to_bases(stps, name),
        )
        for name in names
    )  # fmt: skip
    return CoupleTable(
        runs[0]["setup"], sittings(rows, [*alone, *runs]), in_turns(runs, names), alone[-1]["per_s"], len(alone), told,
        _noise(jcts), _noise(stps),
    )  # fmt: skip


def _by_round(rows: Sequence[Row], value: Callable[[Row], float]) -> dict[Round, float]:
    """A run that failed must not move those after it to rounds of others. Calls that know nothing of each other have
    rounds of the same number."""
    found: dict[Round, float] = {}
    for row in rows:
        same = sum(number == row["repeat"] for number, _ in found)
        found[row["repeat"], same] = value(row)
    return found


def _known(found: Iterable[float | None]) -> tuple[float, ...]:
    return tuple(one for one in found if one is not None)


def _place(condition: str) -> int:
    """As the bench has them; runs of a later call may be of conditions that come first."""
    return list(CONDITIONS).index(condition) if condition in CONDITIONS else len(CONDITIONS)


def _done_s(row: Row) -> dict[str, list[float]]:
    return {name: [us / _US for us in done] for name, done in row["done_us"].items()}


def _jct_s(row: Row) -> float:
    return mean(row["done_us"][name][-1] / _US for name in (FIRST, SECOND))


def _last_end_s(row: Row) -> float:
    return max(row["done_us"][name][-1] / _US for name in (FIRST, SECOND))


def _bubbles(rows: Sequence[Row]) -> list[float]:
    return [1 - row["counters"]["counters"]["sm"] for row in rows if row["counters"].get("counters", {}).get("sm")]


def _known_to_ms(rows: Sequence[Row], alone: Sequence[Row]) -> float:
    """Half of a step, or of a recorded interval of several steps, at the later speed. Of several runs, the coarsest."""
    found = []
    for row in rows:
        done_s, per_s = _done_s(row), _kept_per_s(row, alone)
        found.append(500 / per_s[stays(done_s)] / (after_ratio(done_s, per_s) or 1.0))
    return max(found, default=float("nan"))


def _kept_per_s(row: Row, alone: Sequence[Row]) -> dict[str, float]:
    """Solo speeds from the row's own call if measured there, in the units of the row, which can have one of several
    steps."""
    of_call = [one for one in alone if one.get("sitting") == row.get("sitting")]
    per_s = (of_call or alone)[-1]["per_s"]
    return {name: speed / row.get("every", {}).get(name, 1) for name, speed in per_s.items()}


def _to_bases(values: Mapping[str, Mapping[Round, float]], condition: str) -> dict[str, Ratio]:
    found = {}
    for base in BASES:
        others = values.get(base, {})
        both = [(ours, others[at]) for at, ours in values[condition].items() if at in others]
        found[base] = ratio([[ours] for ours, _ in both], [[other] for _, other in both], stats.mean)
    return found


def _noise(values: Mapping[str, Mapping[Round, float]]) -> float:
    """Of the conditions with several runs, by the rounds that all of them were in."""
    several = [found for found in values.values() if len(found) >= ENOUGH_RUNS and not any(map(isnan, found.values()))]
    rounds = [at for at in (several[0] if several else ()) if all(at in found for found in several)]
    return stats.noise([[found[at] for at in rounds] for found in several])


def shown(tables: Mapping[str, CoupleTable]) -> str:
    parts = []
    for setup, table in tables.items():
        judged = "\n".join(f"- {name}: {words}" for name, words in table.words.items())
        parts.append(f"### {setup}\n\n{_facts(table)}\n\n{markdown(_HEADINGS, _lines(table))}\n\n{judged}\n")
    return "\n".join(parts)


def _facts(table: CoupleTable) -> str:
    alone = " and ".join(f"{number(per_s)}" for per_s in table.alone_per_s.values())
    noise = [f"{what} {_part(found)}" for what, found in (("JCT", table.jct_noise), ("STP", table.stp_noise))]
    text = f"{table.origin}. Alone {alone} steps a second, read {_times(table.readings)}. "
    text += f"Two conditions differ by chance by up to (95 %): {', '.join(noise)}"
    return text + (f"\n\nNot all in the same rounds: {table.apart}" if table.apart else "")


def _lines(table: CoupleTable) -> list[tuple[object, ...]]:
    return [
        (one.condition, f"{one.runs}" + (f" ({one.failed} failed)" if one.failed else ""),
         _spread(one.jcts_s), *(_over(one.jct_to[base], one.condition == base) for base in BASES),
         number(_mean(one.last_ends_s)),
         _spread(one.stps), *(_over(one.stp_to[base], one.condition == base) for base in BASES),
         _spread(one.bubble_ratios), number(_mean(one.after_ratios)), _spread(one.settled_ms), _spread(one.losts_ms),
         number(one.known_to_ms))
        for one in table.told
    ]  # fmt: skip


def _mean(values: Sequence[float]) -> float:
    return mean(values) if values else float("nan")


def _spread(values: Sequence[float]) -> str:
    """With the least and the most of several runs."""
    more = f" ({number(min(values))} to {number(max(values))})" if len(values) > 1 else ""
    return number(_mean(values)) + more


def _over(found: Ratio, is_itself: bool) -> str:
    if is_itself or found.blocks == 0:
        return "–"
    return f"{found.value:.3f}" + ("" if isnan(found.low) else f" ({found.low:.3f} to {found.high:.3f})")


def _part(found: float) -> str:
    return "not known" if isnan(found) else f"{100 * found:.1f} %"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def plain(tables: Mapping[str, CoupleTable]) -> dict[str, dict]:
    return {setup: {**asdict(table), "words": table.words} for setup, table in tables.items()}
