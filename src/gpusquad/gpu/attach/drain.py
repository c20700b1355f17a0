"""A tenant that is about to be killed, or told to end: what it has on the card is done first."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpusquad.gpu.attach.card_manager import PATIENCE_S, QUICK_S, CardManager
from gpusquad.gpu.daemon.wire import LONGEST_HOLD_US
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S

_LOOK_S = 0.02
_STILL_HELD_S = 30.0
"""After it is done, until somebody has killed it. Then it is let go, so that one that was not killed does not hang."""
_TOLD_S = 0.2
"""After a pause, until the signal that was waited with has come. Then what handles it has the card again."""
_LOOKS = 2
"""The first look after it was told to hold it may be the daemon's last one from before."""


def pause(clients: Sequence[tuple[CardManager, str]], within_s: float) -> bool:
    """All are held before one is waited for. Whether nothing of them is on their cards. It ends by itself, whoever is
    gone by then, and never after its time: somebody may hold them for longer since."""
    until_s = time.monotonic() + within_s
    for manager, name in clients:
        _hold_before(until_s, manager, name, within_s + _TOLD_S)
    are_done = [
        wait_until_done(manager, name, max(0.0, until_s - time.monotonic()), _TOLD_S)[0] for manager, name in clients
    ]
    for manager, name in clients:
        _hold_before(until_s, manager, name, _TOLD_S)
    return all(are_done)


def wait_until_done(
    manager: CardManager, name: str, within_s: float, still_held_s: float = _STILL_HELD_S
) -> tuple[bool, set[int]]:
    """Whether nothing of it is on the card, and the pids it told of."""
    until_s, is_held, quiet = time.monotonic() + within_s, False, 0
    while True:
        answer = manager.ask_if_running({"do": "status"})
        if answer is None:
            return False, set()  # nobody knows what it does
        one = next((one for one in answer["tenants"] if one["id"] == name), None)
        if one is None:
            return True, set()
        quiet = quiet + 1 if is_held and not one["in_flight"] else 0
        if quiet >= _LOOKS or time.monotonic() > until_s:
            return quiet >= _LOOKS, set(one["pids"])
        if not is_held:
            if not _hold(manager, name, within_s + still_held_s):
                return True, set()
            is_held = True
        time.sleep(_LOOK_S)


def _hold_before(until_s: float, manager: CardManager, name: str, for_s: float) -> None:
    if time.monotonic() < until_s:
        _hold(manager, name, for_s, QUICK_S)


def _hold(manager: CardManager, name: str, for_s: float, answers_within_s: float = PATIENCE_S) -> bool:
    """False: it has left the card."""
    for_us = min(int(for_s * US_PER_S), LONGEST_HOLD_US)
    try:
        manager.ask_if_running({"do": "hold", "id": name, "for_us": for_us}, answers_within_s)
    except Invalid:
        return False
    return True
