"""Objects that pods' groups are read from, watched from the moment somebody asks for their kind."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.client.reflector import Reflector
from gpusquad.engines.kubernetes.parse.lookups import LOOKUPS, UNKNOWN, Lookup, NotFetched, group_of
from gpusquad.engines.kubernetes.pruning import shrink_other
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.objects import Object, controller_of, key_of, name_of, namespace_of, uid_of

Kind = tuple[str, str]
_KNOWN: dict[Kind, Lookup] = {(lookup.group, lookup.kind): lookup for lookup in LOOKUPS}
_PAUSE_S = 1.0
_MOST_LEVELS = 8
_log = logging.getLogger(__name__)


def _path(api_version: str, kind: str, namespace: str, name: str) -> str:
    group = api_version.rpartition("/")[0]
    lookup = _KNOWN.get((group, kind))
    plural = lookup.plural if lookup else f"{kind.lower()}s"
    root = f"/apis/{api_version}" if group else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural}/{name}"


class Lookups:
    """``find`` for those who read memberships. ``changed`` is called with the pods that had asked for an object."""

    def __init__(self, api: AsyncKubeApi, changed: Callable[[set[str]], None]) -> None:
        self._api = api
        self._changed = changed
        self._kinds: dict[Kind, Reflector | None] = {}
        """None: the version is not known yet."""
        self._askers: defaultdict[tuple[Kind, str], set[str]] = defaultdict(set)
        self._asked_by: defaultdict[str, set[tuple[Kind, str]]] = defaultdict(set)
        self._moved = asyncio.Event()
        """Another kind is known, or another one is wanted."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.reading_for = ""
        """The pod whose membership is being read."""

    def find(self, group: str, kind: str, namespace: str, name: str) -> Object | NotFetched | None:
        which, key = (group, kind), f"{namespace}/{name}"
        if which not in _KNOWN:
            return None
        self._askers[which, key].add(self.reading_for)
        self._asked_by[self.reading_for].add((which, key))
        if which not in self._kinds:
            self._kinds[which] = None
            self._keep(self._watch(_KNOWN[which]))
        reflector = self._kinds[which]
        if reflector is None or not reflector.synced.is_set():
            return UNKNOWN
        return reflector.items.get(key)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        for key in self._asked_by.pop(uid, ()):
            self._askers[key].discard(uid)
            if not self._askers[key]:
                del self._askers[key]

    def maker(self, pod: Object) -> Object | None:
        """The reference to the topmost owner that is known: a JobSet rather than the Job that it made."""
        reference, item = controller_of(pod), pod
        for _ in range(_MOST_LEVELS):
            above = controller_of(item)
            if above is None:
                break
            reference = above
            which = (group_of(above.get("apiVersion", "")), above.get("kind", ""))
            reflector = self._kinds.get(which)
            found = reflector.items.get(f"{namespace_of(pod)}/{above['name']}") if reflector is not None else None
            if found is None or uid_of(found) != above.get("uid"):
                break
            item = found
        return reference

    async def settled(self, within_s: float) -> None:
        """Until all kinds are known that pods have asked for so far: what they lead to is asked for next."""
        try:
            async with asyncio.timeout(within_s):
                while any(reflector is None or not reflector.synced.is_set() for reflector in self._kinds.values()):
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            unknown = [kind for (_, kind), reflector in self._kinds.items()
                       if reflector is None or not reflector.synced.is_set()]  # fmt: skip
            _log.warning("%s could not be read in time: pods that depend on them wait", ", ".join(unknown))

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """An object by its owner reference, asked of the server itself."""
        try:
            return await self._api.get(_path(api_version, kind, namespace, name))
        except ApiRefused as error:
            if error.is_missing:
                return None
            raise

    async def delete(self, api_version: str, kind: str, item: Object) -> None:
        """Its pods go with it."""
        options = {"preconditions": {"uid": uid_of(item)}, "propagationPolicy": "Background"}
        await self._api.delete(_path(api_version, kind, namespace_of(item), name_of(item)), options)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _keep(self, work) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, lookup: Lookup) -> None:
        """In the best version that the server has; none is as good as no such objects."""
        which = (lookup.group, lookup.kind)

        def hear(change: str, item: Object, before: Object | None) -> None:
            self._tell(self._askers.get((which, key_of(item)), ()))

        path = f"/apis/{lookup.group}/{await self._version(lookup)}/{lookup.plural}"
        reflector = self._kinds[which] = Reflector(self._api, path, hear=hear, shrink=shrink_other)
        self._keep(self._when_synced(which, reflector))
        await reflector.run()

    async def _when_synced(self, which: Kind, reflector: Reflector) -> None:
        await reflector.synced.wait()
        self._moved.set()
        self._tell({uid for (kind, _), askers in self._askers.items() if kind == which for uid in askers})

    def _tell(self, askers) -> None:
        if askers:
            self._changed(set(askers))

    async def _version(self, lookup: Lookup) -> str:
        while True:
            try:
                for version in lookup.versions:
                    if await self._has(lookup, version):
                        return version
                return lookup.versions[0]
            except (ApiRefused, ApiUnreachable) as error:
                _log.warning("cannot look for %s of %s: %s", lookup.plural, lookup.group, error)
                await asyncio.sleep(_PAUSE_S)

    async def _has(self, lookup: Lookup, version: str) -> bool:
        try:
            await self._api.get(f"/apis/{lookup.group}/{version}/{lookup.plural}", limit="1")
        except ApiRefused as error:
            if error.is_missing:
                return False
            if not error.is_forbidden:
                raise
        return True
