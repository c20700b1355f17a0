"""One decision cycle: snapshot, admit, order, plan, place, decide."""

from __future__ import annotations

from collections.abc import Iterator

from gpusquad.core.board import Board
from gpusquad.core.elastic import resize
from gpusquad.core.limits import hold_over_limit
from gpusquad.core.preempt import preempt
from gpusquad.core.state import State
from gpusquad.model.decision import Decision, Stop
from gpusquad.model.units import show_us


def cycle(state: State, now_us: int) -> list[Decision]:
    """What to do now. The state already reflects the decisions when they are returned."""
    state.now_us = now_us
    open_windows(state)
    extend_overdue(state)
    state.resort()
    hold_over_limit(state)
    board = Board(state)
    if state.claims:
        board.start_claims()
    state.policies.plan.walk(board)
    board.finish()
    board.decisions.extend(resize(state))
    board.decisions.extend(preempt(state))
    board.decisions.extend(stop_over_limit(state))
    return board.decisions


def open_windows(state: State) -> None:
    """Maintenance that is over gives its nodes back, so everybody is looked at anew."""
    windows = state.timeline.windows
    over = [w for w in windows if w.end_us is not None and w.end_us <= state.now_us]
    if over:
        state.timeline.windows = [w for w in windows if w not in over]
        state.brighter = True
        state.unsettle()


def extend_overdue(state: State) -> None:
    """Who runs past its prediction is believed to need as long again; promises that counted on it are remade."""
    for run in state.runs.overdue(state.now_us):
        passed = state.now_us - run.started_us
        longer = max(run.forecast.high_us, 2 * passed)
        state.move_end(run.job.id, run.started_us + longer, f"{run.job.id} runs longer than predicted")


def stop_over_limit(state: State) -> Iterator[Decision]:
    """An estimate never ends a job, a limit does."""
    for at_us, _, job_id in state.runs.limits:
        if at_us > state.now_us:
            break
        run = state.runs[job_id]
        if not run.leaving:
            run.leaving = True
            yield Stop(job_id, f"ran for {show_us(state.now_us - run.started_us)}, its time limit")
