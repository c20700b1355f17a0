"""Kubernetes Jobs (batch/v1).

The pods of an Indexed Job that runs all its indexes at once are a gang. Pods of other Jobs are independent: each is a
job of its own, unless ``gpusquad.io/gang: "true"`` is set. A Job of one pod is a gang of one under the Job's name, so
that it stays the same job when its pod is recreated.
"""

from __future__ import annotations

import re

from gpusquad.engines.kubernetes.parse.groups import Membership, of_object
from gpusquad.kube.annotations import count, flag_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of, name_of

_DEFAULT_BACKOFF = 6
_MAX_INDEX_TEXT = 65536
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def gang(pod: Object, job: Object) -> Membership | None:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    at_once = count(spec.get("parallelism"), "Job: spec.parallelism", default=1)
    completions = spec.get("completions")
    total = at_once if completions is None else count(completions, "Job: spec.completions")
    is_gang = flag_of(annotations_of(pod), GANG)
    is_gang = flag_of(annotations_of(job), GANG) if is_gang is None else is_gang
    if is_gang and total > at_once:
        problem = f"is a gang, but runs {at_once} of its {total} pods at once"
        raise UnsupportedField(f"Job {name_of(job)}", problem, "set parallelism to completions")
    together = spec.get("completionMode") == "Indexed" and completions is not None and at_once >= total
    if not (is_gang or together or (completions is not None and total == 1)):
        return None
    left = max(1, total - _over(status) if completions is not None else total)
    return of_object(pod, job, kind="Job", least=left, recreates=survives(spec, status, left))


def recreates(job: Object, together: int) -> bool:
    return survives(job.get("spec") or {}, job.get("status") or {}, together)


def survives(spec: Object, status: Object, lost: int) -> bool:
    """A Job counts every deleted pod as a failure, except those that its failure policy ignores.

    With the default limit of six failures, a gang of eight would not survive one preemption.
    """
    if any(_ignores_disruption(rule) for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ()):
        return True
    per_index = spec.get("backoffLimitPerIndex")
    if per_index is not None:
        return per_index >= 1
    limit = spec.get("backoffLimit")
    return (_DEFAULT_BACKOFF if limit is None else limit) - (status.get("failed") or 0) >= lost


def _ignores_disruption(rule: Object) -> bool:
    conditions = rule.get("onPodConditions") or ()
    return rule.get("action") == "Ignore" and any(each.get("type") == "DisruptionTarget" for each in conditions)


def _over(status: Object) -> int:
    """Indexes that need no pod any more: succeeded or failed."""
    return (status.get("succeeded") or 0) + _indexes(status.get("failedIndexes") or "")


def _indexes(text: str) -> int:
    """Number of indexes in a text such as ``1,3-5``."""
    total = 0
    for first, last in _RANGE.findall(text[:_MAX_INDEX_TEXT]):
        total += max(0, int(last or first) - int(first) + 1)
    return total
