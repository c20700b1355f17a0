"""Input of a supervisor: signals, and the stop request that comes with one of them."""

from __future__ import annotations

import os
import signal

from gpusquad.engines.local import stop_file
from gpusquad.engines.local.run_folder import RunFolder
from gpusquad.engines.local.stop_file import StopRequest

_HEARD = (signal.SIGTERM, signal.SIGCHLD)
_IGNORED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)


class Inbox:
    """Signals as bytes in a pipe, so that one poll waits for them and for everything else."""

    def __init__(self, folder: RunFolder) -> None:
        self.stop: StopRequest | None = None
        self.told_from_outside = False
        """SIGTERM came without a stop request: the machine shuts down, or a user wants the supervisor gone."""
        self._folder = folder
        self.pipe, self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(self._wake, warn_on_full_buffer=False)
        for number in _HEARD:
            signal.signal(number, _do_nothing)
        for number in _IGNORED:
            signal.signal(number, signal.SIG_IGN)
        # The engine starts us with signals blocked. A signal that came before this line is pending and delivered now.
        unblock_signals()

    def look(self) -> None:
        """Whether there is a stop request. Checked even without a signal: it may have been written before we had the
        folder.
        """
        self.stop = stop_file.read(self._folder) or self.stop

    def take(self, grace_s: float) -> None:
        """Read the signals that arrived. ``grace_s``: used for a stop without a written request."""
        try:
            came = os.read(self.pipe, 4096)
        except BlockingIOError:
            return
        if signal.SIGTERM in came:
            self.look()
            if self.stop is None:
                self.told_from_outside = True
                self.stop = StopRequest("the supervisor of the gang was signalled from outside", grace_s)


def block_signals() -> None:
    """Around a fork: a signal that reached the child before it has handlers of its own would be taken for ours."""
    signal.pthread_sigmask(signal.SIG_SETMASK, signal.valid_signals())


def unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def default_signals() -> None:
    """In a child: restore what a program expects."""
    signal.set_wakeup_fd(-1)
    for number in (*_HEARD, *_IGNORED, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    unblock_signals()


def _do_nothing(number: int, frame: object) -> None:
    """The byte in the pipe is enough."""
