"""Cost of each mechanism for the service, and speed left for the training job, relative to solo with the same
arrivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.card.marks import interval, markdown, number
from bench.card.mechanism import BENCH, MEANS
from bench.card.pair_plan import ALONE, TRAINING_ALONE
from bench.card.pair_table import beside, busy_share, rounds
from bench.card.rows import Row, chosen
from bench.card.stats import Ratio, mean, percentile

SHOWN = (50, 90, 99)
_HEADINGS = ("condition", "requests", "rounds", *(f"p{q} / alone (95 %)" for q in SHOWN), "training / alone (95 %)",
             "held, part of the time")  # fmt: skip


@dataclass(frozen=True)
class ConditionResult:
    """Result of one condition of one pair."""

    condition: str
    requests: int
    rounds: int
    failed: int
    late_ratios: tuple[Ratio, ...]
    """Of the percentiles that are shown."""
    training_ratio: Ratio
    held_ratio: float
    """Fraction of the time in which the training job's caller was blocked at the gate. It does not include kernels that
    wait on the card while the caller continues."""


@dataclass(frozen=True)
class MeansTable:
    pair: str
    busy_ratio: float
    """Fraction of the card that the service uses alone. The training job's rate is at most the rest."""
    told: tuple[ConditionResult, ...]


def mechanism_tables(rows: Sequence[Row]) -> list[MeansTable]:
    """Of each pair the setup that was measured last."""
    blocks = chosen(rows, BENCH, "block")
    last = {row["pair"]: row["setup"] for row in blocks}
    return [_table(rows, blocks, pair, setup) for pair, setup in last.items()]


def _table(rows: Sequence[Row], blocks: Sequence[Row], pair: str, setup: str) -> MeansTable:
    ours = [row for row in blocks if (row["pair"], row["setup"]) == (pair, setup)]
    facts = [row for row in chosen(rows, BENCH, "facts") if (row["pair"], row["setup"]) == (pair, setup)]
    names = [name for name in MEANS if any(row["condition"] == name for row in ours)]
    return MeansTable(pair, busy_share(ours, facts), tuple(_told(ours, name) for name in names))


def _told(rows: Sequence[Row], condition: str) -> ConditionResult:
    of_it = [row for row in rows if row["condition"] == condition]
    good = rounds(rows, condition)
    length_s = sum(row["length_s"] for row in good.values())
    return ConditionResult(
        condition, sum(len(row["late_us"]) for row in good.values()), len(good), len(of_it) - len(good),
        tuple(beside(rows, good, ALONE, "late_us", percentile(q)) for q in SHOWN),
        beside(rows, good, TRAINING_ALONE, "steps_per_s", mean),
        sum(row.get("held_ms", 0) for row in good.values()) / 1000 / length_s if length_s else float("nan"),
    )  # fmt: skip


def shown(tables: Sequence[MeansTable]) -> str:
    parts = []
    for table in tables:
        lines = [
            (one.condition, f"{one.requests:,}", f"{one.rounds}" + (f" ({one.failed} failed)" if one.failed else ""),
             *(interval(ratio) for ratio in one.late_ratios), interval(one.training_ratio), number(one.held_ratio))
            for one in table.told
        ]  # fmt: skip
        facts = f"busy share of the service alone {number(table.busy_ratio)}"
        parts.append(f"### {table.pair}\n\n{facts}\n\n{markdown(_HEADINGS, lines)}\n")
    return "\n".join(parts)


def plain(tables: Sequence[MeansTable]) -> list[dict[str, Any]]:
    return [asdict(one) for one in tables]
