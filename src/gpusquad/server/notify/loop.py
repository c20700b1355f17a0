"""The thread that sends notices: woken when one is written or due again."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog

from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.channels import SendFailed
from gpusquad.server.notify.outbox import Outbox
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store.errors import StoreUnavailable

if TYPE_CHECKING:
    from gpusquad.server.services.runtime.unit_of_work import StoryEvent

_log = structlog.get_logger("gpusquad.notices")
MAX_SLEEP_S = 60.0
_STORE_AWAY_S = 5.0
_BUG_S = 30.0


class NoticeLoop:
    """Owns the thread, and offers ``check``, ``test`` and ``wake`` to the API."""

    def __init__(self, outbox: Outbox, sender: ChannelSender) -> None:
        self._outbox = outbox
        self._sender = sender
        self._woken = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="notices", daemon=True)

    def check(self, url: str) -> None:
        """Raise ``Invalid`` for an address that nothing can be sent to."""
        self._sender.check(url)

    def test(self, url: str) -> str:
        """Send a notice now. Returns the error, or an empty text."""
        try:
            self._sender.send(url, "gpusquad test notice", "This channel works.\nWhat to do: Nothing.")
        except SendFailed as failure:
            return failure.reason
        return ""

    def heard(self, events: Sequence[tuple[int, StoryEvent]]) -> None:
        """Wake if one of the events made a notice. A listener of the scheduler."""
        if self._outbox.has_new.is_set():
            self.wake()

    def wake(self) -> None:
        """Send what is due."""
        self._woken.set()

    def start(self) -> None:
        self._thread.start()

    def stop(self, wait_s: float = 30.0) -> None:
        """Finish the current delivery; the rest stays in the store for the next start."""
        self._stopping = True
        self.wake()
        if self._thread.is_alive():
            self._thread.join(wait_s)

    def _run(self) -> None:
        while not self._stopping:
            self._woken.wait(self._deliver())
            self._woken.clear()  # only now, so that a call during the delivery is not lost

    def _deliver(self) -> float:
        """Send all that is due. Returns the time until the next one."""
        try:
            while self._outbox.deliver_due() and not self._stopping:
                pass
            next_us = self._outbox.next_due_us()
        except StoreUnavailable:
            return _STORE_AWAY_S
        except Exception:
            _log.exception("notices not sent")
            return _BUG_S
        if next_us is None:
            return MAX_SLEEP_S
        return min(max((next_us - self._outbox.now_us()) / US_PER_S, 0.0), MAX_SLEEP_S)
