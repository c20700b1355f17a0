"""What the lines of a task tell about it: whether they are new, or repeat, and whether its losses are numbers.

A program that works prints lines that it has not printed before, at least because a number in them changes. A loop
prints the same lines again. Times are masked, because they change in a loop as well.

Lines are untrusted input: patterns have bounded repetitions, and memory is bounded.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass

from gpusquad.agent.attempts import AttemptLines, LineTone, tone_of
from gpusquad.agent.losses import LossSigns
from gpusquad.agent.progress import ProgressLine
from gpusquad.agent.step_signs import StepSigns

KEPT_LINES = 4096
"""Distinct lines remembered per task. A loop with more of them looks like new output."""
SAMPLE_LINES = 3
SAMPLE_LENGTH = 160
_KEY_LENGTH = 400
_N = r"\d{1,12}(?:[.,]\d{1,12})?"
_TIME_LIKE = re.compile(
    r"\x1b\[[0-9;?]{0,32}[A-Za-z]"  # colours
    r"|\d{4}-\d{2}-\d{2}|\d{1,4}/\d{1,2}/\d{1,4}(?=[ T])"  # dates
    r"|\d{1,3}:\d{2}(?::\d{2})?(?:[.,]\d{1,9})?"  # clock times, and durations of progress bars
    r"|\b1[5-9]\d{8}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?\b"  # seconds to nanoseconds since 1970
    rf"|{_N}\s?[A-Za-z]{{0,10}}/(?:s|sec|it|step)\b"  # rates
    rf"|\b{_N}\s?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?)\b"
    rf"|\b(?:elapsed|eta|time|took|duration|uptime|pid)[_a-z]{{0,12}}[\"']?\s{{0,3}}[:=]?\s{{0,3}}{_N}"
    r"|\b0x[0-9a-f]{4,16}\b",
    re.IGNORECASE,
)
_PERCENT = re.compile(r"(\d{1,3})(?:\.\d{1,6})?\s?%")
_DIGITS = re.compile(r"\d{1,12}")
_FLOAT = re.compile(r"[-+]?\d{1,12}(?:\.\d{1,20})(?:e[-+]?\d{1,4})?|[-+]?\d{1,12}e[-+]?\d{1,4}|\b(?:nan|inf)\b", re.I)
_EVALUATION = re.compile(r"\b(?:eval|valid|test)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class OutputReading:
    """Signs so far. Times are those of the output."""

    new_us: int | None = None
    """Last line that was not there before, and the number of complete lines since then."""
    repeated: int = 0
    troubles: int = 0
    """Of these lines, those about errors or waiting. Zero if one of them says that something was done."""
    crashes: int = 0
    """Of these, those about a program that ended."""
    succeeds: bool = False
    """Whether one says that something was done, and nothing of errors or waiting."""
    retry_us: int | None = None
    retries: int = 0
    """The same, where a line that only counts attempts is not new."""
    alike_us: int | None = None
    alike: int = 0
    """The same, where no number in a line makes it new unless it is progress or a loss."""
    same_step: int = 0
    """Complete lines with the same step, apart from fractions in them, since a step or any other word changed."""
    same_step_us: int | None = None
    longest_step_us: int | None = None
    improved_us: int | None = None
    """Last loss that was clearly less than all before it at the same step."""
    ahead_us: int | None = None
    """Last line with a step, or anything else but fractions, that was not there before."""
    falls: int = 0
    """Times since then that the steps went back, without having reached their end."""
    restarts: int = 0
    """Lines about errors and restarts since then."""
    nan_us: int | None = None
    """First loss that is not a number since the last that is, and the lines with such a loss since then."""
    nan_lines: int = 0
    nan_doubtful: bool = False
    """Whether the losses were never numbers, while another value changes."""
    has_losses: bool = False
    steps: int = 0
    """Lines that showed another progress than the one before."""
    ends_in_training: bool = False
    """Whether its last line shows progress or a loss. A program that goes on to serve, or waits for people, says so."""
    sample: tuple[str, ...] = ()
    """The last distinct lines."""


class OutputSigns:
    """Fed with every line of one task."""

    def __init__(self) -> None:
        self._exact: OrderedDict[int, None] = OrderedDict()
        self._coarse: OrderedDict[int, None] = OrderedDict()
        self._new_us: int | None = None
        self._repeated = 0
        self._attempts = AttemptLines()
        self._retry_us: int | None = None
        self._retries = 0
        self._forms: OrderedDict[int, None] = OrderedDict()
        self._alike_us: int | None = None
        self._alike = 0
        self._bar: list[str] = []
        self._troubles = 0
        self._crashes = 0
        self._is_fine = self._succeeds = False
        self._step_signs = StepSigns()
        self._losses = LossSigns()
        self._steps = 0
        self._shown: ProgressLine | None = None
        self._ends_in_training = False
        self._sample: OrderedDict[str, None] = OrderedDict()

    def reading(self) -> OutputReading:
        steps, losses = self._step_signs, self._losses
        return OutputReading(
            new_us=self._new_us, repeated=self._repeated, troubles=0 if self._is_fine else self._troubles,
            crashes=0 if self._is_fine else self._crashes, succeeds=self._succeeds,
            same_step=steps.same, same_step_us=steps.same_us,
            longest_step_us=steps.longest_us, improved_us=losses.improved_us, ahead_us=steps.ahead_us,
            falls=steps.falls, restarts=steps.restarts, nan_us=losses.nan_us, nan_lines=losses.nan_lines,
            nan_doubtful=losses.is_doubtful, has_losses=losses.has_losses, steps=self._steps,
            ends_in_training=self._ends_in_training, retry_us=self._retry_us, retries=self._retries,
            alike_us=self._alike_us, alike=self._alike, sample=tuple(self._sample),
        )  # fmt: skip

    def take(self, line: bytes, seen: ProgressLine | None, at_us: int, *, complete: bool) -> None:
        """Add a line and what it says about progress. One that is redrawn in place is not ``complete``: bars are
        redrawn while nothing moves, so it can be new, but it is no repetition."""
        text = line[:_KEY_LENGTH].decode("utf-8", "replace").strip()
        if not text:
            return
        masked = _TIME_LIKE.sub("@", text)
        has_loss = self._losses.take(text, masked, at_us, has_step=seen is not None)
        self._ends_in_training = has_loss or seen is not None
        if seen is not None and seen.step is not None and seen != self._shown:
            self._shown, self._steps = seen, self._steps + 1
        self._show(text)
        tone = tone_of(masked)
        is_new = _remember(self._exact, masked)
        is_attempt = self._attempts.take(masked) and seen is None
        is_news = is_new or self._moves(masked, complete=complete)
        if is_news:
            self._new_us, self._repeated, self._is_fine, self._succeeds = at_us, 0, False, False
            self._troubles = self._crashes = 0
        elif complete:
            self._repeated += 1
        self._hear(tone, is_repeated=complete and not is_news)
        if is_news and not is_attempt:
            self._retry_us, self._retries = at_us, 0
        elif complete:
            self._retries += 1
        if _remember(self._forms, _DIGITS.sub("#", masked)) or (is_news and (has_loss or seen is not None)):
            self._alike_us, self._alike = at_us, 0
        elif complete:
            self._alike += 1
        self._judge_step(_FLOAT.sub("#", masked), seen, at_us, complete=complete, tone=tone)

    def _hear(self, tone: LineTone, *, is_repeated: bool) -> None:
        self._troubles += is_repeated and tone.is_trouble
        self._crashes += is_repeated and tone.is_crash
        self._is_fine = self._is_fine or (is_repeated and tone.is_fine)
        self._succeeds = self._succeeds or (is_repeated and tone.is_success)

    def _moves(self, masked: str, *, complete: bool) -> bool:
        """Whether a bar shows something else than when it was last drawn. The same bar is drawn for each of many files,
        so its lines need not be new."""
        shown = _PERCENT.findall(masked) if complete else _DIGITS.findall(masked)
        if not shown:
            return False
        moves = bool(self._bar) and shown != self._bar
        self._bar = shown
        return moves

    def _judge_step(
        self, coarse: str, seen: ProgressLine | None, at_us: int, *, complete: bool, tone: LineTone
    ) -> None:
        # An evaluation prints the step of the training again and again.
        trains = None if _EVALUATION.search(coarse) else seen
        is_new = _remember(self._coarse, coarse)
        if self._step_signs.take(trains, at_us, is_new=is_new, complete=complete, is_restart=tone.is_restart):
            self._losses.restart()

    def _show(self, text: str) -> None:
        shown = text[:SAMPLE_LENGTH]
        self._sample.pop(shown, None)
        self._sample[shown] = None
        if len(self._sample) > SAMPLE_LINES:
            self._sample.popitem(last=False)


def combine_readings(readings: list[OutputReading]) -> OutputReading:
    """The tasks of a run together: it does something new if one of them does, and a finite loss in one is a loss."""
    losses = [reading for reading in readings if reading.has_losses]
    all_nan = bool(losses) and all(reading.nan_us is not None for reading in losses)
    loudest = max(readings, key=lambda reading: (reading.repeated, reading.same_step), default=OutputReading())
    return OutputReading(
        new_us=_newest(reading.new_us for reading in readings),
        repeated=loudest.repeated,
        troubles=loudest.troubles,
        crashes=loudest.crashes,
        succeeds=loudest.succeeds,
        retry_us=_newest(reading.retry_us for reading in readings),
        retries=max((reading.retries for reading in readings), default=0),
        alike_us=_newest(reading.alike_us for reading in readings),
        alike=max((reading.alike for reading in readings), default=0),
        same_step=max((reading.same_step for reading in readings), default=0),
        same_step_us=_newest(reading.same_step_us for reading in readings),
        longest_step_us=_newest(reading.longest_step_us for reading in readings),
        improved_us=_newest(reading.improved_us for reading in readings),
        ahead_us=_newest(reading.ahead_us for reading in readings),
        falls=max((reading.falls for reading in readings), default=0),
        restarts=max((reading.restarts for reading in readings), default=0),
        nan_us=max((reading.nan_us or 0 for reading in losses), default=0) if all_nan else None,
        nan_lines=max((reading.nan_lines for reading in losses), default=0) if all_nan else 0,
        nan_doubtful=any(reading.nan_doubtful for reading in losses),
        has_losses=bool(losses),
        steps=max((reading.steps for reading in readings), default=0),
        ends_in_training=bool(readings) and all(reading.ends_in_training for reading in readings),
        sample=loudest.sample,
    )


def _newest(times_us: Iterable[int | None]) -> int | None:
    return max((time_us for time_us in times_us if time_us is not None), default=None)


def _remember(kept: OrderedDict[int, None], text: str) -> bool:
    """Whether it is new."""
    key = hash(text)
    is_new = key not in kept
    kept[key] = None
    kept.move_to_end(key)
    if len(kept) > KEPT_LINES:
        kept.popitem(last=False)
    return is_new
