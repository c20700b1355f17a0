"""Tests of Kubernetes manifests for a job: read back, they give the same job, tasks in order and id."""

from __future__ import annotations

import json
import random
import re
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusquad.core.job_objects import JobObjectRequest, TaskProgram
from gpusquad.engines.kubernetes.create.annotations import annotation_changes
from gpusquad.engines.kubernetes.create.environment import literal
from gpusquad.engines.kubernetes.create.manifests import JobManifests, ManifestSettings, owned_by, plan_of, resources_of
from gpusquad.engines.kubernetes.create.names import dns_label, group_name, job_names
from gpusquad.engines.kubernetes.parse.gangs import CompleteGang, gang_of
from gpusquad.engines.kubernetes.parse.membership import membership_of
from gpusquad.kube.objects import Object
from gpusquad.kube.share import container_share
from gpusquad.model.errors import Invalid
from gpusquad.model.job import Checkpoint, Job, Request, Role, Share, Slo

MARK = "0123456789abcdef"
SETTINGS = ManifestSettings(image="usual")
LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")

requests = st.builds(
    Request, gpus=st.integers(0, 8), cpu_milli=st.integers(0, 10**5), memory_bytes=st.integers(0, 2**40),
    gpu_models=st.sampled_from([(), ("A100",), ("A100", "H100")]), min_card_memory_bytes=st.integers(0, 2**37),
).map(lambda task: task if task.gpus else replace(task, gpu_models=(), min_card_memory_bytes=0)) | st.builds(
    Request, share=st.builds(Share, st.integers(1, 2**37), st.integers(0, 100).map(lambda percent: 10 * percent),
                             st.sampled_from(["shared", "isolated"]))
)  # fmt: skip
texts = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=40)
jobs = st.builds(
    Job, id=st.just("-"), name=st.text(max_size=60), user=texts, queue=texts, lane=texts,
    priority=st.sampled_from(["low", "normal", "high", "urgent"]),
    estimate_us=st.none() | st.integers(1, 10**13), limit_us=st.none() | st.integers(1, 10**13),
    slo=st.none() | st.builds(
        Slo, st.none(), st.none() | st.integers(1, 10**13), st.none() | st.floats(1e-6, 1e9),
        st.none() | st.floats(0.0, 1.0),
    ).filter(lambda slo: slo != Slo()),
    checkpoint=st.builds(Checkpoint, st.none() | st.integers(1, 10**12), preemptible=st.booleans()),
    roles=st.lists(st.builds(Role, texts, st.integers(1, 12), requests), min_size=1, max_size=4,
                   unique_by=lambda role: role.name.lower()).map(tuple),
)  # fmt: skip


def object_request(job: Job, **more) -> JobObjectRequest:
    return JobObjectRequest(job, MARK, tuple(TaskProgram(("run", role.name)) for role in job.roles), **more)


def pods_of(plan: JobManifests) -> tuple[list[Object], dict[str, Object]]:
    """Pods as the Job controller creates them, and their owners by name."""
    pods, owners = [], {}
    for number, job in enumerate(plan.jobs):
        name, template = job["metadata"]["name"], job["spec"]["template"]
        owners[name] = {**job, "metadata": {**job["metadata"], "uid": f"job-{number}"}}
        for index in range(job["spec"]["completions"]):
            owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"job-{number}", "controller": True}
            annotations = {
                **template["metadata"]["annotations"],
                "batch.kubernetes.io/job-completion-index": str(index),
            }
            pods.append({
                "metadata": {"name": f"{name}-{index}-{random.randrange(10**6)}", "namespace": plan.namespace,
                             "uid": f"{name}/{index}", "labels": template["metadata"]["labels"],
                             "annotations": annotations, "creationTimestamp": "2026-01-01T00:00:00Z",
                             "ownerReferences": [owner]},
                "spec": template["spec"],
            })  # fmt: skip
    return pods, owners


@given(jobs)
def test_job_read_from_its_manifests_equals_the_requested_job(job: Job):
    plan = plan_of(object_request(job), SETTINGS)
    pods, owners = pods_of(plan)
    random.shuffle(pods)
    members = [membership_of(pod, lambda group, kind, namespace, name: owners[name]) for pod in pods]
    assert {member.key for member in members} == {members[0].key}
    found = gang_of(members[0], pods)
    assert isinstance(found, CompleteGang)
    assert found.job.id == plan.job_id
    assert (found.job.user, found.job.queue, found.job.lane) == (job.user.strip(), job.queue.strip(), job.lane.strip())
    assert (found.job.priority, found.job.estimate_us, found.job.limit_us) == (
        job.priority, job.estimate_us, job.limit_us
    )  # fmt: skip
    assert (found.job.checkpoint.every_us, found.job.checkpoint.preemptible) == (
        job.checkpoint.every_us, job.checkpoint.preemptible
    )  # fmt: skip
    assert found.job.slo == job.slo
    requested = [role.request for role in job.roles for _ in range(role.count)]
    found_requests = [replace(role.request, extras=()) for role in found.job.roles for _ in range(role.count)]
    assert found_requests == requested
    commands_and_uids = [(pod["spec"]["containers"][0]["command"][-1], pod["metadata"]["uid"]) for pod in found.members]
    assert [role for role, _ in commands_and_uids] == [
        literal(role.name) for role in job.roles for _ in range(role.count)
    ]
    indexes = [int(uid.rpartition("/")[2]) for _, uid in commands_and_uids]
    assert indexes == [index for role in job.roles for index in range(role.count)]


@given(st.text(max_size=200), st.lists(texts, min_size=1, max_size=6, unique=True))
def test_job_names_are_distinct_dns_labels(name: str, roles: list[str]):
    group = group_name(name, MARK)
    names = job_names(group, roles)
    assert len({*names}) == len(roles)
    for dns_name in (group, *names):
        assert LABEL.fullmatch(dns_name), dns_name
        assert len(f"{dns_name}-99999") <= 63


@pytest.mark.parametrize(("text", "label"), [("My Train!", "my-train"), ("42", "job-42"), ("über", "ber"), ("", "job")])
def test_dns_label_keeps_the_readable_part_of_a_name(text: str, label: str):
    assert dns_label(text, 30, "job") == label


@given(st.text("$()AB ", max_size=20))
def test_kubelet_expansion_of_a_literal_gives_the_original_text(text: str):
    assert expanded(literal(text)) == text


def expanded(text: str) -> str:
    """Text after the kubelet expanded variables, with A and B defined."""
    return re.sub(r"\$\$|\$\(([^)]*)\)", lambda m: "$" if m[0] == "$$" else {"A": "a", "B": "b"}.get(m[1], m[0]), text)


def test_secrets_are_in_a_secret_and_not_in_the_job():
    plan = plan_of(object_request(single_task_job(), secrets={"KEY": "open sesame"}), SETTINGS)
    assert "open sesame" not in json.dumps(plan.jobs)
    [secret] = plan.beside
    assert secret["stringData"] == {"KEY": "open sesame"}
    [entry] = [entry for entry in env_of(plan) if entry["name"] == "KEY"]
    assert entry["valueFrom"]["secretKeyRef"] == {"name": secret["metadata"]["name"], "key": "KEY"}


def test_objects_beside_the_jobs_are_owned_by_all_jobs():
    owners = [{"metadata": {"name": name, "uid": f"u-{name}"}} for name in ("a", "b")]
    owned = owned_by({"metadata": {"name": "x"}}, owners)
    assert [owner["uid"] for owner in owned["metadata"]["ownerReferences"]] == ["u-a", "u-b"]
    assert not any(owner.get("controller") for owner in owned["metadata"]["ownerReferences"])


def test_ranks_and_master_address_are_in_the_environment():
    roles = (Role("learner", 1, Request(gpus=1)), Role("actor", 3, Request(cpu_milli=100)))
    plan = plan_of(object_request(Job("-", roles, name="rl")), SETTINGS)
    learner, actor = ({entry["name"]: entry for entry in env_of(plan, number)} for number in (0, 1))
    assert learner["RANK"]["value"] == "0"
    assert learner["WORLD_SIZE"]["value"] == "4"
    assert learner["MASTER_ADDR"]["value"] == actor["MASTER_ADDR"]["value"] == "rl-01234567-learner-0.rl-01234567"
    assert "RANK" not in actor, "the shell computes it"
    assert "LOCAL_RANK" not in learner, "only the programs know which tasks form a world"
    found = shell_variables(plan, 1, index=2)
    assert (found["RANK"], found["GPUSQUAD_TASK"], found["JAX_PROCESS_ID"]) == ("3", "3", "3")


def test_tensorflow_indexes_count_over_the_roles_that_are_workers():
    roles = (Role("learner", 1, Request(gpus=1)), Role("actor", 3, Request(cpu_milli=100)))
    plan = plan_of(object_request(Job("-", roles, name="rl")), SETTINGS)
    learner = json.loads({entry["name"]: entry for entry in env_of(plan)}["TF_CONFIG"]["value"])
    actor = json.loads(shell_variables(plan, 1, index=2)["TF_CONFIG"])
    assert (learner["task"], actor["task"]) == ({"type": "worker", "index": 0}, {"type": "worker", "index": 3})
    assert learner["cluster"] == actor["cluster"]
    assert actor["cluster"]["worker"][3] == "rl-01234567-actor-2.rl-01234567:2222"


def test_pods_of_one_role_get_the_conventions_of_launchers():
    plan = plan_of(object_request(Job("-", (Role("task", 2, Request(gpus=4)),), name="ddp")), SETTINGS)
    found = {entry["name"]: entry for entry in env_of(plan)}
    assert {found[name]["value"] for name in ("PET_NNODES", "PL_TRAINER_NUM_NODES", "WORLD_SIZE")} == {"2"}
    assert found["PET_NPROC_PER_NODE"]["value"] == "4"
    assert found["RANK"] == {"name": "RANK", **{key: found["PET_NODE_RANK"][key] for key in ("valueFrom",)}}
    assert "LOCAL_RANK" not in found
    config = json.loads(found["TF_CONFIG"]["value"].replace("$(GPUSQUAD_INDEX)", "1"))
    assert config["task"] == {"type": "worker", "index": 1}


def test_pods_of_a_gang_mount_their_host_files():
    plan = plan_of(object_request(Job("-", (Role("task", 2, Request(gpus=4)),), name="mpi")), SETTINGS)
    template = plan.jobs[0]["spec"]["template"]
    annotations, spec = template["metadata"]["annotations"], template["spec"]
    hosts = [f"mpi-01234567-{index}.mpi-01234567" for index in (0, 1)]
    assert annotations["gpusquad.io/hostfile"] == "".join(f"{host} slots=4\n" for host in hosts)
    [volume], [mount] = spec["volumes"], spec["containers"][0]["volumeMounts"]
    assert mount["name"] == volume["name"]
    files = {item["path"]: item["fieldRef"]["fieldPath"] for item in volume["downwardAPI"]["items"]}
    assert files["hostfile"] == "metadata.annotations['gpusquad.io/hostfile']"
    found = {entry["name"]: entry.get("value") for entry in env_of(plan)}
    assert found["OMPI_MCA_orte_default_hostfile"] == f"{mount['mountPath']}/hostfile"


def test_single_pod_gets_nothing_of_a_gang():
    plan = plan_of(object_request(single_task_job()), SETTINGS)
    names = {entry["name"] for entry in env_of(plan)}
    assert {name for name in names if not name.startswith("GPUSQUAD_")} == {"PYTHONUNBUFFERED"}
    assert "volumes" not in plan.jobs[0]["spec"]["template"]["spec"]


def test_user_variables_override_those_of_frameworks_only():
    env = {"RANK": "7", "MASTER_PORT": "1", "GPUSQUAD_TASK": "8", "A": "$(B)"}
    roles = (Role("learner", 1, Request(gpus=1)), Role("actor", 2, Request(gpus=1)))
    request = JobObjectRequest(Job("-", roles, name="rl"), MARK, (TaskProgram(("x",), env),) * 2, image="train:1")
    plan = plan_of(request, SETTINGS)
    values = [(entry["name"], entry.get("value")) for entry in env_of(plan)]
    assert ("A", "$$(B)") in values
    assert [value for name, value in values if name in env] == ["7", "1", "$$(B)", "0"]
    found = shell_variables(plan, 1, index=1)
    assert (found["GPUSQUAD_TASK"], found["JAX_PROCESS_ID"]) == ("2", "2")
    assert "RANK" not in found


def test_share_becomes_one_gpu_with_memory_and_sm_limits():
    resources = resources_of(Request(share=Share(2**30, 255), cpu_milli=500))
    assert resources["limits"] == resources["requests"] == {
        "cpu": "500m", "nvidia.com/gpu": "1", "gpusquad.io/gpu-memory": str(2**30), "gpusquad.io/gpu-sm-percent": "26",
    }  # fmt: skip


@given(st.integers(1, 99), st.integers(0, 100))
def test_share_in_percent_is_read_back_exactly(memory_percent: int, sm_percent: int):
    share = Share(0, 10 * sm_percent, memory_milli=10 * memory_percent)
    limits = resources_of(Request(share=share))["limits"]
    assert container_share(limits, {}) == share


def test_minimal_share_gets_a_memory_limit():
    assert resources_of(Request(share=Share(sm_milli=1)))["limits"]["gpusquad.io/gpu-memory"] == str(2**30)
    assert "gpusquad.io/gpu-memory" not in resources_of(Request(share=Share(sm_milli=100)))["limits"]


def test_backoff_limit_allows_all_pods_to_fail_in_every_retry():
    plan = plan_of(
        object_request(replace(single_task_job(), roles=(Role("task", 4, Request(gpus=1)),)), retries=2), SETTINGS
    )
    assert plan.jobs[0]["spec"]["backoffLimit"] == 8


def test_namespace_is_the_tenant_or_its_mapped_name():
    assert plan_of(object_request(replace(single_task_job(), tenant="vision")), SETTINGS).namespace == "vision"
    mapped = replace(SETTINGS, namespaces={"vision": "team-vision"})
    assert plan_of(object_request(replace(single_task_job(), tenant="vision")), mapped).namespace == "team-vision"


@pytest.mark.parametrize(
    ("job", "settings", "field"),
    [
        (Job("-", (Role("task", 1, Request(gpus=1)),)), ManifestSettings(), "image"),
        (Job("-", (Role("task", 2, Request(gpus=1), 1, 4),)), SETTINGS, "min"),
        (Job("-", (Role("task", 1, Request(gpus=1, gpu_models=("a,b",))),)), SETTINGS, "gpu_model"),
        (Job("-", (Role("task", 1, Request(gpus=1)),)), replace(SETTINGS, dry_run=True), "kubernetes.dry_run"),
    ],
)
def test_unsupported_job_is_refused(job: Job, settings: ManifestSettings, field: str):
    with pytest.raises(Invalid) as refused:
        plan_of(object_request(job), settings)
    assert refused.value.field == field


def test_removed_attributes_remove_their_annotations():
    changes = annotation_changes(replace(single_task_job(), estimate_us=90_000_000, priority="normal"))
    assert changes["gpusquad.io/estimate"] == "90s"
    assert changes["gpusquad.io/priority"] is None
    assert changes["gpusquad.io/slo"] is None
    with_slo = replace(single_task_job(), submitted_us=7, slo=Slo(7_200_000_007, 20_000, 5.0, 0.999))
    assert (
        annotation_changes(with_slo)["gpusquad.io/slo"]
        == "deadline=7200s,latency=20ms,throughput=5.0,availability=0.999"
    )


def single_task_job() -> Job:
    return Job("-", (Role("task", 1, Request(gpus=1)),), name="one")


def shell_variables(plan: JobManifests, number: int, index: int) -> dict[str, str]:
    """Variables that the shell of a pod sets before it starts the command."""
    container = plan.jobs[number]["spec"]["template"]["spec"]["containers"][0]
    given = {entry["name"]: expanded(entry["value"]) for entry in container["env"] if "value" in entry}
    given["JOB_COMPLETION_INDEX"] = str(index)
    command = [expanded(word) for word in container["command"][:4]]
    shown = subprocess.run([*command, "env", "-0"], env=given, capture_output=True, text=True, check=True).stdout
    found = dict(entry.split("=", 1) for entry in shown.rstrip("\0").split("\0"))
    return {name: value for name, value in found.items() if given.get(name) != value}


def env_of(plan: JobManifests, number: int = 0) -> list[Object]:
    return plan.jobs[number]["spec"]["template"]["spec"]["containers"][0]["env"]
