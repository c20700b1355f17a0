"""The loop of a card daemon: read the clients' pages, get the next squad from the policy, write the grants.

It has no clock and does not sleep: ``step`` gets the time and returns how long nothing has to be done. So the same loop
runs real and simulated cards. What has to be faster than the loop, such as lending the share of an idle client, is
decided by the clients themselves, from the grants.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from gpusquad import registry
from gpusquad.gpu.daemon.client import GpuClientAccount, GpuClientSpec, plain_facts
from gpusquad.gpu.daemon.guarantees import GuaranteeGuard
from gpusquad.gpu.daemon.quotas import check_quota, granted_bytes
from gpusquad.gpu.daemon.starvation import StarvationGuard
from gpusquad.gpu.daemon.unmanaged import STAND_IN_SLOT, Rule, UnmanagedProcess, named, stand_in, unmanaged_processes
from gpusquad.gpu.daemon.virtual_cards import VirtualCardPolicy
from gpusquad.gpu.region.pages import Grant, Region
from gpusquad.model.errors import Invalid, NotReady
from gpusquad.model.squad import (
    MAX_LEVEL,
    MAX_SQUAD_US,
    UNGATED_US,
    DivideState,
    EffectiveRate,
    GpuClient,
    ShareableCard,
    Squad,
    SquadMember,
)
from gpusquad.model.units import US_PER_S, show_bytes

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """Intervals of the loop."""

    shortest_look_us: int = 200
    looks_a_squad: int = 3
    """So that a client that runs dry, wakes or becomes idle is seen before the squad ends."""
    idle_us: int = 2_000
    """Interval while all clients are idle. A client that wakes starts at once, and clients yield without the daemon."""
    long_idle_us: int = 50_000
    """The same after one second."""
    beat_us: int = 250_000
    """Interval with at most one client: only the heartbeat is needed."""
    reclaim_us: int = 100_000


class SquadLoop:
    """Divides one card."""

    def __init__(
        self,
        region: Region,
        card: ShareableCard,
        policy: str,
        effective: EffectiveRate,
        rule: Rule = "report",
        pace: LoopTiming | None = None,
    ) -> None:
        self._region, self._card, self._effective, self._rule = region, card, effective, rule
        self._pace = pace or LoopTiming()
        self._clients: dict[int, GpuClientAccount] = {}
        self._state = DivideState()
        self._unmanaged: tuple[UnmanagedProcess, ...] = ()
        self._changed = True
        self._seen_us: int | None = None
        self._ends_us = 0
        self._reclaimed_us = 0
        self._awake_us = 0
        self.number = 0
        self.squad: Squad | None = None
        self.failure = ""
        """Last error of the policy, until it succeeds again."""
        self.policy = policy
        self._policy = _made(policy)

    def set_policy(self, policy: str) -> None:
        """Use another policy from the next squad on. Memories that are valid for all policies are kept."""
        self._policy = _made(policy)
        self.policy = policy
        self._state = self._state.for_new_policy()
        self._changed = True

    def adopt(self, slot: int, facts: GpuClientSpec, told_us: int, now_us: int) -> None:
        """Take over a client that an earlier daemon attached. ``told_us``: time of its spec, because its deadline and
        its work have continued since."""
        self._clients[slot] = GpuClientAccount(slot, facts, told_us, now_us)
        self._changed = True

    def attach(self, facts: GpuClientSpec, now_us: int, uid: int | None = None, gid: int | None = None) -> int:
        """Attach a client whose processes run under that user id; returns its slot."""
        if any(one.facts.id == facts.id for one in self._clients.values()):
            raise Invalid("tenant.id", f"{facts.id!r} is already on this card", "detach it first, or change it")
        if self._rule == "refuse" and self._unmanaged:
            raise NotReady(
                "card", f"has unmanaged processes: {named(self._unmanaged)}",
                "end them, or set sharing.unmanaged to report or share",
            )  # fmt: skip
        check_quota(facts, self._others(None), self._card)
        slot = next((slot for slot in range(self._region.slots) if slot not in self._clients), None)
        if slot is None:
            raise Invalid("card", f"has {self._region.slots} clients and no free slot")
        self._region.attach(slot, uid=uid, gid=gid, quota_bytes=facts.quota_bytes)
        self.adopt(slot, facts, now_us, now_us)
        return slot

    def change(self, facts: GpuClientSpec, now_us: int) -> None:
        """Change the SLO, priority, weight, remaining work or quota of a client."""
        client = self._named(facts.id)
        before = client.facts
        check_quota(facts, self._others(client), self._card)
        client.tell(facts, now_us)
        self._changed = True
        if 0 < facts.quota_bytes < (before.quota_bytes or self._card.memory_bytes):
            self._check_shrunk(client, before, now_us)

    def _check_shrunk(self, client: GpuClientAccount, before: GpuClientSpec, now_us: int) -> None:
        """Apply the smaller quota first, then check usage, so that the client cannot allocate more in between."""
        wanted = client.facts.quota_bytes
        self._next_squad(now_us)
        held = self._region.page(client.slot).used_bytes
        if held > wanted:
            client.tell(before, now_us)
            self._next_squad(now_us)
            raise Invalid(
                "tenant.quota_bytes",
                f"is less than the {show_bytes(held)} that the client holds",
                "request at least that",
            )

    def detach(self, name: str) -> None:
        client = self._named(name)
        del self._clients[client.slot]
        self._region.detach(client.slot)
        self._changed = True

    def hold(self, name: str, until_us: int) -> None:
        """Block launches of a client until then, so that its queued work finishes before it is stopped. The time is
        limited: if it is not stopped, it must not wait at the gate indefinitely."""
        self._named(name).held_until_us = until_us
        self._changed = True

    def facts(self, name: str) -> GpuClientSpec:
        return self._named(name).facts

    def clients(self) -> dict[int, GpuClientSpec]:
        """Specs by slot."""
        return {slot: client.facts for slot, client in self._clients.items()}

    def told(self) -> dict[int, tuple[GpuClientSpec, int]]:
        """Spec of each client by slot, and its time."""
        return {slot: (client.facts, client.told_at_us) for slot, client in self._clients.items()}

    def has_processes(self) -> bool:
        """As of the last look."""
        return any(client.page.pids for client in self._clients.values())

    def report(self, name: str, latencies_us: Sequence[float], now_us: int) -> None:
        """Record latencies of completed requests."""
        self._named(name).window.latencies(now_us, latencies_us)

    def processes(self, listed: Iterable[UnmanagedProcess], ours: Collection[int]) -> tuple[UnmanagedProcess, ...]:
        """``listed``: all processes on the card. ``ours``: pids of clients. Returns the unmanaged ones."""
        found = unmanaged_processes(listed, ours)
        if found != self._unmanaged:
            names = named(found) or "none any more"
            _log.warning("unmanaged processes on the card: %s; rule: %s", names, self._rule)
            self._changed = self._changed or self._rule == "share"
        self._unmanaged = found
        return found

    def step(self, now_us: int) -> int:
        """Do what is due. Returns the time in microseconds until the next call is needed."""
        self._region.beat(now_us * 1000)
        woken = self._look(now_us)
        if self._changed or woken or self._is_due(now_us):
            self._next_squad(now_us)
        return self._rest_us(now_us)

    def status(self, now_us: int) -> dict[str, object]:
        """State of the card for users."""
        squad = self.squad
        return {
            "policy": self.policy,
            "groups": self._card.groups,
            "failure": self.failure,
            "squads": self.number,
            "configuration": squad.configuration if squad else "",
            "length_us": squad.length_us if squad else 0,
            "why": squad.why if squad else "",
            "tenants": [self._client_status(one, now_us) for one in self._clients.values()],
            "strangers": [{"pid": s.pid, "name": s.name, "memory_bytes": s.memory_bytes} for s in self._unmanaged],
            "rule": self._rule,
        }

    def _look(self, now_us: int) -> bool:
        """Read every page. True: a client woke or became idle."""
        if now_us - self._reclaimed_us >= self._pace.reclaim_us:
            self._reclaimed_us = now_us
            self._reclaim()
            self._changed |= any(self._quota_bytes(one) != one.grant.quota_bytes for one in self._clients.values())
        served, turned = {}, False
        for slot, client in self._clients.items():
            served[slot] = client.see(self._region.page(slot), now_us, self._card)
            self._hear(client, now_us)
            self._changed |= client.let_go(now_us)
            is_idle = client.forecast.is_idle(now_us)
            turned, client.was_idle = turned or is_idle != client.was_idle, is_idle
        passed_us = now_us - self._seen_us if self._seen_us is not None else 0
        total_us = sum(served.values())
        # Side by side without restriction, the kernels of each client seem to have had the whole card.
        scale = min(1.0, passed_us / total_us) if total_us > 0 else 1.0
        for slot, us in served.items():
            self._clients[slot].attained_us += us * scale
        self._seen_us = now_us
        return turned and len(self._clients) > 1

    def _hear(self, client: GpuClientAccount, now_us: int) -> None:
        """Read the latencies that its programs report. Those read by an earlier daemon are not counted again."""
        client.served, fresh_us = self._region.served(client.slot, client.served)
        if fresh_us:
            client.window.latencies(now_us, fresh_us)

    def _reclaim(self) -> None:
        for slot, client in self._clients.items():
            lost = self._region.reclaim(slot)
            if lost:
                _log.info("%s: released %d bytes of dead processes", client.facts.id, lost)

    def _is_due(self, now_us: int) -> bool:
        if self.squad is None:
            return True
        if len(self._clients) < 2:
            return False
        if self._runs_dry():
            return True
        if all(client.was_idle for client in self._clients.values()):
            return False
        return now_us >= self._ends_us

    def _runs_dry(self) -> bool:
        """The card is idle while a client waits at the gate: the credits did not last for the length of the squad."""
        busy = any(client.page.in_flight for client in self._clients.values())
        return not busy and any(client.forecast.is_starved for client in self._clients.values())

    def _next_squad(self, now_us: int) -> None:
        dry = self._runs_dry()
        snapshot = [client.snapshot(now_us, dry) for client in self._clients.values()]
        if self._rule == "share" and self._unmanaged:
            snapshot.append(stand_in())
        self.squad = self._decide(snapshot)
        self._state = self.squad.state
        self.number += 1
        self._ends_us = now_us + self.squad.length_us
        self._changed = False
        self._write(self.squad)

    def _decide(self, snapshot: Sequence[GpuClient]) -> Squad:
        """If the policy fails, all clients run without limits."""
        # MPS clients have priorities in the driver. A client outside MPS is time-sliced with all of them.
        are_ranked = not any(client.facts.is_time_sliced for client in self._clients.values())
        card = replace(self._card, has_priorities=are_ranked)
        try:
            squad = self._policy.next_squad(snapshot, card, self._effective, self._state)
            _check(squad, snapshot, card)
            self.failure = ""
            return squad
        except Exception as error:
            if not self.failure:
                _log.exception("divide policy %s failed; clients are not limited until it succeeds", self.policy)
            self.failure = f"{type(error).__name__}: {error}"
            members = tuple(SquadMember(client.slot) for client in snapshot)
            return Squad(members, "unrestricted", MAX_SQUAD_US, f"{self.policy} failed: {error}", DivideState())

    def _write(self, squad: Squad) -> None:
        shared = squad.of(STAND_IN_SLOT) is not None
        grants = {}
        for member in squad.members:
            if member.slot != STAND_IN_SLOT:
                client = self._clients[member.slot]
                client.grant = grants[member.slot] = self._grant(member, client, shared)
        self._region.write(grants)

    def _grant(self, member: SquadMember, client: GpuClientAccount, shared: bool) -> Grant:
        quota_bytes = self._quota_bytes(client)
        if client.held_until_us:
            return Grant(self.number, quota_bytes, credit_us=0)
        from_us = client.forecast.settled_us
        credit_us = self._credit_us(member, shared)
        return Grant(
            squad=self.number,
            quota_bytes=quota_bytes,
            credit_us=UNGATED_US if credit_us == UNGATED_US else from_us + credit_us,
            mask=0 if client.facts.is_time_sliced else member.groups,
            neighbours=member.neighbours & ((1 << self._region.slots) - 1),
            restricted_us=from_us + member.restricted_us if member.restricted_us else 0,
            borrows=member.borrows and not shared,
            loan_us=member.loan_us or self._card.loan_us,
            virtual_card_mask=client.facts.within,
            linger_us=member.linger_us,
            yield_to=member.yield_to & ((1 << self._region.slots) - 1),
            priority_level=0 if client.facts.is_time_sliced else member.level,
        )

    def _quota_bytes(self, client: GpuClientAccount) -> int:
        return granted_bytes(client, self._others(client), self._card)

    def _credit_us(self, member: SquadMember, shared: bool) -> int:
        """Clients cannot yield to unmanaged processes, because their work is not visible. They wait at the gate
        instead."""
        if not shared or member.groups:
            return member.credit_us
        assert self.squad is not None
        return min(member.credit_us, self.squad.length_us // len(self.squad.members))

    def _rest_us(self, now_us: int) -> int:
        pace = self._pace
        if len(self._clients) < 2:
            return pace.beat_us
        if all(client.was_idle for client in self._clients.values()):
            return pace.idle_us if now_us - self._awake_us < US_PER_S else pace.long_idle_us
        self._awake_us = now_us
        assert self.squad is not None
        look_us = max(pace.shortest_look_us, self.squad.length_us // pace.looks_a_squad)
        return max(1, min(look_us, max(self._ends_us - now_us, pace.shortest_look_us)))

    def _others(self, client: GpuClientAccount | None) -> list[GpuClientAccount]:
        return [one for one in self._clients.values() if one is not client]

    def _named(self, name: str) -> GpuClientAccount:
        for client in self._clients.values():
            if client.facts.id == name:
                return client
        known = ", ".join(one.facts.id for one in self._clients.values()) or "none"
        raise Invalid("tenant.id", f"{name!r} is not on this card", f"here: {known}")

    def _names(self, slots: int) -> list[str]:
        return [one.facts.id for slot, one in self._clients.items() if slots >> slot & 1]

    def _client_status(self, client: GpuClientAccount, now_us: int) -> dict[str, object]:
        now, page, grant = client.snapshot(now_us), client.page, client.grant
        gated = grant.credit_us != UNGATED_US
        groups = grant.mask or client.facts.within  # without restriction it still stays on its virtual card
        return {
            **plain_facts(client.facts), "slot": client.slot, "is_idle": now.is_idle, "attained_us": now.attained_us,
            "attainment": now.attainment, "remaining_us": now.remaining_us, "wants_us": now.demand_us,
            "kernel_us": now.kernel_us, "used_bytes": page.used_bytes, "peak_bytes": page.peak_bytes,
            "processes": len(page.pids), "groups": groups.bit_count(), "level": grant.priority_level, "gated": gated,
            "credit_us": max(0, grant.credit_us - page.requested_us) if gated else None, "waiting": page.waiting,
            "moves": page.moves, "waited_us": page.waited_ns // 1000, "yields_to": self._names(grant.yield_to),
            "per_s": now.requests.per_s if now.requests is not None else None, "in_flight": page.in_flight,
            "pids": list(page.pids), "is_held": bool(client.held_until_us),
            "meets_peers": page.uses_collectives, "iterations_per_s": self._iterations_per_s(client, now_us),
        }  # fmt: skip

    def _iterations_per_s(self, client: GpuClientAccount, now_us: int) -> float | None:
        """Iterations found in its launches; None: they do not repeat. Falls with the time since the last launch,
        because a stalled program does not report that."""
        still_us = client.forecast.unlaunched_us(now_us)
        periods_us = self._region.periods_us(client.slot)
        return sum(US_PER_S / max(one, still_us) for one in periods_us) if periods_us else None


def _made(policy: str) -> VirtualCardPolicy:
    """Policies have no state of their own, so one of each serves all virtual cards."""
    chosen, guaranteed = registry.create("divide", policy), registry.create("divide", "guaranteed")
    return VirtualCardPolicy(lambda: StarvationGuard(GuaranteeGuard(chosen, guaranteed)))


def _check(squad: Squad, snapshot: Sequence[GpuClient], card: ShareableCard) -> None:
    """Check a squad before it is written to shared memory: a policy may come from another package."""
    if sorted(member.slot for member in squad.members) != sorted(client.slot for client in snapshot):
        raise Invalid("squad.members", "must be the clients of the card, each once")
    for member in squad.members:
        if member.groups >> card.groups or member.groups < 0:
            raise Invalid("squad.groups", f"{member.groups:#x} contains groups that the card does not have")
        if not 0 <= member.credit_us <= UNGATED_US:
            raise Invalid("squad.credit_us", f"{member.credit_us} is out of range")
        if not 0 <= member.level <= MAX_LEVEL:
            raise Invalid("squad.level", f"{member.level} is not within 0 to {MAX_LEVEL}")
    if not 0 < squad.length_us <= MAX_SQUAD_US:
        raise Invalid("squad.length_us", f"{squad.length_us} is not within 1 to {MAX_SQUAD_US}")
