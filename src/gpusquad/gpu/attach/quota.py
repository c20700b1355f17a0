"""Card sharing on real cards: memory quotas, shares and divide policies, with one daemon per card."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from gpusquad.gpu.api import Attachment, CardSharing, Holder, SharingParams
from gpusquad.gpu.attach.card_manager import QUICK_S, CardManager, cards_of
from gpusquad.gpu.attach.card_slices import CardSlice, place_on
from gpusquad.gpu.attach.client_environment import to_container, to_process
from gpusquad.gpu.attach.drain import pause, wait_until_done
from gpusquad.gpu.attach.library import client_library
from gpusquad.gpu.attach.messages import about_client, as_invalid, mps_in_words
from gpusquad.gpu.attach.mps_pool import is_important
from gpusquad.gpu.attach.records import AttachRecord
from gpusquad.gpu.attach.settings import CardSharingSettings
from gpusquad.gpu.daemon.unmanaged import UnmanagedProcess
from gpusquad.gpu.mps import NO_DAEMON, ProgramRunner, run_here
from gpusquad.model.cluster import Card
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Share
from gpusquad.model.units import WHOLE_MILLI, show_bytes
from gpusquad.model.virtual import physical

_RETRY_S = 30.0
"""Time for which a card with an error is left alone."""
TIME_SLICED_ON_VIRTUAL = "time-sliced with the other virtual cards on all SMs, instead of on SMs of its own"
"""Note for users. Without MPS nothing runs concurrently, so own SMs would only be fewer."""
_log = logging.getLogger(__name__)


class SquadQuota(CardSharing):
    """Several cards. Thread-safe; all calls block (starting a daemon takes about a second)."""

    def __init__(
        self,
        settings: CardSharingSettings | None = None,
        cards: Sequence[Card] = (),
        fallback: CardSharing | None = None,
        run: ProgramRunner = run_here,
    ) -> None:
        """``cards``: cards of the machine, so that policies can be set before the first client is attached. Others are
        added when a client is attached, or found in the folder. ``fallback``: used if ``settings.strict`` is False.
        ``run`` runs the programs of MPS."""
        self._settings, self._fallback, self._run = settings or CardSharingSettings(), fallback, run
        self._lock = threading.Lock()
        self._retry_at_s: dict[str, float] = {}
        self._to_release: dict[str, set[str]] = {}
        """By card: owners that still exist, where the clients of others could not be detached yet."""
        self._managers: dict[str, CardManager] = {}
        for card in (*cards_of(self._settings), *cards):
            self._manager_of(place_on(card).card, update=True)

    @property
    def absence(self) -> str:
        return ""

    # -- clients -----------------------------------------------------------------------------------------------------

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        """See ``CardSharing.attach``. Another object on the same folder returns the same answer. A whole card needs no
        limits unless it is virtual. ``env`` of the answer overrides what the engine sets. Its LD_PRELOAD holds our
        library only; the caller appends the user's. ``notes`` are for users."""
        places = [place_on(card) for card in cards]
        if share is None and not any(place.within for place in places):
            return Attachment()
        try:
            if len(places) != 1:
                raise _too_many(len(places), share)
            return self._attach(places[0], holder, share, sharing_params)
        except (Invalid, OSError) as error:
            if self._settings.strict:
                raise as_invalid(error) from error
            note = f"share is not enforced: {error}"
            _log.warning("%s: %s", _id(holder), note)
            without = self._fallback.attach(cards, holder, share, sharing_params) if self._fallback else Attachment()
            return Attachment(without.env, without.mounts, without.devices, (*without.notes, note))

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        """Change weight, priority, SLO and remaining work. The MPS client priority stays as at the start. Never raises:
        if the card cannot be reached, the client keeps its parameters."""
        client = {"id": _id(holder), **_as_wire(sharing_params)}

        def change(manager: CardManager) -> None:
            manager.start()
            try:
                manager.ask({"do": "change", "tenant": client})
            except Invalid as error:  # an error of this client, not of the card
                if client.pop("quota_bytes", None) is None:
                    _log.warning("%s keeps its sharing parameters: %s", _id(holder), error)
                    return
                _log.warning("%s keeps its memory quota: %s", _id(holder), error)
                change(manager)

        manager, _ = self._record_of(holder)
        if manager is not None:
            self._on(manager, change)

    def resize(self, holder: Holder, memory_bytes: int) -> None:
        """Change the memory quota. Invalid: the client holds more, or the memory is assigned to others."""
        manager, _ = self._record_of(holder)
        if manager is None:
            return
        try:
            _check_room(manager, memory_bytes)
            manager.ask({"do": "change", "tenant": {"id": _id(holder), "quota_bytes": memory_bytes}})
        except Invalid as error:
            raise Invalid("memory", error.problem, error.cure) from error

    def peak_memory_bytes(self, holder: Holder) -> int:
        """Peak memory of all its processes since it was attached, as the shim counts it. It survives restarts of
        processes, daemons and services. 0: none, or unknown. NotReady: its daemon does not answer."""
        manager, _ = self._record_of(holder)
        clients = manager.ask({"do": "status"})["tenants"] if manager is not None else ()
        return max((one["peak_bytes"] for one in clients if one["id"] == _id(holder)), default=0)

    def is_pooled(self, holder: Holder) -> bool:
        """True: it is in an MPS pool, where killing it can affect its neighbours."""
        return self._record_of(holder)[1].is_pooled

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        """Before SIGTERM, so that a program that exits on it does so between kernels: block launches of the clients in
        an MPS pool and wait for their queued work. They are released shortly after, because a signal handler may need
        the card to save its work. True: no work was left."""
        homes = [(*self._record_of(holder), _id(holder)) for holder in holders]
        return pause([(manager, name) for manager, told, name in homes if manager and told.is_pooled], within_s)

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        """Before SIGKILL: block launches, wait for queued work, and let MPS release its processes, so that the kill
        does not affect its neighbours. ``pids``: the machine's pids of its processes, needed for containers. True: no
        work was left."""
        manager, told = self._record_of(holder)
        if manager is None:
            return True
        is_done, seen = wait_until_done(manager, _id(holder), within_s)
        if told.is_pooled:
            manager.pool.terminate(set(pids) or (seen if self._settings.where == "process" else set()))
        return is_done

    def release_all_but(self, owners: set[str]) -> None:
        """Detach clients of all other owners, and restart daemons that died while they had clients. Never raises,
        because it is called from loops. Clients of an earlier process of the service are included. Where it fails, it
        is repeated before the next client is attached."""
        with self._lock:
            self._to_release = dict.fromkeys(self._managers, owners)
        self._on_all(self._maintain)
        if self._fallback is not None:
            self._fallback.release_all_but(owners)

    def maintain(self) -> None:
        """Restart daemons that died and MPS pools with a fault, where they have clients. For loops that rarely call
        ``release_all_but``. Never raises."""
        self._on_all(self._maintain)

    # -- cards -------------------------------------------------------------------------------------------------------

    def set_policy(self, card_id: str, policy: str | None) -> str:
        """Set the divide policy from the next squad on, and for later daemons. None: the default of the settings.
        Returns the policy in effect, or the one that a daemon that does not answer (``silence``) will use."""
        return self._known(card_id).set_policy(policy)

    def policies(self) -> dict[str, str]:
        """Divide policy by card id, for all known cards."""
        return {manager.card.id: manager.policy() for manager in self._all()}

    def status(self, card_id: str) -> dict[str, object]:
        """What the daemon says (``policy``, ``clients``, ``strangers``, ``why`` …), with ``card``, ``running``,
        ``mps`` (in words) and each tenant's ``job``, ``isolation`` and ``note``. A daemon is not started for it, and
        one that hangs (``silence``) is not waited for."""
        manager = self._known(card_id)
        answer = manager.ask_if_running({"do": "status"}, QUICK_S)
        told = manager.told.all()
        about = {"card": manager.card.id, "running": answer is not None, "mps": mps_in_words(manager, told)}
        if answer is None:
            return {**about, "policy": manager.policy(), "tenants": [], "strangers": []}
        clients = [{**one, **about_client(told.get(one["id"]))} for one in answer["tenants"]]
        return {**answer, **about, "tenants": clients}

    def silence(self, card_id: str) -> str:
        """Message that the card's daemon did not answer the last call. Empty: it did, or there is none."""
        return self._known(card_id).silence

    def report_processes(
        self, card_id: str, listed: Iterable[UnmanagedProcess], ours: Collection[int]
    ) -> tuple[int, ...]:
        """See ``CardSharing.report_processes``. Pids are the machine's. Without a daemon nothing is sent."""
        manager = self._known(card_id)
        rows, known = [asdict(one) for one in listed], set(ours)
        if any(row["pid"] not in known for row in rows):
            known.update(manager.pool.pids())  # only if needed: it starts a program
        answer = manager.ask_if_running({"do": "processes", "listed": rows, "ours": sorted(known)})
        return tuple(answer["strangers"]) if answer is not None else ()

    def client_pids(self, card_id: str) -> Mapping[str, tuple[int, ...]]:
        """Processes that loaded the shim, by client (``owner/part``), as numbered in their own pid namespace."""
        answer = self._known(card_id).ask_if_running({"do": "status"})
        return {one["id"]: tuple(one["pids"]) for one in answer["tenants"]} if answer is not None else {}

    def clients(self, card_id: str) -> Mapping[str, int]:
        """Slots by client (``owner/part``)."""
        answer = self._known(card_id).ask_if_running({"do": "status"})
        return {one["id"]: one["slot"] for one in answer["tenants"]} if answer is not None else {}

    def stop(self, card_id: str) -> None:
        """Stop the card's daemon and MPS pool. Clients that are left continue without SM shares; quotas still apply."""
        self._known(card_id).stop()

    # -- within ------------------------------------------------------------------------------------------------------

    def _attach(
        self, place: CardSlice, holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        manager, name = self._manager_of(place.card), _id(holder)
        library = client_library(self._settings)
        with manager.lock:
            manager.make_folder()
            self._release_on(manager, {holder.owner})
            quota_bytes = place.quota_bytes(share)
            told = manager.told.all().get(name)
            if told is None:
                _check_room(manager, quota_bytes, share)
                told = self._new_record(manager, holder, share, sharing_params, quota_bytes)
                if place.within and not told.is_pooled:
                    told = replace(told, notes=(*told.notes, TIME_SLICED_ON_VIRTUAL))
            client = {
                "id": name, "quota_bytes": quota_bytes, "is_time_sliced": not told.is_pooled,
                **place.sm_guarantee(share, not told.is_pooled), **_as_wire(sharing_params),
            }  # fmt: skip
            owner = {}
            if holder.run_as is not None and self._settings.where == "process":
                owner = {"uid": holder.run_as[0], "gid": holder.run_as[1]}
            answer = manager.ask({"do": "attach", "tenant": client, **owner})
            manager.told.keep(name, told)
        file = Path(answer["tenant"])
        if self._settings.where == "process":
            return to_process(told, file, library)
        file.chmod(0o666)  # whatever users its programs become; only this container has it mounted to write
        return to_container(told, file, Path(answer["decisions"]), library, manager.pool, self._settings)

    def _new_record(
        self, manager: CardManager, holder: Holder, share: Share | None, sharing_params: SharingParams, quota_bytes: int
    ) -> AttachRecord:
        uid = holder.run_as[0] if holder.run_as is not None else os.geteuid()
        alone = AttachRecord(dict(NO_DAEMON), uid=uid, job=holder.job)
        if share is not None and share.isolation == "isolated":
            return alone
        others = {one.uid for one in manager.told.all().values() if one.is_pooled}
        if others - {uid}:
            why = f"user {uid} cannot join the MPS pool of user {min(others - {uid})}: the job is time-sliced"
            return AttachRecord(alone.env, (why,), uid=uid, job=holder.job)
        if not manager.pool.start():
            why = f"no MPS on this card ({manager.pool.trouble}): jobs are time-sliced"
            return AttachRecord(alone.env, (why,), uid=uid, job=holder.job)
        slack_bytes = self._settings.second_wall_bytes
        limit_bytes = None if slack_bytes is None or not quota_bytes else quota_bytes + slack_bytes
        env = manager.pool.env(is_important(sharing_params), limit_bytes)
        return AttachRecord(env, is_pooled=True, uid=uid, job=holder.job)

    def _on_all(self, do: Callable[[CardManager], object]) -> None:
        for manager in self._all():
            self._on(manager, do)

    def _on(self, manager: CardManager, do: Callable[[CardManager], object]) -> None:
        """A card with an error is left alone for a while, so that a daemon that fails to start is not restarted
        constantly and one that hangs is not waited for each time."""
        if self._is_waiting(manager):
            return
        with manager.lock:
            if self._is_waiting(manager):  # the call that held the lock has failed
                return
            try:
                do(manager)
            except (Invalid, OSError) as error:
                self._retry_at_s[manager.card.id] = time.monotonic() + _RETRY_S
                _log.warning("card %s is left alone for a while: %s", manager.card.id, error)

    def _is_waiting(self, manager: CardManager) -> bool:
        return time.monotonic() < self._retry_at_s.get(manager.card.id, 0.0)

    def _maintain(self, manager: CardManager) -> None:
        if any(one.is_pooled for one in manager.told.all().values()):
            manager.pool.repair()  # first, because a daemon may start below and is told whether there is a pool
        self._release_on(manager, set())
        if manager.told.all():
            manager.start()

    def _release_on(self, manager: CardManager, besides: set[str]) -> None:
        """Detach what is still to be detached on the card, except clients of ``besides``."""
        owners = self._to_release.get(manager.card.id)
        if owners is None:
            return
        self._detach_all_but(manager, owners | besides)
        with self._lock:
            if self._to_release.get(manager.card.id) is owners:  # otherwise it was set again meanwhile
                del self._to_release[manager.card.id]

    def _detach_all_but(self, manager: CardManager, owners: set[str]) -> None:
        told = manager.told.all()
        answer = manager.ask({"do": "status"}) if told else manager.ask_if_running({"do": "status"})
        here = {one["id"]: one for one in answer["tenants"]} if answer is not None else {}
        for name, one in here.items():
            if _is_gone(name, one, owners):
                manager.ask({"do": "detach", "id": name})
        for name in told:
            if name not in here or _is_gone(name, here[name], owners):
                manager.told.drop(name)
        if not any(one.is_pooled for one in manager.told.all().values()):
            manager.pool.stop()

    def _record_of(self, holder: Holder) -> tuple[CardManager | None, AttachRecord]:
        """The manager of its card and its record. None: it is unknown."""
        for manager in self._all():
            told = manager.told.all().get(_id(holder))
            if told is not None:
                return manager, told
        return None, AttachRecord()

    def _all(self) -> list[CardManager]:
        with self._lock:
            return list(self._managers.values())

    def _manager_of(self, card: Card, update: bool = False) -> CardManager:
        """``update``: replace what is known of the card, for example its memory."""
        with self._lock:
            if card.id not in self._managers or update:
                self._managers[card.id] = CardManager(card, self._settings, self._run)
            return self._managers[card.id]

    def _known(self, card_id: str) -> CardManager:
        with self._lock:
            manager = self._managers.get(physical(card_id))
            if manager is None:
                here = ", ".join(self._managers) or "none"
                raise Invalid("card", f"{card_id!r} is not a shared card of this machine", f"choose from {here}")
            return manager


def _check_room(manager: CardManager, quota_bytes: int, share: Share | None = None) -> None:
    """Refuse a quota that does not cover one CUDA context: the client could not start."""
    context_bytes = manager.context_bytes()
    if 0 < quota_bytes <= context_bytes:
        problem = (
            f"{show_bytes(quota_bytes)} does not exceed the {show_bytes(context_bytes)} "
            "charged for the CUDA context of a process"
        )
        cure = "request more; the charge is context_bytes of the sharing settings"
        if share is not None and share.memory_milli:
            raise Invalid("share", f"{share.memory_milli / WHOLE_MILLI:.1%} of the card's memory: {problem}", cure)
        raise Invalid("share.memory", problem, cure)


def _too_many(cards: int, share: Share | None) -> Invalid:
    if share is None:
        return Invalid("gpus", f"{cards} virtual cards for one task", "request gpus: 1")
    return Invalid("share", f"applies to {cards} cards", "a task can have a share of one card only")


def _id(holder: Holder) -> str:
    return f"{holder.owner}/{holder.part}"


def _is_gone(name: str, client: Mapping[str, object], owners: set[str]) -> bool:
    """A client without an owner was adopted by a daemon without its spec. It stays while it has processes."""
    owner, _, _ = name.rpartition("/")
    return owner not in owners if owner else not client["processes"]


def _as_wire(sharing_params: SharingParams) -> dict[str, object]:
    deadline_us = sharing_params.slo.deadline_us if sharing_params.slo else None
    slo = (
        {name: value for name, value in asdict(sharing_params.slo).items() if value is not None}
        if sharing_params.slo
        else None
    )
    known = {"app": sharing_params.app, "curve": sharing_params.curve or None,
             "solo_per_s": sharing_params.solo_per_s, "beside": dict(sharing_params.rate_beside),
             "costs": dict(sharing_params.neighbour_rates)}  # fmt: skip
    quota = {} if sharing_params.memory_bytes is None else {"quota_bytes": sharing_params.memory_bytes}
    return {
        **(known if sharing_params.app else {}), **quota,
        "weight": sharing_params.weight, "priority": sharing_params.priority, "slo": slo,
        "remaining_us": sharing_params.remaining_us,
        # The daemon uses the monotonic clock.
        "deadline_in_us": None if deadline_us is None else max(0, deadline_us - time.time_ns() // 1000),
    }  # fmt: skip
