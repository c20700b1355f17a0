"""Owners and groups of pods. A kind is watched from the first time that a pod refers to it."""

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
_MAX_LEVELS = 8
_log = logging.getLogger(__name__)


def _path(api_version: str, kind: str, namespace: str, name: str) -> str:
    group = api_version.rpartition("/")[0]
    lookup = _KNOWN.get((group, kind))
    plural = lookup.plural if lookup else f"{kind.lower()}s"
    root = f"/apis/{api_version}" if group else f"/api/{api_version}"
    return f"{root}/namespaces/{namespace}/{plural}/{name}"


class Lookups:
    """``find`` for parsing memberships. ``changed`` is called with the pods that had looked up a changed object."""

    def __init__(self, api: AsyncKubeApi, changed: Callable[[set[str]], None]) -> None:
        self._api = api
        self._changed = changed
        self._kinds: dict[Kind, Reflector | None] = {}
        """None: the API version is not known yet."""
        self._pods_by_object: defaultdict[tuple[Kind, str], set[str]] = defaultdict(set)
        self._objects_by_pod: defaultdict[str, set[tuple[Kind, str]]] = defaultdict(set)
        self._progress = asyncio.Event()
        """A kind was synced, or another one was requested."""
        self._tasks: set[asyncio.Task[None]] = set()
        self.reading_for = ""
        """UID of the pod whose membership is being parsed."""

    def find(self, group: str, kind: str, namespace: str, name: str) -> Object | NotFetched | None:
        which, key = (group, kind), f"{namespace}/{name}"
        if which not in _KNOWN:
            return None
        self._pods_by_object[which, key].add(self.reading_for)
        self._objects_by_pod[self.reading_for].add((which, key))
        if which not in self._kinds:
            self._kinds[which] = None
            self._start(self._watch(_KNOWN[which]))
        reflector = self._kinds[which]
        if reflector is None or not reflector.synced.is_set():
            return UNKNOWN
        return reflector.items.get(key)

    def forget(self, uid: str) -> None:
        """Call it when a pod is deleted."""
        for key in self._objects_by_pod.pop(uid, ()):
            self._pods_by_object[key].discard(uid)
            if not self._pods_by_object[key]:
                del self._pods_by_object[key]

    def top_owner(self, pod: Object) -> Object | None:
        """Reference to the topmost known owner: a JobSet rather than the Job that it created."""
        reference, item = controller_of(pod), pod
        for _ in range(_MAX_LEVELS):
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

    async def synced(self, within_s: float) -> None:
        """Waits until all kinds that pods have looked up so far are synced. The objects found may cause further
        lookups."""
        try:
            async with asyncio.timeout(within_s):
                while any(reflector is None or not reflector.synced.is_set() for reflector in self._kinds.values()):
                    self._progress.clear()
                    await self._progress.wait()
        except TimeoutError:
            unknown = [kind for (_, kind), reflector in self._kinds.items()
                       if reflector is None or not reflector.synced.is_set()]  # fmt: skip
            _log.warning("cannot read %s in time: pods that depend on them stay pending", ", ".join(unknown))

    async def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """The object of an owner reference, read from the server."""
        try:
            return await self._api.get(_path(api_version, kind, namespace, name))
        except ApiRefused as error:
            if error.is_missing:
                return None
            raise

    async def delete(self, api_version: str, kind: str, item: Object) -> None:
        """Deletes the object and its pods."""
        options = {"preconditions": {"uid": uid_of(item)}, "propagationPolicy": "Background"}
        await self._api.delete(_path(api_version, kind, namespace_of(item), name_of(item)), options)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _watch(self, lookup: Lookup) -> None:
        """Watches the first version that the server has. Without any, there are no such objects."""
        which = (lookup.group, lookup.kind)

        def on_change(change: str, item: Object, before: Object | None) -> None:
            self._notify(self._pods_by_object.get((which, key_of(item)), ()))

        path = f"/apis/{lookup.group}/{await self._version(lookup)}/{lookup.plural}"
        reflector = self._kinds[which] = Reflector(self._api, path, on_change=on_change, shrink=shrink_other)
        self._start(self._when_synced(which, reflector))
        await reflector.run()

    async def _when_synced(self, which: Kind, reflector: Reflector) -> None:
        await reflector.synced.wait()
        self._progress.set()
        self._notify({uid for (kind, _), pods in self._pods_by_object.items() if kind == which for uid in pods})

    def _notify(self, pods) -> None:
        if pods:
            self._changed(set(pods))

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
