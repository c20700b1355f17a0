"""Finishing a client's queued work before its processes are killed or get SIGTERM."""

from __future__ import annotations

import time
from collections.abc import Sequence

from gpusquad.gpu.attach.card_manager import ANSWER_TIMEOUT_S, QUICK_S, CardManager
from gpusquad.gpu.daemon.wire import MAX_HOLD_US
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S

_LOOK_S = 0.02
_STILL_HELD_S = 30.0
"""Hold after its work is done, until it is killed. Then it is released, so that it does not hang if it was not."""
_TOLD_S = 0.2
"""Hold after a pause, until SIGTERM has arrived. Then its handler can use the card."""
_LOOKS = 2
"""The first status after a hold may be from before it."""


def pause(clients: Sequence[tuple[CardManager, str]], within_s: float) -> bool:
    """Hold all clients, then wait for their work. True: none is left. The holds end by themselves and are not extended
    after the time limit, because another call may have set longer ones."""
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
    """Whether it has no work left on the card, and its reported pids."""
    until_s, is_held, quiet = time.monotonic() + within_s, False, 0
    while True:
        answer = manager.ask_if_running({"do": "status"})
        if answer is None:
            return False, set()  # its state is unknown
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


def _hold(manager: CardManager, name: str, for_s: float, answers_within_s: float = ANSWER_TIMEOUT_S) -> bool:
    """False: it has left the card."""
    for_us = min(int(for_s * US_PER_S), MAX_HOLD_US)
    try:
        manager.ask_if_running({"do": "hold", "id": name, "for_us": for_us}, answers_within_s)
    except Invalid:
        return False
    return True
