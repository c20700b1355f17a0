"""Losses in the lines of a task: whether they are numbers, whether one falls, and whether another value changes.

Lines are untrusted input: patterns have bounded repetitions, and memory is bounded.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_NUMBER = r"[-+]?(?:\d{1,15}(?:\.\d{0,20})?|\.\d{1,20})(?:e[-+]?\d{1,4})?"
_LOSS = re.compile(
    r"((?:\b(?:best|min|minimum|lowest|least|previous|prev)[ _-](?:[a-z]{1,16}[ _]){0,2})?"
    r"[a-z_]{0,32}loss(?:es)?(?:_[a-z_]{0,32})?|\bperplexity|\bppl|\bobjective|\bnll|\belbo)[\"'\]]?\s{0,4}"
    rf"(?:[:=]|is|was)?\s{{0,4}}(?:tensor\(|[\"'])?([-+]?(?:nan|inf(?:inity)?)\b|null\b|{_NUMBER})",
    re.IGNORECASE,
)
_BEST = frozenset({"best", "min", "minimum", "lowest", "least", "previous", "prev"})
"""Words in names of a loss so far, which is infinite before there is one."""
_TRAINING = re.compile(
    r"(?:train(?:ing)?|total|mean|avg|average|running|batch|smoothed)?_?loss(?:es)?|perplexity|ppl", re.I
)
"""Losses that are there from the first step on. Others, such as of a validation, may come later."""
_GRADIENT = re.compile(r"\b(?:grad(?:ient)?[_ ]?norm|gnorm)[\"']?\s{0,4}[:=]?\s{0,4}(?:tensor\(|[\"'])?nan\b", re.I)
_VALUE = re.compile(rf"\b([a-z_]{{2,32}})[\"']?\s{{0,3}}[:=]?\s{{0,3}}[\"']?({_NUMBER})(?![\w./%])", re.IGNORECASE)
_RATE = re.compile(r"(?:.{0,24}_)?(?:lr|learning_rate)", re.IGNORECASE)
_MACHINE = re.compile(r"step|epoch|iter|time|eta|scale|speed|throughput|per_|wps|ups|tps|mem|rss|gpu|cpu|norm", re.I)
"""Values of the machine and of the loop. They change also if the model is lost."""
_NAME = re.compile(r"[A-Za-z][\w/() -]{0,40}")
_MAX_LOSSES = 64
_MAX_COLUMNS = 64
_IMPROVES = 1e-4
"""Least relative improvement of a loss."""
_IMPROVES_OF_SPREAD = 0.1
"""The same as a fraction of how far it has spread, so that noise soon brings no new best one."""


@dataclass(slots=True)
class _Course:
    best: float
    most: float

    def improves(self, value: float) -> bool:
        self.most = max(self.most, value)
        margin = max(_IMPROVES * abs(self.best), _IMPROVES_OF_SPREAD * (self.most - self.best))
        if value >= self.best - margin or value == self.best:
            return False
        self.best = value
        return True


class LossSigns:
    """Fed with every line of one task."""

    def __init__(self) -> None:
        self.has_losses = False
        self.nan_us: int | None = None
        self.nan_lines = 0
        self.improved_us: int | None = None
        """When a loss was last clearly less than ever before at the same step."""
        self._finite: set[str] = set()
        """Names of losses that were numbers."""
        self._courses: dict[str, _Course] = {}
        self._values: dict[str, float] = {}
        self._others_change = False
        self._header: tuple[str, list[str]] | None = None

    @property
    def is_doubtful(self) -> bool:
        """Whether the losses were never numbers, while another value changes: of other trials, or a reward."""
        return not self._finite and self._others_change

    def restart(self) -> None:
        """Another step: its losses are compared with each other only."""
        self._courses.clear()

    def take(self, text: str, masked: str, at_us: int, *, has_step: bool) -> bool:
        """Whether it shows a loss. ``masked``: the text without times."""
        found = [(name.lower(), value.lower()) for name, value in _LOSS.findall(text)]
        losses = [(name, value) for name, value in found if not _BEST & set(re.split(r"[ _-]", name))]
        losses += self._in_table(text)
        no_gradient = _GRADIENT.search(text) is not None
        numbers = [(name, float(value)) for name, value in losses if value[-1].isdigit() or value[-1] == "."]
        finite = [(name, value) for name, value in numbers if math.isfinite(value) and not (no_gradient and value == 0)]
        if finite:
            self._take_numbers(finite, at_us)
            return True
        lost = any(self._counts(name, value) for name, value in losses)
        if not lost and not no_gradient:
            return False
        self.has_losses = True
        self.nan_us = at_us if self.nan_us is None else self.nan_us
        self.nan_lines += 1
        if not no_gradient:
            self._compare_others(masked, has_step=has_step)
        return True

    def _take_numbers(self, finite: list[tuple[str, float]], at_us: int) -> None:
        self.has_losses, self.nan_us, self.nan_lines = True, None, 0
        for name, value in finite:
            if len(self._finite) < _MAX_LOSSES:
                self._finite.add(name)
            course = self._courses.get(name)
            if course is not None and course.improves(value):
                self.improved_us = at_us
            elif course is None and len(self._courses) < _MAX_LOSSES:
                self._courses[name] = _Course(value, value)

    def _counts(self, name: str, value: str) -> bool:
        if value == "null":
            return name in self._finite  # else it may not be computed in each step
        return _TRAINING.fullmatch(name) is not None or name in self._finite

    def _compare_others(self, masked: str, *, has_step: bool) -> None:
        """A value that falls is no count. A learning rate beside a step follows its schedule."""
        for name, shown in _VALUE.findall(masked):
            name, value = name.lower(), float(shown)
            is_rate = _RATE.fullmatch(name) is not None
            if "loss" in name or (has_step if is_rate else _MACHINE.search(name)):
                continue
            if name in self._values and value < self._values[name]:
                self._others_change = True
            if name in self._values or len(self._values) < _MAX_LOSSES:
                self._values[name] = value

    def _in_table(self, text: str) -> list[tuple[str, str]]:
        """Losses in a row of a table whose header was printed. The last header counts."""
        heads = _cells(text, "," if "," in text else "")
        if 2 <= len(heads) <= _MAX_COLUMNS and all(_NAME.fullmatch(cell) for cell in heads):
            if any(cell.lower().endswith("loss") for cell in heads) and not _LOSS.search(text):
                self._header = ("," if "," in text else "", [cell.lower() for cell in heads])
            return []
        if self._header is None:
            return []
        cells = _cells(text, self._header[0])
        if len(cells) < len(self._header[1]):
            return []
        columns = zip(self._header[1], cells, strict=False)
        losses = [(name, value.lower()) for name, value in columns if name.endswith("loss")]
        if any(re.fullmatch(rf"{_NUMBER}|[-+]?nan|[-+]?inf", value) is None for _, value in losses):
            return []
        if all(value[-1] in "nf" for _, value in losses):
            return [("loss", "nan")]
        return losses


def _cells(text: str, separator: str) -> list[str]:
    return [cell.strip() for cell in (text.split(separator) if separator else text.split())]
