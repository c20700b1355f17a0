"""Keeps the sharing annotations of running pods up to date. The agents read them.

Users write the priority, the estimate and the SLO. The scheduler writes the rest: the weight is that of the tenant, and
a deadline depends on the time of submission. It also lowers a priority above that of the job.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from gpusquad.kube.names import KNOWN, MEASURED_RATES, PRIORITY
from gpusquad.kube.objects import Object, annotations_of, name_of, namespace_of
from gpusquad.kube.sharing_annotations import sharing_annotations
from gpusquad.model.known_rates import known_text
from gpusquad.model.priority import PRIORITY_CLASSES, card_level_of, is_priority, level_of
from gpusquad.model.sharing_params import SharingParams

Find = Callable[[str], tuple[Object, SharingParams] | None]
"""By UID: a pod on its node as last seen, and its sharing parameters."""
Write = Callable[[Object, Mapping[str, str | None]], Awaitable[str]]
"""Returns why it failed; empty: done."""
_log = logging.getLogger(__name__)


def binding_annotations(pod: Object, params: SharingParams, rates_name: str = KNOWN) -> dict[str, str]:
    """Annotations to add with the binding. A binding cannot remove annotations, so a user's own values are
    overwritten. ``rates_name``: the annotation of measured rates that the agents read."""
    annotations = annotations_of(pod)
    expected = {KNOWN: "", MEASURED_RATES: "", rates_name: known_text(params), **sharing_annotations(params)}
    return {name: text for name, text in expected.items() if text or name in annotations}


def lowered_priority(pod: Object, params: SharingParams) -> dict[str, str]:
    """Annotation to overwrite if the pod has a priority above that of its job, for example because its tenant has no
    right to it. Otherwise empty: the user may change the annotation."""
    text = annotations_of(pod).get(PRIORITY, "")
    if not is_priority(text) or card_level_of(level_of(text)) <= params.priority:
        return {}
    levels = {card_level_of(level): name for name, level in PRIORITY_CLASSES.items()}
    return {PRIORITY: levels[params.priority]}


class SharingAnnotator:
    """Overwrites sharing annotations that differ from the current parameters. Used in the loop thread."""

    def __init__(self, find: Find, write: Write) -> None:
        self._find = find
        self._write = write
        self._writing: set[str] = set()
        self._written: dict[str, dict[str, str]] = {}
        """By UID, what was written last. The watch may still show an older state."""
        self._failed: dict[str, str] = {}
        """By UID, why the last write failed."""

    async def update(self, uids: Iterable[str]) -> None:
        """Writes only where something differs. A failing pod does not delay the others."""
        await asyncio.gather(*(self._update(uid) for uid in uids if uid not in self._writing))

    async def check_all(self, uids: Iterable[str]) -> None:
        """Periodic check. ``uids`` are all running pods."""
        existing = set(uids)
        self._written = {uid: expected for uid, expected in self._written.items() if uid in existing}
        self._failed = {uid: why for uid, why in self._failed.items() if uid in existing}
        await self.update(existing)

    async def _update(self, uid: str) -> None:
        self._writing.add(uid)
        try:
            await self._write_until_current(uid)
        finally:
            self._writing.discard(uid)

    async def _write_until_current(self, uid: str) -> None:
        """Repeats if the parameters changed during the write."""
        written: dict[str, str] | None = None
        while (found := self._find(uid)) is not None:
            pod, expected, lowered = found[0], sharing_annotations(found[1]), lowered_priority(*found)
            if expected | lowered == written:
                return
            if written is None and not lowered and self._is_current(pod, uid, expected):
                return
            why = await self._write(pod, {name: text or None for name, text in (expected | lowered).items()})
            if why:
                self._log_failure(uid, pod, why)
                return
            self._written[uid], written = expected, expected | lowered
            self._failed.pop(uid, None)

    def _is_current(self, pod: Object, uid: str, expected: dict[str, str]) -> bool:
        annotations = annotations_of(pod)
        return self._written.get(uid, expected) == expected and all(
            annotations.get(name, "") == text for name, text in expected.items()
        )

    def _log_failure(self, uid: str, pod: Object, why: str) -> None:
        """Logs each failure once. The next periodic check tries again."""
        if self._failed.get(uid) != why:
            _log.warning("cannot write the sharing annotations of pod %s/%s: %s", namespace_of(pod), name_of(pod), why)
        self._failed[uid] = why
