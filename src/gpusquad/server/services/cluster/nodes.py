"""Current state of nodes and cards: jobs on them, cordons, drains, faults and usage outside the scheduler."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpusquad.core.ports import CardChanged, NodeChanged, WindowsChanged
from gpusquad.core.state.state import SchedulerState
from gpusquad.core.transitions import JobState
from gpusquad.model.card_faults import FaultClass, class_of_trouble
from gpusquad.model.cluster import UNKNOWN_OUTAGE, MaintenanceWindow, Outage
from gpusquad.model.errors import Invalid
from gpusquad.model.virtual import physical
from gpusquad.server.answers import CardStatus, CardUser, ClusterStatus, NodeStatus, Who, WindowStatus
from gpusquad.server.errors import NotFound
from gpusquad.server.ids import new_id
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.containment import Containment
from gpusquad.server.services.jobs.outcomes import ON_CARDS, Outcomes
from gpusquad.server.services.runtime.unit_of_work import Write
from gpusquad.store import marks
from gpusquad.store.jobs import JobRow
from gpusquad.store.marks import MarkRow

CORDON, FAULT, OUTSIDE, SUSPECT = "cordon", "fault", "outside", "suspect"
CURES = {
    FAULT: "a card with a fault returns by itself, after a self-test or when it has been healthy for a while",
    SUSPECT: "a suspected card returns by itself, when it has passed a self-test",
    CORDON: "use gpusquad uncordon",
    OUTSIDE: "end the process that holds it, or wait until it has ended",
}
"""Cure by kind of block, most important first. Those of several cards are listed together."""
DRAIN = "drain"
SYSTEM = Who("gpusquad", "", "admin")
"""The author of marks that the service sets by itself."""
GANG_SIZES = (1, 2, 4, 8, 16)


class NodeService:
    """Tracks why a card may not be used, and lists nodes and cards."""

    def __init__(
        self, context: SchedulerContext, outcomes: Outcomes, allows_unmanaged: Callable[[str], bool],
        mode: Callable[[], str], containment: Containment,
    ) -> None:  # fmt: skip
        self._mode = mode
        self._containment = containment
        """``allows_unmanaged``: whether jobs may share a card on which an unmanaged process runs."""
        self._context = context
        self._outcomes = outcomes
        self._allows_unmanaged = allows_unmanaged
        self._unmanaged: dict[str, str] = {}
        """Card to a description of its unmanaged processes."""
        self._blocks: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Card to kind of block to cause. A card without blocks is used."""
        self._closed: defaultdict[str, dict[str, str]] = defaultdict(dict)
        """Node to ``DRAIN``, or to the id of a gang that must leave first because the core cannot hold it, to cause."""
        self._windows: dict[str, WindowStatus] = {}
        self.samples: Mapping[str, Mapping[str, Any]] = {}
        """Last sample of each card."""
        self.on_fault: Callable[[str, FaultClass], None] = lambda card, kind: None
        """Called with a physical card that has a fault, inside the pass."""
        self.on_uncordoned: Callable[[str], None] = lambda card: None

    # -- blocks ----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Restore cordons, drains, windows and faults at start."""
        with self._context.database.read() as connection:
            rows = marks.all(connection)
        for row in rows:
            if row.kind == "cordon" and row.target in self._context.fixed.card_index:
                self.block(row.target, CORDON, _cause_of(row))
            elif row.kind == "drain" and row.target in self._context.fixed.node_index:
                self._close(row.target, DRAIN, _cause_of(row))
            elif row.kind == "window":
                self._windows[row.id] = _window_status(row)
            elif row.kind == FAULT:
                self.block(row.target, FAULT, row.cause)
        self._announce()
        for row in self._context.rows.values():
            if JobState(row.state) in ON_CARDS and row.id not in self._context.state.runs:
                self._keep_away_from(row)

    def fault(self, card: str, cause: str, kind: FaultClass | None = None, *, is_event: bool = False) -> None:
        """The card has a fault. Unless only a program caused it, gangs on the card are stopped and requeued, and the
        card is out of use, within the limits of containment. Gangs on other cards continue. ``is_event``: it was
        reported once, and the card may answer well."""
        self._context.loop.post(lambda: self.fault_now(card, cause, kind, is_event=is_event))

    def fault_now(self, card: str, cause: str, kind: FaultClass | None = None, *, is_event: bool = False) -> None:
        """``fault``, inside a pass: before anything else starts on the card."""
        unit, whole = self._context.unit, physical(card)
        rows = [row for row in map(self._context.rows.__getitem__, self.jobs_on(whole)) if _was_live(row)]
        of_kind = kind or class_of_trouble(cause)
        decision = self._containment.fault(unit, whole, cause, of_kind, rows, is_event=is_event)
        if of_kind == "program":
            for row in filter(_is_live, rows if decision.is_new else ()):
                unit.record(row.id, "card_fault", f"card {card}: {cause}", data={"card": card})
            self.on_fault(whole, of_kind)
            return
        if decision.takes_out:
            self._block_for_fault(card, cause)
        self.on_fault(whole, of_kind)
        for job_id in self._on_card(card):
            row = self._context.rows[job_id]
            if _is_live(row):
                self._context.state.runs[job_id].leaving = True
                blame = decision.blame.get(job_id)
                self._outcomes.request_stop(unit, job_id, JobState.LOST, "lost", f"card {card}: {cause}", blame=blame)

    def recovered(self, card: str) -> None:
        def handle() -> None:
            self._unblock_fault(card)
            self._containment.card_back(card)

        self._context.loop.post(handle)

    def faulted(self) -> dict[str, str]:
        """Cards that a fault keeps out of use, with its cause."""
        return {card: blocks[FAULT] for card, blocks in self._blocks.items() if FAULT in blocks}

    def _block_for_fault(self, card: str, cause: str) -> None:
        if self._blocks[card].get(FAULT) == cause:
            return  # an agent may report a fault many times
        self.block(card, FAULT, cause)
        # Of a cluster, the agents know the faults and report them again after a restart of the service.
        if self._context.cluster_engine is None and card in self._context.fixed.card_index:
            mark = replace(self._mark(FAULT, card, SYSTEM, cause), id=f"{FAULT}:{card}")
            self._write(lambda c: marks.put(c, mark))

    def clear_fault(self, card: str) -> None:
        """Inside a pass: a self-test has shown that the physical card is well."""
        for part in self.parts(card):
            self._unblock_fault(part)
        self._containment.card_back(card)

    def _unblock_fault(self, card: str) -> None:
        if FAULT in self._blocks.get(card, {}):
            self.unblock(card, FAULT)
            self._write(lambda c: marks.remove_of(c, FAULT, card))

    def taken_outside(self, card: str, cause: str | None) -> None:
        """A process outside the scheduler holds the card (a cause), or none does any more."""

        def handle() -> None:
            if cause is None:
                self._unmanaged.pop(card, None)
                self.unblock(card, OUTSIDE)
            else:
                self._unmanaged[card] = cause
                self._apply_unmanaged_rule(card)

        self._context.loop.post(handle)

    def unmanaged_on(self, card: str) -> str | None:
        """Description of the unmanaged processes on the card. None: there are none."""
        return self._unmanaged.get(card)

    def cordon(self, card: str, who: Who, cause: str = "") -> CardStatus:
        self._check(card, self._context.fixed.card_index, "card")
        mark = self._mark("cordon", card, who, cause)

        def handle() -> None:
            self.block(card, CORDON, _cause_of(mark))
            self._write(lambda c: marks.put(c, mark))

        self._context.loop.call(handle)
        return self._card(card)

    def uncordon(self, card: str) -> CardStatus:
        """Clears a fault too, because an administrator has checked the card."""
        self._check(card, self._context.fixed.card_index, "card")

        def handle() -> None:
            for kind in (CORDON, SUSPECT):
                self.unblock(card, kind)
            self._unblock_fault(card)
            self._containment.card_back(card)
            self._containment.ledger.forget_card(physical(card))
            self.on_uncordoned(card)
            self._write(lambda c: marks.remove_of(c, "cordon", card))

        self._context.loop.call(handle)
        return self._card(card)

    def drain(self, node: str, who: Who, cause: str = "") -> NodeStatus:
        self._check(node, self._context.fixed.node_index, "node")
        mark = self._mark("drain", node, who, cause)

        def handle() -> None:
            self._close(node, DRAIN, _cause_of(mark))
            self._write(lambda c: marks.put(c, mark))

        self._context.loop.call(handle)
        return self._node(node)

    def undrain(self, node: str) -> NodeStatus:
        self._check(node, self._context.fixed.node_index, "node")

        def handle() -> None:
            self._open(node, DRAIN)
            self._write(lambda c: marks.remove_of(c, "drain", node))

        self._context.loop.call(handle)
        return self._node(node)

    def add_window(self, nodes: Sequence[str], start_us: int, end_us: int | None, who: Who,
                   cause: str = "") -> WindowStatus:  # fmt: skip
        for node in nodes:
            self._check(node, self._context.fixed.node_index, "node")
        if end_us is not None and end_us <= max(start_us, self._context.clock.now_us()):
            raise Invalid("end", "must be after the start and in the future")
        mark = self._mark("window", ",".join(nodes), who, cause, start_us, end_us)

        def handle() -> WindowStatus:
            status = self._windows[mark.id] = _window_status(mark)
            self._announce()
            self._write(lambda c: marks.put(c, mark))
            return status

        return self._context.loop.call(handle)

    def remove_window(self, window_id: str) -> None:
        def handle() -> None:
            if self._windows.pop(window_id, None) is None:
                raise NotFound(f"there is no window {window_id!r}")
            self._announce()
            self._write(lambda c: marks.remove(c, window_id))

        self._context.loop.call(handle)

    def windows(self) -> list[WindowStatus]:
        now_us = self._context.clock.now_us()
        with self._context.lock:
            return [w for w in self._windows.values() if w.end_us is None or w.end_us > now_us]

    # -- queries ---------------------------------------------------------------------------------------------------

    def nodes(self) -> list[NodeStatus]:
        with self._context.lock:
            users = self._users()
            return [self._node_status(index, users) for index in range(len(self._context.fixed.node_ids))]

    def cards(self) -> list[CardStatus]:
        return [card for node in self.nodes() for card in node.cards]

    def cluster(self) -> ClusterStatus:
        with self._context.lock:
            state = self._context.state
            idle = _usable_idle(state)
            cards = [card for node in self.nodes() for card in node.cards]
        usable = {size: int((idle // size).sum()) for size in GANG_SIZES if size <= max(state.space.fixed.node_cards)}
        return ClusterStatus(
            gpus=len(cards), free=sum(c.state == "free" for c in cards), usable=usable,
            unhealthy=sum(c.state == "cordoned" for c in cards),
            taken_outside=sum(c.state == "taken_outside" for c in cards), simulated=self._context.simulated,
            mode=self._mode(),
        )  # fmt: skip

    # -- inside a pass ---------------------------------------------------------------------------------------------

    def block(self, card: str, kind: str, cause: str) -> None:
        if card not in self._context.fixed.card_index:
            return  # an agent may know cards that were added after the service started
        if self._blocks[card].get(kind) != cause:
            self._blocks[card][kind] = cause
            self._update_core(card)

    def unblock(self, card: str, kind: str) -> None:
        if self._blocks.get(card, {}).pop(kind, None) is not None:
            self._update_core(card)

    def _update_core(self, card: str) -> None:
        blocks = self._blocks[card]
        kind = next((kind for kind in CURES if kind in blocks), None)
        outage = UNKNOWN_OUTAGE if kind is None else Outage(blocks[kind], CURES[kind])
        self._context.driver.apply(self._now_us(), CardChanged(card, kind is None, outage))

    def _close(self, node: str, kind: str, cause: str) -> None:
        was_open = not self._closed[node]
        self._closed[node][kind] = cause
        if was_open:
            self._context.driver.apply(self._now_us(), NodeChanged(node, False))

    def _open(self, node: str, kind: str) -> None:
        closed = self._closed.get(node, {})
        if closed.pop(kind, None) is not None and not closed:
            self._context.driver.apply(self._now_us(), NodeChanged(node, True))

    def _keep_away_from(self, row: JobRow) -> None:
        """A card of the gang no longer exists, so the core cannot hold the others: close its nodes until it has
        left."""
        for node in {task["node"] for task in (row.placement or {}).get("tasks", ())}:
            if node in self._context.fixed.node_index:
                self._close(node, row.id, f"{row.name or row.id} still runs here")

    def gang_left(self, row: JobRow) -> None:
        for node in list(self._closed):
            self._open(node, row.id)
        for card in self._unmanaged:
            self._apply_unmanaged_rule(card, leaving=row.id)

    def _apply_unmanaged_rule(self, card: str, leaving: str = "") -> None:
        """Beside an unmanaged process only shares fit, and only where shares are enforced."""
        if self._allows_unmanaged(card) and self._is_shared(card, leaving):
            self.unblock(card, OUTSIDE)
        else:
            self.block(card, OUTSIDE, self._unmanaged[card])

    def _is_shared(self, card: str, leaving: str) -> bool:
        """Whether the physical card is shared. A virtual card always is."""
        return any(
            physical(name) == physical(card)
            and any(user.job_id != leaving and (user.sm_milli is not None or physical(name) != name) for user in users)
            for name, users in self._users().items()
        )

    def _announce(self) -> None:
        windows = tuple(MaintenanceWindow(w.id, w.nodes, w.start_us, w.end_us) for w in self.windows())
        self._context.driver.apply(self._now_us(), WindowsChanged(windows))

    def _now_us(self) -> int:
        return self._context.clock.now_us()

    def _on_card(self, card: str) -> list[str]:
        index = self._context.fixed.card_index.get(card)
        return [run.job.id for run in self._context.state.runs.by_id.values() if index in run.placement.all_cards()]

    def jobs_on(self, card: str) -> list[str]:
        """On any part of this physical card."""
        return list(dict.fromkeys(job for part in self.parts(card) for job in self._on_card(part)))

    def parts(self, card: str) -> list[str]:
        """The cards of the cluster that are, or are parts of, this physical card."""
        known = self._context.fixed.card_index
        return [card] if card in known else [name for name in known if physical(name) == card]

    # -- marks -----------------------------------------------------------------------------------------------------

    def _check(self, name: str, index: Mapping[str, int], kind: str) -> None:
        if name not in index:
            raise NotFound(f"there is no {kind} {name!r}", cure="gpusquad nodes lists them")

    def cordon_for(self, card: str, cause: str) -> None:
        """Inside a pass: keep the card out of use until an administrator returns it."""
        mark = self._mark("cordon", card, SYSTEM, cause)
        self.block(card, CORDON, cause)
        self._write(lambda c: marks.remove_of(c, "cordon", card))
        self._write(lambda c: marks.put(c, mark))

    def uncordon_for(self, card: str) -> None:
        """Inside a pass: undo ``cordon_for``."""
        self.unblock(card, CORDON)
        self._write(lambda c: marks.remove_of(c, "cordon", card))

    def _mark(self, kind: str, target: str, who: Who, cause: str, start_us: int | None = None,
              end_us: int | None = None) -> MarkRow:  # fmt: skip
        at_us = self._context.clock.now_us() if start_us is None else start_us
        return MarkRow(new_id(), kind, target, at_us, end_us, who.user, cause)

    def _write(self, write: Write) -> None:
        """Stored together with its effect: neither exists without the other."""
        self._context.unit.writes.append(write)

    # -- views -----------------------------------------------------------------------------------------------------

    def _users(self) -> dict[str, list[CardUser]]:
        users: defaultdict[str, list[CardUser]] = defaultdict(list)
        for run in self._context.state.runs.by_id.values():
            for part in run.placement.parts:
                share = run.job.groups[part.request_index][0].share
                job = run.job
                user = CardUser(job.id, job.name, job.user, job.tenant)
                for card in part.cards.ravel().tolist():
                    if share is not None:
                        memory_bytes = share.memory_on(int(self._context.fixed.card_memory[card]))
                        user = replace(
                            user, sm_milli=share.sm_milli, memory_bytes=memory_bytes, isolation=share.isolation
                        )
                    users[self._context.fixed.card_ids[card]].append(user)
        return users

    def _node_status(self, index: int, users: Mapping[str, list[CardUser]]) -> NodeStatus:
        space, fixed = self._context.state.space, self._context.fixed
        node = fixed.cluster.nodes[index]
        return NodeStatus(
            id=node.id, drained=DRAIN in self._closed.get(node.id, {}), cpu_milli=node.cpu_milli,
            cpu_free_milli=int(space.node_cpu_free[index]), memory_bytes=node.memory_bytes,
            memory_free_bytes=int(space.node_memory_free[index]),
            cards=tuple(self._card_status(card, at, node.id, users) for at, card in enumerate(node.cards)),
            windows=tuple(w for w in self.windows() if node.id in w.nodes), rack=node.rack,
        )  # fmt: skip

    def _card_status(self, card: Any, index: int, node: str, users: Mapping[str, list[CardUser]]) -> CardStatus:
        blocks, jobs = self._blocks.get(card.id, {}), tuple(users.get(card.id, ()))
        closed = next(iter(self._closed.get(node, {}).values()), None)
        state, cause = _card_state(blocks, jobs, closed)
        return CardStatus(card.id, node, index, card.model, card.memory_bytes, state, cause, jobs,
                          self.samples.get(card.id), self._context.simulated,
                          (self.samples.get(card.id) or {}).get("self_test"))  # fmt: skip

    def _node(self, node: str) -> NodeStatus:
        return next(one for one in self.nodes() if one.id == node)

    def _card(self, card: str) -> CardStatus:
        return next(one for one in self.cards() if one.id == card)


def _is_live(row: JobRow) -> bool:
    return JobState(row.state) in (JobState.STARTING, JobState.RUNNING)


def _was_live(row: JobRow) -> bool:
    """Also one that leaves because of another fault: a gang damages all of its cards within moments."""
    return _is_live(row) or JobState(row.state) is JobState.LOST


def _card_state(blocks: Mapping[str, str], jobs: tuple[CardUser, ...], closed: str | None) -> Any:
    for kind in (FAULT, SUSPECT, CORDON):
        if kind in blocks:
            return "cordoned", blocks[kind]
    if OUTSIDE in blocks:
        return "taken_outside", blocks[OUTSIDE]
    if jobs:
        return ("busy" if jobs[0].sm_milli is None else "shared"), ""
    return ("free", "") if closed is None else ("drained", closed)


def _usable_idle(state: SchedulerState) -> np.ndarray:
    """Idle cards of each node that accepts jobs."""
    return np.where(state.space.node_up, state.space.node_idle, 0)


def _cause_of(mark: MarkRow) -> str:
    """The cause that an administrator gave, with the name: ``bad fan, by admin``. The service gives its own."""
    if mark.by == SYSTEM.user:
        return mark.cause
    return f"{mark.cause}, by {mark.by}" if mark.cause else f"by {mark.by}"


def _window_status(row: MarkRow) -> WindowStatus:
    return WindowStatus(row.id, tuple(row.target.split(",")), row.start_us, row.end_us, row.by, row.cause)
