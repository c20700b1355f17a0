"""All verbs with their summaries. A new verb is one file and one line here."""

from __future__ import annotations

from gpusquad.cli._lazy import LazyVerb

JOBS, CLUSTER, ADMIN, SIMULATION = "Jobs", "Cluster", "Admin", "Simulation"

_VERBS = {
    JOBS: {
        "submit": "Submit a job file or a command and show its plan.",
        "whatif": "Show when and where a job would start, without submitting it.",
        "recommend": "Recommend the resources that a job should request.",
        "show": "Show a job, what auto chose for it and what it used.",
        "queue": "Show running and pending jobs with reasons and forecasts.",
        "why": "Explain why a job has not started.",
        "when": "Show when a job is expected to start and end.",
        "logs": "Print the output of a job.",
        "wait": "Wait for jobs to end.",
        "cancel": "Stop running jobs and remove pending ones from the queue.",
        "hold": "Keep pending jobs from starting.",
        "release": "Allow held jobs to start.",
        "update": "Change priority, SLO, estimate or limits of a job.",
        "resubmit": "Submit a job again.",
        "story": "List the events of a job and who caused them.",
        "inbox": "List notices about your jobs.",
        "history": "List jobs in any state, newest first.",
        "calibrate": "Measure this machine's GPU for offline estimates.",
        "measure": "Measure how workloads slow each other down on one card.",
        "schema": "Print the JSON Schema of job files.",
    },
    CLUSTER: {
        "up": "Start the service on this machine in the background.",
        "down": "Stop the background service. Running jobs continue.",
        "serve": "Run the service in the foreground.",
        "top": "Show cards and jobs live.",
        "dashboard": "Print a login link for the dashboard.",
        "status": "Show the state of the service and its GPUs.",
        "nodes": "List nodes and their cards.",
        "usage": "Show GPU hours by tenant, user or job.",
        "predictions": "Show the accuracy of predicted run times.",
        "drain": "Start no new jobs on nodes. Running jobs finish.",
        "undrain": "Allow new jobs on drained nodes again.",
        "cordon": "Start no new jobs on cards. Running jobs finish.",
        "uncordon": "Allow new jobs on cordoned cards again.",
        "window": "Manage maintenance windows of nodes.",
    },
    ADMIN: {
        "policy": "Show and change the scheduling and divide policies.",
        "tenant": "Show and change tenants, the owners of quotas.",
        "user": "Show, add and change users.",
        "token": "Create and revoke API tokens.",
        "secret": "Store secrets for jobs.",
        "notify": "Manage notices by mail and chat.",
    },
    SIMULATION: {
        "simulate": "Run a trace through the scheduler in virtual time.",
        "replay": "Repeat the decisions of a saved snapshot and explain them.",
        "policies": "List all policies and modes.",
    },
}


def verbs() -> dict[str, LazyVerb]:
    """All verbs by name, in the order of ``gpusquad --help``."""
    return {
        name: LazyVerb(name, f"gpusquad.cli.{name}", summary, panel)
        for panel, of_panel in _VERBS.items()
        for name, summary in of_panel.items()
    }
