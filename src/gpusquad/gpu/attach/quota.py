"""Keeps tenants of real cards to their parts: quota, share and policy, by a daemon for each card."""

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
from gpusquad.gpu.attach.messages import about_client, mps_in_words, told_to_people
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

_LEFT_FOR_S = 30.0
TURNS_ON_VIRTUAL = "it takes turns with the other virtual cards, on all SMs, instead of having SMs of its own"
"""Said to people: without MPS nothing runs at once, so SMs of its own would only be fewer."""
_log = logging.getLogger(__name__)


class SquadQuota(CardSharing):
    """Several cards. May be used by several threads; all calls block (starting a daemon takes a second or so)."""

    def __init__(
        self,
        settings: CardSharingSettings | None = None,
        cards: Sequence[Card] = (),
        fallback: CardSharing | None = None,
        run: ProgramRunner = run_here,
    ) -> None:
        """``cards``: those of the machine, so that a policy can be set before the first tenant comes; others join when
        a tenant is attached, or from the folder. ``fallback``: used where ``settings.strict`` is False. ``run`` runs
        the programs of MPS."""
        self._settings, self._fallback, self._run = settings or CardSharingSettings(), fallback, run
        self._lock = threading.Lock()
        self._left_until_s: dict[str, float] = {}
        self._still_to_forget: dict[str, set[str]] = {}
        """By card: who still exists, where others could not be detached yet."""
        self._managers: dict[str, CardManager] = {}
        for card in (*cards_of(self._settings), *cards):
            self._manager_of(place_on(card).card, update=True)

    @property
    def absence(self) -> str:
        return ""

    # -- tenants -----------------------------------------------------------------------------------------------------

    def attach(
        self, cards: Sequence[Card], holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        """Before the tenant exists; again for the same holder (also by another object on the same folder) the same.
        Whole cards are nobody else's: nothing has to be kept to there, but on virtual ones. Invalid says what to do
        about it. ``env`` of the answer goes over what the engine sets itself; its LD_PRELOAD is ours alone (the user's
        own is to be kept beside it). ``notes`` are for people."""
        places = [place_on(card) for card in cards]
        if share is None and not any(place.within for place in places):
            return Attachment()
        try:
            if len(places) != 1:
                raise _too_many(len(places), share)
            return self._attach(places[0], holder, share, sharing_params)
        except (Invalid, OSError) as error:
            if self._settings.strict:
                raise told_to_people(error) from error
            note = f"not kept to its part of the card: {error}"
            _log.warning("%s: %s", _id(holder), note)
            without = self._fallback.attach(cards, holder, share, sharing_params) if self._fallback else Attachment()
            return Attachment(without.env, without.mounts, without.devices, (*without.notes, note))

    def change(self, holder: Holder, sharing_params: SharingParams) -> None:
        """Weight, priority, goal and what is left. The place in MPS's queue stays that of its start. Never raises; on a
        card that is left alone for a while it keeps the standing it had."""
        client = {"id": _id(holder), **_as_told(sharing_params)}

        def change(manager: CardManager) -> None:
            manager.start()
            try:
                manager.ask({"do": "change", "tenant": client})
            except Invalid as error:  # of this tenant: nothing is wrong with the card
                if client.pop("quota_bytes", None) is None:
                    _log.warning("%s keeps the standing it had: %s", _id(holder), error)
                    return
                _log.warning("%s keeps the memory it had: %s", _id(holder), error)
                change(manager)

        manager, _ = self._home_of(holder)
        if manager is not None:
            self._on(manager, change)

    def resize(self, holder: Holder, memory_bytes: int) -> None:
        """So much memory from now on. Invalid: it holds more, or others were promised what it asks for. Nothing happens
        if it is not known."""
        manager, _ = self._home_of(holder)
        if manager is None:
            return
        try:
            _check_room(manager, memory_bytes)
            manager.ask({"do": "change", "tenant": {"id": _id(holder), "quota_bytes": memory_bytes}})
        except Invalid as error:
            raise Invalid("memory", error.problem, error.cure) from error

    def peak_memory_bytes(self, holder: Holder) -> int:
        """The most memory that its processes held together since it was attached, as their library counts it: over the
        ends of processes, daemons and services. 0: nothing, or it is not known. NotNow: its daemon does not answer."""
        manager, _ = self._home_of(holder)
        clients = manager.ask({"do": "status"})["tenants"] if manager is not None else ()
        return max((one["peak_bytes"] for one in clients if one["id"] == _id(holder)), default=0)

    def is_pooled(self, holder: Holder) -> bool:
        """It is in an MPS pool, where its kill can reach others."""
        return self._home_of(holder)[1].is_pooled

    def pause(self, holders: Sequence[Holder], within_s: float) -> bool:
        """Before their processes are told to end: whoever dies of that does so between kernels. Those in an MPS pool
        are held, and what they have on their cards is waited for. A moment later they are let go: who handles the
        signal may need the card to save its work. True: nothing of them was left there."""
        homes = [(*self._home_of(holder), _id(holder)) for holder in holders]
        return pause([(manager, name) for manager, told, name in homes if manager and told.is_pooled], within_s)

    def drain(self, holder: Holder, pids: Collection[int] = (), within_s: float = 5.0) -> bool:
        """Before its processes are killed: no more work of it goes to the card, what is there is waited for, and MPS
        lets go of its clients, so that the kill does not reach its neighbours. ``pids``: the machine's numbers of its
        processes, needed for containers. True: nothing of it was left on the card."""
        manager, told = self._home_of(holder)
        if manager is None:
            return True
        is_done, seen = wait_until_done(manager, _id(holder), within_s)
        if told.is_pooled:
            manager.pool.let_go(set(pids) or (seen if self._settings.where == "process" else set()))
        return is_done

    def release_all_but(self, owners: set[str]) -> None:
        """Detaches tenants of owners that are gone, and starts daemons again that died under tenants that are not.
        Never raises: it is called from loops. Tenants of an earlier process of the service are known too. On a card
        where it cannot be done now it is done before the next tenant comes."""
        with self._lock:
            self._still_to_forget = dict.fromkeys(self._managers, owners)
        self._on_all(self._tend_on)
        if self._fallback is not None:
            self._fallback.release_all_but(owners)

    def maintain(self) -> None:
        """Starts again what died under tenants: daemons, and MPS pools that a fault has reached. For a loop that calls
        ``release_all_but`` seldom. Never raises."""
        self._on_all(self._tend_on)

    # -- cards -------------------------------------------------------------------------------------------------------

    def set_policy(self, card_id: str, policy: str | None) -> str:
        """From the next squad on, and for the daemons to come; None: what the settings say. The policy that holds, or
        does as soon as a daemon that hangs (``silence``) is back."""
        return self._known(card_id).set_policy(policy)

    def policies(self) -> dict[str, str]:
        """Card id to policy, for all cards known here."""
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
        """In words, that the card's daemon did not answer when it was asked last. Empty: it did, or there is none."""
        return self._known(card_id).silence

    def report_processes(
        self, card_id: str, listed: Iterable[UnmanagedProcess], ours: Collection[int]
    ) -> tuple[int, ...]:
        """All processes on the card as the driver lists them, and those that belong here (the machine's pids of
        tenants' processes). The pids of strangers. Nothing is asked of a card without a daemon."""
        manager = self._known(card_id)
        rows, known = [asdict(one) for one in listed], set(ours)
        if any(row["pid"] not in known for row in rows):
            known.update(manager.pool.pids())  # asked only if need be: it starts a program
        answer = manager.ask_if_running({"do": "processes", "listed": rows, "ours": sorted(known)})
        return tuple(answer["strangers"]) if answer is not None else ()

    def client_pids(self, card_id: str) -> Mapping[str, tuple[int, ...]]:
        """By tenant (``owner/part``): the processes that loaded the library, by the pids they know of themselves."""
        answer = self._known(card_id).ask_if_running({"do": "status"})
        return {one["id"]: tuple(one["pids"]) for one in answer["tenants"]} if answer is not None else {}

    def clients(self, card_id: str) -> Mapping[str, int]:
        """Ids (``owner/part``) of the tenants on a card, and their slots."""
        answer = self._known(card_id).ask_if_running({"do": "status"})
        return {one["id"]: one["slot"] for one in answer["tenants"]} if answer is not None else {}

    def stop(self, card_id: str) -> None:
        """Ends the card's daemon and its MPS pool. Tenants that are left run on without shares; quotas hold."""
        self._known(card_id).stop()

    # -- within ------------------------------------------------------------------------------------------------------

    def _attach(
        self, place: CardSlice, holder: Holder, share: Share | None, sharing_params: SharingParams
    ) -> Attachment:
        manager, name = self._manager_of(place.card), _id(holder)
        library = client_library(self._settings)
        with manager.lock:
            manager.make_folder()
            self._forget_on(manager, {holder.owner})
            quota_bytes = place.quota_bytes(share)
            told = manager.told.all().get(name)
            if told is None:
                _check_room(manager, quota_bytes, share)
                told = self._to_tell(manager, holder, share, sharing_params, quota_bytes)
                if place.within and not told.is_pooled:
                    told = replace(told, notes=(*told.notes, TURNS_ON_VIRTUAL))
            client = {
                "id": name, "quota_bytes": quota_bytes, "is_time_sliced": not told.is_pooled,
                **place.promised(share, not told.is_pooled), **_as_told(sharing_params),
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

    def _to_tell(
        self, manager: CardManager, holder: Holder, share: Share | None, sharing_params: SharingParams, quota_bytes: int
    ) -> AttachRecord:
        uid = holder.run_as[0] if holder.run_as is not None else os.geteuid()
        alone = AttachRecord(dict(NO_DAEMON), uid=uid, job=holder.job)
        if share is not None and share.isolation == "isolated":
            return alone
        others = {one.uid for one in manager.told.all().values() if one.is_pooled}
        if others - {uid}:
            why = f"user {uid} cannot join the MPS pool of user {min(others - {uid})}: it takes turns with it instead"
            return AttachRecord(alone.env, (why,), uid=uid, job=holder.job)
        if not manager.pool.start():
            why = f"no MPS on this card ({manager.pool.trouble}): tenants take turns instead of running at once"
            return AttachRecord(alone.env, (why,), uid=uid, job=holder.job)
        slack_bytes = self._settings.second_wall_bytes
        limit_bytes = None if slack_bytes is None or not quota_bytes else quota_bytes + slack_bytes
        env = manager.pool.env(is_important(sharing_params), limit_bytes)
        return AttachRecord(env, is_pooled=True, uid=uid, job=holder.job)

    def _on_all(self, do: Callable[[CardManager], object]) -> None:
        for manager in self._all():
            self._on(manager, do)

    def _on(self, manager: CardManager, do: Callable[[CardManager], object]) -> None:
        """A card where it fails is left alone for a while: a daemon that does not start is not started all the time,
        and one that hangs is not waited for again and again."""
        if self._is_left(manager):
            return
        with manager.lock:
            if self._is_left(manager):  # whoever had the lock has waited for it in vain
                return
            try:
                do(manager)
            except (Invalid, OSError) as error:
                self._left_until_s[manager.card.id] = time.monotonic() + _LEFT_FOR_S
                _log.warning("card %s is not looked after: %s", manager.card.id, error)

    def _is_left(self, manager: CardManager) -> bool:
        return time.monotonic() < self._left_until_s.get(manager.card.id, 0.0)

    def _tend_on(self, manager: CardManager) -> None:
        if any(one.is_pooled for one in manager.told.all().values()):
            manager.pool.mend()  # first: whoever is asked may be started for it, and is told whether there is one
        self._forget_on(manager, set())
        if manager.told.all():
            manager.start()

    def _forget_on(self, manager: CardManager, besides: set[str]) -> None:
        """What is still to be forgotten there, but not ``besides``."""
        owners = self._still_to_forget.get(manager.card.id)
        if owners is None:
            return
        self._detach_all_but(manager, owners | besides)
        with self._lock:
            if self._still_to_forget.get(manager.card.id) is owners:  # else it was said anew meanwhile
                del self._still_to_forget[manager.card.id]

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

    def _home_of(self, holder: Holder) -> tuple[CardManager | None, AttachRecord]:
        """The card that it is on, and what it was told there. None: it is not known."""
        for manager in self._all():
            told = manager.told.all().get(_id(holder))
            if told is not None:
                return manager, told
        return None, AttachRecord()

    def _all(self) -> list[CardManager]:
        with self._lock:
            return list(self._managers.values())

    def _manager_of(self, card: Card, update: bool = False) -> CardManager:
        """``update``: what is said of the card now holds, for example of its memory."""
        with self._lock:
            if card.id not in self._managers or update:
                self._managers[card.id] = CardManager(card, self._settings, self._run)
            return self._managers[card.id]

    def _known(self, card_id: str) -> CardManager:
        with self._lock:
            manager = self._managers.get(physical(card_id))
            if manager is None:
                here = ", ".join(self._managers) or "none"
                raise Invalid("card", f"{card_id!r} is not shared here", f"cards: {here}")
            return manager


def _check_room(manager: CardManager, quota_bytes: int, share: Share | None = None) -> None:
    """Of one that is new: it could not even begin."""
    context_bytes = manager.context_bytes()
    if 0 < quota_bytes <= context_bytes:
        problem = (
            f"{show_bytes(quota_bytes)} is no more than the {show_bytes(context_bytes)} "
            "that are charged here for a process's CUDA context"
        )
        cure = "ask for more; the charge is context_bytes of the sharing settings"
        if share is not None and share.memory_milli:
            raise Invalid("share", f"{share.memory_milli / WHOLE_MILLI:.1%} of the card's memory: {problem}", cure)
        raise Invalid("share.memory", problem, cure)


def _too_many(cards: int, share: Share | None) -> Invalid:
    if share is None:
        return Invalid("gpus", f"{cards} virtual cards for one task", "ask for gpus: 1")
    return Invalid("share", f"of {cards} cards", "a task can have a part of one card only")


def _id(holder: Holder) -> str:
    return f"{holder.owner}/{holder.part}"


def _is_gone(name: str, client: Mapping[str, object], owners: set[str]) -> bool:
    """One without an owner was picked up by a daemon that did not know whose it is: it stays while it runs."""
    owner, _, _ = name.rpartition("/")
    return owner not in owners if owner else not client["processes"]


def _as_told(sharing_params: SharingParams) -> dict[str, object]:
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
        # The daemon's clock is not the calendar's.
        "deadline_in_us": None if deadline_us is None else max(0, deadline_us - time.time_ns() // 1000),
    }  # fmt: skip
