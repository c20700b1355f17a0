"""What the shell offers while one types. The service is asked, briefly; if it does not answer, nothing is offered."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from typer import Context

if TYPE_CHECKING:
    from gpusquad.client.client import Client

PATIENCE_S = 0.7
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@/-]*")
"""Shells evaluate what they are offered; what is not plain is not offered."""
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.+@/ -]")
_UNFINISHED = ("held", "pending", "starting", "running", "stopping", "preempting", "lost")

Offers = list[tuple[str, str]]


def jobs(incomplete: str) -> Offers:
    """Names of unfinished jobs, then their short ids."""

    def ask(client: Client) -> Offers:
        found = client.jobs.find(state=_UNFINISHED, limit=500)["items"]
        names = Counter(job["name"] for job in found)
        by_name = [(job["name"], f"{job['state']} {job['id'][-8:]}") for job in found if names[job["name"]] == 1]
        return by_name + [(job["id"][-8:], f"{job['state']} {job['name']}") for job in found]

    return _matching(_asked(ask), incomplete)


def nodes(incomplete: str) -> Offers:
    def ask(client: Client) -> Offers:
        return [(node["id"], f"{len(node['cards'])} cards") for node in client.cluster.nodes()]

    return _matching(_asked(ask), incomplete)


def cards(incomplete: str) -> Offers:
    def ask(client: Client) -> Offers:
        return [(card["id"], card["model"]) for node in client.cluster.nodes() for card in node["cards"]]

    return _matching(_asked(ask), incomplete)


def tenants(incomplete: str) -> Offers:
    return _matching(_asked(lambda client: [(one["name"], "") for one in client.people.tenants()]), incomplete)


def secrets(incomplete: str) -> Offers:
    return _matching(_asked(lambda client: [(one["name"], "") for one in client.secrets.names()]), incomplete)


def modes(incomplete: str) -> Offers:
    return _matching(_asked(lambda client: [(mode, "") for mode in client.policy.get()["modes"]]), incomplete)


def modes_or_divides(ctx: Context, incomplete: str) -> Offers:
    """How cards are divided, where the words before name a card."""
    if not ctx.params.get("card"):
        return modes(incomplete)
    from gpusquad.registry import describe

    return _matching(((one.name, one.summary) for one in describe("divide")), incomplete)


def states(incomplete: str) -> Offers:
    from gpusquad.cli._jobs import STATES

    return _matching(((state, "") for state in STATES), incomplete)


def priorities(incomplete: str) -> Offers:
    from gpusquad.model.job import PRIORITY_CLASSES

    return _matching(((name, "") for name in PRIORITY_CLASSES), incomplete)


def _asked(question: Callable[[Client], Offers]) -> Offers:
    from gpusquad.client.connect import find

    try:
        with find(connect_s=PATIENCE_S, answer_s=PATIENCE_S, tries=1) as client:
            return question(client)
    except Exception:  # a traceback in the middle of somebody's command line helps nobody
        return []


def _matching(offers: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    return [
        (value, _NOT_PLAIN.sub("", told)[:60])
        for value, told in offers
        if value.startswith(incomplete) and _PLAIN.fullmatch(value)
    ]
