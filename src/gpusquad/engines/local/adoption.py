"""State of an attempt, determined from its run folder and the live processes."""

from __future__ import annotations

from dataclasses import dataclass

from gpusquad.core.ports import AttemptEnded, AttemptStarted, TaskEnd, TaskUsage
from gpusquad.engines.local import claim, processes, status, stop_file
from gpusquad.engines.local.names import Key
from gpusquad.engines.local.run_folder import RunFolder


@dataclass(frozen=True, slots=True)
class UnclaimedAttempt:
    """No supervisor has started. One may still come, unless the claim is taken first."""


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """Its supervisor is alive and held by this pidfd."""

    pidfd: int


@dataclass(frozen=True, slots=True)
class EndedAttempt:
    """Its outcome is recorded."""

    end: dict


@dataclass(frozen=True, slots=True)
class AbandonedAttempt:
    """Its supervisor died before the end. Tasks may have survived."""

    status: dict


Finding = UnclaimedAttempt | LiveAttempt | EndedAttempt | AbandonedAttempt


def examine(folder: RunFolder) -> Finding:
    """First live processes, then the record: a supervisor writes before it ends, so nothing is missed."""
    owner = claim.read(folder)
    if owner is None:
        return UnclaimedAttempt()
    if owner.end is not None:
        return EndedAttempt(owner.end)
    pidfd = processes.hold(owner.supervisor) if owner.supervisor is not None else None
    if pidfd is not None:
        return LiveAttempt(pidfd)
    known = status.read(folder) or {}
    return EndedAttempt(known["end"]) if known.get("phase") == "ended" else AbandonedAttempt(known)


def close_unclaimed(folder: RunFolder, end: dict) -> Finding:
    """Nothing can start here any more. Returns the actual state: a supervisor may have been faster."""
    folder.make()
    return EndedAttempt(end) if claim.void(folder, end) else examine(folder)


def end_of_abandoned(folder: RunFolder, known: dict, cause: str) -> dict:
    """Once no process of it is left. The supervisor's decision stands; a pending stop request counts as carried out."""
    if known.get("end"):
        return known["end"]
    stop = stop_file.read(folder)
    end = never_started("lost", cause) if stop is None else never_started("stopped", stop.cause)
    return {**end, "never_started": known.get("phase", "claimed") == "claimed"}


def write_end(folder: RunFolder, known: dict, end: dict) -> None:
    """Written in place of a dead supervisor, so that later reads give the same answer."""
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
    used = end.get("usage")
    return AttemptEnded(
        *key, end["how"], end["cause"], first, end["never_started"], end.get("at_us"),
        usage=None if used is None else TaskUsage(**used),
    )  # fmt: skip


def has_started(known: dict) -> bool:
    """Whether every task runs or has run."""
    began = known.get("phase") in ("running", "ending", "ended")
    return began and not (known.get("end") or {}).get("never_started", False)


def never_started(how: str, cause: str) -> dict:
    """Outcome of an attempt that no supervisor has started."""
    return {"how": how, "cause": cause, "first": None, "never_started": True}
