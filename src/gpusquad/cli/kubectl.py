"""``kubectl gpusquad``: what the scheduler says of a pod. kubectl finds it on the PATH as ``kubectl-gpusquad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._errors import LET_IN, VerbGroup
from gpusquad.cli._service import AsJson, note, print_json

if TYPE_CHECKING:
    from gpusquad.cli._kube_connection import KubeHttp, KubeTarget
    from gpusquad.client.client import Client
    from gpusquad.client.errors import ApiError
    from gpusquad.kube.access import KubeAccess

JOB_ANNOTATION = "gpusquad.io/job"

app = typer.Typer(
    cls=VerbGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    help="Say what gpusquad does with the pods of a cluster: why they wait, when they start, who is next.",
)

Pod = Annotated[str, typer.Argument(metavar="POD", help="The name of a pod, with or without pod/.", show_default=False)]
Namespace = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NS", help="The pod's; left out: that of the kubeconfig.")
]
Kubeconfig = Annotated[str, typer.Option(metavar="FILE", help="Left out: $KUBECONFIG, else ~/.kube/config.")]
Context = Annotated[str, typer.Option(metavar="NAME", help="A context of the kubeconfig.")]
Service = Annotated[
    str,
    typer.Option(
        metavar="NS/NAME:PORT",
        help="The gpusquad service, reached through the API server; $GPUSQUAD_SERVICE, else gpusquad/gpusquad:http.",
    ),
]


def main() -> None:
    """The entry point of the plugin."""
    app()


@app.command()
def why(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
        context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Say everything that keeps a pod from starting, with numbers and cures."""
    from gpusquad.cli.why import tell_why

    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, tell_why, as_json)


@app.command()
def when(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
         context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Say when a pod starts and ends, and how far to trust that."""
    from gpusquad.cli.when import tell_when

    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, tell_when, as_json)


@app.command()
def job(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
        context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Say which job a pod is part of, and how that job is."""
    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, _tell_job, as_json)


@app.command()
def queue(limit: Annotated[int, typer.Option(min=1, metavar="N", help="At most so many that wait.")] = 50,
          as_json: AsJson = False, kubeconfig: Kubeconfig = "", context: Context = "",
          service: Service = "") -> None:  # fmt: skip
    """Show who runs and who waits, with reason and forecast."""
    from gpusquad.cli.queue import show_queue

    client = _Cluster(_where("", kubeconfig, context, service)).client
    answer: Any = client.cluster.queue(limit)
    show_queue(client, answer, as_json)


def _where(namespace: str, kubeconfig: str, context: str, service: str) -> KubeTarget:
    from gpusquad.cli._kube_connection import KubeTarget

    return KubeTarget(namespace, kubeconfig, context, service)


class _Cluster:
    """A cluster as its user reaches it."""

    def __init__(self, where: KubeTarget) -> None:
        from gpusquad.cli._kube_connection import KubeHttp, access_of, client_of

        self._access: KubeAccess = access_of(where)
        self._namespace = where.namespace or self._access.namespace
        self._kube: KubeHttp = KubeHttp(self._access)
        self.client: Client = client_of(self._access, where)

    def answer(self, pod: str, tell: Callable[[Client, str, bool], None], as_json: bool) -> None:
        """By the service; where it cannot be asked, by what it left on the pod."""
        from gpusquad.client.errors import ApiError

        name = pod.removeprefix("pods/").removeprefix("pod/")
        found = self._pod(name)
        try:
            tell(self.client, self._job_of(found, name), as_json)
        except ApiError as error:
            if found is None:
                raise
            self._by_itself(found, as_json, error)

    def _pod(self, name: str) -> dict[str, Any] | None:
        """None: somebody who may ask the service need not be allowed to read pods."""
        from gpusquad.client.errors import ApiError

        try:
            return self._kube.plain(f"api/v1/namespaces/{self._namespace}/pods/{name}")
        except ApiError as error:
            if error.status == 403:
                return None
            raise

    def _job_of(self, found: dict[str, Any] | None, name: str) -> str:
        annotations = ((found or {}).get("metadata") or {}).get("annotations") or {}
        return annotations.get(JOB_ANNOTATION) or self.client.jobs.of_pod(self._namespace, name)["id"]

    def _by_itself(self, pod: dict[str, Any], as_json: bool, error: ApiError) -> None:
        """What the scheduler wrote on the pod."""
        from gpusquad.cli._views.pod import pod_view

        uid = pod["metadata"]["uid"]
        events = self._kube.plain(
            f"api/v1/namespaces/{self._namespace}/events", fieldSelector=f"involvedObject.uid={uid}"
        )["items"]
        if as_json:
            print_json(_told(pod, events))
        else:
            typer.echo(pod_view(pod, events))
        if error.code == "not_found":
            return  # it has no job yet, and its events say why
        let_in = f" ({LET_IN})" if error.status == 401 else ""
        note(f"this is what is written on the pod; the service could not be asked: {error.message}{let_in}")


def _told(pod: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    from gpusquad.cli._views.pod import condition_of, ours

    return {
        "pod": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
        "phase": (pod.get("status") or {}).get("phase"), "condition": condition_of(pod),
        "nominated_node": (pod.get("status") or {}).get("nominatedNodeName"),
        "events": [{name: one.get(name) for name in ("type", "reason", "message", "count", "lastTimestamp")}
                   for one in ours(events)],
    }  # fmt: skip


def _tell_job(client: Client, job_id: str, as_json: bool) -> None:
    from gpusquad.cli._answers import heading
    from gpusquad.cli._jobs import cards
    from gpusquad.cli._tables import console, facts
    from gpusquad.cli._views.resources import asked

    view: Any = client.jobs.get(job_id)
    if as_json:
        print_json(view)
        return
    out = console()
    out.print(heading(view, None, client.now_s()))
    out.print(facts([
        ("job", view["id"]), ("pods", str(view["tasks"])), ("gpus", asked(view)), ("user", view["user"]),
        ("tenant", view["tenant"]), ("priority", view["priority"]), ("cards", cards(view["placement"])),
        ("because", view["cause"]),
    ]))  # fmt: skip
