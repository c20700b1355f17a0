"""Every method asks an endpoint that the service really has, in the way it expects."""

import pytest
from starlette.routing import compile_path

from gpusquad.client.errors import ApiError
from gpusquad.client.pages import joined
from tests.fake_service import PREFIX

FILE = {"command": ["true"], "gpus": 1}
CALLS = {
    "jobs.submit": lambda c: c.jobs.submit(FILE, {"lr": 0.1}),
    "jobs.what_if": lambda c: c.jobs.what_if(FILE),
    "jobs.recommend": lambda c: c.jobs.recommend(FILE, {"lr": 0.1}),
    "jobs.find": lambda c: c.jobs.find(
        state="held", tenant="t", user="u", name="n", group="g", text="x", since_s=1.0, until_s=2.0, sort="-ended"
    ),
    "jobs.get": lambda c: c.jobs.get("llama-finetune"),
    "jobs.of_pod": lambda c: c.jobs.of_pod("vision", "llama-finetune-0"),
    "jobs.source": lambda c: c.jobs.source("llama-finetune"),
    "jobs.update": lambda c: c.jobs.update("llama-finetune", {"priority": "high"}),
    "jobs.cancel": lambda c: c.jobs.cancel("llama-finetune", "why not"),
    "jobs.hold": lambda c: c.jobs.hold("llama-finetune"),
    "jobs.release": lambda c: c.jobs.release("llama-finetune"),
    "jobs.resubmit": lambda c: c.jobs.resubmit("llama-finetune"),
    "jobs.why": lambda c: c.jobs.why("llama-finetune"),
    "jobs.when": lambda c: c.jobs.when("llama-finetune"),
    "jobs.story": lambda c: c.jobs.story("llama-finetune"),
    "logs.read": lambda c: c.logs.read("llama-finetune", 0, attempt=1, tail=5),
    "cluster.summary": lambda c: c.cluster.summary(),
    "cluster.nodes": lambda c: c.cluster.nodes(),
    "cluster.queue": lambda c: c.cluster.queue(10, "vision"),
    "cluster.drain": lambda c: c.cluster.drain("n1", "fan"),
    "cluster.undrain": lambda c: c.cluster.undrain("n1"),
    "cluster.cordon": lambda c: c.cluster.cordon("n0/3", "ECC"),
    "cluster.uncordon": lambda c: c.cluster.uncordon("n0/3"),
    "cluster.samples": lambda c: c.cluster.samples("n0/3", 1.0, 60.0),
    "cluster.usage": lambda c: c.cluster.usage("user", 1.0, 2.0),
    "cluster.predictions": lambda c: c.cluster.predictions("vision", 1.0, 10),
    "cards.all": lambda c: c.cards.all(),
    "cards.get": lambda c: c.cards.get("n0/0"),
    "cards.divide": lambda c: c.cards.divide("n0/0", None, "why not"),
    "cards.revisions": lambda c: c.cards.revisions("0", 5),
    "windows.all": lambda c: c.windows.all(),
    "windows.add": lambda c: c.windows.add(["n1"], 1.0, 2.0, "driver"),
    "windows.remove": lambda c: c.windows.remove("w1"),
    "policy.get": lambda c: c.policy.get(),
    "policy.set": lambda c: c.policy.set({"mode": "fair"}),
    "policy.preview": lambda c: c.policy.preview({"mode": "fair"}),
    "policy.revisions": lambda c: c.policy.revisions(5),
    "people.me": lambda c: c.people.me(),
    "people.tenants": lambda c: c.people.tenants(),
    "people.set_tenant": lambda c: c.people.set_tenant("vision", {"weight": 2.0}),
    "people.users": lambda c: c.people.users(),
    "people.add_user": lambda c: c.people.add_user("eve", "nlp", "member"),
    "people.change_user": lambda c: c.people.change_user("bo", {"disabled": False}),
    "people.tokens": lambda c: c.people.tokens(),
    "people.create_token": lambda c: c.people.create_token(user="ana", label="ci", scopes=["read"], expires_s=9e9),
    "people.revoke_token": lambda c: c.people.revoke_token("t1"),
    "people.audit": lambda c: c.people.audit(5, actor="root"),
    "secrets.names": lambda c: c.secrets.names("vision"),
    "secrets.set": lambda c: c.secrets.set("WANDB_API_KEY", "x", "vision"),
    "secrets.remove": lambda c: c.secrets.remove("WANDB_API_KEY", "vision"),
    "inbox.entries": lambda c: c.inbox.entries(unread=True, after=3),
    "inbox.read": lambda c: c.inbox.read([3], up_to=2),
    "notices.rules": lambda c: c.notices.rules(),
    "notices.add": lambda c: c.notices.add("slack://x", ["failed"], "l"),
    "notices.remove": lambda c: c.notices.remove(4),
    "notices.outbox": lambda c: c.notices.outbox("dead"),
    "notices.retry": lambda c: c.notices.retry(9),
    "notices.test": lambda c: c.notices.test({"rule": 4}),
    "health.alive": lambda c: c.health.alive(),
    "health.ready": lambda c: c.health.ready(),
    "health.job_schema": lambda c: c.health.job_schema(),
}


def test_every_method_is_tried_here(client):
    groups = {name: group for name, group in vars(client).items() if name != "http"}
    methods = {
        f"{name}.{method}"
        for name, group in groups.items()
        for method in vars(type(group))
        if not method.startswith("_")
    }
    elsewhere = {
        "logs.read_all",
        "logs.stream",
        "events.follow",
        "events.pulse",
        "inbox.follow",
        "health.has_dashboard",
    }
    assert methods - elsewhere == CALLS.keys()


@pytest.fixture(scope="module")
def routes():
    server = pytest.importorskip("gpusquad.server.app")
    return [(compile_path(path)[0], route) for path, route in server.all_routes()]


@pytest.mark.parametrize("name", CALLS)
def test_the_service_has_that_endpoint(client, service, routes, name):
    CALLS[name](client)
    request = service.requests[-1]
    path = request.path.replace("%2F", "/")
    found = [route for pattern, route in routes if request.method in route.methods and pattern.fullmatch(path)]
    assert found, f"{request.method} {path}"
    known = {field.alias for field in found[0].dependant.query_params}
    known |= {field.alias for inner in found[0].dependant.dependencies for field in inner.query_params}
    assert request.query.keys() <= known
    for field in found[0].dependant.body_params:
        _, errors = field.validate(request.body, {}, loc=("body",))
        assert not errors, errors


def test_readiness_in_words(client, service):
    assert client.health.ready().ok
    service.fail("GET", "/readyz", 503, "unavailable", "the store is away")
    ready = client.health.ready()
    assert (ready.ok, ready.reason) == (False, "the store is away")


def test_whether_there_is_a_page(client, service):
    assert client.health.has_dashboard()
    service.fail("HEAD", "/index.html", 404, "not_found", "nothing here")
    assert not client.health.has_dashboard()
    service.fail("HEAD", "/index.html", 400, "bad_host", "not by this name")
    with pytest.raises(ApiError):
        client.health.has_dashboard()


def test_pages_are_one_list():
    requests = []

    def fetch(query):
        requests.append((query["limit"], query["cursor"]))
        start = int(query["cursor"] or 0)
        stop = min(start + query["limit"], 2500)
        return {"items": list(range(start, stop)), "next": str(stop) if stop < 2500 else None}

    assert joined(fetch, {}, None) == {"items": list(range(2500)), "next": None}
    assert requests == [(1000, None), (1000, "1000"), (1000, "2000")]
    assert joined(fetch, {}, 1200) == {"items": list(range(1200)), "next": "1200"}


def test_the_queue_over_pages_keeps_who_runs(client, service):
    one = service.answers["GET", "/queue"][0].body
    service.set_answers("GET", "/queue", one | {"next": "3"}, one | {"running": [], "next": None})
    answer = client.cluster.queue(None)
    assert (len(answer["items"]), len(answer["running"]), answer["next"]) == (6, 3, None)
    assert service.requests[-1].query["cursor"] == ["3"]
    assert service.requests[0].path == PREFIX + "/queue"
