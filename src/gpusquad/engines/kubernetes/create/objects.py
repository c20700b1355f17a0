"""Creates the objects of jobs on the cluster: all of them or none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from gpusquad.engines.kubernetes.client.api import AsyncKubeApi
from gpusquad.engines.kubernetes.create.manifests import JobManifests, owned_by
from gpusquad.kube.errors import ApiRefused, ApiUnreachable
from gpusquad.kube.names import SUBMISSION
from gpusquad.kube.objects import Object, annotations_of, is_leaving, name_of, namespace_of, uid_of
from gpusquad.model.errors import Invalid

_TRIES = 4
_PAUSE_S = 0.3
_PLURALS = {"Job": "jobs", "Service": "services", "Secret": "secrets"}
_log = logging.getLogger(__name__)


async def create(api: AsyncKubeApi, plans: Sequence[JobManifests]) -> None:
    """Raises ``Invalid`` if the server refuses, ``ApiUnreachable`` if it does not answer. Then everything created here
    is removed. Objects of an earlier try of the same submission stay."""
    made: list[Object] = []
    tasks = [asyncio.ensure_future(_create_one(api, plan, made)) for plan in plans]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(_remove(api, item) for item in made))
        raise


async def _create_one(api: AsyncKubeApi, plan: JobManifests, made: list[Object]) -> None:
    own: list[Object] = []
    try:
        jobs = [await _post(api, item, plan, own) for item in plan.jobs]
        for item in plan.beside:
            await _post_beside(api, owned_by(item, jobs), plan, is_new=bool(own))
    finally:
        made += own


async def _post(api: AsyncKubeApi, item: Object, plan: JobManifests, made: list[Object]) -> Object:
    """The Job as stored on the cluster."""
    for number in range(1, _TRIES + 1):
        try:
            result = await api.post(path_of(item), item)
            made.append(result)
            return result
        except ApiRefused as error:
            if not error.already_exists:
                raise _as_invalid(error, item, plan) from None
            there = await api.get(f"{path_of(item)}/{name_of(item)}")
            if annotations_of(there).get(SUBMISSION) != plan.mark:
                raise Invalid("name", f"{item['kind']} {name_of(item)} exists already", "submit it again") from None
            if not is_leaving(there):
                made += [there] if number > 1 else []  # created by the try without an answer
                return there
        except ApiUnreachable:
            if number == _TRIES:
                raise
        await asyncio.sleep(_PAUSE_S)
    raise Invalid("name", f"{item['kind']} {name_of(item)} is still being deleted", "submit it again in a moment")


async def _post_beside(api: AsyncKubeApi, item: Object, plan: JobManifests, is_new: bool) -> None:
    """Creates an object that its Jobs own. If it exists and the Jobs are new, it belongs to another try and is being
    deleted, or was created by a request whose answer was lost."""
    was_lost = False
    for _ in range(_TRIES):
        try:
            await api.post(path_of(item), item)
            return
        except ApiRefused as error:
            if not error.already_exists:
                raise _as_invalid(error, item, plan) from None
            if not is_new or was_lost:
                return
        except ApiUnreachable:
            was_lost = True
        await asyncio.sleep(_PAUSE_S)
    raise ApiUnreachable(f"cannot create {item['kind']} {name_of(item)}")


async def _remove(api: AsyncKubeApi, job: Object) -> None:
    options = {"preconditions": {"uid": uid_of(job)}, "propagationPolicy": "Background"}
    try:
        await api.delete(f"{path_of(job)}/{name_of(job)}", options)
    except (ApiRefused, ApiUnreachable) as error:
        _log.error("cannot remove Job %s/%s of a failed submission: %s", namespace_of(job), name_of(job), error)


def path_of(item: Object) -> str:
    root = f"/apis/{item['apiVersion']}" if "/" in item["apiVersion"] else f"/api/{item['apiVersion']}"
    return f"{root}/namespaces/{namespace_of(item)}/{_PLURALS[item['kind']]}"


def _as_invalid(error: ApiRefused, item: Object, plan: JobManifests) -> Invalid:
    what = f"{item['kind']} {name_of(item)}"
    if error.is_missing:
        cure = f"run kubectl create namespace {plan.namespace}, or set another one under kubernetes.namespaces"
        return Invalid("tenant", f"the cluster has no namespace {plan.namespace}", cure)
    if error.is_forbidden:
        cure = "check the quotas of the namespace and the role of the service"
        return Invalid("kubernetes", f"the cluster does not allow gpusquad to create {what}: {error.message}", cure)
    return Invalid("kubernetes", f"the cluster refuses {what}: {error.message}")
