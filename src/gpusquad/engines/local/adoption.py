"""What became of an attempt, found out from its run folder and the processes there are."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.core.ports import AttemptEnded, AttemptStarted, TaskEnd
from gpusquad.engines.local import claim, processes, status, stop_file
from gpusquad.engines.local.names import Key
from gpusquad.engines.local.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class UnclaimedAttempt:
    """No keeper has begun. One may still come, unless the claim is taken from it."""


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """Its keeper lives, and is held by this pidfd."""

    pidfd: int


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """Its end is written down."""

    end: dict


@dataclass(frozen=True, slots=True)
class AbandonedAttempt:
    """Its keeper is dead and has not finished. Tasks may have survived it."""

    status: dict


Finding = UnclaimedAttempt | LiveAttempt | EndedAttempt | AbandonedAttempt


def examine(folder: RunFolder) -> Finding:
    """First who lives, then what is written: a keeper writes before it ends, so nothing is missed between the two."""
    owner = claim.read(folder)
    if owner is None:
        return UnclaimedAttempt()
    if owner.end is not None:
        return EndedAttempt(owner.end)
    pidfd = processes.hold(owner.keeper) if owner.keeper is not None else None
    if pidfd is not None:
        return LiveAttempt(pidfd)
    known = status.read(folder) or {}
    return EndedAttempt(known["end"]) if known.get("phase") == "ended" else AbandonedAttempt(known)


def close_unclaimed(folder: RunFolder, end: dict) -> Finding:
    """Nothing can start here any more. Returns what is true now: a keeper may have been faster."""
    folder.make()
    return EndedAttempt(end) if claim.void(folder, end) else examine(folder)


def end_of_abandoned(folder: RunFolder, known: dict, cause: str) -> dict:
    """Once nobody is left of it. What its keeper had decided stands; a wish to stop that was there came true."""
    if known.get("end"):
        return known["end"]
    stop = stop_file.read(folder)
    end = never_started("lost", cause) if stop is None else never_started("stopped", stop.cause)
    return {**end, "never_started": known.get("phase", "claimed") == "claimed"}


def write_end(folder: RunFolder, known: dict, end: dict) -> None:
    """In the place of a dead keeper, so that the answer is the same whenever somebody asks again."""
    try:
        file = status.StatusFile.take_over(folder)
    except FileNotFoundError:
        file = status.StatusFile.make(folder, 1)
    try:
        file.write({**known, "phase": "ended", "end": end})
    finally:
        file.close()


def started(key: Key, known: dict) -> AttemptStarted:
    return AttemptStarted(*key, tuple(pid for pid, _ in known.get("tasks", ())), known.get("limits_note", ""))


def ended(key: Key, end: dict) -> AttemptEnded:
    first = None if end["first"] is None else TaskEnd(**end["first"])
    return AttemptEnded(*key, end["how"], end["cause"], first, end["never_started"], end.get("at_us"))


def has_started(known: dict) -> bool:
    """Every task runs, or has run."""
    began = known.get("phase") in ("running", "ending", "ended")
    return began and not (known.get("end") or {}).get("never_started", False)


def never_started(how: str, cause: str) -> dict:
    """The end of an attempt that no keeper has begun."""
    return {"how": how, "cause": cause, "first": None, "never_started": True}
