"""Service that each is behind its due, so that what one squad got wrong the next ones make good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpusquad.model.squad import DivideState, GpuClient

MOST_LENGTHS = 4
"""Nobody is owed more than so many squads' worth, nor owes it: old debts would starve somebody later."""


def lags_us(clients: Sequence[GpuClient], state: DivideState, length_us: int) -> dict[str, float]:
    """What was due in the last squad less what was had, added up. Whoever sleeps neither saves nor owes."""
    had = {t.id: t.attained_us - state.seen_us.get(t.id, t.attained_us) for t in clients}
    total = sum(had[t.id] for t in clients if t.id in state.dues)
    most_us = MOST_LENGTHS * length_us
    found = {}
    for client in clients:
        if client.is_idle or client.id not in state.dues:
            found[client.id] = 0.0
            continue
        behind_us = state.lags_us.get(client.id, 0.0) + total * state.dues[client.id] - had[client.id]
        found[client.id] = min(max(behind_us, -most_us), most_us)
    return found


def leaning(parts: Mapping[str, float], lags: Mapping[str, float], length_us: int) -> dict[str, float]:
    """The parts, leaning towards those behind: twice at most, half at least."""
    return {name: part * 2.0 ** (lags.get(name, 0.0) / (MOST_LENGTHS * length_us)) for name, part in parts.items()}
