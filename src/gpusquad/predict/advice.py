"""Advice on what a job should request, based on similar jobs. Every number has a reason; without evidence there is no
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import fmean

from gpusquad.model.job import Job
from gpusquad.model.prediction import Quantiles
from gpusquad.model.units import show_gib
from gpusquad.predict.host_advice import HostAdvice, HostRoom, cpu_advice, memory_advice
from gpusquad.predict.memory import PeakPrediction
from gpusquad.predict.scaling import MIN_EFFICIENCY, SIZES, Curve, curve, worth
from gpusquad.predict.similar_runs import RunGroup, RunSummary

GIB = 2**30
SAFE_LEVEL, WARN_LEVEL = 0.95, 0.9
"""The fraction of runs that should fit into the advised request, and into a request that gets no warning."""
IDLE_RATIO = 0.05
"""A card that was busy for a smaller fraction of the time counts as unused."""
SHAREABLE_RATIO = 0.4
"""A card that was busy for a smaller fraction of the time could be shared."""
SHOWN_GPUS = 8
"""Run times are shown up to this number of GPUs, or up to the requested number."""


@dataclass(frozen=True, slots=True)
class RunUtilisation:
    """How busy a run kept each of its cards."""

    job_id: str
    busy: tuple[float, ...]

    @property
    def idle(self) -> int:
        return sum(ratio < IDLE_RATIO for ratio in self.busy)


@dataclass(frozen=True, slots=True)
class AdviceInput:
    """The evidence that advice is based on."""

    group: RunGroup | None = None
    runs: Sequence[RunSummary] = ()
    """Runs of the most similar group of jobs."""
    peak: PeakPrediction | None = None
    uses: Sequence[RunUtilisation] = ()
    """Of the last runs with the same number of cards as the latest one."""
    run: Quantiles | None = None
    """Predicted run time with the current request."""
    card_bytes: Sequence[int] = ()
    """Memory of the cards it may run on."""
    max_gpus: int = SHOWN_GPUS
    """Cards of the largest node."""
    limit_gpus: int | None = None
    """The limit of its tenant. None: no limit."""
    room: HostRoom = HostRoom()  # noqa: RUF009, it is frozen
    """CPU and memory of the nodes."""


@dataclass(frozen=True, slots=True)
class ScalingPoint:
    """Run time and efficiency with a number of GPUs."""

    gpus: int
    run: Quantiles
    efficiency_ratio: float


@dataclass(frozen=True, slots=True)
class AdvisedValue:
    """One number and its reason."""

    value: int
    why: str
    source: str = "history"
    """``history`` or ``estimate``."""


@dataclass(frozen=True, slots=True)
class ResourceAdvice:
    """Advised requests. None: no evidence."""

    gpus: AdvisedValue | None = None
    memory: AdvisedValue | None = None
    """Bytes of one card: the minimum card memory, or the share of it."""
    cpu_milli: HostAdvice | None = None
    """For each task."""
    host_memory: HostAdvice | None = None
    """Bytes of main memory for each task."""
    times: tuple[ScalingPoint, ...] = ()
    notes: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """What the user can do to provide missing evidence."""


def advise(job: Job, known: AdviceInput, *, is_open: bool = False, ratio: float = MIN_EFFICIENCY) -> ResourceAdvice:
    """Advise on the requests of a job. ``is_open``: the job leaves its number of GPUs open, so its own number is no
    evidence.
    """
    found = curve(job, known.runs, known.run)
    gpus, notes = _gpus(job, known, found, is_open, ratio)
    memory = _memory(known)
    return ResourceAdvice(
        gpus=gpus,
        memory=memory,
        cpu_milli=cpu_advice(job, known.group, known.runs, known.room),
        host_memory=memory_advice(job, known.group, known.runs, known.room),
        times=_times(job, found, known),
        notes=tuple(note for note in (*notes, _memory_note(known), _share_note(job, known, memory)) if note),
        missing=tuple(_missing(known, found)),
    )


def memory_warning(job: Job, peak: PeakPrediction | None, card_bytes: int = 0) -> str:
    """A warning if the job requests less card memory than similar jobs hold, else an empty text. ``card_bytes``: memory
    of the largest card, for requests of a fraction.
    """
    if peak is None:
        return ""
    needed = peak.bytes.at(WARN_LEVEL)
    for role in job.roles:
        request = role.request
        asked, name = request.min_card_memory_bytes, "gpu_memory"
        if request.share is not None:
            named = "share.memory" if request.share.memory_bytes else "share"
            asked, name = 0 if request.share.is_slot_only else request.share.memory_on(card_bytes), named
        if 0 < asked < needed:
            return (
                f"{name} of {show_gib(asked)} is less than the {show_gib(needed)} predicted peak "
                f"({_source(peak)}); request {rounded_gib(peak.bytes.at(SAFE_LEVEL))}"
            )
    return ""


# -- GPUs ----------------------------------------------------------------------------------------------------------


def _gpus(
    job: Job, known: AdviceInput, found: Curve | None, is_open: bool, ratio: float
) -> tuple[AdvisedValue | None, list[str]]:
    if job.has_shares or (not job.gpus and not is_open):
        return None, []
    used = _by_use(known)
    if used is not None and not is_open and used.value > job.gpus:
        used = None  # it already requests less
    choices = [choice for choice in (used, _by_scaling(job, known, found, is_open, ratio)) if choice]
    best = min(choices, key=lambda choice: choice.value, default=_by_last_run(known) if is_open else None)
    if best is None:
        return None, []
    if is_open:
        best = _within(_per_task(best, job.tasks), job, known)
    tried = found.tried if found is not None else frozenset()
    notes = []
    if tried and best.value < min(tried) and not _was_idle(known):
        notes.append(
            f"a similar job never ran with {_gpu_count(best.value)}: if it splits its network over its cards, each "
            "will hold more"
        )
    return best, notes


def _within(best: AdvisedValue, job: Job, known: AdviceInput) -> AdvisedValue:
    """Limit the advice to what can be granted, so that the job is not refused because of it."""
    most, why = known.max_gpus, f"no node has more than {known.max_gpus}"
    if known.limit_gpus is not None and known.limit_gpus // job.tasks < most:
        most, why = known.limit_gpus // job.tasks, f"tenant {job.tenant} has a limit of {known.limit_gpus}"
    return best if best.value <= most else replace(best, value=max(1, most), why=f"{best.why}; {why}")


def _per_task(best: AdvisedValue, tasks: int) -> AdvisedValue:
    """Advice on the whole gang, divided by its tasks."""
    if tasks == 1:
        return best
    return replace(best, value=max(1, best.value // tasks), why=f"{best.why}; divided by {tasks} tasks")


def _by_use(known: AdviceInput) -> AdvisedValue | None:
    """Leave out cards that were idle in all of the last runs."""
    if not _was_idle(known):
        return None
    cards, idle = len(known.uses[0].busy), min(use.idle for use in known.uses)
    last = f"the last {len(known.uses)} runs" if len(known.uses) > 1 else "the last run"
    return AdvisedValue(cards - idle, f"{idle} of the {cards} cards were idle in {last}")


def _by_last_run(known: AdviceInput) -> AdvisedValue | None:
    """Without a comparison, advise the number of GPUs of the last completed run."""
    sizes = [seen.gpus for seen in known.runs if seen.is_whole and seen.gpus]
    if not sizes or known.group is None:
        return None
    return AdvisedValue(sizes[-1], f"the last of the {known.group.name} had {_gpu_count(sizes[-1])}")


def _was_idle(known: AdviceInput) -> bool:
    """Whether some cards were idle in all runs. If all cards were idle, the job did not start to work or the card
    reports no utilisation.
    """
    return bool(known.uses) and all(0 < use.idle < len(use.busy) for use in known.uses)


def _by_scaling(job: Job, known: AdviceInput, found: Curve | None, is_open: bool, ratio: float) -> AdvisedValue | None:
    """Advise by scaling: never more than was requested, tried or computed, and never from a default curve."""
    if found is None or found.source == "default":
        return None
    most = min(max(found.known), known.max_gpus * job.tasks) if is_open else job.gpus
    least = _least(found, known.runs)
    best = worth(found, max(most, least), least, ratio)
    said = "runs with " + _listed(sorted(found.tried)) if found.source == "history" else "the job file"
    why = f"by {said}: {best} {'takes' if best == 1 else 'take'} {_brought(found, best, ' efficient')}"
    source = "history" if found.source == "history" else "estimate"
    return AdvisedValue(best, why if best >= most else f"{why}, {most} would take {_brought(found, most)}", source)


def _brought(found: Curve, gpus: int, unit: str = "") -> str:
    return f"{show_s(found.run(gpus).at(0.5))} ({_percent(found.efficiency(gpus))}{unit})"


def _least(found: Curve, runs: Sequence[RunSummary]) -> int:
    """The smallest number of GPUs to advise. If smaller runs than any completed one failed, they may not fit."""
    failed = {seen.gpus for seen in runs if seen.how == "failed"}
    return min(found.tried) if found.tried and any(0 < size < min(found.tried) for size in failed) else 1


def _times(job: Job, found: Curve | None, known: AdviceInput) -> tuple[ScalingPoint, ...]:
    if found is None or job.has_shares:
        return ()
    most = max(min(SHOWN_GPUS, known.max_gpus), job.gpus, *found.tried)
    sizes = sorted({size for size in SIZES if size <= most} | {job.gpus, *found.tried})
    return tuple(ScalingPoint(size, found.run(size), found.efficiency(size)) for size in sizes if size)


# -- memory --------------------------------------------------------------------------------------------------------


def _memory(known: AdviceInput) -> AdvisedValue | None:
    if known.peak is None:
        return None
    needed = _up_to_gib(known.peak.bytes.at(SAFE_LEVEL))
    # Cards have a little less memory than their name states. The advice must not exclude the largest card.
    largest = max(GIB, max(known.card_bytes, default=needed) // GIB * GIB)
    peak = known.peak.bytes
    why = f"peak {show_gib(peak.at(0.5))} median, {show_gib(peak.at(0.9))} P90 ({_source(known.peak)})"
    return AdvisedValue(min(needed, largest), why, "history" if known.peak.group is not None else "estimate")


def _memory_note(known: AdviceInput) -> str:
    if known.peak is None or not known.card_bytes:
        return ""
    needed, largest = known.peak.bytes.at(0.5), max(known.card_bytes)
    if needed <= largest:
        return ""
    return (
        f"it is predicted to hold {show_gib(needed)} of a card and the largest card has {show_gib(largest)}: more "
        "cards help only if the program splits its network over them (sharding, tensor or pipeline parallel)"
    )


def _share_note(job: Job, known: AdviceInput, memory: AdvisedValue | None) -> str:
    """A note for a job that leaves most of its card idle."""
    busy = [fmean(use.busy) for use in known.uses if len(use.busy) == 1]
    if job.gpus != 1 or job.has_shares or not busy or memory is None or not known.card_bytes:
        return ""
    if max(busy) >= SHAREABLE_RATIO or 2 * memory.value > min(known.card_bytes):
        return ""
    sm = max(1, ceil(max(busy) * 12)) / 10
    return (
        f"it kept its card busy {_percent(max(busy))} of the time: share: {{memory: {rounded_gib(memory.value)}, "
        f"sm: {sm:g}}} would be enough instead of a whole card"
    )


# -- other -------------------------------------------------------------------------------------------------------


def _missing(known: AdviceInput, found: Curve | None) -> list[str]:
    missing = []
    if not known.runs:
        missing.append("no similar run is known: run it once, with a name or app that similar jobs share")
    if known.peak is None:
        missing.append("its memory is measured while it runs; or set expect.memory in the job file")
    if found is None or found.source == "default":
        missing.append("for the number of GPUs, run it with two different numbers, or set expect.by_gpus")
    return missing


def rounded_gib(amount: int) -> str:
    """As written in a job file, rounded up."""
    return f"{ceil(amount / GIB)}GiB"


def show_s(us: int) -> str:
    seconds = us / 1e6
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{_short(seconds / size)} {unit}"
    return f"{_short(seconds)} s"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}".removesuffix(".0")


def _up_to_gib(amount: int) -> int:
    return ceil(amount / GIB) * GIB


def _source(peak: PeakPrediction) -> str:
    if peak.group is not None:
        return f"{len(peak.runs)} {peak.group.name}"
    return "the estimate in the job file" if peak.bytes.source == "analytical" else "the profile in the job file"


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.0f} %"


def _gpu_count(gpus: int) -> str:
    return f"{gpus} GPU{'s' * (gpus != 1)}"


def _listed(sizes: Sequence[int]) -> str:
    texts = [str(size) for size in sizes]
    return f"{', '.join(texts[:-1])} and {texts[-1]} GPUs" if len(texts) > 1 else _gpu_count(sizes[0])
