"""What each place's pairing took on four virtual cards, against the best of all that were measured.

The speeds of pairs that ``interference`` decides by are worked out from the same runs, each from all pairings in which
the two shared a card: a policy that sees the runs it is judged by is flattered a little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import mean

from bench.card.marks import markdown, number
from bench.card.rows import Row, chosen
from bench.card.virtual import BENCH, KINDS, Pairing, pairings

CONTENDERS = {"binpack": "binpack", "balance": "balance", "standalone": "standalone",
              "interference": "interference:most_loss=inf"}  # fmt: skip
"""All eight jobs start at once here, as in the study: ``interference`` is asked for a pairing that lets none wait."""
ORACLE = "oracle"
_BAR = 0.05


@dataclass(frozen=True)
class Placed:
    mix: str
    place: str
    pairing: Pairing
    repeats: int
    total_s: float
    last_s: float
    over_oracle: float
    """How much more time all jobs together take than under the best pairing, in parts."""
    per_job_s: dict[str, float]


@dataclass(frozen=True)
class MixTable:
    mix: str
    workloads: tuple[str, ...]
    measured: int
    pairings: int
    leakage: dict[str, float]
    """What a job on its own virtual card loses while one runs on each of the others, in parts."""
    placed: tuple[Placed, ...]
    words: str


def virtual_tables(rows: Sequence[Row]) -> list[MixTable]:
    alone = {row["setup"]: row for row in chosen(rows, BENCH, "alone")}
    runs = [row for row in chosen(rows, BENCH, "run") if not row.get("failed")]
    found = []
    for setup, known in alone.items():
        of_it = [row for row in runs if row["setup"] == setup]
        if of_it:
            found.append(_mix(known, of_it, len(pairings(len(known["workloads"])))))
    return found


def _mix(known: Row, runs: Sequence[Row], ways: int) -> MixTable:
    by_pairing: dict[Pairing, list[Row]] = {}
    for row in runs:
        by_pairing.setdefault(_pairing(row), []).append(row)
    totals = {pairing: mean(sum(row["ends_s"].values()) for row in of_it) for pairing, of_it in by_pairing.items()}
    best = min(totals, key=totals.__getitem__)
    leakage = {
        known["workloads"][KINDS.index(name[0])]: 1 - known["beside_others_per_s"][name] / per_s
        for name, per_s in known["per_s"].items()
    }
    if len(by_pairing) < ways:
        words = f"no verdict: {len(by_pairing)} of {ways} pairings were measured"
        return MixTable(known["mix"], tuple(known["workloads"]), len(by_pairing), ways, leakage, (), words)
    chosen_ones = {place: _chosen(spec, known, by_pairing) for place, spec in CONTENDERS.items()} | {ORACLE: best}
    placed = tuple(
        _placed(known["mix"], place, pairing, by_pairing[pairing], totals[best])
        for place, pairing in chosen_ones.items()
    )
    return MixTable(known["mix"], tuple(known["workloads"]), ways, ways, leakage, placed, _words(placed))


def _pairing(row: Row) -> Pairing:
    return tuple((one, other) for one, other in row["pairing"])


def _placed(mix: str, place: str, pairing: Pairing, rows: Sequence[Row], best_s: float) -> Placed:
    names = rows[0]["ends_s"]
    total_s = mean(sum(row["ends_s"].values()) for row in rows)
    return Placed(
        mix, place, pairing, len(rows), total_s, mean(max(row["ends_s"].values()) for row in rows),
        total_s / best_s - 1, {name: mean(row["ends_s"][name] for row in rows) for name in names},
    )  # fmt: skip


def _words(placed: Sequence[Placed]) -> str:
    by_place = {one.place: one for one in placed}
    ours = by_place["interference"]
    best = min((one for one in placed if one.place not in ("interference", ORACLE)), key=lambda one: one.total_s)
    bar = f"{'within' if ours.over_oracle <= _BAR else 'beyond'} the bar of {100 * _BAR:.0f} %"
    return (
        f"interference is {100 * ours.over_oracle:.1f} % over the best pairing ({bar}); "
        f"the best of the other three is {best.place} with {100 * best.over_oracle:.1f} %"
    )


def _chosen(spec: str, known: Row, by_pairing: dict[Pairing, list[Row]]) -> Pairing:
    """By the real policy through the core: needs what the whole project needs, so not on the card's machine."""
    from bench.card.virtual_places import pairing_by

    return pairing_by(spec, known, by_pairing)


def shown(tables: Sequence[MixTable]) -> str:
    parts = []
    for table in tables:
        lines = [
            (one.place, " ".join("+".join(table.workloads[kind] for kind in pair) for pair in one.pairing),
             one.repeats, number(one.total_s), number(one.last_s), f"{100 * one.over_oracle:+.1f} %")
            for one in table.placed
        ]  # fmt: skip
        leaks = ", ".join(f"{name} {100 * part:.1f} %" for name, part in table.leakage.items())
        heading = ("place", "pairs", "repeats", "all jobs s", "last end s", "over the best")
        body = markdown(heading, lines) if lines else ""
        parts.append(
            f"### {table.mix}\n\nLost to jobs on the other virtual cards: {leaks}\n\n{body}\n\n**{table.words}**\n"
        )
    return "\n".join(parts)


def plain(tables: Sequence[MixTable]) -> list[dict]:
    return [asdict(one) for one in tables]
