"""Eight jobs on four virtual cards of one physical card, in every pairing: ``python -m bench.card virtual``.

The question of a study of 2020: two jobs each of four workloads, two jobs to a card. A virtual card is a set of SM
groups that no other card has, and a part of the memory. All pairings are measured, so that the best one is known and
not predicted. The choice of a policy is then looked up (``table``).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.card import ways
from bench.card.clock import Deadline
from bench.card.options import Asked
from bench.card.place import Lost
from bench.card.rows import Row, RowFile
from bench.card.solo import saturated_per_s
from bench.card.stage import Stage, Tenant
from bench.card.steward import Watcher
from bench.card.ways import Seat

BENCH = "virtual"
CARDS = 4
KINDS = "abcd"
"""Workloads of a mix. A name can occur more than once."""
JOB_S = 3.0
"""A job's time alone on a virtual card."""
MAX_FAILURES = 3
"""Per call: all pairings have the same processes, so one that cannot be started fails them all."""
MIXES = {
    "2020": ("cnn", "vgg16", "alexnet", "googlenet"),
    "2020, lighter": ("cnn", "vgg11", "alexnet", "googlenet"),
    "today": ("transformer-training", "resnet50-training", "stream", "matmul"),
}
TINY_MIXES = {"tiny": ("tiny-training", "tiny-training", "tiny-training", "tiny-training")}
CARD_BYTES = 139 * 2**30
_START_S = 60.0
_GRACE_S = 30.0
Pairing = tuple[tuple[int, int], ...]
"""Kinds (0 to 3) that share a card; each kind is there twice."""


@dataclass(frozen=True)
class Options(Asked):
    @property
    def job_s(self) -> float:
        return self.length_s or JOB_S

    @property
    def mixes(self) -> dict[str, tuple[str, ...]]:
        known = TINY_MIXES if self.tiny else MIXES
        return {name: known[name] for name in self.among(known)}

    def setup(self, mix: str) -> str:
        return f"{mix}, {self.job_s:g} s"


def pairings(kinds: int = CARDS) -> list[Pairing]:
    """Every way to make pairs of two jobs of each kind; jobs of a kind are alike."""
    return sorted(_pairings(tuple(kind for kind in range(kinds) for _ in range(2))))


def _pairings(jobs: tuple[int, ...]) -> set[Pairing]:
    if not jobs:
        return {()}
    first, rest = jobs[0], jobs[1:]
    found = set()
    for place, other in enumerate(rest):
        for others in _pairings(rest[:place] + rest[place + 1 :]):
            found.add(tuple(sorted([(first, other), *others])))
    return found


def card_masks(groups: int, cards: int = CARDS) -> list[int]:
    """The same number of groups for each card. The rest is unused."""
    each = groups // cards
    return [((1 << each) - 1) << (card * each) for card in range(cards)]


def seats_on_cards(pairing: Pairing) -> dict[str, int]:
    """Card of each job. The first job of a kind is the one that is placed first."""
    placed: dict[str, int] = {}
    for card, pair in enumerate(pairing):
        for kind in pair:
            name = job_name(kind, 0) if job_name(kind, 0) not in placed else job_name(kind, 1)
            placed[name] = card
    return placed


def job_name(kind: int, copy: int) -> str:
    return f"{KINDS[kind]}{copy + 1}"


def run(file: RowFile, sitting: Row, options: Options, deadline: Deadline) -> None:
    with Watcher(options.place) as watcher:
        _all(file, sitting, options, deadline, watcher)


def _all(file: RowFile, sitting: Row, options: Options, deadline: Deadline, watcher: Watcher) -> None:
    mixes = options.mixes
    for mix in sorted(mixes, key=lambda one: len(_runs(file, options.setup(one)))):
        if len(_runs(file, options.setup(mix))) >= options.repeats * len(pairings()):
            continue
        if not deadline.has(min(_START_S, 10 * options.job_s)):
            return
        _log(f"{mix}: starting, {deadline.left_s:.0f} s left")
        try:
            _visit(file, sitting, mix, mixes[mix], options, deadline, watcher)
        except Lost as lost:
            _log(f"  {lost}")
            file.add({**_head(sitting, options, mix), "kind": "failure", "failed": str(lost)})


def _visit(
    file: RowFile, sitting: Row, mix: str, workloads: Sequence[str], options: Options, deadline: Deadline,
    watcher: Watcher,
) -> None:  # fmt: skip
    quota = 0 if options.tiny else CARD_BYTES // (2 * CARDS)
    tenants = [
        Tenant(job_name(kind, copy), workload, quota_bytes=quota)
        for kind, workload in enumerate(workloads)
        for copy in range(2)
    ]
    with Stage(options.place, tenants) as stage:
        for seat, why in stage.ready([Seat(tenant.name, ways.FIXED) for tenant in tenants]).items():
            raise Lost(f"{seat}: {why}")
        known = _alone(stage, file, sitting, mix, workloads, options, watcher)
        failures = 0
        for repeat in range(options.repeats):
            for pairing in pairings(len(workloads)):
                done = [row for row in _runs(file, options.setup(mix)) if row["pairing"] == [list(p) for p in pairing]]
                if len(done) > repeat:
                    continue
                if not deadline.has(4 * options.job_s + 2.0):
                    return
                row = _measured(stage, known, pairing, options)
                head = {**_head(sitting, options, mix), "kind": "run", "repeat": repeat, "workloads": list(workloads)}
                file.add({**head, "pairing": pairing, "at_s": round(time.time(), 2), **row})
                failures += "failed" in row
                if failures >= MAX_FAILURES:
                    raise Lost(f"{failures} pairings failed: {row.get('failed')}")
            _log(f"  repeat {repeat}: done; {deadline.left_s:.0f} s left")


def _alone(
    stage: Stage, file: RowFile, sitting: Row, mix: str, workloads: Sequence[str], options: Options, watcher: Watcher
) -> Row:
    """Speeds on a virtual card with the others idle, and with one job on each of the others (leakage)."""
    kept = [row for row in file.of(BENCH, "alone") if row["setup"] == options.setup(mix)]
    if kept:
        return kept[-1]
    masks, length_s = card_masks(stage.place.groups), min(2.0, options.job_s)
    firsts = [job_name(kind, 0) for kind in range(len(workloads))]
    stage.masks(dict(zip(firsts, masks, strict=False)))
    alone, seen = {}, {}
    for name in firsts:

        def watch(start_s: float, name: str = name) -> None:
            seen[name] = watcher.watch(start_s + length_s / 4, start_s + length_s).get("counters", {})

        alone[name] = saturated_per_s(stage, Seat(name, ways.FIXED), length_s, watch)
    request = {"length_s": 0.5 + length_s, "counted": (0.5, 0.5 + length_s)}
    asked = {Seat(name, ways.FIXED): ("iterate", request) for name in firsts}
    answers = stage.together(asked, length_s + _GRACE_S)
    beside = {seat.tenant: answer["steps"] / length_s for seat, answer in answers.items()}
    built = {name: stage.built[Seat(name, ways.FIXED)]["memory_bytes"] for name in firsts}
    row = {**_head(sitting, options, mix), "kind": "alone", "per_s": alone, "beside_others_per_s": beside,
           "memory_bytes": built, "workloads": list(workloads), "counters": seen,
           "part": masks[0].bit_count() * stage.place.sms_per_group / stage.place.sms}  # fmt: skip
    file.add(row)
    return row


def _measured(stage: Stage, known: Row, pairing: Pairing, options: Options) -> dict[str, Any]:
    """How long each job took, from the common start."""
    masks, cards = card_masks(stage.place.groups), seats_on_cards(pairing)
    try:
        stage.masks({name: masks[card] for name, card in cards.items()})
        asked = {}
        for name in cards:
            count = max(2, round(known["per_s"][f"{name[0]}1"] * options.job_s))
            request = {"length_s": 10 * options.job_s, "count": count, "instants": True}
            asked[Seat(name, ways.FIXED)] = ("iterate", request)
        answers = stage.together(asked, 10 * options.job_s + _GRACE_S)
    except Lost as lost:
        return {"failed": str(lost)}
    counts = {seat: request["count"] for seat, (_, request) in asked.items()}
    return {
        "ends_s": {seat.tenant: answer["done_us"][-1] / 1e6 for seat, answer in answers.items()},
        "alone_s": {seat.tenant: counts[seat] / known["per_s"][f"{seat.tenant[0]}1"] for seat in answers},
        "cards": cards,
    }  # fmt: skip


def _runs(file: RowFile, setup: str) -> list[Row]:
    """Failed runs are repeated by the next call."""
    return [row for row in file.of(BENCH, "run") if row["setup"] == setup and not row.get("failed")]


def _head(sitting: Row, options: Options, mix: str) -> Row:
    return {"bench": BENCH, "sitting": sitting["sitting"], "setup": options.setup(mix), "mix": mix}


def _log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
