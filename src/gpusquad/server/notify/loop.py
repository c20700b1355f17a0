"""The thread that sends notices to channels: woken when one is written or due again."""

from __future__ import annotations

import threading

import structlog

from gpusquad.model.units import US_PER_S
from gpusquad.server.notify.channels import SendFailed
from gpusquad.server.notify.feed import NoticeFeed
from gpusquad.server.notify.messages import NoticeMessage
from gpusquad.server.notify.outbox import Outbox
from gpusquad.server.notify.payload import test_payload
from gpusquad.server.notify.sender import ChannelSender
from gpusquad.store.errors import StoreUnavailable

_log = structlog.get_logger("gpusquad.notices")
MAX_SLEEP_S = 60.0
_STORE_AWAY_S = 5.0
_BUG_S = 30.0


class NoticeLoop:
    """Owns the thread, and is what the API uses of notices."""

    def __init__(self, outbox: Outbox, sender: ChannelSender, feed: NoticeFeed) -> None:
        self._outbox = outbox
        self._feed = feed
        feed.on_messages = self.wake
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
            data = test_payload(self._outbox.now_us())
            text = "This channel works.\nWhat to do: Nothing."
            self._sender.send(url, NoticeMessage("gpusquad test notice", text, data))
        except SendFailed as failure:
            return failure.reason
        return ""

    def settle(self) -> None:
        """Wait shortly until the notices of all stored events are written."""
        self._feed.settle()

    def wake(self) -> None:
        """Send what is due."""
        self._woken.set()

    def start(self) -> None:
        self._feed.start()
        self._thread.start()

    def stop(self, wait_s: float = 30.0) -> None:
        """Finish the current delivery; the rest stays in the store for the next start."""
        self._feed.stop(wait_s)
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
