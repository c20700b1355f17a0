"""The queue, ``when``, ``why``, the timeline and the texts of the command line agree in every second of a busy hour."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from gpusquad.cli._answers import plan_facts
from gpusquad.cli._jobs import forecast_text
from gpusquad.cli._times import UNKNOWN, span
from gpusquad.server.answers import Who
from gpusquad.store.database import Database
from tests.databases import sqlite_schema
from tests.server.rig import Rig
from tests.server.services.world import SECOND_US, VirtualClock, World

START_US = 1_800_000_000 * SECOND_US
HOUR_S = 3600
OWNERS = (Who("ann", "a", "member"), Who("amy", "a", "member"), Who("bob", "b", "member"))


class BusyHour:
    """A service in virtual time with random users."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random, self.folder = Random(seed), folder
        self.clock = VirtualClock(START_US)
        path = folder / "hour.db"
        path.write_bytes(sqlite_schema())
        self.rig = Rig(folder, Database(path), make_scheduler=self._make, clock=self.clock)
        self.scheduler = self.world.scheduler
        self.updates = self.cancels = self.drains = 0
        self.drained = False
        self._wake_us = 0

    def _make(self, database: Database, clock: Any) -> Any:
        self.world = World(self.folder, "2x4", database, clock=clock, mode="standard")
        return self.world.scheduler

    def second(self, number: int) -> None:
        """What users do in one second, and what ends in it."""
        random, now_us = self.random, START_US + number * SECOND_US
        self.clock.at_us = now_us
        if random.random() < 1 / 40:
            self._submit(number)
        if random.random() < 1 / 120:
            self._update()
        if random.random() < 1 / 200:
            self._cancel()
        if random.random() < (1 / 60 if self.drained else 1 / 600):
            self._drain()
        self.world.engine.end_due()
        if self.scheduler.context.loop._inbox or now_us >= self._wake_us:
            self._wake_us = self.world.settle()

    def _submit(self, number: int) -> None:
        random = self.random
        name = f"j{number}"
        estimate_s = random.choice((20, 60, 120, 300))
        self.world.engine.run_us[name] = round(estimate_s * random.lognormvariate(0, 0.8)) * SECOND_US + 1
        gpus, count = random.choice(((1, 1), (1, 1), (2, 1), (3, 1), (4, 1), (4, 2), (2, 3)))
        self.world.submit(random.choice(OWNERS), name=name, gpus=gpus, count=count, estimate=estimate_s)

    def _some(self) -> tuple[str, Who] | None:
        rows = sorted(self.scheduler.queries.unfinished(), key=lambda row: row.id)
        if not rows:
            return None
        row = self.random.choice(rows)
        return row.id, Who(row.user, row.tenant, "member")

    def _update(self) -> None:
        if (some := self._some()) is not None:
            self.updates += 1
            self._later(f"jobs/{some[0]}", some[1], "PATCH", {"estimate": self.random.choice((10, 200, 900))})

    def _cancel(self) -> None:
        if (some := self._some()) is not None:
            self.cancels += 1
            self._later(f"jobs/{some[0]}/cancel", some[1], "POST", {})

    def _drain(self) -> None:
        self.drains += 1
        self.drained = not self.drained
        node = self.world.cluster.nodes[1].id
        self._later(
            f"nodes/{node}/{'drain' if self.drained else 'undrain'}", Who("root", "default", "admin"), "POST", {}
        )

    def _later(self, path: str, who: Who, method: str, body: dict[str, Any]) -> None:
        """Send a request whose answer needs a pass of the scheduler, which runs in this thread."""
        context = self.scheduler.context
        call = context.loop.call
        context.loop.call = lambda item: _call_here(context, item)  # type: ignore[method-assign]
        try:
            answer = self.rig.call(method, path, who.user, json=body)
        finally:
            context.loop.call = call  # type: ignore[method-assign]
        assert answer.status_code < 500, answer.text


def _call_here(context: Any, item: Any) -> Any:
    results: list[Any] = []
    context.loop.post(lambda: results.append(item()))
    context.loop.run_pass()
    return results[0]


def check_services(hour: BusyHour, first: int, count: int) -> None:
    """The answers behind the API: a page of the queue, and a running job."""
    queries = hour.scheduler.queries
    entries = {entry.job_id: entry for entry in queries.queue(first, count)}
    job_ids = [*entries, *list(hour.scheduler.context.state.runs.by_id)[:1]]
    forecast = queries.forecaster.plan()
    assert forecast is not None
    plan = {run.owner.id: run for run in forecast.runs}
    ends, summaries = queries.ends(), queries.pending_summaries(job_ids, 60.0)
    for job_id in job_ids:
        when = queries.when(job_id)
        if job_id not in entries:
            assert when.end == ends.get(job_id)
            continue
        entry, why = entries[job_id], queries.why(job_id)
        assert (entry.eta_us, entry.eta_high_us, entry.promised_us) == (when.start_us, when.high_us, when.promised_us)
        assert entry.position == when.position == why.position
        assert why.reasons, f"{job_id} is pending without a reason"
        assert (entry.code, entry.message) == (str(why.reasons[0].code), why.reasons[0].message)
        if job_id in plan:
            assert (plan[job_id].start_us, plan[job_id].high_us) == (when.start_us, when.high_us)
        assert list(summaries[job_id].reasons) == list(why.reasons)
        assert summaries[job_id].eta_us in (when.start_us, None) or when.start_us is None


def check_api(hour: BusyHour, draw: Random) -> None:
    """What the command line and the dashboard read, as an administrator."""
    get = lambda path: hour.rig.get(path, "root").json()  # noqa: E731
    queue, now_s = get("queue?limit=3"), hour.clock.at_us / SECOND_US
    timeline = get(f"timeline?from_s={now_s - 60}&to_s={now_s + HOUR_S}")
    ends = {bar["job"]: bar["expected"] for bar in timeline["bars"] if bar["end_s"] is None}
    planned = {run["job"]: run for run in timeline["planned"]}
    for row in draw.sample(queue["running"], min(1, len(queue["running"]))):
        when = get(f"jobs/{row['id']}/when")
        assert row["end"] == when["end"] == ends.get(row["id"])
        shown = dict(plan_facts(when, row, now_s))["ends"]
        assert ("end not known" in forecast_text(row, now_s)) == (row["end"] is None), shown
    for row in draw.sample(queue["items"], min(1, len(queue["items"]))):
        when, why = get(f"jobs/{row['id']}/when"), get(f"jobs/{row['id']}/why")
        assert (row["eta_s"], row["eta_high_s"], row["promised_s"]) == (
            when["start_s"], when["high_s"], when["promised_s"])  # fmt: skip
        first = why["reasons"][0] if why["reasons"] else None
        assert row["reason"] == (first and {"code": first["code"], "message": first["message"]})
        if row["id"] in planned:
            assert planned[row["id"]]["start_s"] == when["start_s"]
        check_texts(row, when, now_s)
        check_promise(hour, row)
    for text in (str(queue), str(timeline)):
        assert "13323" not in text, "no time that is not known is shown as a number"


def check_texts(row: dict[str, Any], when: dict[str, Any], now_s: float) -> None:
    """The queue's column NEXT has the median and the P90 of the line ``starts`` of ``when``. If the start is not known,
    it is the reserved one, which ``when`` has in another line."""
    starts, next_ = str(dict(plan_facts(when, row, now_s))["starts"]), forecast_text(row, now_s)
    if when["start_s"] is None and when["promised_s"] is not None:
        assert starts.startswith(UNKNOWN)
        assert next_.startswith("reserved for"), next_
    elif "in 9 of 10 cases" in starts:
        assert starts.startswith(next_.partition("–")[0]), (starts, next_)
        assert next_.endswith(span(when["high_s"] - now_s)), (starts, next_)
    else:
        assert starts.startswith(next_), (starts, next_)


def check_promise(hour: BusyHour, row: dict[str, Any]) -> None:
    """The story tells the reserved start once, and its last forecast is the current one within what is reported."""
    told = [line for line in hour.rig.get(f"jobs/{row['id']}/story", "root").json()["items"]
            if line["kind"] in ("promised", "eta_moved")]  # fmt: skip
    assert [line["kind"] for line in told].count("promised") <= 1
    reservation = hour.scheduler.queries.reservations().get(row["id"])
    if told and reservation is not None:
        later_us = reservation.start_us - told[-1]["data"]["start_us"]
        ahead_us = told[-1]["data"]["start_us"] - told[-1]["at_s"] * SECOND_US
        assert later_us <= max(60 * SECOND_US, 0.05 * ahead_us), (told[-1], reservation)


@pytest.mark.slow
def test_all_pages_agree_in_every_second_of_a_busy_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # The CPU time of this machine decides nothing here.
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.CHEAP_S", 1e9)
    monkeypatch.setattr("gpusquad.server.services.queries.plan_forecast.RANGE_S", 1e9)
    monkeypatch.setattr("gpusquad.server.services.queries.queries.REASONS_S", 1e9)
    hour, draw = BusyHour(tmp_path, seed=27), Random(1)
    most_pending = 0
    learned = 0
    for number in range(HOUR_S):
        hour.second(number)
        hour.scheduler.queries.keep_first_forecasts()
        state = hour.scheduler.context.state
        pending = len(state.queue)
        if number % 60 == 0:
            check_services(hour, 0, 1000)
        else:
            check_services(hour, draw.randrange(max(1, pending)), 2)
        if number % 12 == 0:
            check_api(hour, draw)
        most_pending = max(most_pending, pending)
        ranges = hour.scheduler.context.starts.at(hour.clock.at_us)
        learned += ranges.high_us("a", hour.clock.at_us, hour.clock.at_us) is not None
    assert most_pending > 5, "the hour is busy"
    assert learned > HOUR_S / 4, "P90 starts come from past ones"
    assert min(hour.updates, hour.cancels, hour.drains) > 2
    hour.rig.database.close()
