"""Invariants of the stress tests: the store, the scheduler's memory, the core and the engine agree."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import fields

from gpusquad.core.ports import Launch
from gpusquad.core.transitions import FINAL, NEXT, JobState
from gpusquad.server.services.jobs.outcomes import ON_CARDS
from gpusquad.server.services.runtime.records import forecast_of, placement_of, seats_of
from gpusquad.store import attempts, events, jobs
from gpusquad.store.database import Database, StoreUnavailable
from gpusquad.store.jobs import JobRow
from tests.audit import audit
from tests.server.services.world import World

SATISFIED_BY = {
    "success": {JobState.SUCCEEDED},
    "failure": {JobState.FAILED, JobState.TIMED_OUT, JobState.CANCELLED},
    "any": set(FINAL),
}


class FlakyDatabase(Database):
    """A store that fails the next `failing` writes."""

    failing = 0

    @contextmanager
    def write(self):
        if self.failing:
            self.failing -= 1
            raise StoreUnavailable("the disk is full")
        with super().write() as connection:
            yield connection


class Checks:
    """Checks a world's invariants after each step."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.after: dict[str, list[tuple[str, str]]] = {}
        """Dependencies of each job: other job and required end."""
        self.errors: list[str] = []
        """Exceptions that the scheduler logged."""
        self._last_event = 0
        self._states: defaultdict[str, JobState | None] = defaultdict(lambda: None)
        self._started: set[tuple[str, int]] = set()

    # -- after each step -------------------------------------------------------------------------------------------

    def check(self) -> None:
        world = self._world
        context = world.scheduler._context
        assert not self.errors, self.errors
        assert not world.engine.invalid_launches, world.engine.invalid_launches
        world.engine.check_cards()
        with world.database.read() as connection:
            stored = {row.id: row for row in jobs.unfinished(connection)}
            self._check_events(connection)
        for job_id, row in stored.items():
            assert self._states[job_id] == row.state, f"{job_id} is {row.state}, its events say {self._states[job_id]}"
        unloaded = stored.keys() - context.rows.keys()
        assert not unloaded or context.loop._inbox, f"{unloaded} are stored, but not loaded by the scheduler"
        for job_id, row in context.rows.items():
            assert job_id in stored, f"{job_id} has ended, but is still loaded"
            assert_rows_equal(row, stored[job_id])
        self._check_core(context.rows)
        self._check_engine(context.rows)

    def check_launch(self, launch: Launch) -> None:
        """Check a launch against the store; called before each launch."""
        with self._world.database.read() as connection:
            row = jobs.get(connection, launch.job_id)
            assert row is not None, "starts, but is not stored"
            assert (row.state, row.attempt, row.stop) == ("starting", launch.attempt, None)
            for other, on in self.after.get(launch.job_id, ()):
                dependency = jobs.get(connection, other)
                assert dependency is not None
                assert JobState(dependency.state) in SATISFIED_BY[on], (
                    f"starts before the {on} of {other}, which is {dependency.state}"
                )

    def _check_events(self, connection) -> None:
        for event in events.after(connection, self._last_event, 100_000):
            self._last_event = event.id
            before, then = self._states[event.job_id], JobState(event.state)
            if event.kind == "starting":
                assert (event.job_id, event.attempt) not in self._started, (
                    f"{event.job_id} uses an attempt number twice"
                )
                self._started.add((event.job_id, event.attempt))
            if before != then:
                assert then in NEXT[before], f"{event.job_id}: {before} -> {then}"
                self._states[event.job_id] = then

    def _check_core(self, rows: dict[str, JobRow]) -> None:
        context = self._world.scheduler._context
        state = context.state
        pending = {row.id for row in rows.values() if row.state == JobState.PENDING}
        refused = {refusal.job_id for refusal in context.driver._refused}
        assert {waiting.job.id for waiting in state.queue} == pending - refused
        for waiting in state.queue:
            assert waiting.prediction == forecast_of(rows[waiting.job.id]), (
                "the core plans with another prediction than the stored one"
            )
        on_cards = {row.id for row in rows.values() if JobState(row.state) in ON_CARDS}
        on_missing_cards = {
            i for i in on_cards if placement_of(rows[i].placement or {}, context.job(i), context.fixed) is None
        }
        assert state.runs.by_id.keys() == on_cards - on_missing_cards
        for job_id, run in state.runs.by_id.items():
            row = rows[job_id]
            seats = [list(seat.cards) for seat in seats_of(run.job, run.placement, context.fixed)]
            assert seats == [task["cards"] for task in (row.placement or {})["tasks"]]
            assert run.leaving == (row.state in ("preempting", "stopping", "lost")), row.state
            assert (run.attempt, run.kept_us, run.preemptions) == (row.attempt, row.kept_us, row.preemptions)
        for waiting in state.queue:
            row = rows[waiting.job.id]
            assert waiting.attempt == row.attempt
            assert waiting.job == context.jobs[row.id]
        assert state.claims.keys() <= pending
        audit(state, state.now_us, reservations=not any(run.leaving for run in state.runs.by_id.values()))

    def _check_engine(self, rows: dict[str, JobRow]) -> None:
        world = self._world
        on_cards = {(row.id, row.attempt): row for row in rows.values() if JobState(row.state) in ON_CARDS}
        for key in world.engine.running:
            assert key in on_cards, f"{key} runs, but the scheduler does not know it"
        if not world.scheduler._context.loop._inbox and not world.engine.undelivered:
            assert world.engine.running.keys() == on_cards.keys()
        for key, launch in world.engine.running.items():
            assert [list(t.cards) for t in launch.tasks] == [t["cards"] for t in on_cards[key].placement["tasks"]]  # type: ignore[index]

    # -- at the end ------------------------------------------------------------------------------------------------

    def check_all_finished(self) -> None:
        context, world = self._world.scheduler._context, self._world
        assert not context.rows, {row.id: (row.state, row.cause, row.stop, row.after) for row in context.rows.values()}
        state = context.state
        space = state.space
        assert space.card_idle.all()
        assert space.all_well
        for name in ("card_memory_free", "card_sm_free", "card_slots_free", "node_cpu_free", "node_memory_free"):
            fresh = type(space)(space.fixed)
            assert (getattr(space, name) == getattr(fresh, name)).all(), name
        assert not world.engine.running
        for left in (state.claims, state.timeline.reservations, state.first_reserved_us, state.new_jobs,
                     state.shape_waiting,
                     state.runs.ends, state.runs.limits, context.jobs):  # fmt: skip
            assert not left
        assert all(not (held.gpus or held.cpu_milli or held.memory_bytes) for held in state.accounts.held.values())
        with world.database.read() as connection:
            for job_id in self._states:
                assert all(attempt.ended_us is not None for attempt in attempts.of_job(connection, job_id)), job_id


def assert_rows_equal(loaded: JobRow, stored: JobRow) -> None:
    for column in fields(JobRow):
        loaded_value, stored_value = getattr(loaded, column.name), getattr(stored, column.name)
        assert loaded_value == stored_value, (
            f"{loaded.id}.{column.name}: {loaded_value!r} in memory, {stored_value!r} stored"
        )
