"""Speed with the library over speed without it, from rounds in which both took turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from bench.card.cost import BENCH, DAEMON, LAUNCHES, LIBRARY, WITHOUT
from bench.card.marks import interval, markdown, number
from bench.card.rows import Row, chosen
from bench.card.stats import Ratio, mean, ratio

FLOOR, AIM = 0.99, 0.995
_HEADINGS = (
    "what",
    "without, a second",
    "library / without (95 %)",
    "library and daemon / without (95 %)",
    "rounds",
    "",
)


@dataclass(frozen=True)
class Cost:
    what: str
    rounds: int
    without_per_s: float
    library: Ratio
    daemon: Ratio

    @property
    def words(self) -> str:
        """By the worse of both, at its lower end."""
        low = min(self.library.low, self.daemon.low)
        if not self.daemon.is_sure:
            return "too few rounds"
        if self.what.startswith(LAUNCHES):
            return "told, without a bar"
        if low < FLOOR <= min(self.library.high, self.daemon.high):
            return "not decided: the interval is too wide"
        return "aim met" if low >= AIM else "floor met" if low >= FLOOR else "floor missed"


def cost_tables(rows: Sequence[Row]) -> list[Cost]:
    rounds = chosen(rows, BENCH, "round")
    setups = {row["what"]: row["setup"] for row in rounds}
    found = []
    for what, setup in setups.items():
        of_it = [row["found"] for row in rounds if (row["what"], row["setup"]) == (what, setup)]
        if what == LAUNCHES:
            for name, title in (("sustained_ns", "launches"), ("burst_ns", "launches, host alone")):
                speeds = [{way: 1e9 / seen[name] for way, seen in one.items()} for one in of_it]
                found.append(_cost(title, speeds))
        else:
            found.append(_cost(what, of_it))
    return found


def _cost(what: str, rounds: Sequence[dict[str, float]]) -> Cost:
    base = [[one[WITHOUT]] for one in rounds]
    return Cost(
        what, len(rounds), median(one[WITHOUT] for one in rounds),
        ratio([[one[LIBRARY]] for one in rounds], base, mean), ratio([[one[DAEMON]] for one in rounds], base, mean),
    )  # fmt: skip


def shown(costs: Sequence[Cost]) -> str:
    lines = [
        (one.what, number(one.without_per_s), interval(one.library), interval(one.daemon), one.rounds, one.words)
        for one in costs
    ]
    return markdown(_HEADINGS, lines) + "\n"


def plain(costs: Sequence[Cost]) -> list[dict]:
    return [{**asdict(one), "words": one.words} for one in costs]
