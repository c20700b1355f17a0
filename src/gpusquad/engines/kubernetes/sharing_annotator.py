"""What a job is worth beside others, as annotations of its pods: their nodes' agents go by it.

Its priority, estimate and goals stand there as its user said them. What users cannot say is written by us: the weight
is that of its tenant, and when a deadline is depends on when the job was submitted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from gpusquad.kube.names import KNOWN
from gpusquad.kube.objects import Object, annotations_of, name_of, namespace_of
from gpusquad.kube.sharing_annotations import worth_of
from gpusquad.model.known_rates import known_text
from gpusquad.model.sharing_params import SharingParams

Find = Callable[[str], tuple[Object, SharingParams] | None]
"""By uid: a pod on its node, as it was seen last, and what it is worth now."""
Write = Callable[[Object, Mapping[str, str | None]], Awaitable[str]]
"""Returns why it could not be done; empty: it is."""
_log = logging.getLogger(__name__)


def told_at_binding(pod: Object, sharing_params: SharingParams) -> dict[str, str]:
    """A binding adds annotations and takes none away: what its user made up is written over."""
    said = annotations_of(pod)
    told = {KNOWN: known_text(sharing_params), **worth_of(sharing_params)}
    return {name: text for name, text in told.items() if text or name in said}


class SharingAnnotator:
    """Has pods that run say what they are worth now, whoever wrote something else there. All in the hub's thread."""

    def __init__(self, find: Find, write: Write) -> None:
        self._find = find
        self._write = write
        self._writing: set[str] = set()
        self._told: dict[str, dict[str, str]] = {}
        """By uid, what was written last. What the watch shows of a pod may be older."""
        self._failed: dict[str, str] = {}
        """By uid, why the last try failed."""

    async def tell(self, uids: Iterable[str]) -> None:
        """Nothing is written to pods that say it already. One that cannot be written to holds up no other."""
        await asyncio.gather(*(self._tell(uid) for uid in uids if uid not in self._writing))

    async def look_at_all(self, uids: Iterable[str]) -> None:
        """Now and then: these are all pods there are."""
        there = set(uids)
        self._told = {uid: worth for uid, worth in self._told.items() if uid in there}
        self._failed = {uid: why for uid, why in self._failed.items() if uid in there}
        await self.tell(there)

    async def _tell(self, uid: str) -> None:
        self._writing.add(uid)
        try:
            await self._tell_until_it_holds(uid)
        finally:
            self._writing.discard(uid)

    async def _tell_until_it_holds(self, uid: str) -> None:
        """It may be worth something else by the time that it was written."""
        written: dict[str, str] | None = None
        while (found := self._find(uid)) is not None:
            pod, worth = found[0], worth_of(found[1])
            if worth == written or (written is None and self._says(pod, uid, worth)):
                return
            why = await self._write(pod, {name: text or None for name, text in worth.items()})
            if why:
                self._complain(uid, pod, why)
                return
            written = self._told[uid] = worth
            self._failed.pop(uid, None)

    def _says(self, pod: Object, uid: str, worth: dict[str, str]) -> bool:
        said = annotations_of(pod)
        return self._told.get(uid, worth) == worth and all(said.get(name, "") == text for name, text in worth.items())

    def _complain(self, uid: str, pod: Object, why: str) -> None:
        """Once: it is tried again whenever pods are looked at."""
        if self._failed.get(uid) != why:
            _log.warning("pod %s/%s does not say what it is worth: %s", namespace_of(pod), name_of(pod), why)
        self._failed[uid] = why
