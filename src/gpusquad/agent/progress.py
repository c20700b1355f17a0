"""Progress of a program from a line of its output: tqdm, Lightning, Hugging Face, Keras, rich, DeepSpeed, Ray, or plain
words.

Lines are untrusted input. Every pattern has a bounded number of repetitions, so that a line costs time linear in its
length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

LINE_LENGTH = 4096
"""Of a longer line only the end counts: bars that redraw themselves put the newest state there."""


@dataclass(frozen=True, slots=True)
class StepProgress:
    """Steps done of a total, which may be unknown."""

    step: int
    total: int | None


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """Content of one line: steps, epochs, or both."""

    step: int | None = None
    total: int | None = None
    epochs_done: int | None = None
    epochs: int | None = None
    is_evaluation: bool = False
    """Its label says that it does not train."""


def parse(line: str | bytes) -> StepProgress | None:
    """The progress that a line shows by itself. None: it shows none."""
    seen = read(line)
    return None if seen is None else combine(seen)


def read(line: str | bytes) -> ProgressLine | None:
    """Content of a line; if a bar redraws itself in the line, the last state."""
    for part in reversed(re.split(r"[\r\n\b]", _clean(line))):
        seen = _read_part(part) if len(part) >= _SHORTEST else None
        if seen is not None:
            return replace(seen, is_evaluation=True) if _EVALUATION.match(part) else seen
    return None


def combine(seen: ProgressLine) -> StepProgress:
    """Epochs and steps as one count of steps, with a total if both totals are known."""
    if seen.step is None:
        return StepProgress(seen.epochs_done or 0, seen.epochs)
    if seen.epochs_done is None or seen.total is None:
        # Steps within an epoch do not count the whole: without both totals the end is unknown.
        return StepProgress(seen.step, None if seen.epochs_done is not None else seen.total)
    step = seen.epochs_done * seen.total + seen.step
    total = None if seen.epochs is None else seen.epochs * seen.total
    return StepProgress(step if total is None else min(step, total), total)


# -- the patterns ------------------------------------------------------------------------------------------------------

_SHORTEST = len("[1/2]")
_N = r"(\d{1,12})"
_COUNTED = r"\b(?:global[_ ]step|steps?|iters?|iterations?|batch)\b"
_COLOURS = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]")
_STEP_OF_TOTAL = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"%\|[^|]{{0,400}}\|\s{{0,4}}{_N}/{_N}\s{{0,4}}\[",  # tqdm:  45%|███   | 45/100 [00:10<00:12, 4.5it/s]
        rf"^\s{{0,16}}{_N}/{_N}\s{{1,4}}(?:\[[=>.]|[━╸╺])",  # Keras: 45/100 [====>...]  or  45/100 ━━━━━━
        rf"^\s{{0,16}}{_N}/{_N} - \d{{1,9}}m?s - ",  # Keras with verbose=2: 100/100 - 1s - 24ms/step - loss: 0.5
        rf"[━╸╺]\s{{1,4}}(?:\d{{1,3}}%\s{{1,3}})?{_N}/{_N}(?![\d./])",  # rich: ━━━━ 45/100
        rf"{_COUNTED}[\s:=#\[(]{{0,16}}{_N}\s{{0,12}}(?:/|of)\s{{0,12}}{_N}(?![\d./])",  # step 45/100, iter 45 of 100
        rf"\[\s{{0,12}}{_N}\s{{0,4}}/\s{{0,12}}{_N}\s{{0,4}}[\](]",  # [45/100], [640/60000 (1%)]
    )
)
_STEP_ALONE = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?<![\d.]){_N}it \[\d",  # tqdm without a total: 45it [00:10, 4.5it/s]
        rf"^\s{{0,16}}{_N}/Unknown\b",  # Keras without one
        rf"\b(?:global[_ ]step|step|iter|iteration)\b[\s:=#]{{1,16}}{_N}(?![\d./%]|\s?of)",  # step 45: loss 0.3
        rf"^steps: {_N} loss: ",  # DeepSpeed: steps: 45 loss: 0.3 iter time (s): 0.1
        rf"\btraining_iteration\b[\s:=]{{1,64}}{_N}(?![\d./%])",  # Ray's result: │ training_iteration      3 │
    )
)
_EPOCH_OF = re.compile(r"\bepochs?[\s:#\[(]{0,4}(\d{1,6})\s{0,3}(?:/|of)\s{0,3}(\d{1,6})(?![\d.%])", re.IGNORECASE)
_EPOCH = re.compile(r"\bepoch(?:\(train\))?[\s:#\[(]{0,4}(\d{1,6})(?![\d.%])", re.IGNORECASE)
_EVALUATION = re.compile(
    r"\s{0,16}(?:validat(?:ion|ing)|sanity|eval(?:uat(?:ion|ing))?|epoch\(val\))(?!\w)", re.IGNORECASE
)
_LIGHTNING_TIMES = re.compile(r"\d:\d\d • (?:\d|-:)")
"""Its rich bar shows the times taken and left like this; ``v_num`` follows only with a logger."""
_WORDS = re.compile(r"[^\W_]")


def _clean(line: str | bytes) -> str:
    text = line[-4 * LINE_LENGTH :].decode("utf-8", "replace") if isinstance(line, bytes) else line
    if len(text) > LINE_LENGTH:
        text = text[-LINE_LENGTH:].partition(" ")[2]  # the cut may have gone through a number
    return _COLOURS.sub("", text)


def _read_part(text: str) -> ProgressLine | None:
    epoch = _EPOCH_OF.search(text) or _EPOCH.search(text)
    rest = text if epoch is None else f"{text[: epoch.start()]} {text[epoch.end() :]}"
    steps = _read_steps(rest)
    if epoch is None:
        return steps
    epochs = int(epoch[2]) if epoch.re is _EPOCH_OF else None
    if epochs is not None and (epochs == 0 or int(epoch[1]) > epochs):
        return steps
    return _with_epoch(steps, int(epoch[1]), epochs, rest)


def _read_steps(text: str) -> ProgressLine | None:
    for pattern in _STEP_OF_TOTAL:
        match = pattern.search(text)
        if match is not None and 0 < int(match[2]) >= int(match[1]):
            return ProgressLine(int(match[1]), int(match[2]))
    for pattern in _STEP_ALONE:
        match = pattern.search(text)
        if match is not None:
            return ProgressLine(int(match[1]))
    return None


def _with_epoch(steps: ProgressLine | None, epoch: int, epochs: int | None, rest: str) -> ProgressLine:
    """Some frameworks count epochs from 0 (Lightning, which names the last one), some from 1."""
    lightning = "v_num" in rest or _LIGHTNING_TIMES.search(rest) is not None
    if steps is None:
        # A header is printed at the start of its epoch, a line with more content (a loss) at the end of it.
        header = _WORDS.search(rest) is None
        return ProgressLine(epochs_done=max(epoch - 1, 0) if header else epoch, epochs=epochs)
    if epochs is None or lightning or epoch == 0:
        done = epoch
    else:
        done = epoch - 1
    return ProgressLine(steps.step, steps.total, done, epochs + 1 if lightning and epochs is not None else epochs)
