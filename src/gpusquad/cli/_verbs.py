"""Every verb: where it is, and what the overview says of it. A new verb is one file and one line here."""

from __future__ import annotations

from gpusquad.cli._lazy import LazyVerb

JOBS, SERVICE, CLUSTER, ADMIN, SIMULATION = "Jobs", "Service", "Cluster", "Admin", "Simulation"

_VERBS = {
    JOBS: {
        "submit": "Submit a job file or a command, and see the plan.",
        "whatif": "See what a job would meet, without submitting it.",
        "recommend": "Say what a job should ask for, and why.",
        "queue": "Show who runs and who waits, with reason and forecast.",
        "why": "Say everything that keeps a job from starting.",
        "when": "Say when a job starts and ends, and how far to trust that.",
        "logs": "Show what a job writes, while it runs and after.",
        "wait": "Wait for jobs to end.",
        "cancel": "Stop jobs, or take them out of the queue.",
        "hold": "Keep waiting jobs from starting.",
        "release": "Let held jobs start again.",
        "update": "Change a job's priority, goal, estimate or limit.",
        "resubmit": "Submit a job once more.",
        "story": "Tell what happened to a job, and who did it.",
        "history": "List past jobs.",
        "calibrate": "Measure this machine's GPU for gpusquad.estimate.",
        "measure": "Measure how workloads slow each other on one card.",
        "schema": "Print the JSON Schema of job files, for editors.",
    },
    SERVICE: {
        "up": "Start the service of this machine in the background.",
        "down": "Stop it. Jobs run on.",
        "serve": "Run it in the foreground.",
    },
    CLUSTER: {
        "up": "Start the service of this machine in the background.",
        "down": "Stop it. Jobs run on.",
        "serve": "Run the service in the foreground.",
        "top": "Watch cards and jobs live.",
        "dashboard": "Say where the dashboard is, with a link that logs in.",
        "status": "Show how the service and its cards are.",
        "nodes": "List nodes and their cards.",
        "usage": "Show who used how many GPU hours.",
        "predictions": "Show how good predicted run times were.",
        "drain": "Start nothing new on a node.",
        "undrain": "Use a node again.",
        "cordon": "Start nothing new on a card.",
        "uncordon": "Use a card again.",
        "window": "Announce maintenance.",
    },
    ADMIN: {
        "policy": "Show and change what decides who runs where.",
        "tenant": "Show and change tenants and their limits.",
        "user": "Show, add and change users.",
        "token": "Make and revoke tokens.",
        "secret": "Keep secrets for jobs.",
        "notify": "Send notices to mail and chat.",
    },
    SIMULATION: {
        "simulate": "Run a trace through the scheduler in virtual time.",
        "replay": "Make the decisions of a snapshot again, with reasons.",
        "policies": "List every policy and mode there is.",
    },
}


def verbs() -> dict[str, LazyVerb]:
    """By name, in the order of the overview."""
    return {
        name: LazyVerb(name, f"gpusquad.cli.{name}", summary, panel)
        for panel, of_panel in _VERBS.items()
        for name, summary in of_panel.items()
    }
