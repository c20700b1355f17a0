"""Effect of each mechanism that holds a client back: ``python -m bench.card mechanism``.

Without policy and daemon: the bench writes the grants, once per block. The result is therefore the effect of the
mechanism itself, and shows what a policy could reach with it. Pairs and arrivals are as in ``pairs``. Conditions
alternate in rounds, and a round is measured completely or not at all.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.card import ways
from bench.card.clock import Deadline
from bench.card.options import Asked
from bench.card.pair_blocks import Timing, run_seats
from bench.card.pair_plan import ALONE, LATENCY, PAIRS, TINY_PAIRS, TRAINING, TRAINING_ALONE, Pair, named
from bench.card.place import Lost
from bench.card.rows import Row, RowFile
from bench.card.solo import work_us
from bench.card.stage import Stage, Tenant
from bench.card.ways import Seat
from gpusquad.gpu.region.pages import Grant
from gpusquad.policies.divide._squad_builder import LINGER_US

BENCH = "mechanism"
LENGTH_S = 3.0
ROUNDS = 8
"""Of a pair, until it is full."""
_FIRST = 0b01
"""The service's slot; it is the first of both tenants."""
_BOTH = 0b11
_START_S, _BLOCK_MORE_S = 45.0, 0.5
_TRAINING_ALONE_S = 2.0


@dataclass(frozen=True)
class Means:
    """How both clients share the card, and their grants. A client without a way does not run."""

    service: str | None
    training: str | None
    service_grant: Grant = field(default_factory=Grant)
    training_grant: Grant = field(default_factory=Grant)

    @property
    def seats(self) -> list[Seat]:
        ways_of = {LATENCY: self.service, TRAINING: self.training}
        return [Seat(name, way) for name, way in ways_of.items() if way]

    @property
    def region_way(self) -> str | None:
        """Of those whose grants are written by hand."""
        return self.service if self.service and ways.needs_region(self.service) else None


def _held(training: Grant, *, alone: bool = False) -> Means:
    """The shim in both clients, in one region. ``alone``: without MPS."""
    how = (ways.FIXED_ALONE, ways.FIXED_ALONE) if alone else (ways.FIXED, ways.FIXED_LOW)
    return Means(*how, _KNOWN, training)


_KNOWN = Grant(neighbours=_BOTH)
_STOPS = replace(_KNOWN, credit_us=0, borrows=True, loan_us=1000)
_YIELDS = replace(_KNOWN, yield_to=_FIRST, yield_point_us=50)
_LINGERS = replace(_YIELDS, linger_us=100)
_LINGERS_LONG = replace(_YIELDS, linger_us=250)
_AS_DECIDED = replace(_YIELDS, linger_us=LINGER_US)
_STANDS_OFTEN, _STANDS_RARELY = (replace(_AS_DECIDED, yield_point_us=us) for us in (20, 100))
MEANS = {
    ALONE: Means(ways.PLAIN, None),
    TRAINING_ALONE: Means(None, ways.PLAIN),
    "alone, library": Means(ways.FIXED_ALONE, None, _KNOWN, _KNOWN),
    "alone, MPS and library": Means(ways.FIXED, None, _KNOWN, _KNOWN),
    "MPS priority": Means(ways.MPS, ways.LOW),
    "MPS priority, quiet library": Means(ways.FIXED, ways.FIXED_LOW),
    "mates known": _held(_KNOWN),
    "stops while busy": _held(_STOPS),
    "yields": _held(_YIELDS),
    "yields, lingers 100 µs": _held(_LINGERS),
    "yields, lingers 250 µs": _held(_LINGERS_LONG),
    "yields as policies say": _held(_AS_DECIDED),
    "yields as policies say, every 20 µs": _held(_STANDS_OFTEN),
    "yields as policies say, every 100 µs": _held(_STANDS_RARELY),
    "yields, no MPS": _held(_YIELDS, alone=True),
    "yields, no MPS, lingers 100 µs": _held(_LINGERS, alone=True),
    "yields, no MPS, lingers 250 µs": _held(_LINGERS_LONG, alone=True),
    "yields as policies say, no MPS": _held(_AS_DECIDED, alone=True),
    "yields as policies say, no MPS, every 20 µs": _held(_STANDS_OFTEN, alone=True),
    "yields as policies say, no MPS, every 100 µs": _held(_STANDS_RARELY, alone=True),
}


@dataclass(frozen=True)
class Options(Asked):
    conditions: Sequence[str] = tuple(MEANS)

    @property
    def timing(self) -> Timing:
        return Timing(length_s=self.length_s or LENGTH_S)

    @property
    def round_s(self) -> float:
        return len(self.conditions) * (self.timing.all_s + _BLOCK_MORE_S)

    @property
    def pairs(self) -> list[Pair]:
        return named(TINY_PAIRS[:1] if self.tiny else PAIRS, self.only)

    def setup(self, pair: Pair) -> str:
        return pair.setup(self.timing.length_s)


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    """Pairs with the fewest rounds first, each with the same part of the time."""
    waiting = [pair for pair in options.pairs if _whole_rounds(file, options, pair) < ROUNDS]
    waiting.sort(key=lambda pair: _whole_rounds(file, options, pair))
    if not waiting:
        _log("nothing is left to measure")
    for index, pair in enumerate(waiting):
        if not deadline.has(min(_START_S, 10 * options.timing.length_s) + options.round_s):
            _log(f"{pair.name} is next; {deadline.left_s:.0f} s are too few to begin with it")
            return
        leave_s = deadline.left_s * (1 - 1 / (len(waiting) - index))
        try:
            _visit(file, sitting, pair, options, deadline, leave_s)
        except Lost as lost:
            _log(f"  {lost}")
            file.add({**_head(sitting, options, pair), "kind": "failure", "failed": str(lost)})


def _visit(file: RowFile, sitting: Row, pair: Pair, options: Options, deadline: Deadline, leave_s: float) -> None:
    """Measure complete rounds until too little time is left, but at least one, because processes were started for
    it."""
    _log(f"{pair.name}: starting, {deadline.left_s:.0f} s left")
    tenants = [Tenant(LATENCY, pair.service, pair.batch), Tenant(TRAINING, pair.training, pair.training_batch)]
    with Stage(options.place, tenants) as stage:
        for seat, why in stage.ready([seat for name in options.conditions for seat in MEANS[name].seats]).items():
            _log(f"  {seat}: {why}")
        work = work_us(stage, Seat(LATENCY, ways.PLAIN))
        file.add({**_head(sitting, options, pair), "kind": "facts", "work_us": work, "per_s": pair.load.per_s})
        while _whole_rounds(file, options, pair) < ROUNDS and deadline.has(options.round_s):
            _round(stage, file, sitting, pair, options)
            _log(f"  round done; {deadline.left_s:.0f} s left")
            if deadline.left_s < leave_s + options.round_s / 2:
                return


def _round(stage: Stage, file: RowFile, sitting: Row, pair: Pair, options: Options) -> None:
    repeat = _next_repeat(file, options, pair)
    names = list(options.conditions)
    random.Random(f"{pair.name} {repeat}").shuffle(names)
    for name in names:
        head = {**_head(sitting, options, pair), "kind": "block", "condition": name, "repeat": repeat}
        head["at_s"] = round(time.time(), 2)
        try:
            found = _measured(stage, pair, name, f"{pair.name} {repeat}", options.timing)
        except (Lost, OSError) as lost:
            found = {"late_us": [], "failed": str(lost)}
        file.add({**head, **found})


def _measured(stage: Stage, pair: Pair, name: str, seed: str, timing: Timing) -> dict[str, Any]:
    means = MEANS[name]
    if name == TRAINING_ALONE:
        timing = replace(timing, length_s=min(_TRAINING_ALONE_S, timing.length_s))
    way = means.region_way
    if way is None:
        return run_seats(stage, pair, means.seats, seed, timing)
    stage.grants({LATENCY: means.service_grant, TRAINING: means.training_grant}, way)
    before = stage.page(TRAINING, way)
    row = run_seats(stage, pair, means.seats, seed, timing)
    after = stage.page(TRAINING, way)
    return {**row, "held_ms": round((after.waited_ns - before.waited_ns) / 1e6), "moves": after.moves - before.moves}


def _blocks(file: RowFile, options: Options, pair: Pair) -> list[Row]:
    setup = options.setup(pair)
    return [row for row in file.of(BENCH, "block") if (row["pair"], row["setup"]) == (pair.name, setup)]


def _next_repeat(file: RowFile, options: Options, pair: Pair) -> int:
    """Return an unused number. An interrupted round is left as it is."""
    return 1 + max((row["repeat"] for row in _blocks(file, options, pair)), default=-1)


def _whole_rounds(file: RowFile, options: Options, pair: Pair) -> int:
    """Of the condition with the fewest."""
    done = [row["condition"] for row in _blocks(file, options, pair)]
    return min(done.count(name) for name in options.conditions)


def _head(sitting: Row, options: Options, pair: Pair) -> Mapping[str, Any]:
    return {"bench": BENCH, "sitting": sitting["sitting"], "pair": pair.name, "setup": options.setup(pair)}


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
