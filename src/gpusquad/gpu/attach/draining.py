"""A tenant that is about to be killed: what it has on the card is done first."""

from __future__ import annotations

import time

from gpusquad.gpu.attach.keeper import CardKeeper
from gpusquad.gpu.squads.wire import LONGEST_HOLD_US
from gpusquad.model.errors import Invalid
from gpusquad.model.units import US_PER_S

_LOOK_S = 0.02
_STILL_HELD_S = 30.0
"""After it is done, until somebody has killed it. Then it is let go, so that one that was not killed does not hang."""
_LOOKS = 2
"""The first look after it was told to hold it may be the daemon's last one from before."""


def wait_until_done(keeper: CardKeeper, name: str, within_s: float) -> tuple[bool, set[int]]:
    """Whether nothing of it is on the card, and the pids it told of."""
    held_us = min(int((within_s + _STILL_HELD_S) * US_PER_S), LONGEST_HOLD_US)
    until_s, is_held, quiet = time.monotonic() + within_s, False, 0
    while True:
        answer = keeper.ask_if_running({"do": "status"})
        if answer is None:
            return False, set()  # nobody knows what it does
        one = next((one for one in answer["tenants"] if one["id"] == name), None)
        if one is None:
            return True, set()
        quiet = quiet + 1 if is_held and not one["in_flight"] else 0
        if quiet >= _LOOKS or time.monotonic() > until_s:
            return quiet >= _LOOKS, set(one["pids"])
        if not is_held:
            try:
                keeper.ask_if_running({"do": "hold", "id": name, "for_us": held_us})
            except Invalid:
                return True, set()  # it has left the card since
            is_held = True
        time.sleep(_LOOK_S)
