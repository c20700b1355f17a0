"""What the tasks of one shape lack in the free capacity, in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusquad.core.capacity.space import Space
from gpusquad.core.explain.obstacles import Lifted, Obstacle, RelaxedSpaces, real_obstacles
from gpusquad.core.state.state import SchedulerState
from gpusquad.model.job import SLOT_SM_MILLI, Job, Request, Share
from gpusquad.model.placement import Ints
from gpusquad.model.reasons import Reason, ReasonCode
from gpusquad.model.share_memory import memory_taken
from gpusquad.model.units import WHOLE_MILLI, show_bytes, show_count

_MAX_NAMES = 8
"""Maximum number of names in one message. The rest is counted."""


@dataclass
class ShapeFit:
    """The tasks of one shape, compared with the free capacity on their own."""

    reliefs: RelaxedSpaces
    request: Request
    tasks: int
    label: str
    """Prefix with their roles, if the gang has several shapes."""
    elastic: bool
    holders: dict[int, list[str]]
    """Card -> IDs of the jobs on it."""

    def obstacles(self) -> list[Obstacle]:
        return real_obstacles(self.reliefs.present([self.request]), self._fits)

    def reasons(self, real: list[Obstacle]) -> list[Reason]:
        """One reason per obstacle, and one for the gang as a whole."""
        reasons: list[Reason] = []
        if 0 < self.room < self.tasks:
            reasons.append(self._gang())
        if Obstacle.CARDS in real:
            reasons += self._shares() if self.request.share else self._whole_cards()
        if Obstacle.CPU in real:
            reasons.append(self._per_node(ReasonCode.NO_CPU, "cores", self.free.node_cpu_free, self.request.cpu_milli))
        if Obstacle.MEMORY in real:
            free, needed = self.free.node_memory_free, self.request.memory_bytes
            reasons.append(self._per_node(ReasonCode.NO_MEMORY, "memory", free, needed))
        if Obstacle.EXTRAS in real:
            reasons += self._extras()
        if Obstacle.WHERE in real:
            reasons.append(self._where())
        return reasons

    @cached_property
    def free(self) -> Space:
        return self.reliefs.lifted()

    @cached_property
    def room(self) -> int:
        """Number of tasks that fit now."""
        return self.free.total_room(self.request)

    def _fits(self, lifted: Lifted) -> bool:
        return self.reliefs.lifted(lifted).total_room(self.request) >= self.tasks

    def _gang(self) -> Reason:
        cure = "wait" if self.elastic else f"wait, or allow {show_count(self.room, 'task')} (min: {self.room})"
        room = f"{self.label}room for {self.room} of {show_count(self.tasks, 'task')}"
        return Reason(
            ReasonCode.GANG, f"{room}; a gang starts as a whole", cure, {"tasks": self.tasks, "room": self.room}
        )

    # -- whole cards -----------------------------------------------------------------------------------------------

    def _whole_cards(self) -> list[Reason]:
        request = self.request
        idle, needed = int(self._idle.sum()), self.tasks * request.gpus
        largest = int(self._idle.max(initial=0))
        reasons = []
        if request.card is not None and not idle:
            return [self._card_taken(request.card)]
        if idle < needed:
            reasons.append(self._too_few(idle, needed))
        if request.gpus > 1 and largest < request.gpus:
            reasons.append(self._no_block(request.gpus, largest, "on one node"))
        if not reasons and not self.room:
            largest = int(self._idle[self._has_rest].max(initial=0))
            reasons.append(self._no_block(request.gpus, largest, "on a node with the CPU and memory for it"))
        return reasons

    @cached_property
    def _idle(self) -> Ints:
        """Number of idle eligible cards on each node."""
        eligible = self.free.fixed.eligible_cards(self.request)
        idle = self.free.card_idle if eligible is None else self.free.card_idle & eligible
        return np.bincount(self.free.fixed.card_node, weights=idle, minlength=len(self.free.node_up)).astype(np.int64)

    @cached_property
    def _has_rest(self) -> np.ndarray:
        """Nodes with the CPU, memory and extras for one task."""
        return self.free.node_fits(self.request)

    def _too_few(self, idle: int, needed: int) -> Reason:
        kind = self._kind()
        others = self.free.idle_total - idle
        cure = f"wait, or request at most {idle}" if idle else "wait"
        if kind and others:
            cure += f"; {show_count(others, 'card')} of other kinds {_is_or_are(others)} idle"
        return Reason(
            ReasonCode.NO_MODEL if kind else ReasonCode.NO_CARDS,
            f"{self.label}needs {show_count(needed, 'idle card')}{kind}, {idle} {_is_or_are(idle)} idle", cure,
            {"needed": needed, "idle": idle, "other_idle": others},
        )  # fmt: skip

    def _no_block(self, needed: int, largest: int, where: str) -> Reason:
        return Reason(
            ReasonCode.NO_BLOCK, f"{self.label}needs {needed} {where}, largest free block {largest}",
            f"wait, or request at most {largest} on one node" if largest else "wait",
            {"needed": needed, "largest": largest},
        )  # fmt: skip

    def _card_taken(self, card: str) -> Reason:
        index = self.free.fixed.card_index.get(card, -1)
        who = tuple(self.holders.get(index, ()))
        others = self.free.idle_total
        by = f" by {listed(who)}" if who else ""
        cure = f"wait, or omit the card: {show_count(others, 'other')} {_is_or_are(others)} idle" if others else "wait"
        return Reason(
            ReasonCode.CARD_TAKEN, f"{self.label}card {card} is in use{by}", cure, {"other_idle": others}, who
        )

    def _kind(self) -> str:
        parts = []
        if self.request.gpu_models:
            parts.append(f"of model {' or '.join(self.request.gpu_models)}")
        if self.request.min_card_memory_bytes:
            parts.append(f"with {show_bytes(self.request.min_card_memory_bytes)}")
        return "".join(f" {part}" for part in parts)

    # -- shares of cards -------------------------------------------------------------------------------------------

    def _shares(self) -> list[Reason]:
        """Empty if some tasks have room, because the reason for the whole gang covers that."""
        if self.room:
            return []
        free, fixed = self.free, self.free.fixed
        usable = free.card_ok & free.node_up[fixed.card_node]
        eligible = fixed.eligible_cards(self.request)
        usable = usable if eligible is None else usable & eligible
        if (free.card_room(self.request) * usable).any():
            # Some cards have room, but their nodes lack CPU or memory. Only cards of other nodes count.
            usable &= self._has_rest[fixed.card_node]
            return [self._no_share(np.flatnonzero(usable), "one card of a node with the CPU and memory for it")]
        return [self._no_share(np.flatnonzero(usable), "one card")]

    def _no_share(self, cards: Ints, where: str) -> Reason:
        free, share, card = self.free, self.request.share, self.request.card
        assert share is not None
        needed_bytes, most_bytes = self._nearest(share, cards)
        most_milli = int(free.card_sm_free[cards].max(initial=0))
        asked = [_show_memory(share, needed_bytes)] + [_show_sm(share.sm_milli)] * (share.sm_milli > SLOT_SM_MILLI)
        text = f"{self.label}needs {' and '.join(asked)} of {where}{self._kind()}"
        text += f"; the most free on any is {_show_free(most_bytes, most_milli)}"
        who = tuple(self.holders.get(free.fixed.card_index.get(card, -1), ())) if card is not None else ()
        if card is not None:
            text = f"card {card} is in use{' by ' + listed(who) if who else ''}: {text}"
        return Reason(
            ReasonCode.NO_SHARE if card is None else ReasonCode.CARD_TAKEN, text, _smaller(share),
            {**({} if most_bytes is None else {"needed_bytes": needed_bytes, "most_bytes": most_bytes}),
             "needed_sm_milli": share.sm_milli, "most_sm_milli": most_milli}, who,
        )  # fmt: skip

    def _nearest(self, share: Share, cards: Ints) -> tuple[int, int | None]:
        """Memory needed and free on the card where the least is missing. None: the memory size of the cards is
        unknown."""
        sizes = self.free.fixed.card_memory[cards]
        if not sizes.any():
            return share.memory_bytes, None if len(cards) else 0
        cards, sizes = cards[sizes > 0], sizes[sizes > 0]
        needed, there = memory_taken(share, sizes), self.free.card_memory_free[cards]
        at = int(np.argmin(needed - there))
        return int(needed[at]), int(there[at])

    # -- CPU and memory of nodes -----------------------------------------------------------------------------------

    def _per_node(self, code: ReasonCode, what: str, free: Ints, needed: int) -> Reason:
        """Considers nodes with suitable cards, or all nodes if there are none."""
        up = self.free.node_up
        beside = up & self._has_cards
        nodes = np.flatnonzero(beside if beside.any() else up)
        most = int(free[nodes].max(initial=0))
        room = int((np.maximum(free[nodes], 0) // needed).sum())
        where = "the nodes with cards for it have" if self.request.cards and beside.any() else "the nodes have"
        each = f"{self.tasks} × " if self.tasks > 1 else ""
        text = f"{self.label}needs {each}{show(what, needed)}; {where} at most {show(what, most)} free on one"
        if most >= needed:
            text += f", room for {room} of {show_count(self.tasks, 'task')}"
        cure = f"wait, or request at most {show(what, most)}" if 0 < most < needed else "wait"
        return Reason(code, text, cure, {"needed": needed, "most": most, "tasks": self.tasks, "room": room})

    def _extras(self) -> Iterable[Reason]:
        """Extras that no node has enough of. If each is available on some node, all of them."""
        free, names = self.free, self.free.fixed.extra_index
        left = [
            (name, free.node_extra_free[names[name]], amount) for name, amount in self.request.extras if name in names
        ]
        scarce = [each for each in left if each[1].max(initial=0) < each[2]] or left
        return [self._per_node(ReasonCode.NO_EXTRA, name, there, amount) for name, there, amount in scarce]

    def _where(self) -> Reason:
        nodes = len(self.free.node_up)
        may = int(np.count_nonzero(self.free.allowed.get(self.request.where, np.zeros(nodes, dtype=bool))))
        text = f"{may} of {show_count(nodes, 'node')} {_is_or_are(may)} allowed"
        if may:
            text += f", and {'it has' if may == 1 else 'they have'} no room for it"
        elif why := self.free.allowed.why_none(self.request.where):
            text += f": {why}"
        return Reason(
            ReasonCode.WHERE, f"{self.label}{text}", "wait, or allow more nodes", {"nodes": nodes, "allowed": may}
        )

    @cached_property
    def _has_cards(self) -> np.ndarray:
        """Nodes with the cards for one task."""
        request = self.request
        if request.share is not None:
            room = self.free.card_room(request)
            return np.bincount(self.free.fixed.card_node, weights=room, minlength=len(self.free.node_up)) > 0
        return self._idle >= request.gpus


def shape_fits(state: SchedulerState, reliefs: RelaxedSpaces, job: Job) -> list[ShapeFit]:
    """One ``ShapeFit`` per shape of the gang, with the minimum number of tasks."""
    holders: dict[int, list[str]] = {}
    if any(request.card is not None for request, _ in job.groups):
        for run in state.runs.by_id.values():
            for card in run.placement.all_cards():
                holders.setdefault(card, []).append(run.job.id)
    several = len(job.groups) > 1
    made = []
    for (request, _), (low, high) in zip(job.groups, job.bounds, strict=True):
        roles = "/".join(role.name for role in job.roles if role.request == request)
        made.append(ShapeFit(reliefs, request, low, f"{roles}: " if several else "", low < high, holders))
    return made


def listed(names: Iterable[str]) -> str:
    """The first names, and the number of others."""
    names = list(names)
    rest = len(names) - _MAX_NAMES
    return ", ".join(names[:_MAX_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def show(what: str, amount: int) -> str:
    """An amount of ``memory``, ``cores``, ``idle card``, ``GPU`` or an extra."""
    if what == "memory":
        return f"{show_bytes(amount)} of memory"
    if what == "cores":
        return "1 core" if amount == WHOLE_MILLI else f"{amount / WHOLE_MILLI:.12g} cores"
    return show_count(amount, what) if what in ("idle card", "GPU") else f"{amount} {what}"


def _is_or_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _smaller(share: Share) -> str:
    if share.memory_milli and not share.named_memory_milli:
        return "wait, request a smaller share, or set share.memory if it needs less"
    return "wait" if share.is_slot_only else "wait, or request a smaller share"


def _show_memory(share: Share, needed_bytes: int) -> str:
    part = f"{share.memory_milli * 100 / WHOLE_MILLI:g}% of the memory"
    if not share.memory_milli:
        return show_bytes(needed_bytes) if needed_bytes else "a part"
    return f"{part} ({show_bytes(needed_bytes)})" if needed_bytes else part


def _show_free(memory_bytes: int | None, sm_milli: int) -> str:
    if memory_bytes is None:
        return f"{_show_sm(sm_milli)}; their memory size is unknown"
    return f"{show_bytes(memory_bytes)} and {_show_sm(sm_milli)}"


def _show_sm(milli: int) -> str:
    return f"{milli / WHOLE_MILLI:.0%} of the SMs"
