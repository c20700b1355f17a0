"""What a job is worth beside others, as annotations of its pods: their nodes' agents go by it.

Its priority, estimate and goals stand there as its user said them. What users cannot say is written by us: the weight
is that of its tenant, and when a deadline is depends on when the job was submitted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from gpusquad.engines.kubernetes.objects import Object, annotations_of
from gpusquad.model.known import known_text
from gpusquad.model.standing import Standing
from gpusquad.model.standing_text import KNOWN, worth_of

Write = Callable[[Object, Mapping[str, str | None]], Awaitable[None]]


def told_at_binding(pod: Object, standing: Standing) -> dict[str, str]:
    """A binding adds annotations and takes none away: what its user made up is written over."""
    said = annotations_of(pod)
    told = {KNOWN: known_text(standing), **worth_of(standing)}
    return {name: text for name, text in told.items() if text or (name in said and name != KNOWN)}


class Worths:
    """Tells pods that run what they are worth now. All in the hub's thread."""

    def __init__(self, live_pods: Callable[[str], Sequence[Object]], write: Write) -> None:
        self._live_pods = live_pods
        self._write = write
        self._told: dict[str, tuple[int, dict[str, str]]] = {}
        """By job: the attempt, and what was written last. What the watch shows of it may be older."""
        self._one_by_one = asyncio.Lock()

    async def change(self, job_id: str, attempt: int, standing: Standing) -> None:
        """Nothing is written to pods that say it already."""
        async with self._one_by_one:
            worth = worth_of(standing)
            before = self._told.get(job_id)
            self._told[job_id] = attempt, worth
            for pod in self._live_pods(job_id):
                said = before[1] if before is not None and before[0] == attempt else annotations_of(pod)
                news = {name: text or None for name, text in worth.items() if said.get(name, "") != text}
                if news:
                    await self._write(pod, news)

    def forget(self, job_id: str) -> None:
        self._told.pop(job_id, None)
