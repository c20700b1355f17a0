"""Checks within a minute whether a machine has everything that the benches need: ``python -m bench.card check``.

Every way of sharing is tried with one client, so that failures are known before a long measurement.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass

from bench.card import ways
from bench.card.machine import sitting
from bench.card.place import Lost, Place
from bench.card.solo import saturated_per_s, work_us
from bench.card.stage import Stage, Tenant
from bench.card.steward import Watcher
from bench.card.ways import Seat, at_percent
from gpusquad.gpu.build import library
from gpusquad.model.errors import Invalid

WAYS = (ways.PLAIN, ways.SHIM, ways.ALONE, ways.FIXED_ALONE, ways.MPS, ways.LOW, at_percent(50), ways.FIXED,
        ways.SQUADS, ways.SQUADS_LOW)  # fmt: skip
_LENGTH_S = 0.4
_ONE = "one"
_FEW_GROUPS = 0b11


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that is needed."""

    what: str
    ok: bool
    words: str


def check(place: Place, tiny: bool) -> Generator[Found, None, None]:
    """Yield results as they are found, so that those before a hang are shown."""
    yield _tried("gcc", lambda: shutil.which("gcc") or _missing("not installed"))
    yield _tried("library", lambda: str(library()))
    yield _tried("card", lambda: _card(place))
    if place.device != "cpu":
        yield _tried("counters", lambda: _counters(place))
    with Stage(place, [Tenant(_ONE, "tiny-training" if tiny else "matmul")]) as stage:
        lost = stage.ready([Seat(_ONE, way) for way in WAYS])
        for way in WAYS:
            seat = Seat(_ONE, way)
            yield Found(way, False, lost[seat]) if seat in lost else _tried(way, lambda seat=seat: _way(stage, seat))
        yield _tried("GPU time of a step", lambda: f"{work_us(stage, Seat(_ONE, ways.PLAIN)):.0f} µs")
        yield _tried("moving to two groups", lambda: _moved(stage))
        yield _tried("the daemon sees its tenant", lambda: _seen(stage))


def _tried(what: str, act: Callable[[], str]) -> Found:
    try:
        return Found(what, True, act())
    except (Lost, Invalid, OSError, KeyError) as error:
        return Found(what, False, str(error))


def _missing(words: str) -> str:
    raise Lost(words)


def _card(place: Place) -> str:
    row = sitting("check", place.device, place.card)
    if row["gpu"] == "unknown":
        raise Lost(row["driver"])
    return f"{row['gpu']}, driver {row['driver']}, {row['cores']} cores, Python {row['python']}"


def _counters(place: Place) -> str:
    with Watcher(place) as watcher:
        now_s = time.monotonic()
        seen = watcher.watch(now_s + 0.1, now_s + 0.4).get("counters", {})
    if "sm" not in seen:
        raise Lost(f"no SM activity among {sorted(seen)}: the bubble ratio cannot be told")
    return ", ".join(f"{name} {value:.2f}" for name, value in seen.items())


def _way(stage: Stage, seat: Seat) -> str:
    per_s = saturated_per_s(stage, seat, _LENGTH_S)
    return f"{per_s:.1f} steps/s on {stage.said[seat].get('sms', 0)} SMs, PyTorch {stage.said[seat].get('torch')}"


def _moved(stage: Stage) -> str:
    seat = Seat(_ONE, ways.FIXED)
    stage.masks({_ONE: 0})
    whole = saturated_per_s(stage, seat, _LENGTH_S)
    stage.masks({_ONE: _FEW_GROUPS})
    part = saturated_per_s(stage, seat, _LENGTH_S)
    stage.masks({_ONE: 0})
    if stage.place.device != "cpu" and part > 0.5 * whole:
        raise Lost(f"it was not held to them: {part:.1f} of {whole:.1f} steps/s")
    return f"{part:.1f} of {whole:.1f} steps/s"


def _seen(stage: Stage) -> str:
    """Count its work: a shim that does not load, or passes all calls through, would show none."""
    tenant = stage.ask({"do": "status"})["tenants"][0]
    if stage.place.device != "cpu" and not tenant["processes"]:
        raise Lost("no process of it is in the region: was the library loaded?")
    return f"{tenant['processes']} processes, {tenant['used_bytes']} bytes, {tenant['attained_us']} µs of service"
