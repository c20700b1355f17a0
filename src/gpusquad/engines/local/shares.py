"""Shares of cards for tasks, attached and released in a thread of its own.

Attaching may have to start a card daemon first, which must not delay other gangs. Requests are handled one after the
other, so what a gang leaves behind is released before the next one is attached.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from gpusquad.core.ports import Launch, TaskLaunch
from gpusquad.engines.local.names import Key
from gpusquad.gpu.api import Attachment, CardSharing, Holder
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.sharing_params import SharingParams
from gpusquad.model.virtual import part_named

_log = logging.getLogger(__name__)
_CLOSE_S = 5.0
"""A daemon that does not start must not keep the service from ending."""


@dataclass(frozen=True, slots=True)
class ShareEnvironment:
    """Environment for the tasks of one launch."""

    env: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """By task; tasks without a share are left out."""
    notes: tuple[str, ...] = ()
    """Messages: what could not be done as requested."""


NO_PARTS = ShareEnvironment()
Given = Callable[[ShareEnvironment | Exception], object]


class Shares:
    """Called from any thread; no call blocks."""

    def __init__(self, sharing: CardSharing, cards: Mapping[str, Card], note: str = "") -> None:
        """``note``: called for every gang with shares, for example because they are not enforced."""
        self._sharing = sharing
        self._cards = cards
        self._note = note
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="gpusquad-shares", daemon=True)

    @property
    def are_enforced(self) -> bool:
        return not self._sharing.absence

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Attached shares stay: tasks continue."""
        self._calls.put(None)
        self._thread.join(_CLOSE_S)

    def give(self, launch: Launch, then: Given) -> None:
        """``then`` is called from the thread, with the environment or the error."""

        def do() -> None:
            then(self._try_to_give(launch))

        self._calls.put(do)

    def change(self, key: Key, tasks: int, sharing_params: SharingParams) -> None:
        def do() -> None:
            for holder in _holders(key, tasks):
                self._sharing.change(holder, sharing_params)

        self._calls.put(do)

    def resize(self, key: Key, tasks: int, before_bytes: int, memory_bytes: int) -> None:
        """In the caller's thread, so that errors reach the caller."""
        holders = _holders(key, tasks)
        for at, holder in enumerate(holders):
            try:
                self._sharing.resize(holder, memory_bytes)
            except Invalid:
                for done in holders[:at]:
                    self._sharing.resize(done, before_bytes)
                raise

    def peak_memory_bytes(self, key: Key, tasks: int) -> list[int]:
        """By task, in the caller's thread. 0: unknown."""
        return [self._sharing.peak_memory_bytes(holder) for holder in _holders(key, tasks)]

    def pause(self, key: Key, tasks: int, within_s: float, then: Callable[[], object]) -> None:
        """Before SIGTERM. ``then`` is called as soon as the tasks' work is off the cards: at once, or from a thread of
        its own. A daemon that hangs may delay it further.
        """
        if not tasks or not self.are_enforced:
            then()
            return
        threading.Thread(
            target=_pause,
            args=(self._sharing, _holders(key, tasks), within_s, then),
            name="gpusquad-pause",
            daemon=True,
        ).start()

    def drain(self, key: Key, tasks: int, within_s: float) -> None:
        """Before SIGKILL, in a thread of its own: other gangs must not wait for it."""
        if self.are_enforced:
            threading.Thread(
                target=_drain, args=(self._sharing, _holders(key, tasks), within_s), name="gpusquad-drain", daemon=True
            ).start()

    def keep_only(self, keys: Collection[Key]) -> None:
        """These attempts are known; shares of all others are released."""
        owners = {owner(key) for key in keys}
        self._calls.put(lambda: self._sharing.release_all_but(owners))

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            try:
                call()
            except Exception:
                _log.exception("the parts of cards could not be set right")

    def _try_to_give(self, launch: Launch) -> ShareEnvironment | Exception:
        try:
            return self._given(launch)
        except Exception as error:  # whatever the error is, it must reach the job's owner
            return error

    def _given(self, launch: Launch) -> ShareEnvironment:
        given = {task.index: self._attach(launch, task) for task in launch.tasks if has_part(task)}
        notes = [self._note, *(note for one in given.values() for note in one.notes)]
        env = {index: one.env for index, one in given.items()}
        return ShareEnvironment(env, tuple(dict.fromkeys(note for note in notes if note)))

    def _attach(self, launch: Launch, task: TaskLaunch) -> Attachment:
        missing = [card for card in task.cards if card not in self._cards]
        if missing:
            raise Invalid("cards", f"{', '.join(missing)}: not on this machine")
        holder = Holder(owner((launch.job_id, launch.attempt)), str(task.index), launch.job_id, launch.run_as)
        return self._sharing.attach(
            [self._cards[card] for card in task.cards], holder, task.share, launch.sharing_params
        )


def _holders(key: Key, tasks: int) -> list[Holder]:
    return [Holder(owner(key), str(index), key[0]) for index in range(tasks)]


def _pause(sharing: CardSharing, holders: Sequence[Holder], within_s: float, then: Callable[[], object]) -> None:
    try:
        sharing.pause(holders, within_s)
    except Exception:
        _log.exception("the work of %s is not waited for", holders[0].owner)
    finally:
        then()


def _drain(sharing: CardSharing, holders: Sequence[Holder], within_s: float) -> None:
    """All of them together within that time; a task that is no GPU client takes none."""
    until_s = time.monotonic() + within_s
    for holder in holders:
        try:
            sharing.drain(holder, within_s=max(0.0, until_s - time.monotonic()))
        except Exception:
            _log.exception("the work of %s/%s stays on its card", holder.owner, holder.part)


def owner(key: Key) -> str:
    """Owner of the shares: an attempt, whose tasks end together."""
    return f"{key[0]}.{key[1]}"


def has_part(task: TaskLaunch) -> bool:
    """Whether other clients may be on the card, or the driver does not know it as a card of its own."""
    return bool(task.cards) and (task.share is not None or any(part_named(card) for card in task.cards))


def has_parts(launch: Launch) -> bool:
    """Shares of simulated cards cannot be enforced."""
    return not launch.simulated and any(map(has_part, launch.tasks))
