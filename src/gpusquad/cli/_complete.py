"""Shell completion. Values come from the service; if it does not answer within ``TIMEOUT_S``, there are none."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from typer import Context

if TYPE_CHECKING:
    from gpusquad.client.client import Client

TIMEOUT_S = 0.7
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+@/-]*")
"""Only plain values are offered, because shells evaluate completions."""
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

    return _matching(_query(ask), incomplete)


def nodes(incomplete: str) -> Offers:
    def ask(client: Client) -> Offers:
        from gpusquad.cli._service import counted

        return [(node["id"], counted(len(node["cards"]), "card")) for node in client.cluster.nodes()]

    return _matching(_query(ask), incomplete)


def cards(incomplete: str) -> Offers:
    def ask(client: Client) -> Offers:
        return [(card["id"], card["model"]) for node in client.cluster.nodes() for card in node["cards"]]

    return _matching(_query(ask), incomplete)


def tenants(incomplete: str) -> Offers:
    return _matching(_query(lambda client: [(one["name"], "") for one in client.people.tenants()]), incomplete)


def secrets(incomplete: str) -> Offers:
    return _matching(_query(lambda client: [(one["name"], "") for one in client.secrets.names()]), incomplete)


def modes(incomplete: str) -> Offers:
    return _matching(_query(lambda client: [(mode, "") for mode in client.policy.get()["modes"]]), incomplete)


def modes_or_divides(ctx: Context, incomplete: str) -> Offers:
    """Divide policies if ``--card`` was given, otherwise modes."""
    if not ctx.params.get("card"):
        return modes(incomplete)
    from gpusquad.registry import describe

    return _matching(((one.name, one.summary) for one in describe("divide")), incomplete)


def states(incomplete: str) -> Offers:
    from gpusquad.cli._jobs import STATES

    return _matching(((state, "") for state in STATES), incomplete)


def priorities(incomplete: str) -> Offers:
    from gpusquad.model.priority import PRIORITY_CLASSES

    return _matching(((name, "") for name in PRIORITY_CLASSES), incomplete)


def _query(question: Callable[[Client], Offers]) -> Offers:
    from gpusquad.client.connect import find

    try:
        with find(connect_s=TIMEOUT_S, answer_s=TIMEOUT_S, tries=1) as client:
            return question(client)
    except Exception:  # a traceback must not appear in the middle of a command line
        return []


def _matching(offers: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    return [
        (value, _NOT_PLAIN.sub("", description)[:60])
        for value, description in offers
        if value.startswith(incomplete) and _PLAIN.fullmatch(value)
    ]
