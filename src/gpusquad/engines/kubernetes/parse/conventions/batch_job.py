"""Jobs of Kubernetes itself (batch/v1).

Pods of an Indexed job that runs all of its indexes at once are ranks of one program: a gang. Other jobs are lists of
work, done in any order: each pod alone, unless ``gpusquad.io/gang: "true"`` says otherwise. A job of one pod is a
gang of one under the job's own name, so that it is the same job after its pod was made again.
"""

from __future__ import annotations

import re

from gpusquad.engines.kubernetes.parse.groups import Membership, of_object
from gpusquad.kube.annotations import count, flag_of
from gpusquad.kube.errors import UnsupportedField
from gpusquad.kube.names import GANG
from gpusquad.kube.objects import Object, annotations_of, name_of

_DEFAULT_BACKOFF = 6
_MOST_INDEX_TEXT = 65536
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def gang(pod: Object, job: Object) -> Membership | None:
    spec, status = job.get("spec") or {}, job.get("status") or {}
    at_once = count(spec.get("parallelism"), "Job: spec.parallelism", default=1)
    completions = spec.get("completions")
    total = at_once if completions is None else count(completions, "Job: spec.completions")
    said = flag_of(annotations_of(pod), GANG)
    said = flag_of(annotations_of(job), GANG) if said is None else said
    if said and total > at_once:
        problem = f"is a gang, but runs {at_once} of its {total} pods at once"
        raise UnsupportedField(f"Job {name_of(job)}", problem, "set parallelism to completions")
    together = spec.get("completionMode") == "Indexed" and completions is not None and at_once >= total
    if not (said or together or (completions is not None and total == 1)):
        return None
    left = max(1, total - _over(status) if completions is not None else total)
    return of_object(pod, job, kind="Job", least=left, remakes=survives(spec, status, left))


def remakes(job: Object, together: int) -> bool:
    return survives(job.get("spec") or {}, job.get("status") or {}, together)


def survives(spec: Object, status: Object, lost: int) -> bool:
    """A job counts every deleted pod as a failure, but for those that its failure policy tells it to ignore.

    With the default of six failures, a gang of eight would not live through being preempted once.
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
    """Indexes that need no pod any more: done, or given up."""
    return (status.get("succeeded") or 0) + _indexes(status.get("failedIndexes") or "")


def _indexes(text: str) -> int:
    """How many ``1,3-5`` names."""
    total = 0
    for first, last in _RANGE.findall(text[:_MOST_INDEX_TEXT]):
        total += max(0, int(last or first) - int(first) + 1)
    return total
