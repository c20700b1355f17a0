"""``kubectl gpusquad``: explains pods. kubectl finds the plugin on the PATH as ``kubectl-gpusquad``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gpusquad.cli._errors import TOKEN_HINT, VerbGroup
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
    help="Show why pods of a cluster wait, when they start, and the queue of the gpusquad scheduler.",
)

Pod = Annotated[str, typer.Argument(metavar="POD", help="Pod name, with or without pod/.", show_default=False)]
Namespace = Annotated[
    str,
    typer.Option("--namespace", "-n", metavar="NS", help="Namespace of the pod. Default: the one of the kubeconfig."),
]
Kubeconfig = Annotated[
    str, typer.Option(metavar="FILE", help="Kubeconfig file. Default: $KUBECONFIG, otherwise ~/.kube/config.")
]
Context = Annotated[str, typer.Option(metavar="NAME", help="Context of the kubeconfig. Default: the current one.")]
Service = Annotated[
    str,
    typer.Option(
        metavar="NS/NAME:PORT",
        help="gpusquad service behind the API server. Default: $GPUSQUAD_SERVICE, otherwise gpusquad/gpusquad:http.",
    ),
]


def main() -> None:
    """Entry point of the plugin."""
    app()


@app.command()
def why(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
        context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Explain why a pod has not started: every reason, with numbers and what would help."""
    from gpusquad.cli.why import show_why

    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, show_why, as_json)


@app.command()
def when(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
         context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Show when a pod is expected to start and end, and how accurate such forecasts were."""
    from gpusquad.cli.when import show_when

    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, show_when, as_json)


@app.command()
def job(pod: Pod, namespace: Namespace = "", as_json: AsJson = False, kubeconfig: Kubeconfig = "",
        context: Context = "", service: Service = "") -> None:  # fmt: skip
    """Show the job that a pod belongs to, with its state."""
    _Cluster(_where(namespace, kubeconfig, context, service)).answer(pod, _show_job, as_json)


@app.command()
def queue(limit: Annotated[int, typer.Option(min=1, metavar="N", help="Show at most N pending jobs.")] = 50,
          as_json: AsJson = False, kubeconfig: Kubeconfig = "", context: Context = "",
          service: Service = "") -> None:  # fmt: skip
    """Show running and pending jobs with reasons and forecasts."""
    from gpusquad.cli.queue import show_queue

    client = _Cluster(_where("", kubeconfig, context, service)).client
    answer: Any = client.cluster.queue(limit)
    show_queue(client, answer, as_json)


def _where(namespace: str, kubeconfig: str, context: str, service: str) -> KubeTarget:
    from gpusquad.cli._kube_connection import KubeTarget

    return KubeTarget(namespace, kubeconfig, context, service)


class _Cluster:
    """Connections to a cluster and to its gpusquad service."""

    def __init__(self, where: KubeTarget) -> None:
        from gpusquad.cli._kube_connection import KubeHttp, access_of, client_of

        self._access: KubeAccess = access_of(where)
        self._namespace = where.namespace or self._access.namespace
        self._kube: KubeHttp = KubeHttp(self._access)
        self.client: Client = client_of(self._access, where)

    def answer(self, pod: str, show: Callable[[Client, str, bool], None], as_json: bool) -> None:
        """Answer from the service, or from the pod's condition and events if the service cannot be reached."""
        from gpusquad.client.errors import ApiError

        name = pod.removeprefix("pods/").removeprefix("pod/")
        found = self._pod(name)
        try:
            show(self.client, self._job_of(found, name), as_json)
        except ApiError as error:
            if found is None:
                raise
            self._show_pod_status(found, as_json, error)

    def _pod(self, name: str) -> dict[str, Any] | None:
        """The pod; None if the user may not read pods. Such a user may still query the service."""
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

    def _show_pod_status(self, pod: dict[str, Any], as_json: bool, error: ApiError) -> None:
        """Show the condition and events that the scheduler wrote."""
        from gpusquad.cli._views.pod import pod_view

        uid = pod["metadata"]["uid"]
        events = self._kube.plain(
            f"api/v1/namespaces/{self._namespace}/events", fieldSelector=f"involvedObject.uid={uid}"
        )["items"]
        if as_json:
            print_json(_pod_data(pod, events))
        else:
            typer.echo(pod_view(pod, events))
        if error.code == "not_found":
            return  # it has no job yet; its events explain why
        let_in = f" ({TOKEN_HINT})" if error.status == 401 else ""
        note(f"Shown from the pod's own status, because the service did not answer: {error.message}{let_in}")


def _pod_data(pod: dict[str, Any], events: list[dict[str, Any]]) -> dict[str, Any]:
    from gpusquad.cli._views.pod import condition_of, ours

    return {
        "pod": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"],
        "phase": (pod.get("status") or {}).get("phase"), "condition": condition_of(pod),
        "nominated_node": (pod.get("status") or {}).get("nominatedNodeName"),
        "events": [{name: one.get(name) for name in ("type", "reason", "message", "count", "lastTimestamp")}
                   for one in ours(events)],
    }  # fmt: skip


def _show_job(client: Client, job_id: str, as_json: bool) -> None:
    from gpusquad.cli._answers import heading
    from gpusquad.cli._jobs import cards
    from gpusquad.cli._tables import console, facts
    from gpusquad.cli._views.resources import request_text

    view: Any = client.jobs.get(job_id)
    if as_json:
        print_json(view)
        return
    out = console()
    out.print(heading(view, None, client.now_s()))
    out.print(facts([
        ("job", view["id"]), ("pods", str(view["tasks"])), ("gpus", request_text(view)), ("user", view["user"]),
        ("tenant", view["tenant"]), ("priority", view["priority"]), ("cards", cards(view["placement"])),
        ("cause", view["cause"]),
    ]))  # fmt: skip
