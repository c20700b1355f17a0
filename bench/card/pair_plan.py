"""Pairs and conditions, and the order in which they are measured."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from bench.card import ways
from bench.card.arrivals import Load
from bench.card.rows import Row
from bench.card.ways import FIXED, LOW, MPS, PLAIN, SQUADS, SQUADS_LOW, Seat, at_percent

LATENCY, TRAINING = "latency", "training"
BENCH = "pairs"
ALONE, TRAINING_ALONE, SLICED, UNDER_MPS = "alone", "training alone", "time slicing", "MPS"
PERCENT, PRIORITY, STATIC, OURS = "MPS percentage", "MPS priority", "static green contexts", "gpusquad"
ISOLATED = "gpusquad isolated"
"""Without MPS: separate contexts that are time-sliced, so a fault of one does not affect the other."""
MIXED = "gpusquad, service isolated"
"""The service alone without MPS; measured only on request."""
CONDITIONS = (ALONE, TRAINING_ALONE, SLICED, UNDER_MPS, PERCENT, PRIORITY, STATIC, OURS, ISOLATED)
ALL_CONDITIONS = (*CONDITIONS, MIXED)
DAEMON_WAYS = {OURS: SQUADS, ISOLATED: ways.ALONE, MIXED: ways.ASIDE}
"""Conditions with the card's daemon: the way in which the service shares the card."""
ENOUGH_REQUESTS, ENOUGH_REPEATS = 10_000, 3
MAX_FAILURES = 3
PERCENTAGES = (40, 50, 60, 70, 80, 90)
SPLITS = (2, 4, 6, 8)
"""Groups for the latency tenant; the others are the training tenant's."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A service and a training job."""

    name: str
    service: str
    load: Load
    training: str
    batch: int = 1
    training_batch: int | None = None

    def setup(self, length_s: float) -> str:
        """A short name of all that a figure depends on: rows of another setup are never mixed in."""
        return hashlib.sha256(repr((asdict(self), length_s)).encode()).hexdigest()[:8]


PAIRS = (
    Pair("resnet50 poisson / vgg16", "resnet50-graph", Load(150), "vgg16", batch=32, training_batch=64),
    Pair("encoder poisson / transformer", "encoder-graph", Load(200), "transformer-training", batch=64),
    Pair("mobilenet bursty / googlenet", "mobilenet-graph", Load(160, "bursty"), "googlenet", batch=32),
    Pair("resnet50 bursty / resnet50", "resnet50-graph", Load(160, "bursty"), "resnet50-training", batch=16),
    Pair("encoder bursty / vgg16", "encoder-graph", Load(130, "bursty"), "vgg16", batch=64, training_batch=64),
    Pair("mobilenet poisson / transformer", "mobilenet-graph", Load(150), "transformer-training", batch=64),
    Pair("encoder poisson / googlenet", "encoder-graph", Load(200), "googlenet", batch=64, training_batch=64),
    Pair("eager encoder poisson / googlenet", "encoder-service", Load(250), "googlenet", batch=1),
    Pair("mobilenet poisson / googlenet", "mobilenet-graph", Load(150), "googlenet", batch=64),
    Pair("encoder poisson / resnet50", "encoder-graph", Load(200), "resnet50-training", batch=64),
    Pair("mobilenet poisson / resnet50", "mobilenet-graph", Load(150), "resnet50-training", batch=64),
    Pair("mobilenet poisson / vgg16", "mobilenet-graph", Load(150), "vgg16", batch=64, training_batch=64),
)
"""Services that are bound by the card, as CUDA graphs, and one that is bound by its host, whose tail is mostly noise of
the host. Requests take 1.5 to 2.7 ms of the card: the delay by a kernel that runs when the service wakes, and by MPS,
is the same for every request, however short. Poisson arrivals keep the card busy for 0.35 to 0.4 of the time, bursts
for 0.25, which is 0.6 within a burst. A queue that nearly fills the card depends more on its arrivals than on its
neighbours. GoogLeNet is bound by the card with its usual 128 images, and has kernels of more than 2 ms then; with 64 it
is bound by its host."""
TINY_PAIRS = (
    Pair("tiny poisson / tiny", "tiny-service", Load(200), "tiny-training"),
    Pair("tiny bursty / tiny", "tiny-service", Load(200, "bursty"), "tiny-training"),
)


def named(known: Sequence[Pair], asked: Sequence[str]) -> list[Pair]:
    """By number (from 1) or a part of the name; nothing asked for: all."""
    return [
        pair
        for number, pair in enumerate(known, 1)
        if not asked or any(int(one) == number if one.isdigit() else one in pair.name for one in asked)
    ]


def ways_of(condition: str, percent: int) -> tuple[str | None, str | None]:
    """How the service and the training job share the card. None: it does not run."""
    return {
        ALONE: (PLAIN, None), TRAINING_ALONE: (None, PLAIN), SLICED: (PLAIN, PLAIN), UNDER_MPS: (MPS, MPS),
        PERCENT: (MPS, at_percent(percent)), PRIORITY: (MPS, LOW), STATIC: (FIXED, FIXED), OURS: (SQUADS, SQUADS_LOW),
        ISOLATED: (ways.ALONE, ways.ALONE), MIXED: (ways.ASIDE, ways.BESIDE_LOW),
    }[condition]  # fmt: skip


def seats_of(condition: str, percent: int) -> list[Seat]:
    service, training = ways_of(condition, percent)
    found = [Seat(LATENCY, service)] if service else []
    return [*found, Seat(TRAINING, training)] if training else found


def blocks_of(rows: Sequence[Row], pair: Pair, setup: str) -> list[Row]:
    """Those of a pair that count: same setup, and not failed."""
    return [row for row in rows if _is_block(row, pair, setup) and not row.get("failed")]


def next_repeat(rows: Sequence[Row], pair: Pair, setup: str) -> int:
    """Return an unused number. An interrupted round stays as it is, and the next one has its own arrivals."""
    return 1 + max((row["repeat"] for row in rows if _is_block(row, pair, setup)), default=-1)


def requests_by_condition(rows: Sequence[Row], pair: Pair, setup: str, conditions: Sequence[str]) -> dict[str, int]:
    """Requests so far. Of training alone there are none: its blocks count as if they had as many as needed a third."""
    found = dict.fromkeys(conditions, 0)
    for row in blocks_of(rows, pair, setup):
        if row["condition"] in found:
            found[row["condition"]] += len(row["late_us"]) or ENOUGH_REQUESTS // ENOUGH_REPEATS + 1
    return found


def hopeful(rows: Sequence[Row], pair: Pair, setup: str, conditions: Sequence[str]) -> list[str]:
    """Leave out conditions that failed in every attempt, so that the others are measured. Conditions that failed in
    earlier calls are tried again, because the cause may have been fixed."""
    now = next((row.get("sitting") for row in reversed(rows) if row.get("sitting")), None)
    failed, worked = dict.fromkeys(conditions, 0), {row["condition"] for row in blocks_of(rows, pair, setup)}
    for row in rows:
        if _is_block(row, pair, setup) and row.get("failed") and row["condition"] in failed and row["sitting"] == now:
            failed[row["condition"]] += 1
    return [name for name in conditions if name in worked or failed[name] < MAX_FAILURES]


def is_full(rows: Sequence[Row], pair: Pair, setup: str, conditions: Sequence[str]) -> bool:
    conditions = hopeful(rows, pair, setup, conditions)
    repeats = [
        len({row["repeat"] for row in blocks_of(rows, pair, setup) if row["condition"] == condition})
        for condition in conditions
    ]
    requests = requests_by_condition(rows, pair, setup, conditions).values()
    return min(requests, default=0) >= ENOUGH_REQUESTS and min(repeats, default=0) >= ENOUGH_REPEATS


def emptiest_first(
    rows: Sequence[Row], pairs: Sequence[Pair], length_s: float, conditions: Sequence[str]
) -> list[Pair]:
    """Incomplete pairs, the one with the fewest blocks first, otherwise in the given order."""
    open_ones = [pair for pair in pairs if not is_full(rows, pair, pair.setup(length_s), conditions)]

    def least(pair: Pair) -> int:
        setup = pair.setup(length_s)
        return min(requests_by_condition(rows, pair, setup, hopeful(rows, pair, setup, conditions)).values(), default=0)

    return sorted(open_ones, key=least)


def round_order(rows: Sequence[Row], pair: Pair, setup: str, conditions: Sequence[str], repeat: int) -> list[str]:
    """Shuffled for each round, so that drift affects all conditions. Conditions that are missing from interrupted
    rounds go first."""
    shuffled = list(conditions)
    random.Random(f"{pair.name} {repeat}").shuffle(shuffled)
    rounds = dict.fromkeys(conditions, 0)
    for row in rows:
        if _is_block(row, pair, setup) and row["condition"] in rounds:
            rounds[row["condition"]] += 1
    return sorted(shuffled, key=rounds.__getitem__)


def _is_block(row: Row, pair: Pair, setup: str) -> bool:
    return (
        row.get("bench") == BENCH and row.get("kind") == "block"
        and row.get("pair") == pair.name and row.get("setup") == setup
    )  # fmt: skip
