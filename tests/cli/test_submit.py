"""``gpusquad submit`` and ``whatif``: what the command line makes of a job."""

import json
import os

import pytest

from gpusquad.cli._job_file import job_file
from gpusquad.cli._job_options import JobOptions
from gpusquad.cli._option_errors import named_by_option
from gpusquad.model.errors import Invalid
from tests.canned.jobs import job, queued
from tests.fake_service import FakeAnswer, error, sse


def sent(service) -> dict:
    return service.requests_to("POST", "/jobs")[-1].body


def test_a_command_and_its_plan(service, gsq):
    shown = gsq("submit", "--gpus", 8, "--name", "llama-finetune", "--", "python", "train.py", "--gpus", "3").stdout
    file = sent(service)["file"]
    assert file["command"] == ["python", "train.py", "--gpus", "3"]
    assert (file["gpus"], file["name"], file["workdir"]) == (8, "llama-finetune", os.getcwd())
    assert shown.splitlines()[0] == "Submitted llama-finetune (0004bxdf): 8 GPUs"
    assert "pending, position 1 in the queue" in shown
    assert "in 12 min" in shown
    assert "1 h 30 min to 2 h 30 min (similar jobs; confidence 75 %)" in shown
    assert "134 starts forecast so far: 91 % started by the forecast P90, 2 min early in the median" in shown


def test_every_option_in_the_files_words(service, gsq, monkeypatch):
    monkeypatch.setenv("FROM_HERE", "yes")
    gsq(
        "submit", "-t", 2, "--cpu", "500m", "--memory", "64GiB", "--share-memory", "10GiB", "--share-sm", "25%",
        "--share-isolation", "isolated",
        "--gpu-model", "H100", "--gpu-model", "A100", "--estimate", "2h", "--limit", "4h", "-p", "high",
        "--slo", "p99=20ms", "--slo", "throughput=100", "--tenant", "vision", "--queue", "nightly", "--lane", "batch",
        "--app", "vgg", "-e", "A=1=2", "-e", "FROM_HERE", "--secret", "KEY", "--secret", "hub=HF_TOKEN",
        "--after", "prepare", "--after", "train:any", "--retries", 3, "--checkpoint-every", "10m",
        "--not-preemptible", "--notify", "failed", "--workdir", "sub", "--", "true",
    )  # fmt: skip
    assert sent(service)["file"] == {
        "count": 2, "cpu": "500m", "memory": "64GiB",
        "share": {"memory": "10GiB", "sm": "25%", "isolation": "isolated"},
        "gpu_model": ["H100", "A100"], "estimate": "2h", "limit": "4h", "priority": "high",
        "slo": {"latency": "20ms", "throughput": 100.0}, "tenant": "vision", "queue": "nightly", "lane": "batch",
        "app": "vgg", "env": {"A": "1=2", "FROM_HERE": "yes"}, "secrets": ["KEY", {"name": "hub", "as": "HF_TOKEN"}],
        "after": ["prepare", {"job": "train", "on": "any"}], "retries": 3,
        "checkpoint": {"every": "10m", "preemptible": False}, "notify": ["failed"],
        "workdir": os.path.join(os.getcwd(), "sub"), "command": ["true"], "name": "true",
    }  # fmt: skip


def test_a_file_with_options_that_go_before_it(service, gsq, tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(
        "command: python train.py --lr ${lr}\nparams: {lr: 0.1}\ngpus: 4\nenv: {A: 1, B: 2}\nworkdir: out\n"
    )
    gsq("submit", path, "--set", "lr=0.5", "--gpus", 2, "-e", "B=3")
    assert sent(service) == {
        "file": {
            "command": "python train.py --lr ${lr}", "params": {"lr": 0.1}, "gpus": 2, "env": {"A": 1, "B": "3"},
            "workdir": os.path.join(os.getcwd(), "out"), "name": "train",
        },
        "params": {"lr": 0.5},
    }  # fmt: skip


def test_json_files_and_stdin(service, gsq, tmp_path):
    path = tmp_path / "j.json"
    path.write_text('{"name": "x", "gpus": 1, "command": ["a"], "workdir": "/w"}')
    gsq("submit", path)
    first = sent(service)
    gsq("submit", "-", stdin=path.read_text())
    assert sent(service) == first
    gsq("submit", "-", stdin="gpus: 1\ncommand: [a]\nname: x\nworkdir: /w\n")
    assert sent(service) == first


def made(*words: str, **options) -> dict:
    file, params = job_file(JobOptions(**options), list(words) or None)
    return file | ({"given": params} if params else {})


def test_what_a_shell_left_stays_as_it_is():
    file = made("sh", "-c", "echo ${HOME} $${x} ${lr}", env=["P=${PATH}"], params=["lr=0.1"], gpus=1)
    assert file["command"] == ["sh", "-c", "echo $${HOME} $$${x} ${lr}"]
    assert file["env"] == {"P": "$${PATH}"}
    assert file["params"] == {"lr": 0.1}


def test_the_service_gives_the_words_back_unchanged():
    from gpusquad.spec.check import check
    from gpusquad.spec.expand import expand

    words = ["sh", "-c", "echo ${HOME} $${x} $${{}} ${lr} ${ lr } '$' ${", "--", "[red]"]
    (spec,) = expand(check(made(*words, gpus=1, params=["lr=0.1"])), {})
    assert list(spec.command or ()) == [word.replace("${lr}", "0.1").replace("${ lr }", "0.1") for word in words]


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", 1), ("-2", -2), ("0.1", 0.1), ("1e-3", 0.001), (".5", 0.5), ("true", True), ("false", False), ("", ""),
     ("007", "007"), ("1.2.3", "1.2.3"), ("a=b", "a=b"), ("yes", "yes"), ("nan", "nan"), ("-", "-"), ("1_0", "1_0")],
)  # fmt: skip
def test_values_of_parameters(text, value):
    read = made("true", params=[f"x={text}"])["params"]["x"]
    assert (read, type(read)) == (value, type(value))


@pytest.mark.parametrize(
    ("words", "name"),
    [(["python", "src/train.py", "--x"], "train"), (["/usr/bin/python3.11", "-m", "pkg.main"], "pkg"),
     (["./run.sh"], "run"), (["env", "A=1", "sleep", "5"], "sleep"), (["bash", "-lc"], "bash"),
     (["sh", "-c", "echo ${X}"], "sh"), (["${X} y"], "$${X} y")],
)  # fmt: skip
def test_names_for_those_without(words, name):
    assert made(*words)["name"] == name


def test_a_folder_that_is_a_parameter_is_left_alone(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text("workdir: ${dir}/x\nparams: {dir: /d}\ncommand: [a]\n")
    assert made(file=str(path))["workdir"] == "${dir}/x"


@pytest.mark.parametrize(
    ("options", "words", "told"),
    [
        ({}, None, "command: is missing"), ({}, [], "command: is empty"),
        ({"file": "nope.yaml"}, None, "does not exist"), ({"file": "nope.json"}, None, "does not exist"),
        ({"file": "."}, None, "is a directory"), ({"params": ["lr"]}, ["a"], "cannot read 'lr'"),
        ({"env": ["=x"]}, ["a"], "cannot read '=x'"),
        ({"env": ["GPUSQUAD_NO_SUCH"]}, ["a"], "is not set in this shell"),
        ({"slo": ["fast"]}, ["a"], "slo"),
    ],
)  # fmt: skip
def test_what_cannot_be_sent(options, words, told):
    with pytest.raises(Invalid, match=told.replace("(", r"\(")):
        job_file(JobOptions(**options), words)


@pytest.mark.parametrize("text", ["[1]", "{", "null", "\x00"])
def test_files_that_are_none(tmp_path, text):
    for name in ("a.json", "a.yaml"):
        (tmp_path / name).write_text(text)
        with pytest.raises(Invalid):
            made(file=str(tmp_path / name))


def test_nothing_is_sent_where_the_input_is_bad(service, gsq):
    assert "'python' does not exist" in gsq("submit", "python", code=2).stderr
    assert service.requests == []


def test_ids_only(service, gsq):
    assert gsq("submit", "-q", "-g", 1, "--", "true").stdout == "01jcp6m8qwz4t7y2k90004bxdf\n"
    assert len(service.requests) == 1


def test_as_json(service, gsq):
    assert json.loads(gsq("submit", "--json", "-g", 1, "--", "true").stdout) == service.answers["POST", "/jobs"][0].body


def test_a_job_that_runs_already(service, gsq):
    one = job(service.now_s, 4, "vgg", "running", started_s=service.now_s - 1)
    service.set_answers("POST", "/jobs", {"group": None, "jobs": [one | {"state": "pending"}]})
    service.set_answers("GET", f"/jobs/{one['id']}", one)
    shown = gsq("submit", "-g", 2, "--", "true").stdout
    assert "n0: 0 1" in shown
    assert "started" in shown


def test_accepted_is_accepted_even_if_the_plan_is_not_known(service, gsq):
    service.fail("GET", "/jobs/01jcp6m8qwz4t7y2k90004bxdf/when", 503, "unavailable", "busy")
    assert "unknown: busy" in gsq("submit", "-g", 1, "--", "true").stdout


def test_a_sweep_in_numbers(service, gsq):
    jobs = [queued(service.now_s, n, f"lr-{n}", n - 20, 5 * n, ("behind", "b"), gpus=1) for n in range(21, 29)]
    runs = [job(service.now_s, 20, "lr-20", "running", gpus=1)]
    service.set_answers("POST", "/jobs", {"group": "01jgroup", "jobs": [*runs, *jobs]})
    service.set_answers("GET", "/queue", {"items": jobs, "running": runs, "counts": {}, "next": None})
    when = service.answers["GET", "/jobs/llama-finetune/when"][0].body
    service.set_answers("GET", f"/jobs/{jobs[-1]['id']}/when", when | {"start_s": service.now_s + 8400})
    shown = gsq("submit", "-g", 1, "--", "true").stdout
    assert shown.splitlines()[0] == "Submitted 9 jobs as group 01jgroup"
    assert "8, from position 1 in the queue" in shown
    assert "in 2 h 20 min" in shown


@pytest.mark.parametrize(("status", "code"), [(422, "never_fits"), (409, "tenant_limit")])
def test_refused(service, gsq, status, code):
    service.fail("POST", "/jobs", status, code, "needs 9 GPUs on one node, the largest has 8", "gpus", "ask for 8")
    told = gsq("submit", "-g", 9, "--", "true", code=6).stderr
    assert told == "error: gpus: needs 9 GPUs on one node, the largest has 8 (ask for 8)\n"


@pytest.mark.parametrize(
    ("words", "field", "shown"),
    [
        (("--estimate", "soon"), "file.estimate", "--estimate"),
        (("--share-sm", "2"), "file.share.sm", "--share-sm"),
        (("--tasks", "9"), "file.count", "--count"),
        (("--gpu-model", "\t"), "file.gpu_model[0]", "--gpu-model"),
        (("--checkpoint-every", "x"), "file.checkpoint.every", "--checkpoint-every"),
        (("--env", "A=1"), "file.env.A", "--env A"),
        (("--slo", "latency=1us"), "file.slo.latency", "--slo latency"),
        (("--set", "lr=1"), "file.params.lr", "--set lr"),
        (("--secret", "a"), "file.secrets[0]", "--secret"),
        ((), "file.share", "share"),
        ((), "file.command[0]", "command[0]"),
        ((), "tenant", "tenant"),
    ],
)
@pytest.mark.parametrize(("verb", "path"), [("submit", "/jobs"), ("whatif", "/whatif"), ("recommend", "/recommend")])
def test_error_names_the_option_that_set_the_field(service, gsq, verb, path, words, field, shown):
    service.fail("POST", path, 422, "invalid", "is wrong", field, "change it")
    assert gsq(verb, *words, "--", "true", code=2).stderr == f"error: {shown}: is wrong (change it)\n"


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("file.estimate", "file.estimate"), ("file.limit", "--limit"), ("file.env.A", "file.env.A"),
        ("file.env.B", "--env B"), ("params.lr", "--set lr"), ("params.steps", "params.steps"),
        ("file.params.lr", "--set lr"), ("file.secrets[0]", "file.secrets[0]"), ("file.secrets[1].as", "--secret"),
        ("file.after[0]", "file.after[0]"), ("file.limits", "file.limits"), ("file.share", "file.share"),
    ],
)  # fmt: skip
def test_error_names_the_field_when_the_job_file_set_it(field, shown):
    options = JobOptions("a.yaml", limit="1h", env=["B"], params=["lr=1"], secret=["b"])
    file = {"env": {"A": "1", "B": "2"}, "secrets": ["a", "b"], "after": ["x"]}
    assert named_by_option(field, options, file) == shown


@pytest.mark.parametrize(("state", "code"), [("succeeded", 0), ("failed", 1), ("timed_out", 1), ("cancelled", 1)])
def test_waiting_for_the_end(service, gsq, state, code):
    one = job(service.now_s, 4, "vgg")
    path = f"/jobs/{one['id']}"
    over = one | {"state": state, "ended_s": service.now_s, "cause": "so it went"}
    service.set_answers("GET", path, one, one, one | {"state": "running"}, over)
    service.set_answers("GET", "/events", FakeAnswer(parts=[sse("job", {"job": one["id"], "state": state})] * 3))
    result = gsq("submit", "--wait", "-g", 1, "--", "true", code=code)
    assert f"{state.replace('_', ' ')}: so it went" in result.stderr


def test_waiting_as_json(service, gsq):
    over = job(service.now_s, 4, "vgg", "succeeded", ended_s=service.now_s)
    service.set_answers("GET", f"/jobs/{over['id']}", over)
    result = gsq("submit", "--wait", "--json", "-g", 1, "--", "true")
    assert json.loads(result.stdout)["jobs"] == [over]
    assert result.stderr == ""


def test_following_the_logs(service, gsq):
    over = job(service.now_s, 4, "vgg", "failed", ended_s=service.now_s)
    path = f"/jobs/{over['id']}"
    service.set_answers("GET", path, over)
    text = {"task": 0, "attempt": 0, "offset": 0, "next": 6, "text": "step 1"}
    service.set_answers(
        "GET", path + "/logs/stream", FakeAnswer(parts=[sse("log", text), sse("end", {"state": "failed"})])
    )
    assert gsq("submit", "-f", "-g", 1, "--", "true", code=1).stdout.endswith("step 1\n")


def test_what_if(service, gsq):
    shown = gsq("whatif", "-g", 8, "--", "python", "train.py").stdout
    assert shown.startswith("train would wait\n")
    assert "no block  " in shown
    assert "→ " in shown
    assert "0005bxdf by 15 min" in shown
    assert "2 jobs of other tenants would be delayed or preempted" in shown
    assert json.loads(gsq("whatif", "--json", "-g", 8, "--", "true").stdout)["starts_now"] is False
    assert service.requests_to("POST", "/jobs") == []


def test_what_if_it_starts_now(service, gsq):
    answer = service.answers["POST", "/whatif"][0].body
    place = [{"task": 0, "node": "n0", "cards": ["n0/4", "n0/5"]}]
    service.set_answers("POST", "/whatif", answer | {
        "starts_now": True, "start_s": service.now_s, "delayed": [], "others": 0, "placement": place,
        "promised_s": None, "jobs": 12,
    })  # fmt: skip
    shown = gsq("whatif", "-g", 2, "--", "true").stdout
    assert "would start now (the first of 12 jobs of the sweep)" in shown
    assert "n0: 4 5" in shown
    assert "no other job" in shown


def test_what_if_it_is_refused(service, gsq):
    answer = service.answers["POST", "/whatif"][0].body
    reason = {
        "code": "never_fits",
        "message": "needs 9 GPUs on one node",
        "cure": "ask for 8",
        "numbers": {},
        "who": [],
    }
    service.set_answers("POST", "/whatif", answer | {"refused": reason})
    shown = gsq("whatif", "-g", 9, "--", "true", code=6).stdout
    assert "would be refused" in shown
    assert "→ ask for 8" in shown


def test_a_busy_service_is_asked_again_with_the_same_key(service, gsq):
    one = service.answers["POST", "/jobs"][0]
    service.set_answers("POST", "/jobs", error(503, "unavailable", "busy", Retry_After="0"), one)
    gsq("submit", "-q", "-g", 1, "--", "true")
    assert len({request.headers["idempotency-key"] for request in service.requests_to("POST", "/jobs")}) == 1


@pytest.mark.parametrize("option", ["--count", "--tasks", "-t"])
def test_number_of_tasks_is_sent_as_count(service, gsq, option):
    gsq("submit", option, 3, "--gpus", 1, "--", "true")
    assert sent(service)["file"]["count"] == 3
