"""Time of each place policy's pairing on four virtual cards, compared with the best of all measured pairings.

The verdict uses the sum of all jobs' times from the common start to their ends, which place policies minimise. The end
of the last job is shown as well.

The rates that ``interference`` uses are computed from the same runs, each from all pairings in which the two shared a
card. A policy that sees the runs it is judged by has a small advantage. Its choice is therefore repeated for each
repeat with the runs of the other repeats only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from statistics import mean
from typing import Any

from bench.card import stats
from bench.card.marks import markdown, number
from bench.card.options import REPEATS
from bench.card.origins import sittings
from bench.card.rows import Row, chosen
from bench.card.stats import Ratio, ratio
from bench.card.virtual import BENCH, Pairing, job_name, pairings

OURS = "interference"
CONTENDERS = {"binpack": "binpack", "balance": "balance", "standalone": "standalone",
              OURS: "interference:most_loss=inf"}  # fmt: skip
"""All eight jobs start at once here, as in the study: ``interference`` is asked for a pairing that lets none wait."""
ORACLE = "oracle"
ENOUGH_REPEATS = 2
"""For a verdict. How much runs differ is found from all pairings together, so two of each are enough to know it."""
_BAR = 0.05
_HEADINGS = ("place", "pairs", "all jobs s", "last end s", "all jobs over the best")
By = Mapping[Pairing, Sequence[Row]]


@dataclass(frozen=True)
class Placed:
    mix: str
    place: str
    pairing: Pairing
    repeats: int
    total_s: float
    last_s: float
    to_oracle: Ratio
    """Time of all jobs together over that under the best pairing; drawn again by repeats."""
    per_job_s: dict[str, float]

    @property
    def over_oracle(self) -> float:
        return self.to_oracle.value - 1


@dataclass(frozen=True)
class Verdict:
    """None: too little was measured."""

    within: bool | None
    """Within the bar of the best pairing."""
    behind: bool | None
    """Behind the best of the other three, by more than noise."""
    words: str

    @property
    def met(self) -> bool | None:
        if self.within is False or self.behind:
            return False
        return None if self.within is None or self.behind is None else True


@dataclass(frozen=True)
class MixTable:
    mix: str
    setup: str
    workloads: tuple[str, ...]
    measured: int
    pairings: int
    repeats: int
    """Whole ones: of all pairings."""
    left_out: int
    """Runs of a repeat that is not whole."""
    origin: str
    alone_s: dict[str, float]
    leakage: dict[str, float]
    """Relative loss of a job on its own virtual card while one job runs on each of the others."""
    readings: int
    """Of leakage, by workload."""
    noise: float
    """By how much two pairings' times may differ by chance, in parts."""
    placed: tuple[Placed, ...]
    least_last_s: float
    """Until the last job had ended, under the pairing with which that is soonest."""
    held_out: tuple[float, ...]
    """For each repeat: the choice from the other repeats' runs, relative to the best pairing."""
    verdict: Verdict

    @property
    def words(self) -> str:
        return self.verdict.words

    def plain(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.verdict.met}


def virtual_tables(rows: Sequence[Row]) -> list[MixTable]:
    alone: dict[str, list[Row]] = {}
    for row in chosen(rows, BENCH, "alone"):
        alone.setdefault(row["setup"], []).append(row)
    runs = [row for row in chosen(rows, BENCH, "run") if not row.get("failed")]
    found = []
    for setup, known in alone.items():
        of_it = [row for row in runs if row["setup"] == setup]
        if of_it:
            found.append(_mix(known, of_it, sittings(rows, [*known, *of_it])))
    return found


def _mix(alone: Sequence[Row], runs: Sequence[Row], origin: str) -> MixTable:
    known, by_pairing = alone[-1], _by_pairing(runs)
    ways = len(pairings(len(known["workloads"])))
    repeats = min(map(len, by_pairing.values())) if len(by_pairing) == ways else 0
    whole = {pairing: of_it[:repeats] for pairing, of_it in by_pairing.items()}
    placed: tuple[Placed, ...] = _all_placed(known, whole) if repeats else ()
    noise = stats.noise([_totals(of_it) for of_it in whole.values()]) if repeats else float("nan")
    if not repeats:
        verdict = Verdict(None, None, f"no verdict: {len(by_pairing)} of {ways} pairings were measured")
    else:
        verdict = _verdict({one.place: one for one in placed}, whole, repeats, noise)
    return MixTable(
        known["mix"], known["setup"], tuple(known["workloads"]), len(by_pairing), ways, repeats,
        sum(map(len, by_pairing.values())) - repeats * ways if repeats else 0, origin, _alone_s(known, runs),
        _leakage(alone), len(alone), noise, placed,
        min((mean(map(_last_s, of_it)) for of_it in whole.values() if of_it), default=float("nan")),
        _held_out(known, whole, placed[-1].pairing, repeats) if repeats >= ENOUGH_REPEATS else (), verdict,
    )  # fmt: skip


def _by_pairing(runs: Sequence[Row]) -> dict[Pairing, list[Row]]:
    """Rows in the order of measurement: the first of all belong together, and so on. Calls that do not know of each
    other use the same repeat numbers."""
    found: dict[Pairing, list[Row]] = {}
    for row in runs:
        found.setdefault(tuple((one, other) for one, other in row["pairing"]), []).append(row)
    return found


def _total_s(row: Row) -> float:
    return sum(row["ends_s"].values())


def _last_s(row: Row) -> float:
    return max(row["ends_s"].values())


def _totals(rows: Sequence[Row]) -> list[float]:
    return [_total_s(row) for row in rows]


def _over(rows: Sequence[Row], base: Sequence[Row]) -> Ratio:
    return ratio([[_total_s(row)] for row in rows], [[_total_s(row)] for row in base], stats.mean)


def _alone_s(known: Row, runs: Sequence[Row]) -> dict[str, float]:
    names = {workload: job_name(kind, 0) for kind, workload in enumerate(known["workloads"])}
    return {workload: mean(row["alone_s"][name] for row in runs) for workload, name in names.items()}


def _leakage(alone: Sequence[Row]) -> dict[str, float]:
    return {
        workload: mean(
            1 - row["beside_others_per_s"][job_name(kind, 0)] / row["per_s"][job_name(kind, 0)] for row in alone
        )
        for kind, workload in enumerate(alone[-1]["workloads"])
    }


def _all_placed(known: Row, by_pairing: By) -> tuple[Placed, ...]:
    """The oracle is the last entry."""
    best = min(by_pairing, key=lambda pairing: mean(_totals(by_pairing[pairing])))
    pairs = {place: _chosen(spec, known, by_pairing) for place, spec in CONTENDERS.items()} | {ORACLE: best}
    return tuple(
        _placed(known["mix"], place, one, by_pairing[one], by_pairing[best]) for place, one in pairs.items()
    )  # fmt: skip


def _placed(mix: str, place: str, pairing: Pairing, rows: Sequence[Row], best: Sequence[Row]) -> Placed:
    return Placed(
        mix, place, pairing, len(rows), mean(_totals(rows)), mean(map(_last_s, rows)), _over(rows, best),
        {name: mean(row["ends_s"][name] for row in rows) for name in rows[0]["ends_s"]},
    )  # fmt: skip


def _held_out(known: Row, by_pairing: By, best: Pairing, repeats: int) -> tuple[float, ...]:
    found = []
    for repeat in range(repeats):
        others = {one: [*rows[:repeat], *rows[repeat + 1 :]] for one, rows in by_pairing.items()}
        pairing = _chosen(CONTENDERS[OURS], known, others)
        found.append(_total_s(by_pairing[pairing][repeat]) / _total_s(by_pairing[best][repeat]) - 1)
    return tuple(found)


def _verdict(by_place: Mapping[str, Placed], by_pairing: By, repeats: int, noise: float) -> Verdict:
    ours = by_place[OURS]
    best = min((one for name, one in by_place.items() if name not in (OURS, ORACLE)), key=lambda one: one.total_s)
    if repeats < ENOUGH_REPEATS or isnan(noise):
        few = f"no verdict: {repeats} of {ENOUGH_REPEATS} repeats that say how much runs differ ({REPEATS} are planned)"
        seen = f"seen so far: {OURS} {_percent(ours.over_oracle)} over the best pairing, {best.place} "
        return Verdict(None, None, f"{few}; {seen}{_percent(best.over_oracle)}")
    within = _is_within(ours.to_oracle, noise)
    against = _over(by_pairing[ours.pairing], by_pairing[best.pairing]).value - 1
    behind = against > noise
    bar = {True: "within the bar", False: "beyond the bar", None: "not decided against the bar"}[within]
    words = f"{OURS} is {_percent(ours.over_oracle)}{_interval(ours.to_oracle)} over the best pairing, {bar} of "
    words += f"{100 * _BAR:.0f} %; "
    if ours.pairing == best.pairing:
        words += f"the same pairs as {best.place}, the best of the other three"
    else:
        words += (
            f"{'behind' if behind else 'not behind'} {best.place}, the best of the other three, by more than noise: "
        )
        words += f"{_percent(against)}, noise {100 * noise:.1f} %"
    words += f"; by {repeats} repeats" + (f" of {REPEATS}" if repeats < REPEATS else "")
    return Verdict(within, behind, words)


def _is_within(found: Ratio, noise: float) -> bool | None:
    """By repeats drawn again and by the noise, whichever reaches farther: of two repeats that are alike by chance the
    former has no width."""
    if max(found.high, found.value + noise) <= 1 + _BAR:
        return True
    return False if min(found.low, found.value - noise) > 1 + _BAR else None


def _chosen(spec: str, known: Row, by_pairing: By) -> Pairing:
    """The choice of the real policy through the core. It needs the whole project, so it does not run on the card's
    machine."""
    from bench.card.virtual_places import pairing_by

    return pairing_by(spec, known, by_pairing)


def shown(tables: Sequence[MixTable]) -> str:
    parts = [f"### {table.setup}\n\n{_shown(table)}\n\n**{table.words}**\n" for table in tables]
    return "\n".join([*parts, f"**{summary(tables)}**\n"])


def summary(tables: Sequence[MixTable]) -> str:
    decided = [table for table in tables if table.verdict.met is not None]
    met = sum(table.verdict.met is True for table in decided)
    return f"The bar is met in {met} of {len(decided)} mixes with a verdict; {len(tables)} were measured"


def _shown(table: MixTable) -> str:
    facts = f"{table.origin}. Whole repeats of all {table.pairings} pairings: {table.repeats}"
    facts += f" ({table.left_out} runs of one that is not whole are left out)" if table.left_out else ""
    if not table.placed:
        return facts
    lines = [
        (one.place, " ".join("+".join(table.workloads[kind] for kind in pair) for pair in one.pairing),
         number(one.total_s), number(one.last_s), _percent(one.over_oracle) + _interval(one.to_oracle))
        for one in table.placed
    ]  # fmt: skip
    noise = "not known" if isnan(table.noise) else f"{100 * table.noise:.1f} %"
    facts += f". Two pairings' times of all jobs differ by chance by up to (95 %): {noise}"
    return "\n\n".join([facts, markdown(_HEADINGS, lines), _shown_jobs(table), _shown_lasts(table)])


def _shown_jobs(table: MixTable) -> str:
    """Both jobs of a workload: they may be beside different ones."""
    headings = ("seconds of both jobs", "alone", *(one.place for one in table.placed), "lost to other virtual cards")
    lines = [
        (workload, number(table.alone_s[workload]),
         *(", ".join(f"{one.per_job_s[job_name(kind, copy)]:.2f}" for copy in range(2)) for one in table.placed),
         f"{100 * table.leakage[workload]:.1f} %")
        for kind, workload in enumerate(table.workloads)
    ]  # fmt: skip
    return f"{markdown(headings, lines)}\n\nWhat is lost to other cards was read {_times(table.readings)}."


def _shown_lasts(table: MixTable) -> str:
    """The bar is about all jobs; this is the end of the last one."""
    lasts = ", ".join(f"{one.place} {_percent(one.last_s / table.least_last_s - 1)}" for one in table.placed)
    text = f"The last end, over the soonest of all pairings: {lasts}."
    if table.held_out:
        found = ", ".join(map(_percent, table.held_out))
        text += f" Asked with the runs of the other repeats alone, {OURS} is over the best pairing by {found}."
    return text


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _percent(part: float) -> str:
    return f"{100 * part:+.1f} %"


def _interval(found: Ratio) -> str:
    """Empty for one repeat."""
    return "" if isnan(found.low) else f" ({100 * (found.low - 1):+.1f} to {100 * (found.high - 1):+.1f})"


def plain(tables: Sequence[MixTable]) -> list[dict]:
    return [one.plain() for one in tables]
