"""Suspected cards: taken out of use, tested by the agent of their node, then given back or cordoned.

``suspect`` is for anybody who doubts a card: faults with unrelated jobs, jobs that hang on it. The agent tests a card
with a doubtful fault by itself; its results arrive here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import structlog

from gpusquad.model.card_faults import FaultClass
from gpusquad.model.units import US_PER_S, show_us
from gpusquad.model.virtual import physical
from gpusquad.server.safe_text import one_line
from gpusquad.server.services.cluster.nodes import SUSPECT, SYSTEM, NodeService
from gpusquad.server.services.context import SchedulerContext
from gpusquad.server.services.jobs.containment import Containment, clock_time
from gpusquad.server.services.jobs.holds import Holds
from gpusquad.store import audit, marks
from gpusquad.store.marks import MarkRow

COOL_DOWN_US = 600 * US_PER_S
"""A suspected card returns after this time if its node cannot test it, or does not answer."""
MAX_BAD_RATIO = 0.125
"""Largest part of all cards that are kept out of use by their faults with unrelated jobs alone."""
MARK = "suspect"
_MAX_CAUSE = 200
_log = structlog.get_logger("gpusquad.suspects")


class CardSuspects:
    """Knows which cards wait for a self-test. By physical card."""

    def __init__(
        self, context: SchedulerContext, node_service: NodeService, containment: Containment, holds: Holds
    ) -> None:
        self._context = context
        self._node_service = node_service
        self._containment = containment
        self._holds = holds
        self._wanted: dict[str, int] = {}
        """Card to the time since which it is suspected."""
        self._checks: set[str] = set()
        """Cards to test when they are idle next. They are not out of use for that."""
        self._untestable: set[str] = set()
        """Those that return after the cool-down."""
        self._seen: dict[str, int] = {}
        """Card to the time of its last known test, by the clock of its node."""
        self._bad: set[str] = set()
        """Cards that were cordoned because they have faults with unrelated jobs."""
        self.on_wanted: Callable[[Sequence[str]], None] = lambda cards: None
        """Called with all cards to test when they change, after the commit."""
        node_service.on_fault = self._faulted
        node_service.on_uncordoned = self._uncordoned
        containment.on_exonerated = self._exonerated
        containment.on_to_test = self._check

    # -- from any thread -------------------------------------------------------------------------------------------

    def suspect(self, card: str, reason: str) -> None:
        """Take the card out of use for new jobs until it has passed a self-test, which starts when it is free. A card
        that fails stays out. Jobs that run on it continue."""
        self._context.loop.post(lambda: self._suspect(physical(card), reason))

    def wanted(self) -> list[str]:
        """Cards that their agents shall test."""
        with self._context.lock:
            return sorted((self._wanted.keys() - self._untestable) | self._checks)

    def hear(self, samples: Iterable[Mapping[str, Any]]) -> None:
        """Handle results of self-tests in the samples of the agents."""
        for sample in samples:
            card, result = physical(sample["id"]), sample.get("self_test")
            if result is not None and self._seen.get(card) != result["at_us"]:
                is_news = card in self._seen or card in self._wanted or card in self._checks or self._is_recent(result)
                self._seen[card] = result["at_us"]
                if is_news:
                    self._context.loop.post(lambda card=card, result=result: self._tested(card, result))
        if self._wanted:
            self._context.loop.post(self._end_cool_downs)

    def load(self) -> None:
        """Suspect cards again that were not tested before a restart. Those with a fault are suspected as well: the
        agent has forgotten the fault, and only reports that the card answers."""
        with self._context.database.read() as connection:
            rows = marks.all(connection, MARK)
        for row in rows:
            for part in self._node_service.parts(row.target):
                self._node_service.block(part, SUSPECT, row.cause)
            self._wanted[row.target] = row.start_us
        for card, cause in self._node_service.faulted().items():
            self.suspect(card, f"{cause}, before the service was restarted")

    # -- inside a pass ---------------------------------------------------------------------------------------------

    def _suspect(self, card: str, reason: str) -> None:
        parts = self._node_service.parts(card)
        if not parts or card in self._wanted:
            return
        unit, cause = self._context.unit, one_line(reason, _MAX_CAUSE)
        for part in parts:
            self._node_service.block(part, SUSPECT, f"{cause}; waits for a self-test")
        self._wanted[card] = unit.now_us
        mark = MarkRow(f"{MARK}:{card}", MARK, card, unit.now_us, None, SYSTEM.user, f"{cause}; waits for a self-test")
        unit.writes.append(lambda c: marks.put(c, mark))
        self._audit("card.suspect", card, {"cause": cause})
        self._announce()

    def _tested(self, card: str, result: Mapping[str, Any]) -> None:
        if not self._node_service.parts(card):
            return
        passed, detail = result["passed"], one_line(str(result["detail"]), _MAX_CAUSE)
        self._audit("card.self_test", card, {"passed": passed, "detail": detail, "took_s": result["took_s"]})
        is_check = self._end_check(card)
        if passed is None:
            if card in self._wanted:
                self._untestable.add(card)
                cause = f"cannot be tested ({detail}); returns after a cool-down of {show_us(COOL_DOWN_US)}"
                for part in self._node_service.parts(card):
                    self._node_service.block(part, SUSPECT, cause)
                self._announce()
        elif passed:
            self._give_back(card)
            if is_check and self._containment.is_cleared_by_test(card):
                self._node_service.clear_fault(card)
        else:
            self._failed(card, f"self-test failed at {clock_time(self._context.unit.now_us)}: {detail}")

    def _check(self, cards: Iterable[str]) -> None:
        """Have them tested when they are idle. One with a fault returns if it passes."""
        self._checks.update(card for card in cards if self._node_service.parts(card))
        self._announce()

    def _end_check(self, card: str) -> bool:
        """Whether it was to be tested."""
        if card not in self._checks:
            return False
        self._checks.discard(card)
        self._announce()
        return True

    def _failed(self, card: str, cause: str) -> None:
        self._cordon(card, cause)
        self._give_back(card)
        self._containment.card_back(card)
        self._containment.card_failed(card)
        self._holds.exonerate(self._context.unit, card)

    def _cordon(self, card: str, cause: str) -> None:
        for part in self._node_service.parts(card):
            self._node_service.cordon_for(part, cause)
        self._audit("card.cordon", card, {"cause": cause})

    def _give_back(self, card: str) -> None:
        """It waits for no test any more."""
        for part in self._node_service.parts(card):
            self._node_service.unblock(part, SUSPECT)
        if self._wanted.pop(card, None) is not None:
            self._untestable.discard(card)
            self._context.unit.writes.append(lambda c: marks.remove_of(c, MARK, card))
            self._announce()

    def _end_cool_downs(self) -> None:
        now_us = self._context.unit.now_us
        for card in [card for card, since_us in self._wanted.items() if now_us - since_us >= COOL_DOWN_US]:
            if self._is_free(card):
                self._audit("card.cool_down", card, {"cause": "it could not be tested in time"})
                self._give_back(card)

    def _is_free(self, card: str) -> bool:
        """A card that jobs still use is tested when they have left."""
        return card in self._untestable or not self._node_service.jobs_on(card)

    def _faulted(self, card: str, kind: FaultClass) -> None:
        """Judge the card after a fault, before anything else starts on it."""
        ledger = self._containment.ledger
        if kind == "program" and (doubted := ledger.doubted_card(card)) is not None:
            causes = " and ".join(sorted({fault.cause for fault in doubted}))
            ledger.forget_card(card)
            self._suspect(card, f"unrelated programs failed on it ({causes})")
        elif kind == "doubtful" and (bad := ledger.bad_card(card)) is not None and self._may_keep_out(card):
            self._bad.add(card)
            faults = ", ".join(f"{fault.cause} at {clock_time(fault.at_us)}" for fault in bad)
            self._cordon(card, f"faults with unrelated jobs: {faults}")

    def _may_keep_out(self, card: str) -> bool:
        """Few cards that pass their self-tests are kept out: several tenants could make all of them look bad."""
        cards = len({physical(one) for one in self._context.fixed.card_ids})
        return card not in self._bad and len(self._bad) < max(1, round(cards * MAX_BAD_RATIO))

    def _uncordoned(self, card: str) -> None:
        self._bad.discard(physical(card))
        self._end_check(physical(card))
        self._give_back(physical(card))

    def _exonerated(self, cards: Iterable[str]) -> None:
        """Jobs are blamed for faults of these cards."""
        for card in self._bad & set(cards):
            if self._containment.ledger.bad_card(card) is None:
                self._bad.discard(card)
                for part in self._node_service.parts(card):
                    self._node_service.uncordon_for(part)
                self._audit("card.uncordon", card, {"cause": "its faults were caused by jobs that are held now"})

    # -- helpers ---------------------------------------------------------------------------------------------------

    def _announce(self) -> None:
        self._context.unit.after_commit.append(lambda: self.on_wanted(self.wanted()))

    def _is_recent(self, result: Mapping[str, Any]) -> bool:
        """A result from before a restart of this service was handled then."""
        return result["at_us"] >= self._context.clock.now_us() - 60 * US_PER_S

    def _audit(self, action: str, card: str, data: Mapping[str, Any]) -> None:
        unit = self._context.unit
        _log.info(action, card=card, **data)
        unit.writes.append(lambda c: audit.append(c, unit.now_us, SYSTEM.user, action, card, dict(data)))
