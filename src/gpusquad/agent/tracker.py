"""Tracks the progress of one task from its output: several bars, nested bars, bars that start again."""

from __future__ import annotations

import re
from dataclasses import replace

from gpusquad.agent.output_signs import OutputSigns
from gpusquad.agent.progress import LINE_LENGTH, ProgressLine, StepProgress, combine, read
from gpusquad.model.units import US_PER_S

_FORGET_US = 3600 * US_PER_S
_LINE_ENDS = re.compile(rb"(\r\n|[\r\n])")


class Tracker:
    """Fed with bytes as they arrive."""

    def __init__(self) -> None:
        self.progress: StepProgress | None = None
        self.moved_us: int | None = None
        """Time of the last step of any bar, also of one that is not shown."""
        self.signs = OutputSigns()
        self._rest = b""
        self._main: ProgressLine | None = None
        self._main_us = 0
        self._header: ProgressLine | None = None
        self._rounds = 0
        self._last: ProgressLine | None = None

    def feed(self, data: bytes, now_us: int, *, after_gap: bool = False) -> None:
        """Add output. After a gap the first line is incomplete and ignored."""
        parts = _LINE_ENDS.split((b"" if after_gap else self._rest) + data)
        if after_gap:
            parts = parts[2:] or [b""]
        # The last line may be incomplete; it counts when its end comes or nothing more does.
        self._rest = parts.pop()[-4 * LINE_LENGTH :]
        for line, end in zip(parts[::2], parts[1::2], strict=True):
            self._take(line, now_us, complete=end != b"\r")

    def settle(self, now_us: int) -> None:
        """Nothing came for a while: a line without an end is complete. Bars end where their next drawing starts."""
        rest, self._rest = self._rest, b""
        if rest:
            self._take(rest, now_us, complete=False)

    def _take(self, line: bytes, now_us: int, *, complete: bool) -> None:
        seen = read(line)
        self.signs.take(line, seen, now_us, complete=complete)
        if seen is None:
            return
        if seen != self._last:
            self._last, self.moved_us = seen, now_us
        if seen.step is None:
            self._take_header(seen)
        elif not self._is_inside(seen, now_us):
            self._take_bar(seen, now_us)

    def _take_header(self, seen: ProgressLine) -> None:
        """An epoch starts or ends on a line of its own; the bars that follow are parts of it."""
        self._header = seen
        total = self._main.total if self._main is not None else None
        self.progress = combine(seen if total is None else replace(seen, step=0, total=total))

    def _is_inside(self, seen: ProgressLine, now_us: int) -> bool:
        """A bar of another length while the main one is not finished, such as an evaluation during training, or one
        that is labelled as an evaluation. Lightning's has the same length as the training if their data has."""
        main = self._main
        if main is None or main.total is None or now_us - self._main_us >= _FORGET_US:
            return False
        if seen.is_evaluation and not main.is_evaluation:
            return True
        return main.total != seen.total and main.step is not None and main.step < main.total

    def _take_bar(self, seen: ProgressLine, now_us: int) -> None:
        main = self._main
        if main is not None and seen.epochs_done is not None and seen == replace(main, step=0):
            return  # Lightning resets its bar before it names the next epoch
        if main is None or main.total != seen.total:
            self._rounds = 0
            if main is not None and main.step == main.total:
                self._header = None  # what comes after the last bar is not part of its epochs
        elif seen.epochs_done is None and self._header is None and _starts_again(main, seen):
            self._rounds += 1
        self._main, self._main_us = seen, now_us
        if seen.epochs_done is None and self._header is not None:
            seen = replace(seen, epochs_done=self._header.epochs_done, epochs=self._header.epochs)
        elif seen.epochs_done is None and self._rounds:
            # The same bar repeatedly: rounds without a known number. Their count continues, the end is unknown.
            seen = replace(seen, epochs_done=self._rounds)
        self.progress = combine(seen)


def _starts_again(before: ProgressLine, now: ProgressLine) -> bool:
    """From near the end to near the start. A smaller step back may be several programs that draw over each other."""
    if before.step is None or now.step is None or not before.total:
        return False
    return before.step >= 0.9 * before.total and now.step <= 0.1 * before.total
