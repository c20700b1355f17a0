"""A GPU client as the card daemon knows it: its spec and what the daemon observes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpusquad.gpu.daemon.demand import DemandPredictor
from gpusquad.gpu.daemon.slo_window import SloWindow
from gpusquad.gpu.region.pages import ClientPage, Grant
from gpusquad.model.job import Slo
from gpusquad.model.squad import GpuClient, RequestStats, ShareableCard
from gpusquad.model.units import WHOLE_MILLI

UNKNOWN_CURVE = ((WHOLE_MILLI, 1.0),)


@dataclass(frozen=True, slots=True)
class GpuClientSpec:
    """What is given when a client is attached. All of it can change while the client runs. Fields are wire names."""

    id: str
    weight: float = 1.0
    priority: int = 0
    slo: Slo | None = None
    curve: tuple[tuple[int, float], ...] = UNKNOWN_CURVE
    remaining_us: int | None = None
    """Work left when the spec was given. The daemon subtracts the service since then."""
    deadline_in_us: int | None = None
    quota_bytes: int = 0
    work_us: float = 0.0
    """GPU time of one request or iteration alone; 0: unknown."""
    solo_per_s: float = 0.0
    sm_milli: int = 0
    """Guaranteed fraction of the SMs; 0: none."""
    is_time_sliced: bool = False
    """It has the card to itself in its time slices, so fewer SMs for it would not help others."""
    within: int = 0
    """Mask of the SM groups of its virtual card; 0: the whole card."""
    app: str = ""
    """The name under which its measurements are shared."""
    beside: Mapping[str, float] = field(default_factory=dict)
    """Its rate beside each app, with all SMs for both. Unknown apps are absent."""
    costs: Mapping[str, float] = field(default_factory=dict)
    """Rate of each app beside it."""


class GpuClientAccount:
    """Observed state of one client."""

    def __init__(self, slot: int, facts: GpuClientSpec, told_us: int, now_us: int | None = None) -> None:
        """``told_us``: time of the spec. From then to ``now_us`` the client was not observed: it counts as served, as
        it does for the caller that gave the remaining work."""
        self.slot = slot
        self.facts = facts
        self.forecast = DemandPredictor()
        self.window = SloWindow()
        self.grant = Grant(quota_bytes=facts.quota_bytes)
        self.page = ClientPage()
        self.attained_us = 0.0
        self.was_idle = True
        self.held_until_us = 0
        """Its launches are blocked until then; 0: not held."""
        self.served: int | None = None
        """Requests reported up to the last look; None: not read yet."""
        self._told_us, self.told_at_us = float(told_us - now_us if now_us is not None else 0), told_us

    def tell(self, facts: GpuClientSpec, now_us: int) -> None:
        """Apply a changed spec."""
        self.facts = facts
        self._told_us, self.told_at_us = self.attained_us, now_us

    def let_go(self, now_us: int) -> bool:
        """Release it when its hold has ended. True: it has."""
        if not self.held_until_us or now_us < self.held_until_us:
            return False
        self.held_until_us = 0
        return True

    def see(self, page: ClientPage, now_us: int, card: ShareableCard) -> float:
        """Read its page. Returns its service since the last look: GPU time times the fraction of the card."""
        done_us = self.forecast.see(page, now_us)
        self.page = page
        self.window.iterations(now_us, page.iterations, not self.forecast.is_idle(now_us))
        self.window.busy(now_us, self.forecast.busy_us)
        return done_us * card.share_milli(page.mask_now.bit_count()) / WHOLE_MILLI

    def snapshot(self, now_us: int, dry: bool = False) -> GpuClient:
        """``dry``: the card has run dry, so a client without work counts as idle at once."""
        facts, forecast = self.facts, self.forecast
        is_idle = forecast.is_idle(now_us) or (dry and forecast.has_nothing)
        passed_us, served_us = now_us - self.told_at_us, int(self.attained_us - self._told_us)
        return GpuClient(
            slot=self.slot,
            id=facts.id,
            weight=facts.weight,
            priority=facts.priority,
            slo=facts.slo,
            app=facts.app,
            rate_beside=facts.beside,
            neighbour_rates=facts.costs,
            curve=facts.curve,
            remaining_us=None if facts.remaining_us is None else max(facts.remaining_us - served_us, 0),
            deadline_in_us=None if facts.deadline_in_us is None else facts.deadline_in_us - passed_us,
            attained_us=int(self.attained_us),
            attainment=self.window.attainment(facts.slo, now_us, not is_idle),
            demand_us=forecast.demand_us(),
            kernel_us=forecast.kernel_us,
            is_idle=is_idle,
            idle_us=forecast.idle_us(now_us),
            busy_ratio=self.window.busy_ratio(),
            quota_bytes=facts.quota_bytes,
            used_bytes=self.page.used_bytes,
            requests=self._requests(now_us),
            guaranteed_milli=facts.sm_milli,
            virtual_card_mask=facts.within,
            is_time_sliced=facts.is_time_sliced,
            uses_collectives=self.page.uses_collectives,
        )

    def _requests(self, now_us: int) -> RequestStats | None:
        per_s = self.window.per_s(now_us)
        if not self.facts.work_us and not self.facts.solo_per_s and not per_s:
            return None
        return RequestStats(
            per_s, self.facts.solo_per_s, self.facts.work_us, self.window.p99_us(), self.window.requests,
            self.window.active_per_s(now_us),
        )  # fmt: skip


def plain_facts(facts: GpuClientSpec) -> dict[str, object]:
    """As in the status."""
    slo = facts.slo
    named = {name: getattr(slo, name) for name in Slo.__slots__} if slo is not None else {}
    return {
        "id": facts.id, "app": facts.app, "weight": facts.weight, "priority": facts.priority,
        "quota_bytes": facts.quota_bytes, "sm_milli": facts.sm_milli, "is_time_sliced": facts.is_time_sliced,
        "within": facts.within, "solo_per_s": facts.solo_per_s, "beside": dict(facts.beside),
        "costs": dict(facts.costs),
        "slo": {name: value for name, value in named.items() if value is not None},
    }  # fmt: skip
